import StorePlatform

/// The files of one database.
package struct StorePaths: Sendable {
    /// The database file, with all links resolved: SQLite keeps its files beside the target of a link, so all other
    /// files belong there too.
    package let database: String

    /// Keeps a path that cannot be resolved; opening it reports the error.
    package init(_ path: String) { database = (try? Files.resolvingLinks(of: path)) ?? path }

    package var wal: String { database + "-wal" }
    package var sharedMemory: String { database + "-shm" }
    package var journal: String { database + "-journal" }
    /// The copy of a WAL that an opening found damaged. Further copies have `-2`, `-3` and so on after this name.
    package var damagedWAL: String { wal + "-damaged" }
    package var lock: String { database + "-lock" }
    /// The notifications between processes (``NotificationFile``).
    package var notifications: String { database + "-notify" }
    /// The copy under the next key, while a rotation makes it.
    package var rotationCopy: String { database + "-rotating" }
    /// The database of a store that is being destroyed.
    package var destroying: String { database + "-destroying" }
    package static let sidecarEnding = "-sidecar"
    package var sidecar: String { database + Self.sidecarEnding }
    package var sidecarBackup: String { database + "-sidecar.bak" }
}
