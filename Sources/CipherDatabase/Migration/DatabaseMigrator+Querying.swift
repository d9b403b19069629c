extension DatabaseMigrator {
    /// The names of the registered migrations, in the order of their registration.
    public var migrations: [String] { registered.map(\.identifier) }

    /// The names of all migrations that the database has had, unregistered ones included.
    ///
    /// - Throws: ``DatabaseError``.
    public func appliedIdentifiers(_ db: Database) throws -> Set<String> { try MigrationTable.identifiers(db) }

    /// The names of the registered migrations that the database has had, in the order of their registration.
    ///
    /// - Throws: ``DatabaseError``.
    public func appliedMigrations(_ db: Database) throws -> [String] {
        let applied = try appliedIdentifiers(db)
        return migrations.filter(applied.contains)
    }

    /// The names of the registered migrations that the database has had together with all those before them.
    ///
    /// - Throws: ``DatabaseError``.
    public func completedMigrations(_ db: Database) throws -> [String] {
        let applied = try appliedIdentifiers(db)
        return Array(migrations.prefix(while: applied.contains))
    }

    /// Whether the database has had every registered migration.
    ///
    /// It may have had others as well: see ``hasBeenSuperseded(_:)``.
    /// - Throws: ``DatabaseError``.
    public func hasCompletedMigrations(_ db: Database) throws -> Bool {
        try completedMigrations(db).count == registered.count
    }

    /// Whether the database has had migrations that this migrator does not know: a newer program has migrated it.
    ///
    /// Migrations that a registered one stands for (`merging:`) are known.
    /// - Throws: ``DatabaseError``.
    public func hasBeenSuperseded(_ db: Database) throws -> Bool { try !knows(appliedIdentifiers(db)) }

    /// Whether each of these migrations is registered, or merged into a registered one.
    func knows(_ identifiers: Set<String>) -> Bool {
        identifiers.isSubset(of: registered.reduce(into: Set(migrations)) { $0.formUnion($1.mergedIdentifiers) })
    }
}
