import StorePlatform
import StoreSharing

/// A database file with SQLite's own lock bytes locked, so that another file can replace it.
///
/// A lease is advisory; SQLite's locks are a proof. While the bytes are locked no connection of any program has read
/// the file, and none can begin to read. A connection that was opened and has not read yet holds no lock:
/// ``invalidateFirstPage()`` covers it.
package final class LockedDatabase {
    private let file: LiveFile
    private let path: String
    /// The process has only this descriptor of the file, so a lock that was released here may have another owner in
    /// this process by now.
    private var isLocked = true

    private init(_ file: LiveFile, path: String) {
        self.file = file
        self.path = path
    }

    deinit { release() }

    /// Locks the bytes of the file at this path.
    ///
    /// - Returns: nil when a program has the database open.
    package static func lock(_ path: String) throws(SystemError) -> LockedDatabase? {
        let file = try LiveFiles.descriptor(of: path)
        return try file.tryLockSQLiteBytes() ? LockedDatabase(file, path: path) : nil
    }

    /// Whether the path still names the locked file.
    package var isInPlace: Bool {
        get throws(SystemError) { try Files.identity(path) == file.identity }
    }

    /// Makes the file unreadable for connections that have not read it yet. Does nothing while the file has a name.
    ///
    /// Must be called when the name of the other file is durable: from then on no program may use this file as the
    /// store.
    func invalidateFirstPage() throws(SystemError) { try file.invalidateFirstPage() }

    /// Allows connections again, unless another file has replaced the database. A second call does nothing.
    package func admitConnections() {
        guard isLocked, (try? isInPlace) == true else { return }
        isLocked = false
        try? file.unlockSQLiteBytes()
    }

    /// Allows connections again. A file that was replaced is closed permanently, which frees its space step by step. A
    /// second call does nothing.
    package func release() {
        admitConnections()
        guard isLocked else { return }
        isLocked = false
        file.giveUp()
    }
}
