import CipherStore
import Foundation
import TestKit

/// Everything by which SQLite may write content somewhere: an import, sorts, temporary tables, indexes, VACUUM.
///
/// All rows hold a marker, for which a test then searches every file.
struct LeakWork {
    let path: String
    let key: String
    let marker: String
    let byteCount: Int
    let isEncrypted: Bool

    /// - Parameter words: Path, key, marker, bytes to import, `encrypted` or `plain`.
    init(_ words: [String]) {
        path = words[0]
        key = words[1]
        marker = words[2]
        byteCount = Int(words[3]) ?? 0
        isEncrypted = words[4] == "encrypted"
    }

    func run() throws {
        let writer = try open()
        try writer.write { db in
            try db.execute(sql: "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, text TEXT)")
            let statement = try db.makeStatement(sql: "INSERT INTO item (name, text) VALUES (?, ?)")
            let text = String(repeating: marker + " ", count: 1 + 900 / (marker.utf8.count + 1))
            for index in 0...(byteCount / text.utf8.count) {
                try statement.execute(arguments: ["\(marker) \((index &* 7919) % 100_003)", text])
            }
        }
        try sort(writer)
        try writer.writeWithoutTransaction { try $0.execute(sql: "VACUUM") }
        // Half of it goes, so that free pages and a second VACUUM have something to move.
        try writer.write { try $0.execute(sql: "DELETE FROM item WHERE id % 2 = 0") }
        try writer.writeWithoutTransaction { try $0.execute(sql: "VACUUM; ANALYZE") }
        try fail(writer)
        // Left open: the log is to hold frames when the files are searched.
        try writer.write { try $0.execute(sql: "UPDATE item SET name = name || ?", arguments: [marker]) }
        LeakWork.kept = writer
    }

    nonisolated(unsafe) private static var kept: (any DatabaseWriter)?  // Safe because: the process has one thread.

    private func open() throws -> any DatabaseWriter {
        if isEncrypted { return try SharedStore.open(at: path, unlockedBy: TestKeys.source(key)) }
        var config = Configuration()
        config.allowsUnencrypted = true
        config.prepareDatabase { db in
            // Past the library's own guard, to show what a test that searches for leaks finds without it.
            sqlite3_set_authorizer(db.sqliteConnection, nil, nil)
            try db.execute(sql: "PRAGMA temp_store = FILE")
        }
        return try DatabasePool(path: path, configuration: config)
    }

    private func sort(_ writer: any DatabaseWriter) throws {
        try writer.write { db in
            try db.execute(sql: "CREATE INDEX item_name ON item (name); CREATE INDEX item_text ON item (text, name)")
            try db.execute(
                sql: "CREATE TEMP TABLE copy AS SELECT * FROM item; CREATE INDEX temp.copy_text ON copy (text)")
            _ = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM (SELECT DISTINCT text || name FROM copy)")
            try db.execute(sql: "DROP TABLE copy")
        }
        _ = try writer.read { db in
            try Int.fetchAll(db, sql: "SELECT id FROM item ORDER BY text || name DESC, name")
                + Int.fetchAll(db, sql: "SELECT COUNT(*) FROM item GROUP BY name || text")
                + Int.fetchAll(db, sql: "SELECT id FROM item UNION SELECT id + 1 FROM item ORDER BY 1 LIMIT 5")
        }
    }

    /// Errors with values in their statements, as a program would log them.
    private func fail(_ writer: any DatabaseWriter) throws {
        for (sql, arguments) in [
            ("INSERT INTO item (id, name) VALUES (1, ?)", [marker]), ("INSERT INTO nothing VALUES (?)", [marker]),
            ("SELECT * FROM item WHERE name MATCH ?", [marker]), ("SELECT json(?)", [marker]),
        ] as [(String, [String])] {
            do {
                try writer.write { try $0.execute(sql: sql, arguments: StatementArguments(arguments)) }
            } catch {
                FileHandle.standardError.write(Data("\(error)\n".utf8))
            }
        }
    }
}
