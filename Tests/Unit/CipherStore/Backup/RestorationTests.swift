import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import TestKit
import Testing

/// Stores made from backups, beside others and in their place.
@Suite("Restorations")
struct RestorationTests {
    private func former(_ bench: BackupBench) throws -> String? {
        try bench.names().first { $0.hasPrefix("app.db-replaced-") }.map { bench.folder.path($0) }
    }

    @Test(
        "any file of a store at the place is a reason to refuse",
        arguments: ["", "-wal", "-shm", "-journal", "-sidecar", "-sidecar.bak", "-rotating"])
    func occupied(ending: String) throws {
        let bench = try BackupBench()
        try bench.backUp()
        try bench.write(Array("mine".utf8), to: bench.restored + ending)
        try bench.expect(.alreadyExists) { try bench.restore() }
    }

    @Test(
        "a store is replaced, and its former files are a store in the folder beside it", arguments: KeyScheme.allCases)
    func replaced(scheme: KeyScheme) throws {
        let bench = try BackupBench(scheme)
        try bench.backUp()
        let expected = try bench.content(bench.path)
        let store = try bench.open()
        try store.write { try $0.execute(sql: "DELETE FROM note WHERE id > 10") }
        try store.close()
        let report = try bench.restore(to: bench.path, replacing: true)
        #expect(try bench.content(bench.path) == expected)
        let folder = try #require(report.formerFiles)
        #expect(try former(bench).map { StorePaths($0).database } == StorePaths(folder).database)
        #expect(try bench.content(folder + "/app.db").count == 10)
        #expect(try !bench.names().contains("app.db-restoring"))
    }

    @Test("a log that was not folded in is kept with its database")
    func formerLog() throws {
        let bench = try BackupBench()
        try bench.backUp()
        let actor = try ActorProcess()
        #expect(actor.ask("open \(bench.path) raw")?.hasPrefix("ok") == true)
        #expect(actor.ask("run DELETE FROM note WHERE id > 7") == "ok")
        actor.kill()
        #expect(try Files.byteCount(bench.path + "-wal") ?? 0 > 0)
        let report = try bench.restore(to: bench.path, replacing: true)
        #expect(try bench.content(bench.path).count == BackupBench.rows)
        #expect(try bench.content(#require(report.formerFiles) + "/app.db").count == 7)
    }

    @Test("a store that is open, here or by a stock connection, is not replaced", arguments: ["store", "stock"])
    func open(who: String) throws {
        let bench = try BackupBench()
        try bench.backUp()
        var store: SharedStore?
        var pool: DatabasePool?
        if who == "store" {
            store = try bench.open()
        } else {
            // A pool takes no lease: only SQLite's own bytes tell of it.
            var configuration = Configuration()
            configuration.prepareDatabase { try $0.useRawKey(Data(TestKeys.rawKey)) }
            pool = try DatabasePool(path: bench.path, configuration: configuration)
            _ = try pool?.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM note") }
        }
        let error = #expect(throws: StoreError.self) { try bench.restore(to: bench.path, replacing: true) }
        #expect(error?.code == .storeInUse)
        #expect(try former(bench) == nil)
        #expect(try !bench.names().contains("app.db-restoring"))
        try store?.close()
        try pool?.close()
        try bench.restore(to: bench.path, replacing: true)
    }

    @Test("a drill: written, backed up, destroyed, restored, the same")
    func drill() throws {
        let start = ContinuousClock.now
        let bench = try BackupBench()
        let expected = try bench.content(bench.path)
        try bench.backUp()
        try bench.write([UInt8](repeating: 0x55, count: 100_000), to: bench.path)
        try bench.write([1, 2, 3], to: bench.path + "-sidecar")
        try FileManager.default.removeItem(atPath: bench.path + "-sidecar.bak")
        #expect(throws: (any Error).self) { try bench.open() }
        try bench.restore(to: bench.path, replacing: true)
        #expect(try bench.content(bench.path) == expected)
        print("restoration drill: \(ContinuousClock.now - start)")
    }

