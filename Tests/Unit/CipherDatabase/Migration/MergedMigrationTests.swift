import CipherDatabase
import CipherSchema
import TestKit
import Testing

@Suite struct MergedMigrationTests {
    let queue = DatabaseQueue()

    /// `v3` stands for `v1` and `v2`, and writes down which of them it received.
    private var merging: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v3", merging: ["v1", "v2", "v3"]) { db, applied in
            try db.execute(sql: "CREATE TABLE IF NOT EXISTS log (id INTEGER PRIMARY KEY, name TEXT)")
            try db.execute(
                sql: "INSERT INTO log (name) VALUES (?)",
                arguments: ["merged " + applied.sorted().joined(separator: " ")])
        }
        return migrator
    }

    @Test("a merged migration is told which of the older ones the database has had")
    func told() throws {
        try MigrationScratch.logging("v1").migrate(queue)
        try merging.migrate(queue)
        #expect(try queue.read(MigrationScratch.log) == ["v1", "merged v1"])
    }

    @Test("in a new database a merged migration is told of none")
    func fresh() throws {
        try merging.migrate(queue)
        #expect(try queue.read(MigrationScratch.log) == ["merged "])
    }

    @Test("a database forgets the migrations that a merged one stands for")
    func forgets() throws {
        try MigrationScratch.logging("v0", "v1", "v2").migrate(queue)
        try merging.migrate(queue)
        #expect(try queue.read(merging.appliedIdentifiers) == ["v0", "v3"])
    }

    @Test("a merged migration that ran under its name before does not run again, but the older ones are forgotten")
    func alreadyApplied() throws {
        try MigrationScratch.logging("v1", "v2", "v3").migrate(queue)
        try merging.migrate(queue)
        #expect(try queue.read(MigrationScratch.log) == ["v1", "v2", "v3"])
        #expect(try queue.read(merging.appliedIdentifiers) == ["v3"])
    }

    @Test("a merged migration that fails forgets nothing")
    func failure() throws {
        try MigrationScratch.logging("v1").migrate(queue)
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v2", merging: ["v1"]) { _, _ in throw PlannedFailure() }
        #expect(throws: PlannedFailure.self) { try migrator.migrate(queue) }
        #expect(try queue.read(migrator.appliedIdentifiers) == ["v1"])
    }

    @Test("a database with migrations that are merged now is behind, not ahead")
    func notSuperseded() throws {
        try MigrationScratch.logging("v1").migrate(queue)
        #expect(try !queue.read(merging.hasBeenSuperseded))
        #expect(try !queue.read(merging.hasCompletedMigrations))
    }
}
