import StorePlatform
import StoreSharing

/// A database file with SQLite's own lock bytes locked, so that another file can take its place.
///
/// A lease only asks; SQLite's locks prove. While the bytes are locked no connection of any program has read the file, and
/// none can begin to. A connection that was opened and has not read yet holds no lock: ``invalidateFirstPage()`` is the
/// answer to it.
package final class LockedDatabase {
    private let file: LiveFile
    private let path: String
    /// The descriptor is the process's only one of this file, so a lock that was released may be somebody else's by now.
    private var isLocked = true

    private init(_ file: LiveFile, path: String) {
        self.file = file
        self.path = path
    }

    deinit { release() }

    /// Locks the bytes of the file that has this name.
    ///
    /// - Returns: nil when somebody has the database open.
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
    /// To be called when the name of the other file is durable: nobody is to take this one for the store any more.
    package func invalidateFirstPage() throws(SystemError) { try file.invalidateFirstPage() }

    /// Lets connections in again, unless another file has the database's place. A second call does nothing.
    package func admitConnections() {
        guard isLocked, (try? isInPlace) == true else { return }
        isLocked = false
        try? file.unlockSQLiteBytes()
    }

    /// Lets connections in again; a file that was replaced is closed for good, which frees its space step by step. A second
    /// call does nothing.
    package func release() {
        admitConnections()
        guard isLocked else { return }
        isLocked = false
        file.giveUp()
    }
}
