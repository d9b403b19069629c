/// The files of one database.
package struct StorePaths: Sendable {
    /// The database file, as it was named.
    package let database: String

    package init(database: String) { self.database = database }

    package var wal: String { database + "-wal" }
    package var sharedMemory: String { database + "-shm" }
    package var journal: String { database + "-journal" }
    package var lock: String { database + "-lock" }
    package var sidecar: String { database + "-sidecar" }
    package var sidecarBackup: String { database + "-sidecar.bak" }
}
