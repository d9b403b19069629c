extension DatabaseMigrator {
    /// Whether the definition of an applied migration has changed since.
    ///
    /// That is so when an unknown migration was applied, or when the tables, views, indexes and triggers of the
    /// database are not those that the migrations create in a database without rows: they run again for that, in a
    /// temporary file that is encrypted with a key that is not stored. Where a migration is due that replaces older
    /// ones (`merging:`), only the names can be compared.
    ///
    /// The meaning of definitions is compared, not their spelling: whitespace, comments, quotes, the case of names, the
    /// place of a constraint, and words without effect do not count, so a database that GRDB made is the same.
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
