import Dispatch

extension DatabaseMigrator {
    /// Runs the migrations that were not applied to the database, in the order of their registration.
    ///
    /// It acquires the write lock for each migration that is due, and not at all where none is. When a migration fails,
    /// the ones before it stay applied.
    ///
    /// - Throws: The error of the first migration that fails; ``DatabaseError`` `.SQLITE_BUSY` when another process
    ///   holds the write lock for longer than ``Configuration/busyMode`` allows.
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
                    guard !db.isClosed else { throw db.closedError }
                    if let target = registered.indices.last { try migrate(db, upTo: target) }
                    return db
                }
                completion(outcome)
            }
        }
    }

    // MARK: On a connection

    private func migrate(_ db: Database, upTo target: Int) throws {
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
