import CipherDatabase
import Dispatch
import StorePlatform

/// The steps that bring the schema of a database up to date; each runs once for a database.
///
/// ```swift
/// var migrator = DatabaseMigrator()
/// migrator.registerMigration("v1") { db in
///     try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
/// }
/// try migrator.migrate(pool)
/// ```
///
/// The table `grdb_migrations` of a database lists its applied migrations, in the format of GRDB, so that databases
/// made with either library can be used with the other. Several processes may migrate one file at the same time: each
/// migration runs once, in the first process that gets to it.
public struct DatabaseMigrator: Sendable {
    /// When the foreign keys of a migration are checked.
    public enum ForeignKeyChecks: Sendable {
        /// Once, right before the commit: tables may be rebuilt in between.
        case deferred
        /// At each statement. Dropping a table then deletes rows that refer to it: not for migrations that rebuild
        /// tables.
        case immediate
    }

    /// Whether migrating starts over with an empty database when the definition of applied migrations has changed.
    /// Default: false.
    ///
    /// For development alone, or for data that can be restored: **all rows of all tables are lost**, whenever
    /// ``hasSchemaChanges(_:)`` holds. A shared store refuses it (`StoreError` `erasureRefused`): other processes may have
    /// it open.
    public var eraseDatabaseOnSchemaChange = false

    private(set) var registered: [Migration] = []
    private var checksDeferredForeignKeys = true

    /// A migrator without migrations.
    public init() {}

    // MARK: Registering

    /// Adds a migration after those that are registered already.
    ///
    /// It runs in a transaction: an error rolls it back, ends the migration, and is thrown there.
    ///
    /// - Parameters:
    ///   - identifier: Its permanent name. Traps when it is taken already.
    ///   - foreignKeyChecks: When foreign keys are checked; without meaning where the configuration turns them off.
    ///   - migrate: Changes schema and rows; it may run in any process that opens the database.
    public mutating func registerMigration(
        _ identifier: String,
        foreignKeyChecks: ForeignKeyChecks = .deferred,
        migrate: @escaping @Sendable (Database) throws -> Void
    ) {
        registerMigration(identifier, foreignKeyChecks: foreignKeyChecks, merging: []) { db, _ in try migrate(db) }
    }

    /// Adds a migration that replaces several older ones, which are no longer registered.
    ///
    /// ```swift
    /// migrator.registerMigration("v3", merging: ["v1", "v2"]) { db, appliedIdentifiers in
    ///     if !appliedIdentifiers.contains("v1") { ... }
    ///     if !appliedIdentifiers.contains("v2") { ... }
    ///     ...
    /// }
    /// ```
    ///
    /// After it has run, the database's list does not contain the older names. Its own name may be that of the last one.
    ///
    /// - Parameters:
    ///   - identifier: Its permanent name. Traps when it is taken already.
    ///   - foreignKeyChecks: When foreign keys are checked; without meaning where the configuration turns them off.
    ///   - mergedIdentifiers: The names of the older migrations.
    ///   - migrate: Gets the names of the older migrations that were applied, and does the work of those that were not.
    public mutating func registerMigration(
        _ identifier: String,
        foreignKeyChecks: ForeignKeyChecks = .deferred,
        merging mergedIdentifiers: Set<String> = [],
        migrate: @escaping @Sendable (_ db: Database, _ appliedIdentifiers: Set<String>) throws -> Void
    ) {
        if registered.contains(where: { $0.identifier == identifier }) {
            ProgrammerError.trap("Migration \(String(reflecting: identifier)) is registered already.")
        }
        let checks: Migration.ForeignKeyChecks =
            switch foreignKeyChecks {
            case .immediate: .immediate
            case .deferred: checksDeferredForeignKeys ? .deferred : .none
            }
        registered.append(
            Migration(
                identifier: identifier, mergedIdentifiers: mergedIdentifiers.subtracting([identifier]),
                foreignKeyChecks: checks, migrate: migrate))
    }

    /// The same migrator without the deferred checks of foreign keys in migrations registered from here on.
    ///
    /// The checks read every table with a foreign key, after every migration. Without them a migration must itself make
    /// sure that it violates none, as with `Database.checkForeignKeys(in:in:)`; where no table is rebuilt,
    /// ``ForeignKeyChecks/immediate`` costs nothing and stays safe.
    public func disablingDeferredForeignKeyChecks() -> DatabaseMigrator {
        var migrator = self
        migrator.checksDeferredForeignKeys = false
        return migrator
    }
}

extension DatabaseMigrator {
    /// Runs the migrations that were not applied to the database, in the order of their registration.
    ///
    /// It acquires the write lock for each migration that is due, and not at all where none is. When a migration fails,
    /// the ones before it stay applied.
    ///
    /// - Throws: The error of the first migration that fails; `DatabaseError` `.SQLITE_BUSY` when another process
    ///   holds the write lock for longer than `Configuration.busyMode` allows.
    public func migrate(_ writer: any DatabaseWriter) throws {
        guard let last = registered.last else { return }
        try migrate(writer, upTo: last.identifier)
    }

