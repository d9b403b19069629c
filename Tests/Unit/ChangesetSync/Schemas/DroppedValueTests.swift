import CipherDatabase
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

@Suite("A program drops tables and columns that others have")
struct DroppedValueTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()
    private static let sql = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT, n INTEGER);
        CREATE TABLE tag (word TEXT PRIMARY KEY NOT NULL, note INTEGER)
        """

    private func devices(sliceRows: Int = 50_000) throws -> (Device, Device) {
        let a = try Device(folder.path("a.db"), sql: Self.sql)
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sliceRows: sliceRows, sql: Self.sql)
        return (a, b)
    }

    private func settle(_ devices: Device...) throws {
        for _ in 0..<3 { for device in devices { try device.sync(remote) } }
    }

    private static let rows = """
        INSERT INTO note VALUES (1, 'a', 10), (2, 'b', 20), (3, NULL, 30); INSERT INTO tag VALUES ('x', 1), ('y', 2)
        """

    private func all(_ device: Device) throws -> [String] {
        try device.texts("SELECT * FROM note ORDER BY id") + device.texts("SELECT * FROM tag ORDER BY word")
    }

    /// The snapshot lacked the rows, and "absent from a snapshot" means deleted: each device that joined it lost them.
    @Test("a snapshot by a store that has dropped a table keeps the rows of all others", arguments: ["note", "tag"])
    func droppedTable(_ table: String) throws {
        let (a, b) = try devices()
        try a.write(Self.rows)
        try b.write("INSERT INTO note VALUES (4, 'of b', 40)")
        try settle(a, b)
        try b.write("UPDATE note SET body = 'changed' WHERE id = 2; UPDATE tag SET note = 3 WHERE word = 'y'")
        try settle(a, b)
        let rows = try all(a)
        try b.pool.write { try $0.execute(sql: "DROP TABLE \(table)") }
        // The other device has something that the snapshot does not know, so it joins it.
        try b.write(table == "tag" ? "INSERT INTO note VALUES (9, 'b', 9)" : "INSERT INTO tag VALUES ('z', 9)")
        #expect(try b.repository.compact(remote, named: "remote").deletedObjects > 0)
        #expect(remote.names("c/").isEmpty)
        try a.sync(remote)
        #expect(try Set(all(a)).isSuperset(of: rows) && all(a).count == rows.count + 1)
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote, sql: Self.sql)
        try c.sync(remote)
        #expect(try all(c) == all(a))
        // Nobody has written the rows since: the program has dropped them, and misses nothing.
        #expect(try b.repository.status().obstacles.isEmpty)
        let written = table == "tag" ? "UPDATE tag SET note = 5 WHERE word = 'x'" : "UPDATE note SET n = 5 WHERE id = 1"
        try a.write(written)
        try settle(a, b)
        #expect(try b.repository.status().obstacles.map { "\($0)" } == ["droppedTable(\"\(table)\", rows: 1)"])
        try b.pool.write { try $0.execute(sql: Self.sql.replacing("CREATE TABLE", with: "CREATE TABLE IF NOT EXISTS")) }
        try settle(a, b)
        #expect(try all(b) == all(a) && b.repository.status().obstacles.isEmpty)
        #expect(try b.repository.verify().differences.isEmpty)
    }

    @Test("a snapshot by a store that has dropped a column keeps its values", arguments: [2, 50_000])
    func droppedColumn(_ sliceRows: Int) throws {
        let (a, b) = try devices(sliceRows: sliceRows)
        try a.write(Self.rows)
        try settle(a, b)
        try b.write("UPDATE note SET n = n + 1 WHERE id > 1")
        try settle(a, b)
        let rows = try all(a)
        try b.pool.write { try $0.execute(sql: "ALTER TABLE note DROP COLUMN n") }
        try b.write("UPDATE note SET body = 'of b' WHERE id = 1")
        #expect(try b.repository.status().obstacles.isEmpty)
        #expect(try b.repository.compact(remote, named: "remote").deletedObjects > 0)
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote, sql: Self.sql)
        for device in [a, c] { try device.sync(remote) }
        #expect(try all(a) == rows.map { $0.replacing("1 a 10", with: "1 of b 10") } && all(c) == all(a))
        try a.write("UPDATE note SET n = 7 WHERE id = 2")
        try settle(a, b)
        let obstacles = try b.repository.status().obstacles.map { "\($0)" }
        #expect(obstacles.count == 1 && obstacles[0].contains("droppedColumn") && obstacles[0].contains("rows: 1"))
        try b.pool.write { try $0.execute(sql: "ALTER TABLE note ADD COLUMN n INTEGER") }
        try settle(a, b)
        #expect(try all(b) == all(a) && b.repository.status().obstacles.isEmpty)
    }

    /// The rows were kept for the others, and then shown without the values, which were in the program's table alone.
    @Test("a column that the program renames keeps its values here, and is a new one for the others")
    func renamedColumn() throws {
        let (a, b) = try devices()
        try a.write(Self.rows)
        try settle(a, b)
        let rows = try all(a)
        try b.pool.write { try $0.execute(sql: "ALTER TABLE note RENAME COLUMN n TO number") }
        try settle(b, a)
        #expect(try all(b) == rows && all(a) == rows)
        try a.pool.write { try $0.execute(sql: "ALTER TABLE note RENAME COLUMN n TO number") }
        try settle(a, b)
        #expect(try all(b) == rows && all(a) == rows)
        for device in [a, b] { #expect(try device.repository.verify().differences.isEmpty) }
        #expect(try a.repository.verify() == b.repository.verify() && a.repository.status().isSettled)
    }

    @Test("if all devices drop the column, all are settled, and their rows are equal")
    func allDrop() throws {
        let (a, b) = try devices()
        try a.write(Self.rows)
        try settle(a, b)
        for device in [a, b] {
            try device.pool.write { try $0.execute(sql: "ALTER TABLE note DROP COLUMN n") }
            try device.write("UPDATE note SET body = 'later' WHERE id = 1")
        }
        try settle(a, b)
        for device in [a, b] { #expect(try device.repository.status().isSettled) }
        #expect(try all(a) == all(b) && a.repository.verify() == b.repository.verify())
    }

    /// The first device to drop it needed attention for ever, with an advice that no device could follow.
    @Test(
        "a device that is the first to drop or rename something is settled while others still write it, and afterwards",
        arguments: [
            "DROP TABLE tag", "ALTER TABLE tag RENAME TO word", "ALTER TABLE tag DROP COLUMN note",
            "ALTER TABLE tag RENAME COLUMN note TO page",
        ])
    func firstToDrop(_ change: String) throws {
        let (a, b) = try devices()
        try a.write(Self.rows)
        try settle(a, b)
        try a.pool.write { try $0.execute(sql: change) }
        _ = try a.repository.pull()
        try b.write("INSERT INTO tag VALUES ('of b', 3)")
        try settle(a, b)
        let status = try a.repository.status()
        #expect(status.isSettled && status.obstacles.map(\.needsAttention) == [false])
        try b.pool.write { try $0.execute(sql: change) }
        try settle(a, b)
        for device in [a, b] { #expect(try device.repository.status().isSettled) }
        #expect(try a.repository.verify().digest == b.repository.verify().digest)
    }

    @Test("a store that cannot have the values, because their commits are forgotten, makes no snapshot")
    func forgotten() throws {
        let (a, b) = try devices()
        try a.write(Self.rows)
        try settle(a, b)
        let rows = try all(a)
        try b.repository.forgetHistory(tombstones: false)
        try b.pool.write { try $0.execute(sql: "ALTER TABLE note DROP COLUMN n; DROP TABLE tag") }
        try b.write("UPDATE note SET body = 'of b' WHERE id = 1")
        #expect(try b.repository.compact(remote, named: "remote").sentSnapshots == 0)
        try settle(a, b)
        #expect(try all(a) == rows.map { $0.replacing("1 a 10", with: "1 of b 10") })
    }

    @Test("a table that is made anew with another key keeps its rows under the former key for the others")
    func otherKey() throws {
        let (a, b) = try devices()
        try a.write(Self.rows)
        try settle(a, b)
        let rows = try all(a)
        try b.pool.write {
            try $0.execute(
                sql: """
                    CREATE TABLE new (word TEXT NOT NULL, note INTEGER NOT NULL, PRIMARY KEY (word, note));
                    INSERT INTO new SELECT * FROM tag; DROP TABLE tag; ALTER TABLE new RENAME TO tag
                    """)
        }
        try b.write("INSERT INTO tag VALUES ('x', 2)")
        #expect(try b.texts("SELECT * FROM tag ORDER BY 1, 2") == ["x 1", "x 2", "y 2"])
        #expect(try b.repository.status().obstacles.isEmpty)
        #expect(try b.repository.compact(remote, named: "remote").sentSnapshots == 1)
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote, sql: Self.sql)
        for device in [a, c] { try device.sync(remote) }
        #expect(try all(a) == rows && all(c) == rows)
        #expect(try a.repository.status().obstacles.map { "\($0)" }.allSatisfy { $0.contains("otherKey") })
        try a.write("UPDATE tag SET note = 9 WHERE word = 'x'")
        try settle(a, b)
        #expect(try b.repository.status().obstacles.count == 1)
        #expect(try b.texts("SELECT * FROM tag ORDER BY 1, 2") == ["x 1", "x 2", "y 2"])
    }

    /// The index on the row id made the key another one for the engine alone.
    @Test("a key that becomes the row id, or ceases to be it, keeps its rows")
    func rowID() throws {
        let sql = "CREATE TABLE note (id INT PRIMARY KEY NOT NULL, body TEXT)"
        let a = try Device(folder.path("a.db"), sql: sql)
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: sql)
        try a.write("INSERT INTO note VALUES (1, 'a'), (2, 'b')")
        try settle(a, b)
        for type in ["INTEGER PRIMARY KEY", "INT PRIMARY KEY NOT NULL"] {
            try b.pool.write {
                try $0.execute(
                    sql: """
                        CREATE TABLE new (id \(type), body TEXT); INSERT INTO new SELECT * FROM note;
                        DROP TABLE note; ALTER TABLE new RENAME TO note
                        """)
            }
            try b.write("UPDATE note SET body = body || '!'")
            try settle(a, b)
        }
        #expect(try b.texts("SELECT * FROM note ORDER BY id") == ["1 a!!", "2 b!!"])
        #expect(try a.texts("SELECT * FROM note ORDER BY id") == ["1 a!!", "2 b!!"])
        #expect(try b.repository.status().isSettled && b.repository.verify().differences.isEmpty)
    }
}
