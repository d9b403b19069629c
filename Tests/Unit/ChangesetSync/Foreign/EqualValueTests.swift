import CipherDatabase
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

/// The triggers of the change history compare as SQLite does, which takes 0.0 and -0.0 for equal: the update was lost.
@Suite("Another program writes values that are equal in SQLite and have other bytes")
struct EqualValueTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()
    private static let sql = """
        CREATE TABLE thing (id INTEGER PRIMARY KEY, x, n TEXT COLLATE NOCASE, r TEXT COLLATE RTRIM, d REAL);
        CREATE TABLE place (k PRIMARY KEY NOT NULL, v) WITHOUT ROWID;
        CREATE TABLE name (k TEXT COLLATE NOCASE PRIMARY KEY NOT NULL, v)
        """
    private static let updates = [
        "UPDATE thing SET x = 0.0 * -1 WHERE id = 1", "UPDATE thing SET x = 0.0 WHERE id = 2",
        "UPDATE thing SET x = 1.0 WHERE id = 3", "UPDATE thing SET n = 'A', r = 'a ' WHERE id = 1",
        "UPDATE thing SET d = 0.0 * -1 WHERE id = 1", "UPDATE thing SET n = 'b' WHERE id = 1",
        "UPDATE place SET k = 0.0 * -1 WHERE typeof(k) = 'real'",
        "UPDATE place SET k = 1.0 WHERE k = 1",
        "UPDATE place SET v = 0.0 * -1 WHERE k = 2", "UPDATE name SET k = 'A', v = 2 WHERE k = 'a'",
    ]

    /// The rows with the signs of zeros.
    private func rows(_ device: Device) throws -> [String] {
        try device.pool.read { db in
            try ["thing", "place", "name"].flatMap { table in
                try Row.fetchAll(db, sql: "SELECT * FROM \(table) ORDER BY 1, 2").map { row in
                    row.databaseValues.map { value in
                        if case .double(let number) = value.storage { return "\(number) \(number.sign)" }
                        return "\(value)"
                    }.joined(separator: ", ")
                }
            }
        }
    }

    private static func settle(_ remote: MemoryRemote, _ devices: Device...) throws {
        for _ in 0..<3 { for device in devices { try device.sync(remote) } }
    }

    private static let start = Result {
        try MadeStores { folder, remote in
            let a = try Device(folder.path("a.db"), sql: sql)
            try a.write(
                """
                INSERT INTO thing VALUES (1, 0.0, 'a', 'a', 0.0), (2, 0.0 * -1, 'b', 'b', 1.0), (3, 1, 'c', 'c', 2.0);
                INSERT INTO place VALUES (0.0, 1), (1, 2), (2, 0.0); INSERT INTO name VALUES ('a', 1)
                """)
            let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: sql)
            try settle(remote, a, b)
            for device in [a, b] { try device.close() }
        }
    }

    @Test("each update reaches the other devices", arguments: updates, [true, false])
    func update(_ sql: String, _ isForeign: Bool) throws {
        try Self.start.get().write(to: folder, remote)
        let (a, b) = (try Device(folder.path("a.db"), sql: ""), try Device(folder.path("b.db"), sql: ""))
        #expect(try rows(a) == rows(b))
        if isForeign { StockProgram(a.path).execute(sql) } else { try a.write(sql) }
        let expected = try rows(a)
        try Self.settle(remote, a, b)
        #expect(try rows(a) == expected)
        #expect(try rows(b) == expected)
        for device in [a, b] { #expect(try device.repository.verify().differences.isEmpty) }
        #expect(try a.repository.verify() == b.repository.verify())
    }
}
