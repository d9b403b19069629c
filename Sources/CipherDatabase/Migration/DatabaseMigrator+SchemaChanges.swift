extension DatabaseMigrator {
    /// Whether the definition of migrations that the database has had was changed since.
    ///
    /// It is when the database has had a migration that is not known, or when its tables, views, indexes and triggers
    /// are not those that the migrations make in a database without rows: they run once more for that, in a temporary
    /// file which is encrypted with a key that nobody keeps. Where a migration waits that stands for older ones
    /// (`merging:`), only the names can be compared.
    ///
    /// What definitions say is compared, not how they are written: whitespace, comments, quotes, the case of names, the
    /// place of a constraint, and words that change nothing do not count, so a database that GRDB made is the same.
    ///
    /// - Throws: ``DatabaseError``, or the error of a migration that cannot run without rows.
    public func hasSchemaChanges(_ db: Database) throws -> Bool {
        try db.isolated {
            let applied = try appliedIdentifiers(db)
            if !knows(applied) { return true }
            guard let last = registered.lastIndex(where: { applied.contains($0.identifier) }) else { return false }
            if waitsForMerge(applied) { return false }
            return try ComparableSchema(db) != comparableSchema(afterMigration: last, configuration: db.configuration)
        }
    }

    /// Whether the database has had a part of the migrations that one which it has not had stands for: it is in
    /// between two states that migrations define.
    private func waitsForMerge(_ applied: Set<String>) -> Bool {
        registered.contains { migration in
            !applied.contains(migration.identifier) && !migration.mergedIdentifiers.isDisjoint(with: applied)
        }
    }

    /// The schema that the first migrations make, the one at `last` the last of them.
    private func comparableSchema(afterMigration last: Int, configuration: Configuration) throws -> ComparableSchema {
        try ScratchDatabase.use(configuration) { db in
            try run(on: db, upTo: last)
            return try ComparableSchema(db)
        }
    }

    /// Empties the database if it has schema changes.
    func eraseIfSchemaChanged(_ db: Database) throws {
        guard try hasSchemaChanges(db) else { return }
        try db.withForeignKeysSuspended {
            try db.inTransaction(.immediate) {
                // Another process may have started over in the meantime; its new rows must not be lost.
                if try hasSchemaChanges(db) { try db.dropAllObjects() }
                return .commit
            }
        }
    }
}
