/// Makes statements be compiled again after a table has appeared that hides the one that they read.
///
/// SQLite looks for a table in the temporary schema, then in `main`, then in attached databases. It compiles a statement
/// again when the schemas have changed that the statement uses. A table that appears before them changes another schema.
///
/// | change | noticed by |
/// |---|---|
/// | a temporary table or view, created or renamed | the statement that does it |
/// | the same in `main` or an attached database, on this connection | the statement that does it |
/// | the same on another connection | the versions of the schemas, before each statement where databases are attached |
/// | a table that is dropped; DETACH; a rollback | SQLite |
final class HiddenTables: ConnectionFeature {
    static let key = FeatureKey<HiddenTables>(.hiddenTables)

    /// Whether databases are attached, so that another connection may hide a table.
    private(set) var mayBeElsewhere = false
    private var isComparing = false
    /// The versions of the schemas, in SQLite's order.
    private var versions: [Int32] = []

    /// Adds it to a connection that has just been opened.
    static func add(to db: Database) { db.features.add(HiddenTables(), for: key, at: .didChangeSchema) }

    func didChangeSchema(_ effects: StatementEffects, isForeign: Bool, on db: Database) {
        guard effects.contains(.schema) else { return }
        if effects.contains(.attachment) {
            mayBeElsewhere = true
            db.features.want(.willRun, for: Self.key)
        }
        if effects.contains(.temporaryTables) || effects.contains(.storedSchema) && mayBeElsewhere {
            db.expireKeptStatements()
        }
    }

    func willRun(_ statement: Statement, on db: Database) throws {
        if !statement.effects.contains(.transaction) { try compare(db) }
    }

    /// Compares the versions of the schemas: once in a transaction, which sees no changes of other connections.
    private func compare(_ db: Database) throws {
        if isComparing || db.isInsideTransaction && db.schemaCache.isCompared { return }
        isComparing = true
        defer { isComparing = false }
        try db.compareSchema()
        let current = try db.schemaIDs(named: nil).map { schema in
            let sql = "PRAGMA \(schema.name.quotedDatabaseIdentifier).schema_version"
            // An attached database that is locked, or gone, is no error of a statement that does not read it.
            return (try? Int32.fetchOne(db.statement(forFetching: sql))) ?? -1
        }
        if current != versions && !versions.isEmpty { db.expireKeptStatements() }
        // After DETACH, SQLite itself notices what other connections do to `main`.
        let isAlone = try db.schemaIDs(named: nil).allSatisfy { ["main", "temp"].contains($0.name) }
        versions = isAlone ? [] : current
        if isAlone {
            mayBeElsewhere = false
            db.features.want(.willRun, false, for: Self.key)
        }
    }
}

extension Database {
    /// Makes all statements be compiled again before they run next.
    fileprivate func expireKeptStatements() {
        kept.removeAll()
        // Those that the program keeps itself.
        handle.expireStatements(hooks)
    }
}