    @Test("a store whose files are all gone but one is replaced as well")
    func remains() throws {
        let bench = try BackupBench()
        try bench.backUp()
        try FileManager.default.removeItem(atPath: bench.path)
        try bench.expect(.alreadyExists) { try bench.restore(to: bench.path) }
        let report = try bench.restore(to: bench.path, replacing: true)
        #expect(try bench.content(bench.path).count == BackupBench.rows)
        let folder = try #require(report.formerFiles)
        #expect(FileManager.default.fileExists(atPath: folder + "/app.db-sidecar"))
    }

    // A letter of that name was removed once, and so was a link.
    @Test(
        "what is planted under the name of the copy is not written over, and not removed",
        arguments: ["folder", "pipe", "letter", "link", "second name"])
    func planted(kind: String) throws {
        let bench = try BackupBench()
        try bench.backUp()
        let name = bench.restored + "-restoring"
        switch kind {
        case "folder": try FileManager.default.createDirectory(atPath: name, withIntermediateDirectories: false)
        case "pipe": #expect(mkfifo(name, 0o600) == 0)
        case "letter": try bench.write(Array("a letter that is mine".utf8), to: name)
        case "link": try FileManager.default.createSymbolicLink(atPath: name, withDestinationPath: bench.path)
        default: try FileManager.default.linkItem(atPath: bench.bundle + "/store.db", toPath: name)
        }
        let status = try Files.ownStatus(of: name)
        let error = #expect(throws: StoreError.self) { try bench.restore() }
        #expect(error?.code == .alreadyExists && error?.what.contains("in the way") == true)
        #expect(try Files.ownStatus(of: name)?.identity == status?.identity)
    }

    @Test("what a restoration that was cut left under the name of its copy is removed", arguments: [0, 100, 4096])
    func leftover(bytes: Int) throws {
        let bench = try BackupBench()
        try bench.backUp()
        let start = try Array(bench.bytes(bench.bundle + "/store.db").prefix(bytes))
        try bench.write(start, to: bench.restored + "-restoring")
        try bench.restore()
        #expect(try bench.content(bench.restored).count == BackupBench.rows)
    }

    @Test(
        "all files of a store restored by root to a free place have the owner and mode of the backup's database",
        .enabled(if: geteuid() == 0, "needs root"))
    func owner() throws {
        let bench = try BackupBench()
        try bench.backUp()
        #expect(chown(bench.bundle + "/store.db", 1234, 1235) == 0 && chmod(bench.bundle + "/store.db", 0o640) == 0)
        try bench.restore()
        for ending in ["", "-sidecar", "-sidecar.bak", "-lock", "-wal", "-keylog"] {
            let status = try #require(try Files.ownStatus(of: bench.restored + ending), "\(ending)")
            #expect(status.owner == 1234 && status.group == 1235, "\(ending)")
            #expect(status.permissions == 0o640, "\(ending): \(String(status.permissions, radix: 8))")
        }
    }

    @Test("that the store which is replaced is another one is told")
    func otherStore() throws {
        let (bench, other) = (try BackupBench(), try BackupBench())
        try bench.backUp()
        #expect(try bench.restore(to: bench.path, replacing: true).notices == [])
        let notices = try bench.restore(to: other.path, replacing: true).notices
        #expect(notices.count == 1 && notices[0].contains("was another store"), "\(notices)")
    }

    @Test("a restored store has the mode of the store it replaces")
    func mode() throws {
        let bench = try BackupBench()
        try bench.backUp()
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: bench.path)
        try bench.restore(to: bench.path, replacing: true)
        for ending in ["", "-sidecar", "-sidecar.bak"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: bench.path + ending)
            #expect(attributes[.posixPermissions] as? Int == 0o640, "\(ending)")
        }
    }
}
