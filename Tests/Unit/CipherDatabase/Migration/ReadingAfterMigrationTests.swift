import CipherDatabase
import TestKit
import Testing

// Connections keep compiled statements. When a column got another name or was added, rows came under the names of
// before, and without the new column the first time.
@Suite struct ReadingAfterMigrationTests {
    let folder = TemporaryFolder()

    @Test(
        "a statement from before a migration shows the columns of the new schema",
        arguments: [
            "ALTER TABLE t RENAME COLUMN a TO x", "ALTER TABLE t ADD COLUMN c DEFAULT 3", "ALTER TABLE t DROP COLUMN b",
        ])
    func columns(change: String) throws {
        let pool = try DatabasePool(path: folder.path("app.db"), configuration: MigrationScratch.plain)
        try pool.write { try $0.execute(sql: "CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 2)") }
        let sql = "SELECT * FROM t"
        try pool.read { db in
            _ = try Row.fetchAll(db, sql: sql)
            _ = try Row.fetchOne(db.cachedStatement(sql: sql))
        }
        var migrator = DatabaseMigrator()
        migrator.registerMigration("change") { try $0.execute(sql: change) }
        try migrator.migrate(pool)
        let fresh = try pool.read { try Row.fetchAll($0, sql: sql + " WHERE 1") }
        try pool.read { db throws in
            let rows = try Row.fetchCursor(db.cachedStatement(sql: sql))
            #expect(try rows.next()?.copy() == fresh.first)
            #expect(try Row.fetchAll(db, sql: sql) == fresh)
            #expect(try Row.fetchOne(db, sql: sql) == fresh.first)
        }
    }
}
