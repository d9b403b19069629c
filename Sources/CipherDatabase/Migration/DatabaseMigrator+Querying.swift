extension DatabaseMigrator {
    /// The names of the registered migrations, in the order of their registration.
    public var migrations: [String] { registered.map(\.identifier) }

    /// The names of all migrations that were applied to the database, unregistered ones included.
    ///
    /// - Throws: ``DatabaseError``.
    public func appliedIdentifiers(_ db: Database) throws -> Set<String> { try MigrationTable.identifiers(db) }

    /// The names of the registered migrations that were applied to the database, in the order of their registration.
    ///
    /// - Throws: ``DatabaseError``.
    public func appliedMigrations(_ db: Database) throws -> [String] {
        let applied = try appliedIdentifiers(db)
        return migrations.filter(applied.contains)
    }

    /// The names of the registered migrations that were applied to the database together with all those before them.
    ///
    /// - Throws: ``DatabaseError``.
    public func completedMigrations(_ db: Database) throws -> [String] {
        let applied = try appliedIdentifiers(db)
        return Array(migrations.prefix(while: applied.contains))
    }

    /// Whether every registered migration was applied to the database.
    ///
    /// Others may have been applied as well: see ``hasBeenSuperseded(_:)``.
    /// - Throws: ``DatabaseError``.
    public func hasCompletedMigrations(_ db: Database) throws -> Bool {
        try completedMigrations(db).count == registered.count
    }

    /// Whether migrations were applied that this migrator does not know: a newer program has migrated the database.
    ///
    /// Migrations that a registered one replaces (`merging:`) are known.
    /// - Throws: ``DatabaseError``.
    public func hasBeenSuperseded(_ db: Database) throws -> Bool { try !knows(appliedIdentifiers(db)) }

    /// Whether each of these migrations is registered, or merged into a registered one.
    func knows(_ identifiers: Set<String>) -> Bool {
        identifiers.isSubset(of: registered.reduce(into: Set(migrations)) { $0.formUnion($1.mergedIdentifiers) })
    }
}
