import CipherDatabase
import CipherSchema
import TestKit
import Testing

@Suite struct MigrationStateTests {
    let queue = DatabaseQueue()

    @Test("a database without migrations is complete only for a migrator without migrations")
    func fresh() throws {
        #expect(try queue.read(DatabaseMigrator().hasCompletedMigrations))
        let migrator = MigrationScratch.logging("v1")
        #expect(try !queue.read(migrator.hasCompletedMigrations))
        #expect(try !queue.read(migrator.hasBeenSuperseded))
        #expect(try queue.read(migrator.appliedIdentifiers).isEmpty)
        #expect(try queue.read { try !MigrationScratch.hasTable($0, "grdb_migrations") })
    }

    @Test("a database is complete when it has had the last registered migration and all before it")
    func complete() throws {
        let migrator = MigrationScratch.logging("v1", "v2")
        try migrator.migrate(queue, upTo: "v1")
        #expect(try !queue.read(migrator.hasCompletedMigrations))
        try migrator.migrate(queue)
        #expect(try queue.read(migrator.hasCompletedMigrations))
    }

    @Test("migrations count as completed up to the first that is missing")
    func gap() throws {
        try MigrationScratch.logging("v3", "v1").migrate(queue)
        let migrator = MigrationScratch.logging("v1", "v2", "v3")
        try queue.read { db throws in
            #expect(try migrator.appliedMigrations(db) == ["v1", "v3"])
            #expect(try migrator.completedMigrations(db) == ["v1"])
            #expect(try !migrator.hasCompletedMigrations(db))
        }
        #expect(migrator.migrations == ["v1", "v2", "v3"])
    }

    @Test("migrations of a newer program are seen as applied, and as superseding")
    func superseded() throws {
        try MigrationScratch.logging("v1", "v2").migrate(queue)
        let older = MigrationScratch.logging("v1")
        try queue.read { db throws in
            #expect(try older.appliedIdentifiers(db) == ["v1", "v2"])
            #expect(try older.appliedMigrations(db) == ["v1"])
            #expect(try older.hasCompletedMigrations(db))
            #expect(try older.hasBeenSuperseded(db))
            #expect(try !MigrationScratch.logging("v1", "v2").hasBeenSuperseded(db))
        }
    }

    @Test("the state can be asked inside a task")
    func asynchronous() async throws {
        let migrator = MigrationScratch.logging("v1")
        try migrator.migrate(queue)
        #expect(try await queue.read(migrator.hasCompletedMigrations))
        #expect(try await !queue.read(migrator.hasBeenSuperseded))
    }
}
