import CipherDatabase
import CipherSchema
import Foundation
import TestKit

/// Configurations and migrators of the tests of migrations.
enum MigrationScratch {
    /// For files without a key. Waits for locks, as programs that share a file do.
    static var plain: Configuration {
        var config = Configuration()
        config.allowsUnencrypted = true
        config.busyMode = .timeout(30)
        return config
    }

    /// For files with a key, given by hand.
    static var encrypted: Configuration {
        var config = Configuration()
        config.busyMode = .timeout(30)
        config.prepareDatabase { db in
            try db.usePassphrase("correct horse")
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
        }
        return config
    }

    /// A migrator whose migrations write their own names into the table `log`, which the first of them makes.
    static func logging(_ identifiers: String...) -> DatabaseMigrator { logging(identifiers) }

    static func logging(_ identifiers: [String]) -> DatabaseMigrator {
        var migrator = DatabaseMigrator()
        for identifier in identifiers {
            migrator.registerMigration(identifier) { db in
                try db.execute(sql: "CREATE TABLE IF NOT EXISTS log (id INTEGER PRIMARY KEY, name TEXT)")
                try db.execute(sql: "INSERT INTO log (name) VALUES (?)", arguments: [identifier])
            }
        }
        return migrator
    }

    /// The names that migrations of ``logging(_:)-(String...)`` have written, in order.
    static func log(_ db: Database) throws -> [String] {
        try String.fetchAll(db, sql: "SELECT name FROM log ORDER BY id")
    }

    static func hasTable(_ db: Database, _ name: String) throws -> Bool {
        try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?)", arguments: [name])
            ?? false
    }
}

/// An error of a migration under test.
struct PlannedFailure: Error {}

/// The `DatabaseError` that `body` throws; nil when it throws none, or another error.
func databaseError(_ body: () throws -> some Any) -> DatabaseError? {
    do {
        _ = try body()
        return nil
    } catch {
        return error as? DatabaseError
    }
}
