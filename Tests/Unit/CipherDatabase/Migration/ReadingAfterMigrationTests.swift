import CipherDatabase
import TestKit
import Testing

// A connection learns of another's schema change at the first step of a statement, whether that was kept or compiled
// just now. When a column got another name or was added, rows came under the names of before and without the new one.
@Suite struct ReadingAfterMigrationTests {
    let folder = TemporaryFolder()

    @Test(
        "the first reads after a migration show the columns of the new schema",
        arguments: [
            ("ALTER TABLE t RENAME COLUMN a TO x", "[x:1 b:2]"),
            ("ALTER TABLE t ADD COLUMN c DEFAULT 3", "[a:1 b:2 c:3]"),
            ("ALTER TABLE t DROP COLUMN b", "[a:1]"),
        ])
    func columns(change: String, expected: String) throws {
        let path = folder.path("app.db")
        let pool = try DatabasePool(path: path, configuration: MigrationScratch.plain)
        try pool.write { try $0.execute(sql: "CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 2)") }
        let sql = "SELECT * FROM t"
        let reads: [(Database) throws -> Row?] = [
            { try Row.fetchCursor($0.cachedStatement(sql: sql)).next()?.copy() },
            { try Row.fetchAll($0, sql: sql).first },
            { try Row.fetchOne($0, sql: sql) },
            { try Row.fetchAll($0, sql: sql + " WHERE 1").first },
        ]
        // A reader each, so that none profits from what another read has learnt.
        var readers: [DatabaseQueue] = []
        for read in reads {
            let reader = try DatabaseQueue(path: path, configuration: MigrationScratch.plain)
            #expect(try reader.read(read)?.description == "[a:1 b:2]")
            readers.append(reader)
        }
        var migrator = DatabaseMigrator()
        migrator.registerMigration("change") { try $0.execute(sql: change) }
        try migrator.migrate(pool)
        for (reader, read) in zip(readers, reads) {
            #expect(try reader.read(read)?.description == expected)
            #expect(try reader.read(read)?.description == expected)
        }
        for (reader, sql) in zip(readers, [sql + " WHERE 2", sql + " WHERE 3"]) {
            #expect(try reader.read { try Row.fetchAll($0, sql: sql).first?.description } == expected)
        }
    }
}
