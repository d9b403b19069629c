import StorePlatform
import Synchronization

/// The descriptors by which this process looks at database files that may be in use, one for each file.
///
/// SQLite's locks on a database file belong to the process, and closing *any* descriptor of the file drops them all: its
/// connections go on without locks, and other processes delete the WAL below them. So a descriptor that was opened here
/// stays open, whoever asks next gets the same one, and it is closed only when SQLite's lock bytes prove that no
/// connection is left.
/// - SeeAlso: <https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_>
package enum LiveFiles {
    private struct Registry: ~Copyable {
        var files: [FileIdentity: LiveFile] = [:]
        /// Descriptors that came too many. To close them would do the harm.
        var surplus: [LiveFile] = []
    }

    private static let registry = Mutex(Registry())

    /// The descriptor of the file that has this name now, open for reading: who has it open for writing is looked for as
    /// one who might write (``StoreHolders``).
    ///
    /// - Throws: ``SystemError`` when there is no such file, or it is no regular file or may not be read.
    package static func descriptor(of path: String) throws(SystemError) -> LiveFile {
        closeRemovedFiles()
        return try registry.withLock { registry throws(SystemError) in
            // Asked before the file is opened: opening a pipe would wait, and a second descriptor could not be closed.
            guard let status = try Files.status(of: path) else { throw SystemError.notFound("open", path) }
            guard status.kind == .regular else { throw SystemError.notRegular("open", path, status.kind) }
            if let known = registry.files[status.identity] { return known }
            let opened = try LiveFile(FileDescriptor(opening: path, .readOnly))
            // Another file may have taken the name in between.
            if let known = registry.files[opened.identity] {
                registry.surplus.append(opened)
                return known
            }
            registry.files[opened.identity] = opened
            return opened
        }
    }

    /// Closes the descriptors of files that have no name any more and no connection either, so that the disk gets their
    /// room back: of a database that another one has replaced.
    package static func closeRemovedFiles() {
        let files = registry.withLock { Array($0.files.values) }
        for file in files where file.isRemoved { file.closeIfUnused() }
    }

    fileprivate static func forget(_ file: LiveFile) {
        registry.withLock { registry in
            if registry.files[file.identity] === file { registry.files[file.identity] = nil }
        }
    }
}

/// A database file of ``LiveFiles``, open for reading; all threads may read.
///
/// It is closed only when SQLite's lock bytes prove that no connection of this process is left: closing it drops the locks of
/// all of them.
package final class LiveFile: Sendable {
    /// The second descriptor of the file, open for writing: what locks SQLite's bytes has to be.
    private struct Locking: ~Copyable {
        var descriptor: FileDescriptor?
        /// Whether SQLite's bytes are locked: the open file is one, so the system would grant the lock twice.
        var isLocked = false
    }

    /// Which file it is, whatever it is called by now.
    package let identity: FileIdentity
    /// The path it was opened by.
    package let path: String
    private let file: OpenFile
    private let link: String
    private let locking = Mutex(Locking())

    fileprivate init(_ descriptor: consuming FileDescriptor) throws(SystemError) {
        path = descriptor.path
        link = "/proc/self/fd/\(descriptor.number)"
        file = OpenFile(descriptor)
        identity = try file.status().identity
    }

    /// Reads from a position, up to the length of `buffer` or the end of the file.
    ///
    /// - Returns: How many bytes there were.
    package func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(SystemError) -> Int {
        try file.read(at: offset, into: buffer)
    }

    /// Length of the file in bytes.
    package func byteCount() throws(SystemError) -> Int { try status().byteCount }

    package func status() throws(SystemError) -> FileStatus { try file.status() }

    /// Whether the file has no name any more.
    fileprivate var isRemoved: Bool { (try? status().linkCount) == 0 }

    /// Locks all bytes by which SQLite's connections show themselves, if they are free: it proves that no process, this
    /// one included, has a connection to the file, and keeps new ones out.
    ///
    /// - Returns: Whether they were free; false as well when another thread has locked them here.
    package func tryLockSQLiteBytes() throws(SystemError) -> Bool {
        try locking.withLock { locking throws(SystemError) in
            guard !locking.isLocked, !file.isClosed else { return false }
            if locking.descriptor == nil { locking.descriptor = try reopened() }
            switch locking.descriptor {
            case .some(let descriptor): locking.isLocked = try descriptor.tryLock(SQLiteLockByte.all, .exclusive)
            case .none: break
            }
            return locking.isLocked
        }
    }

    /// Lets SQLite's connections in again; does nothing when the bytes are not locked here.
    package func unlockSQLiteBytes() throws(SystemError) {
        try locking.withLock { locking throws(SystemError) in
            guard locking.isLocked else { return }
            switch locking.descriptor {
            case .some(let descriptor): try descriptor.unlock(SQLiteLockByte.all)
            case .none: break
            }
            locking.isLocked = false
        }
    }

    /// Makes a database that another one has replaced unreadable for those who still have it open: its first page is
    /// overwritten. Does nothing when the file has a name, or SQLite's bytes are not locked here.
    ///
    /// A connection that has not read yet holds no lock, so no lock proves that there is no such connection. With its first
    /// read it would take the WAL of the other database, which has the same path, for its own, and write to it under the
    /// former key. Without a first page it fails (`SQLITE_NOTADB`). An empty file would not do: SQLite removes the WAL
    /// beside one.
    package func invalidateFirstPage() throws(SystemError) {
        let status = try status()
        guard status.linkCount == 0 else { return }
        try locking.withLock { locking throws(SystemError) in
            guard locking.isLocked else { return }
            // Not zeros: SQLCipher takes a page of zeros for an empty one.
            let bytes = [UInt8](repeating: 0xff, count: min(status.byteCount, Limits.invalidatedBytes))
            switch locking.descriptor {
            case .some(let descriptor): try descriptor.write(bytes, at: 0)
            case .none: break
            }
        }
    }

    /// Closes the file, and frees SQLite's bytes with it. Does nothing unless these are locked here, which proves that
    /// no connection is left that the closing could harm.
    package func giveUp() {
        guard locking.withLock({ $0.isLocked }) else { return }
        close()
    }

    /// Closes the file when no connection is left that the closing could harm. It has no name, so none can come any more.
    fileprivate func closeIfUnused() {
        let isUnused = locking.withLock { locking in
            !locking.isLocked && (try? file.isLocked(SQLiteLockByte.all)) == false
        }
        if isUnused { close() }
    }

    /// Opens the file a second time, for writing as well, whatever it is called by now.
    private func reopened() throws(SystemError) -> FileDescriptor {
        // Where the system has no such way to it, there is its name, as long as it has that.
        let (linked, named) = (try Files.identity(link), try Files.identity(path))
        guard linked == identity || named == identity else { throw SystemError.stale("open", path) }
        do {
            return try FileDescriptor(opening: linked == identity ? link : path, .readWrite)
        } catch {
            throw SystemError(call: "open", path: path, errorNumber: error.errorNumber)
        }
    }

    private func close() {
        LiveFiles.forget(self)
        let last = locking.withLock { locking in
            locking.isLocked = false
            // A file without a name is truncated before it is closed, which takes one that may be written.
            let last = locking.descriptor.take() ?? (try? reopened())
            file.close()
            return last
        }
        last?.closeGradually()
    }
}