    /// Runs the migrations that were not applied to the database, up to and including one of them.
    ///
    /// - Parameter targetIdentifier: The last migration to run. Traps when it is not registered, and when a later one
    ///   is already applied: migrations do not run backwards.
    /// - Throws: As ``migrate(_:)``.
    public func migrate(_ writer: any DatabaseWriter, upTo targetIdentifier: String) throws {
        let target = index(ofTarget: targetIdentifier)
        try writer.writeWithoutTransaction { try migrate($0, upTo: target) }
    }

    /// Runs the migrations that were not applied to the database, without waiting for them.
    ///
    /// - Parameter completion: Called once, on another thread, with the migrated database inside its write access, or
    ///   with the error that ended the migration.
    public func asyncMigrate(
        _ writer: any DatabaseWriter, completion: @escaping @Sendable (Result<Database, any Error>) -> Void
    ) {
        DispatchQueue.global().async {
            writer.writeWithoutTransaction { db in
                let outcome = Result {
                    // A closed database throws here where no migration is due.
                    try db.requireObservable()
                    if let target = registered.indices.last { try migrate(db, upTo: target) }
                    return db
                }
                completion(outcome)
            }
        }
    }

    // MARK: On a connection

    private func migrate(_ db: Database, upTo target: Int) throws {
        try requireKeepingRows(in: db.configuration)
        if eraseDatabaseOnSchemaChange { try eraseIfSchemaChanged(db) }
        try run(on: db, upTo: target)
    }

    /// Runs those of the first migrations that are due, up to and including the one at `target`.
    func run(on db: Database, upTo target: Int) throws {
        let applied = try MigrationTable.identifiers(db)
        if registered[(target + 1)...].contains(where: { applied.contains($0.identifier) }) {
            let name = String(reflecting: registered[target].identifier)
            ProgrammerError.trap("The database is migrated beyond migration \(name) already.")
        }
        for migration in registered[...target] where migration.isDue(after: applied) { try migration.run(db) }
    }

    private func index(ofTarget identifier: String) -> Int {
        guard let index = registered.firstIndex(where: { $0.identifier == identifier }) else {
            ProgrammerError.trap("Migration \(String(reflecting: identifier)) is not registered.")
        }
        return index
    }
}

extension DatabaseMigrator {
    /// The names of the registered migrations, in the order of their registration.
    public var migrations: [String] { registered.map(\.identifier) }

    /// The names of all migrations that were applied to the database, unregistered ones included.
    ///
    /// - Throws: `DatabaseError`.
    public func appliedIdentifiers(_ db: Database) throws -> Set<String> { try MigrationTable.identifiers(db) }

    /// The names of the registered migrations that were applied to the database, in the order of their registration.
    ///
    /// - Throws: `DatabaseError`.
    public func appliedMigrations(_ db: Database) throws -> [String] {
        let applied = try appliedIdentifiers(db)
        return migrations.filter(applied.contains)
    }

    /// The names of the registered migrations that were applied to the database together with all those before them.
    ///
    /// - Throws: `DatabaseError`.
    public func completedMigrations(_ db: Database) throws -> [String] {
        let applied = try appliedIdentifiers(db)
        return Array(migrations.prefix(while: applied.contains))
    }

    /// Whether every registered migration was applied to the database.
    ///
    /// Others may have been applied as well: see ``hasBeenSuperseded(_:)``.
    /// - Throws: `DatabaseError`.
    public func hasCompletedMigrations(_ db: Database) throws -> Bool {
        try completedMigrations(db).count == registered.count
    }

    /// Whether migrations were applied that this migrator does not know: a newer program has migrated the database.
    ///
    /// Migrations that a registered one replaces (`merging:`) are known.
    /// - Throws: `DatabaseError`.
    public func hasBeenSuperseded(_ db: Database) throws -> Bool { try !knows(appliedIdentifiers(db)) }

    /// Whether each of these migrations is registered, or merged into a registered one.
    func knows(_ identifiers: Set<String>) -> Bool {
        identifiers.isSubset(of: registered.reduce(into: Set(migrations)) { $0.formUnion($1.mergedIdentifiers) })
    }
}

