import CipherDatabase
import Foundation
import StorePlatform

/// A temporary database for one use.
///
/// It is a file, because preparing functions may need one: the usual one for shared databases sets a file control that
/// SQLite refuses in memory. Rows that migrations insert must not reach the disk in plaintext, so it is encrypted with
/// a random key that exists only in the connection: whatever a crash leaves behind reveals nothing.
enum ScratchDatabase {
    /// Runs a block on an empty database that a configuration prepares, and removes it.
    ///
    /// Its folder is among the temporary files, where another user may exchange it. So its files have a new name each time,
    /// and are removed through the folder that was made (``MadeFolder``).
    static func use<T>(_ configuration: Configuration, _ body: (Database) throws -> T) throws -> T {
        let name = UUID().uuidString
        let folder = try MadeFolder(
            FileManager.default.temporaryDirectory.appendingPathComponent("cipherstore-\(name)").path)
        defer { folder.remove() }
        var configuration = configuration
        configuration.readonly = false
        // The access under way may block the queues of the configuration.
        configuration.targetQueue = nil
        configuration.writeTargetQueue = nil
        configuration.label = "CipherStore.DatabaseMigrator.comparison"
        let file = "comparison-\(name).db"
        // Without sidecar, locks and WAL: to the file key it is a database in memory.
        let queue = try DatabaseQueue(
            path: "\(folder.path)/\(file)", configuration: configuration,
            fileKey: FileKey(path: MemoryPath.own, configuration: configuration), key: .throwaway)
        defer { try? queue.close() }
        return try queue.writeWithoutTransaction { db in
            try db.runInternally("PRAGMA journal_mode = MEMORY")
            try db.runInternally("PRAGMA synchronous = OFF")
            return try body(db)
        }
    }
}
