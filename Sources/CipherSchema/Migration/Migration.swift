import CipherDatabase
import StorePlatform

/// One migration, with the code that runs it on a connection.
struct Migration: Sendable {
    enum ForeignKeyChecks: Sendable {
        case deferred
        case immediate
        case none
    }

    let identifier: String
    /// Older migrations that this one replaces.
    let mergedIdentifiers: Set<String>
    let foreignKeyChecks: ForeignKeyChecks
    let migrate: @Sendable (_ db: Database, _ appliedIdentifiers: Set<String>) throws -> Void

    /// Whether a database with these applied migrations still needs this one, or still lists ones that it replaces.
    func isDue(after appliedIdentifiers: Set<String>) -> Bool {
        !appliedIdentifiers.contains(identifier) || !mergedIdentifiers.isDisjoint(with: appliedIdentifiers)
    }

    /// Runs the migration in a transaction of its own, unless another process has run it in the meantime.
    func run(_ db: Database) throws {
        guard foreignKeyChecks != .immediate, try db.enforcesForeignKeys() else {
            return try runInTransaction(db, checksForeignKeys: false)
        }
        try db.withForeignKeysSuspended { try runInTransaction(db, checksForeignKeys: foreignKeyChecks == .deferred) }
    }

    private func runInTransaction(_ db: Database, checksForeignKeys: Bool) throws {
        try db.inTransaction(.immediate) {
            try MigrationTable.create(db)
            // Read again: what was read before the write lock was acquired may be out of date.
            let applied = try MigrationTable.identifiers(db)
            guard isDue(after: applied) else { return .commit }
            let merged = mergedIdentifiers.intersection(applied)
            if !applied.contains(identifier) {
                try db.withSchemaSource(nil) { try migrate(db, merged) }
                if checksForeignKeys { try db.checkForeignKeys() }
                try MigrationTable.insert(db, identifier)
            }
            try MigrationTable.delete(db, merged)
            CrashPoint.reach(.migrationReady)
            return .commit
        }
        CrashPoint.reach(.migrationCommitted)
    }
}

/// The table in which a database lists its applied migrations. Name and columns are GRDB's.
enum MigrationTable {
    static func create(_ db: Database) throws {
        try db.execute(sql: "CREATE TABLE IF NOT EXISTS grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY)")
    }

    /// The names in the table; none where there is no table yet.
    static func identifiers(_ db: Database) throws -> Set<String> {
        try db.isolated {
            // A program may replace `lower` and NOCASE: migrations would run again.
            let tables = try String.fetchCursor(db, sql: "SELECT name FROM main.sqlite_schema WHERE type = 'table'")
            guard try tables.contains(where: { $0.lowercasedASCII == "grdb_migrations" }) else { return [] }
            return try String.fetchSet(db, sql: "SELECT identifier FROM main.grdb_migrations")
        }
    }

    static func insert(_ db: Database, _ identifier: String) throws {
        try db.execute(sql: "INSERT INTO main.grdb_migrations (identifier) VALUES (?)", arguments: [identifier])
    }

    static func delete(_ db: Database, _ identifiers: Set<String>) throws {
        for identifier in identifiers {
            try db.execute(sql: "DELETE FROM main.grdb_migrations WHERE identifier = ?", arguments: [identifier])
        }
    }
}
