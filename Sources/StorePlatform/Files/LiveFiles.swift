import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The descriptors by which this process looks at database files that may be in use, one for each file.
///
/// SQLite's locks on a database file belong to the process, and closing *any* descriptor of the file drops them all: its
/// connections go on without locks, and other processes delete the log below them. So a descriptor that was opened here
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
            guard let status = try Files.status(of: path) else {
                throw SystemError(call: "open", path: path, errorNumber: ENOENT)
            }
            guard status.kind == .regular else {
                throw SystemError(
                    call: "open", path: path, errorNumber: status.kind == .directory ? EISDIR : EINVAL)
            }
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

/// A database file of ``LiveFiles``. All threads may read.
package final class LiveFile: Sendable {
    private struct Owner: ~Copyable {
        var descriptor: FileDescriptor?
        /// Open for writing: what locks SQLite's bytes has to be.
        var locking: FileDescriptor?
        /// Whether SQLite's bytes are locked: the open file is one, so the system would grant the lock twice.
        var isLocked = false
    }

    /// Which file it is, whatever it is called by now.
    package let identity: FileIdentity
    /// The path it was opened by.
    package let path: String
    private let number: Int32
    private let owner: Mutex<Owner>
    private let isGivenUp = Atomic<Bool>(false)

    fileprivate init(_ descriptor: consuming FileDescriptor) throws(SystemError) {
        do {
            identity = try descriptor.status().identity
        } catch {
            throw error
        }
        path = descriptor.path
        number = descriptor.number
        owner = Mutex(Owner(descriptor: consume descriptor))
    }

    /// Reads from a position, up to the length of `buffer` or the end of the file.
    ///
    /// - Returns: How many bytes there were.
    package func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(SystemError) -> Int {
        if isGivenUp.load(ordering: .acquiring) { throw SystemError(call: "pread", path: path, errorNumber: EBADF) }
        return try readAt(number, path, offset, buffer)
    }

    /// Length of the file in bytes.
    package func byteCount() throws(SystemError) -> Int { try status().byteCount }

    package func status() throws(SystemError) -> FileStatus {
        try owner.withLock { owner throws(SystemError) in
            guard owner.descriptor != nil else { throw SystemError(call: "fstat", path: path, errorNumber: EBADF) }
            var found = stat()
            guard fstat(number, &found) == 0 else { throw SystemError("fstat", path) }
            return FileStatus(found)
        }
    }

    /// Whether the file has no name any more.
    fileprivate var isRemoved: Bool { (try? status().linkCount) == 0 }

    /// Locks all bytes by which SQLite's connections show themselves, if they are free: it proves that no process, this
    /// one included, has a connection to the file, and keeps new ones out.
    ///
    /// - Returns: Whether they were free; false as well when another thread has locked them here.
    package func tryLockSQLiteBytes() throws(SystemError) -> Bool {
        try owner.withLock { owner throws(SystemError) in
            guard !owner.isLocked, owner.descriptor != nil else { return false }
            if owner.locking == nil { owner.locking = try reopened() }
            switch owner.locking {
            case .some(let locking): owner.isLocked = try locking.tryLockSQLiteBytes()
            case .none: break
            }
            return owner.isLocked
        }
    }

    /// Lets SQLite's connections in again; does nothing when the bytes are not locked here.
    package func unlockSQLiteBytes() throws(SystemError) {
        try owner.withLock { owner throws(SystemError) in
            guard owner.isLocked else { return }
            switch owner.locking {
            case .some(let locking): try locking.unlockSQLiteBytes()
            case .none: break
            }
            owner.isLocked = false
        }
    }

    /// Makes a database that another one has replaced unreadable for those who still have it open: its first page is
    /// written over. Does nothing when the file has a name, or SQLite's bytes are not locked here.
    ///
    /// A connection that has not read yet holds no lock, so none proves that there is no such connection. With its first
    /// read it would take the log of the other database, which has the same path, for its own, and write to it under the
    /// former key. Without a first page it fails (`SQLITE_NOTADB`). An empty file would not do: SQLite removes the log
    /// beside one.
    package func invalidateFirstPage() throws(SystemError) {
        let status = try status()
        guard status.linkCount == 0 else { return }
        try owner.withLock { owner throws(SystemError) in
            guard owner.isLocked else { return }
            // Not zeros: SQLCipher takes a page of zeros for an empty one.
            let bytes = [UInt8](repeating: 0xff, count: min(status.byteCount, Limits.invalidatedBytes))
            switch owner.locking {
            case .some(let locking): try locking.write(bytes, at: 0)
            case .none: break
            }
        }
    }

    /// Closes the file, and frees SQLite's bytes with it. Does nothing unless these are locked here, which proves that
    /// no connection is left that the closing could harm.
    package func giveUp() {
        guard owner.withLock({ $0.isLocked }) else { return }
        close()
    }

    /// Closes the file when no connection is left that the closing could harm. It has no name, so none can come any more.
    fileprivate func closeIfUnused() {
        let isUnused = owner.withLock { owner in
            owner.descriptor != nil && !owner.isLocked && (try? SQLiteLockBytes.areFree(number, path)) == true
        }
        if isUnused { close() }
    }

    /// Opens the file a second time, for writing as well, whatever it is called by now.
    private func reopened() throws(SystemError) -> FileDescriptor {
        let link = "/proc/self/fd/\(number)"
        // Where the system has no such way to it, there is its name, as long as it has that.
        let (linked, named) = (try Files.identity(link), try Files.identity(path))
        guard linked == identity || named == identity else {
            throw SystemError(call: "open", path: path, errorNumber: ESTALE)
        }
        do {
            return try FileDescriptor(opening: linked == identity ? link : path, .readWrite)
        } catch {
            throw SystemError(call: "open", path: path, errorNumber: error.errorNumber)
        }
    }

    private func close() {
        LiveFiles.forget(self)
        isGivenUp.store(true, ordering: .releasing)
        let last = owner.withLock { owner in
            owner.isLocked = false
            // A file without a name is cut before it is closed, which takes one that may be written.
            let last = owner.locking.take() ?? (try? reopened())
            owner.descriptor = nil
            return last
        }
        last?.closeGradually()
    }
}
