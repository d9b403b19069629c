import CipherStore
import Foundation
import StoreTools
import Synchronization
import TestKit
import Testing

/// Plain databases of another person whose definitions compute long values, or whose rows refer to one long value.
@Suite struct CraftedValuesTests {
    private let fixture = ToolFixture()

    private func make(_ sql: String) throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: fixture.plain, configuration: configuration)
        try queue.inDatabase { db in
            try db.execute(sql: "PRAGMA writable_schema = ON")
            try db.execute(sql: sql)
        }
        try queue.close()
    }

    private static func rows(_ count: Int) -> String {
        "WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c LIMIT \(count)) "
    }

    /// Runs an import, which is cancelled when the store's files become longer than any bound.
    private func runImport() -> (any Error)? {
        let deadline = ContinuousClock.now + .seconds(60)
        do {
            _ = try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run(
                isCancelled: { ContinuousClock.now > deadline })
            return nil
        } catch {
            return error
        }
    }

    // Story: a file of 24 kilobytes took 3 GB of memory, and then as much of the disk.
    @Test(
        "an index over computed values is bounded by the length of the file",
        arguments: ["zeroblob(900000) || a", "printf('%.*c', 900000, 'x') || a", "g"])
    func computedIndex(_ expression: String) throws {
        let generated = expression == "g" ? ", g AS (printf('%.*c', 900000, 'x') || a)" : ""
        try make(
            "CREATE TABLE t (a\(generated)); CREATE TABLE u (a, b); CREATE INDEX i ON u (b); "
                + Self.rows(2000) + "INSERT INTO t SELECT i FROM c; "
                + "UPDATE sqlite_schema SET tbl_name = 't', sql = 'CREATE INDEX i ON t (\(expression.quotedForSQL))' "
                + "WHERE name = 'i'; DELETE FROM sqlite_schema WHERE name = 'u'")
        let before = try Self.megabytesAtPeak(fromNow: true)
        let error = runImport()
        #expect((error as? ToolError)?.code == .notPlain, "\(error as Any)")
        #expect("\(error as Any)".contains("times the length of the file"), "\(error as Any)")
        #expect(fixture.names() == ["plain.db"])
        // The index of a generated column was sorted in memory: 936 megabytes.
        #expect(try Self.megabytesAtPeak() < before + 500)
    }

    /// The most memory that this process had at once.
    private static func megabytesAtPeak(fromNow: Bool = false) throws -> Int {
        if fromNow { try? Data("5".utf8).write(to: URL(fileURLWithPath: "/proc/self/clear_refs")) }
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let peak = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        return (peak?.split(separator: " ").compactMap { Int($0) }.first ?? 0) / 1024
    }

    // Story: every row was read with the whole value, so 5 megabytes became gigabytes.
    @Test("rows that refer to one long value are damage")
    func sharedValue() throws {
        try make("CREATE TABLE t (a)")
        try make(
            "INSERT INTO t VALUES (zeroblob(4000000)); " + Self.rows(400) + "INSERT INTO t SELECT zeroblob(9000) FROM c"
        )
        try shareFirstValue()
        let error = runImport()
        #expect((error as? ToolError)?.code == .notPlain, "\(error as Any)")
        #expect("\(error as Any)".contains("times the length of the file"), "\(error as Any)")
        #expect(fixture.names() == ["plain.db"])
    }

    /// Gives each cell of the table the payload length and the first overflow page of the row with the long value.
    private func shareFirstValue() throws {
        let url = URL(fileURLWithPath: fixture.plain)
        var file = [UInt8](try Data(contentsOf: url))
        // A payload of 4,000,006 bytes: a record of a header of 5 bytes. The varint has four bytes.
        let length = varint(4_000_005)
        var first: ArraySlice<UInt8>?
        for page in 1..<file.count / 4096 where file[page * 4096] == 13 {
            let start = page * 4096
            for cell in 0..<Int(file[start + 3]) << 8 + Int(file[start + 4]) {
                let pointer = start + 8 + cell * 2
                let at = start + Int(file[pointer]) << 8 + Int(file[pointer + 1])
                if file[at..<at + length.count].elementsEqual(length) {
                    // Local bytes: 489 + (P - 489) mod 4092, if that is at most 4061.
                    let local = 489 + (4_000_005 - 489) % 4092
                    let kept = local <= 4061 ? local : 489
                    let end = at + length.count + 1 + kept
                    first = file[end..<end + 4]
                }
            }
        }
        let chain = try #require(first)
        try relink(&file, length, chain)
        try Data(file).write(to: url)
    }

    private func relink(_ file: inout [UInt8], _ length: [UInt8], _ chain: ArraySlice<UInt8>) throws {
        var count = 0
        for page in 1..<file.count / 4096 where file[page * 4096] == 13 {
            let start = page * 4096
            let cells = Int(file[start + 3]) << 8 + Int(file[start + 4])
            // A page of one cell each, at the end of the page, with the long payload.
            guard cells > 0 else { continue }
            let local = 489 + (4_000_005 - 489) % 4092
            let kept = local <= 4061 ? local : 489
            let header = [5] + varint(4_000_000 * 2 + 12)
            var cell = length + varint(count + 1) + header
            cell += [UInt8](repeating: 0, count: kept - header.count) + Array(chain)
            let at = 4096 - cell.count
            file.replaceSubrange(start..<start + 4096, with: [UInt8](repeating: 0, count: 4096))
            file.replaceSubrange(start..<start + 8, with: [13, 0, 0, 0, 1, UInt8(at >> 8), UInt8(at & 255), 0])
            file.replaceSubrange(start + 8..<start + 10, with: [UInt8(at >> 8), UInt8(at & 255)])
            file.replaceSubrange(start + at..<start + 4096, with: cell)
            count += 1
        }
        try #require(count > 40, "\(count)")
    }

    private func varint(_ value: Int) -> [UInt8] {
        var bytes = [UInt8(value & 127)]
        var rest = value >> 7
        while rest > 0 {
            bytes.insert(UInt8(rest & 127) | 128, at: 0)
            rest >>= 7
        }
        return bytes
    }

    // Story: SIGINT was looked at between two rows alone, and the index of a table is one statement.
    @Test("an import is cancelled in the middle of one statement")
    func cancelled() throws {
        let long = "replace(replace(hex(zeroblob(200000)), '00', '0'), '0', '00')"
        try make(
            "CREATE TABLE t (a); CREATE TABLE u (a); CREATE INDEX i ON u (a); UPDATE sqlite_schema SET tbl_name = 't', "
                + "sql = 'CREATE INDEX i ON t (a) WHERE length(\(long.quotedForSQL)) > a' WHERE name = 'i'; "
                + "DELETE FROM sqlite_schema WHERE name = 'u'; " + Self.rows(4000) + "INSERT INTO t SELECT i FROM c")
        let end = Mutex<ContinuousClock.Instant?>(nil)
        let error = #expect(throws: (any Error).self) {
            try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run(
                isCancelled: { end.withLock { $0 } != nil },
                progress: { value in if value.done >= 4000 { end.withLock { $0 = $0 ?? .now } } })
        }
        let took = try ContinuousClock.now - #require(end.withLock { $0 })
        #expect(error is CancellationError && took < .seconds(5), "\(took) \(error as Any)")
        #expect(fixture.names() == ["plain.db"])
    }

    @Test("an import keeps auto_vacuum", arguments: [0, 1, 2])
    func autoVacuum(_ kind: Int) throws {
        try make("PRAGMA auto_vacuum = \(kind); VACUUM; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        #expect(runImport() == nil)
        let store = try fixture.openStore()
        defer { try? store.close() }
        #expect(try store.read { try Int.fetchOne($0, sql: "PRAGMA auto_vacuum") } == kind)
    }
}

extension String {
    /// The text inside a string literal of SQL.
    fileprivate var quotedForSQL: String { replacing("'", with: "''") }
}
