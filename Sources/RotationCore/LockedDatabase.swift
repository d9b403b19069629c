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
    /// A process that was killed releases its locks one by one, those of the database first. While it still holds the index
    /// of the WAL, the next connection would use that index, and with it the frames of a WAL that the switch replaces. So
    /// this waits a moment for the locks of the index.
    ///
    /// - Returns: nil when a program has the database or the index open.
    package static func lock(_ path: String) throws(SystemError) -> LockedDatabase? {
        let file = try LiveFiles.descriptor(of: path)
        guard try file.tryLockSQLiteBytes() else { return nil }
        let database = LockedDatabase(file, path: path)
        let deadline = ContinuousClock.now + RecoveryLimits.indexWait
        while try isIndexLocked(of: path) {
            guard ContinuousClock.now < deadline else {
                database.release()
                return nil
            }
            Pause.sleep(for: RecoveryLimits.indexPause)
        }
        return database
    }

    /// Whether a process has the index of the WAL open. This one has no connection, so it may open and close the index.
    private static func isIndexLocked(of path: String) throws(SystemError) -> Bool {
        let index = StorePaths(path).sharedMemory
        guard try Files.kindOfName(index) == .regular else { return false }
        return try FileDescriptor(opening: index, .readOnly, followsLinks: false)
            .isLocked(WALLockByte.write..<WALLockByte.open + 1)
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