extension DatabaseMigrator {
    /// Whether the definition of an applied migration has changed since.
    ///
    /// That is so when an unknown migration was applied, or when the tables, views, indexes and triggers of the
    /// database are not those that the migrations create in a database without rows: they run again for that, in a
    /// temporary file that is encrypted with a key that is not stored. If a migration is due that replaces older ones
    /// (`merging:`), only the names can be compared.
    ///
    /// The meaning of definitions is compared, not their spelling: whitespace, comments, quotes, the case of names, the
    /// place of a constraint, and words without effect do not count, so a database that GRDB made is the same.
    ///
    /// - Throws: `DatabaseError`, or the error of a migration that cannot run without rows.
    public func hasSchemaChanges(_ db: Database) throws -> Bool {
        try db.isolated {
            let applied = try appliedIdentifiers(db)
            if !knows(applied) { return true }
            guard let last = registered.lastIndex(where: { applied.contains($0.identifier) }) else { return false }
            if waitsForMerge(applied) { return false }
            return try ComparableSchema(db) != comparableSchema(afterMigration: last, configuration: db.configuration)
        }
    }

    /// Whether only a part of the migrations was applied that a pending migration replaces: the database is between two
    /// states that migrations define.
    private func waitsForMerge(_ applied: Set<String>) -> Bool {
        registered.contains { migration in
            !applied.contains(migration.identifier) && !migration.mergedIdentifiers.isDisjoint(with: applied)
        }
    }

    /// The schema that the first migrations create, up to and including the one at `last`.
    private func comparableSchema(afterMigration last: Int, configuration: Configuration) throws -> ComparableSchema {
        try ScratchDatabase.use(configuration) { db in
            try run(on: db, upTo: last)
            return try ComparableSchema(db)
        }
    }

    /// Refuses a migrator that may erase a shared store: its processes open it at any time, each with its own version of
    /// the program, and two versions would erase the rows of each other by turns.
    ///
    /// - Throws: `StoreError` `erasureRefused`.
    package func requireKeepingRows(in configuration: Configuration) throws(StoreError) {
        guard eraseDatabaseOnSchemaChange, configuration.isShared else { return }
        throw StoreError(
            .erasureRefused, what: "The migrator may erase all rows of the store, so it was not applied.",
            why: "Its eraseDatabaseOnSchemaChange is true, and other processes may have a shared store open.",
            remedy: "Set eraseDatabaseOnSchemaChange to false. To start over during development, end all programs of "
                + "the store and remove it with `cipherctl destroy` (SharedStore.destroy(at:) in a program).")
    }

    /// Empties the database if it has schema changes.
    func eraseIfSchemaChanged(_ db: Database) throws {
        guard try hasSchemaChanges(db) else { return }
        try db.withForeignKeysSuspended {
            try db.inTransaction(.immediate) {
                // Another process may have erased the database in the meantime; its new rows must not be lost.
                if try hasSchemaChanges(db) { try db.dropAllObjects() }
                return .commit
            }
        }
    }
}

extension DatabaseWriter {
    /// Drops all tables, views, indexes and triggers with all their rows, in one transaction.
    ///
    /// Other connections may be open; their reads under way still see the rows. Key and salt stay, and the file keeps
    /// its length: later writes reuse its pages.
    ///
    /// - Throws: `DatabaseError`; nothing is lost then.
    public func erase() throws { try writeWithoutTransaction { try $0.eraseInTransaction() } }

    /// Drops all tables, views, indexes and triggers with all their rows, in one transaction: the same as the
    /// synchronous function of this name.
    ///
    /// - Throws: `DatabaseError`; nothing is lost then.
    public func erase() async throws { try await writeWithoutTransaction { try $0.eraseInTransaction() } }
}

extension Database {
    fileprivate func eraseInTransaction() throws {
        try withForeignKeysSuspended {
            try inTransaction(.immediate) {
                try dropAllObjects()
                return .commit
            }
        }
    }

    /// Drops every object that is not SQLite's or the library's own, and the list of applied migrations. Inside a
    /// transaction, while foreign keys are not enforced.
    func dropAllObjects() throws {
        let objects = try SchemaObject.ofUser(self)
        // Triggers and indexes are dropped with their tables, shadow tables with their virtual tables.
        for view in objects where view.type == "view" { try drop(view) }
        for table in objects where table.isVirtual { try drop(table) }
        for table in objects where table.type == "table" && !table.isVirtual && !table.isShadow { try drop(table) }
        try execute(sql: "DROP TABLE IF EXISTS main.grdb_migrations; PRAGMA main.user_version = 0")
        try execute(sql: "PRAGMA main.application_id = 0")
    }

    private func drop(_ object: SchemaObject) throws {
        try execute(sql: "DROP \(object.type) main.\(object.name.quotedDatabaseIdentifier)")
    }
}

// Names that programs for GRDB 5 have.

extension DatabaseMigrator {
    /// Another name of ``registerMigration(_:foreignKeyChecks:migrate:)``, with checks at the end.
    public mutating func registerMigrationWithDeferredForeignKeyCheck(
        _ identifier: String, migrate: @escaping @Sendable (Database) throws -> Void
    ) {
        registerMigration(identifier, foreignKeyChecks: .deferred, migrate: migrate)
    }
}
