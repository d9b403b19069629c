import CipherDatabase
import CipherSchema
import Foundation
import Synchronization
import TestKit
import Testing

@Suite(.timeLimit(.minutes(1))) struct MigratingTests {
    let folder = TemporaryFolder()
    let queue = DatabaseQueue()

    @Test("migrations run in the order of their registration, and once each")
    func orderAndOnce() throws {
        let migrator = MigrationScratch.logging("b", "a", "c")
        try migrator.migrate(queue)
        try migrator.migrate(queue)
        #expect(try queue.read(MigrationScratch.log) == ["b", "a", "c"])
    }

    @Test("migrating up to a migration runs it and leaves the later ones for another time")
    func upTo() throws {
        let migrator = MigrationScratch.logging("v1", "v2", "v3")
        try migrator.migrate(queue, upTo: "v2")
        #expect(try queue.read(MigrationScratch.log) == ["v1", "v2"])
        try migrator.migrate(queue, upTo: "v2")
        try migrator.migrate(queue)
        #expect(try queue.read(MigrationScratch.log) == ["v1", "v2", "v3"])
    }

    @Test("a failed migration is rolled back whole, those before it stay, those behind it do not run")
    func failure() throws {
        var migrator = MigrationScratch.logging("v1")
        migrator.registerMigration("v2") { db in
            try db.execute(sql: "INSERT INTO log (name) VALUES ('half'); CREATE TABLE half (id)")
            throw PlannedFailure()
        }
        migrator.registerMigration("v3") { try $0.execute(sql: "CREATE TABLE never (id)") }
        #expect(throws: PlannedFailure.self) { try migrator.migrate(queue) }
        try queue.read { db throws in
            #expect(try MigrationScratch.log(db) == ["v1"])
            #expect(try migrator.appliedIdentifiers(db) == ["v1"])
            #expect(try !MigrationScratch.hasTable(db, "half"))
            #expect(try !MigrationScratch.hasTable(db, "never"))
        }
    }

    @Test("after a failure, migrating goes on with the migration that failed")
    func goesOn() throws {
        var failing = MigrationScratch.logging("v1")
        failing.registerMigration("v2") { _ in throw PlannedFailure() }
        #expect(throws: PlannedFailure.self) { try failing.migrate(queue) }
        try MigrationScratch.logging("v1", "v2", "v3").migrate(queue)
        #expect(try queue.read(MigrationScratch.log) == ["v1", "v2", "v3"])
    }

    @Test("a migration that is registered before applied ones runs all the same")
    func insertedMigration() throws {
        try MigrationScratch.logging("v1", "v3").migrate(queue)
        try MigrationScratch.logging("v1", "v2", "v3").migrate(queue)
        #expect(try queue.read(MigrationScratch.log) == ["v1", "v3", "v2"])
    }

    @Test("the table of applied migrations is exactly GRDB's")
    func table() throws {
        try MigrationScratch.logging("v1").migrate(queue)
        let sql = try queue.read { db throws in
            try String.fetchOne(db, sql: "SELECT sql FROM sqlite_schema WHERE name = 'grdb_migrations'")
        }
        #expect(sql == "CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY)")
    }

    @Test("a database that GRDB has migrated goes on with the next migration")
    func existingDatabase() throws {
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
                    CREATE TABLE log (id INTEGER PRIMARY KEY, name TEXT);
                    INSERT INTO grdb_migrations VALUES ('v1');
                    """)
        }
        try MigrationScratch.logging("v1", "v2").migrate(queue)
        #expect(try queue.read(MigrationScratch.log) == ["v2"])
    }

    @Test("a migrator without migrations leaves the database as it is")
    func noMigrations() throws {
        try DatabaseMigrator().migrate(queue)
        #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM sqlite_schema") } == 0)
    }

    // MARK: Locks

    @Test("where nothing is due, migrating takes no lock and changes no schema")
    func nothingDue() throws {
        let path = folder.path("app.db")
        var config = MigrationScratch.plain
        config.busyMode = .immediateError
        let (pool, other) = try (
            DatabasePool(path: path, configuration: config), DatabasePool(path: path, configuration: config)
        )
        let migrator = MigrationScratch.logging("v1", "v2")
        try migrator.migrate(pool)
        let version = try pool.read { try Int.fetchOne($0, sql: "PRAGMA schema_version") }
        try other.write { _ in try migrator.migrate(pool) }
        #expect(try pool.read { try Int.fetchOne($0, sql: "PRAGMA schema_version") } == version)
    }

    @Test("while another connection writes for longer than the busy mode allows, migrating fails and does nothing")
    func busy() throws {
        let path = folder.path("app.db")
        var config = MigrationScratch.plain
        config.busyMode = .immediateError
        let (pool, other) = try (
            DatabasePool(path: path, configuration: config), DatabasePool(path: path, configuration: config)
        )
        let migrator = MigrationScratch.logging("v1")
        try other.write { db in
            try db.execute(sql: "CREATE TABLE t (a)")
            #expect(databaseError { try migrator.migrate(pool) }?.resultCode == .SQLITE_BUSY)
        }
        #expect(try pool.read(migrator.appliedIdentifiers).isEmpty)
        try migrator.migrate(pool)
        #expect(try pool.read(MigrationScratch.log) == ["v1"])
    }

    @Test("a database opened for reading is refused")
    func readonly() throws {
        let path = folder.path("app.db")
        try MigrationScratch.logging("v1").migrate(DatabaseQueue(path: path, configuration: MigrationScratch.plain))
        var config = MigrationScratch.plain
        config.readonly = true
        let reader = try DatabaseQueue(path: path, configuration: config)
        try MigrationScratch.logging("v1").migrate(reader)
        let error = databaseError { try MigrationScratch.logging("v1", "v2").migrate(reader) }
        #expect(error?.resultCode == .SQLITE_READONLY)
    }

    // MARK: Without waiting

    private func asyncOutcome(_ migrator: DatabaseMigrator, _ writer: any DatabaseWriter) async throws -> [String] {
        try await withCheckedThrowingContinuation { continuation in
            migrator.asyncMigrate(writer) { result in
                continuation.resume(with: Result { try MigrationScratch.log(result.get()) })
            }
        }
    }

    @Test("migrating without waiting hands over the migrated database")
    func async() async throws {
        #expect(try await asyncOutcome(MigrationScratch.logging("v1", "v2"), queue) == ["v1", "v2"])
    }

    @Test("migrating without waiting hands over the error of a migration")
    func asyncFailure() async throws {
        var migrator = MigrationScratch.logging("v1")
        migrator.registerMigration("v2") { _ in throw PlannedFailure() }
        await #expect(throws: PlannedFailure.self) { try await asyncOutcome(migrator, queue) }
    }

    @Test("migrating a closed database without waiting hands over one error")
    func asyncClosed() async throws {
        try queue.close()
        await #expect(throws: DatabaseError.self) { try await asyncOutcome(MigrationScratch.logging("v1"), queue) }
    }
}
