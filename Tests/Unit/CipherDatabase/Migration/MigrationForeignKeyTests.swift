import CipherDatabase
import CipherSchema
import TestKit
import Testing

@Suite struct MigrationForeignKeyTests {
    let queue = DatabaseQueue()

    /// Two authors; two books of the first, one of the second.
    private static func createLibrary(_ db: Database) throws {
        try db.execute(
            sql: """
                CREATE TABLE author (name TEXT PRIMARY KEY);
                CREATE TABLE book (id INTEGER PRIMARY KEY, author TEXT REFERENCES author ON DELETE CASCADE);
                INSERT INTO author VALUES ('Secret Ann'), ('Bob');
                INSERT INTO book VALUES (1, 'Secret Ann'), (2, 'Secret Ann'), (3, 'Bob');
                """)
    }

    private var library: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("library") { try Self.createLibrary($0) }
        return migrator
    }

    private static let rebuildAuthors = """
        CREATE TABLE new (name TEXT PRIMARY KEY, born INTEGER);
        INSERT INTO new SELECT name, NULL FROM author;
        DROP TABLE author;
        ALTER TABLE new RENAME TO author;
        """

    private func enforced() throws -> Bool? { try queue.read { try Bool.fetchOne($0, sql: "PRAGMA foreign_keys") } }

    private func bookCount() throws -> Int? {
        try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM book") }
    }

    @Test("a table that others refer to can be rebuilt")
    func rebuild() throws {
        var migrator = library
        migrator.registerMigration("rebuild") { try $0.execute(sql: Self.rebuildAuthors) }
        try migrator.migrate(queue)
        #expect(try bookCount() == 3)
        #expect(try enforced() == true)
    }

    @Test("with immediate checks, rows go with those that they refer to")
    func immediateCascade() throws {
        var migrator = library
        migrator.registerMigration("rebuild", foreignKeyChecks: .immediate) { try $0.execute(sql: Self.rebuildAuthors) }
        try migrator.migrate(queue)
        #expect(try bookCount() == 0)
    }

    @Test("broken foreign keys fail the migration with tables, columns and rowid, without values")
    func violation() throws {
        try library.migrate(queue)
        var migrator = library
        migrator.registerMigration("break") { db in
            try db.execute(sql: "CREATE TABLE trace (id); DELETE FROM author WHERE name LIKE 'Secret%'")
        }
        let error = databaseError { try migrator.migrate(queue) }
        #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY)
        let key = "FOREIGN KEY constraint violation - from book(author) to author(name)"
        #expect(error?.message?.hasPrefix("\(key), in rowid ") == true)
        #expect(error.map { !"\($0)".contains("Secret") && !$0.expandedDescription.contains("Secret") } == true)
        #expect(try queue.read { try !MigrationScratch.hasTable($0, "trace") })
        #expect(try queue.read(migrator.appliedIdentifiers) == ["library"])
    }

    @Test("foreign keys are enforced again after a migration that failed")
    func enforcedAfterFailure() throws {
        var migrator = library
        migrator.registerMigration("fail") { _ in throw PlannedFailure() }
        #expect(throws: PlannedFailure.self) { try migrator.migrate(queue) }
        #expect(try enforced() == true)
        let error = databaseError { try queue.write { try $0.execute(sql: "INSERT INTO book VALUES (4, 'Nobody')") } }
        #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY)
    }

    @Test("with immediate checks, the statement that breaks a foreign key fails")
    func immediateViolation() throws {
        var migrator = library
        migrator.registerMigration("break", foreignKeyChecks: .immediate) { db in
            do {
                try db.execute(sql: "INSERT INTO book VALUES (4, 'Nobody')")
            } catch DatabaseError.SQLITE_CONSTRAINT_FOREIGNKEY {
                throw PlannedFailure()
            }
        }
        #expect(throws: PlannedFailure.self) { try migrator.migrate(queue) }
    }

    @Test("where the configuration turns foreign keys off, migrations neither check them nor turn them on")
    func turnedOff() throws {
        var config = Configuration()
        config.foreignKeysEnabled = false
        let queue = DatabaseQueue(configuration: config)
        var migrator = library
        migrator.registerMigration("break") { try $0.execute(sql: "DELETE FROM author") }
        try migrator.migrate(queue)
        #expect(try queue.read { try Bool.fetchOne($0, sql: "PRAGMA foreign_keys") } == false)
    }

    @Test("a migrator can leave out the deferred checks of what is registered later, and only of that")
    func withoutChecks() throws {
        var migrator = library
        migrator.registerMigration("checked") { try $0.execute(sql: "DELETE FROM author WHERE name = 'Bob'") }
        #expect(databaseError { try migrator.disablingDeferredForeignKeyChecks().migrate(queue) } != nil)

        migrator = library.disablingDeferredForeignKeyChecks()
        migrator.registerMigration("unchecked") { try $0.execute(sql: "DELETE FROM author WHERE name = 'Bob'") }
        try migrator.migrate(queue)
        #expect(try bookCount() == 3)
        #expect(try enforced() == true)
    }

    @Test("foreign keys can be checked by hand, of all tables or of one")
    func byHand() throws {
        try queue.writeWithoutTransaction { db in
            try Self.createLibrary(db)
            try db.execute(sql: "CREATE TABLE review (book INTEGER REFERENCES book)")
            try db.checkForeignKeys()
            try db.execute(
                sql: "PRAGMA foreign_keys = OFF; DELETE FROM book WHERE id = 3; INSERT INTO review VALUES (3)")
            try db.checkForeignKeys(in: "book")
            let message = "FOREIGN KEY constraint violation - from review(book) to book(id), in rowid 1"
            #expect(databaseError { try db.checkForeignKeys() }?.message == message)
            #expect(databaseError { try db.checkForeignKeys(in: "review", in: "main") }?.message == message)
        }
    }
}
