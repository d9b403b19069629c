import CipherDatabase
import CipherSchema
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
            { db in
                let rows = try Row.fetchCursor(db.cachedStatement(sql: sql))
                return try withExtendedLifetime(rows) { try rows.next()?.copy() }
            },
            { try Row.fetchAll($0, sql: sql).first },
            { try Row.fetchOne($0, sql: sql) },
        ]
        // A reader each, so that none profits from what another read has learnt.
        var readers: [DatabaseQueue] = []
        for read in reads {
            let reader = try DatabaseQueue(path: path, configuration: MigrationScratch.plain)
            #expect(try reader.read(read)?.description == "[a:1 b:2]")
            readers.append(reader)
        }
        let fresh = try DatabaseQueue(path: path, configuration: MigrationScratch.plain)
        #expect(try fresh.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 1)
        var migrator = DatabaseMigrator()
        migrator.registerMigration("change") { try $0.execute(sql: change) }
        try migrator.migrate(pool)
        #expect(try fresh.read { try Row.fetchAll($0, sql: sql + " WHERE 1").first?.description } == expected)
        for (reader, read) in zip(readers, reads) {
            #expect(try reader.read(read)?.description == expected)
            #expect(try reader.read(read)?.description == expected)
        }
    }
}
