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
    /// ``hasSchemaChanges(_:)`` holds.
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
    /// Where it has run, the database's list no longer contains the older ones. Of their names, it may have only the
    /// last.
    ///
    /// - Parameters:
    ///   - identifier: Its permanent name. Traps when it is taken already.
    ///   - foreignKeyChecks: When foreign keys are checked; without meaning where the configuration turns them off.
    ///   - mergedIdentifiers: The names of the older migrations.
    ///   - migrate: Gets the names of the older migrations that were applied, and does what the others did.
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
    /// sure that it violates none, as with ``Database/checkForeignKeys(in:in:)``; where no table is rebuilt,
    /// ``ForeignKeyChecks/immediate`` costs nothing and stays safe.
    public func disablingDeferredForeignKeyChecks() -> DatabaseMigrator {
        var migrator = self
        migrator.checksDeferredForeignKeys = false
        return migrator
    }
}
