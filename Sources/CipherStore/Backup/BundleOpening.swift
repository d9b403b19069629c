import CipherDatabase
import KeyCustody
import StorePlatform

/// Opens the database of a backup in place, without a lock or a file next to it, and verifies the data that SQLite
/// reads.
enum BundleOpening {
    /// - Throws: The errors of opening the database; ``StoreError`` `backupDamaged` when SQLite reports another length.
    static func check(_ bundle: BackupBundle, _ keys: SidecarKeys, pages: UInt32) throws {
        var configuration = Configuration.ofTool()
        configuration.readonly = true
        configuration.isImmutable = true
        configuration.observesSuspensionNotifications = false
        let pool = try DatabasePool(reading: bundle.databasePath, keys: keys, configuration)
        defer { try? pool.close() }
        let count = try pool.read { db in
            _ = try Row.fetchAll(db, sql: "SELECT name FROM sqlite_schema")
            return try Int.fetchOne(db, sql: "PRAGMA page_count")
        }
        guard count == Int(pages) else {
            throw bundle.damaged(
                "SQLite sees \(CountText.text(count ?? 0, "page")) in its database instead of \(pages)")
        }
        try pool.close()
    }
}

extension DatabasePool {
    /// Opens a database with known keys.
    convenience init(reading path: String, keys: SidecarKeys, _ configuration: Configuration) throws {
        try self.init(
            path: path, configuration: configuration,
            fileKey: FileKey(path: path, configuration: configuration, holding: keys), key: .knownKeys)
    }
}
