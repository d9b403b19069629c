import Dispatch
import StorePlatform
import Synchronization

/// The descriptors through which this process reads database files that may be in use, one for each file.
///
/// SQLite's locks on a database file belong to the process, and closing *any* descriptor of the file drops them all:
/// its connections then work without locks, and other processes delete the WAL they use. So a descriptor that was
/// opened here stays open, every later caller gets the same one, and it is closed only when SQLite's lock bytes prove
/// that no connection is left.
/// - SeeAlso: <https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_>
package enum LiveFiles {
    private struct Registry: ~Copyable {
        var files: [FileIdentity: LiveFile] = [:]
        /// Duplicate descriptors. Closing them would drop the locks.
        var surplus: [LiveFile] = []
        /// Whether replaced files are to be closed later.
        var isCheckPending = false
    }

    private static let registry = Mutex(Registry())

    /// The descriptor of the file that the path names now, open for reading: ``StoreHolders`` counts a process that has
    /// the file open for writing as a possible writer.
    ///
    /// - Throws: ``SystemError`` when there is no such file, it is not a regular file or it may not be read.
    package static func descriptor(of path: String) throws(SystemError) -> LiveFile {
        closeRemovedFiles()
        return try registry.withLock { registry throws(SystemError) in
            // Checked before the file is opened: opening a pipe would block, and a second descriptor could not be
            // closed.
            guard let status = try Files.status(of: path) else { throw SystemError.notFound("open", path) }
            guard status.kind == .regular else { throw SystemError.notRegular("open", path, status.kind) }
            if let known = registry.files[status.identity] { return known }
            let opened = try LiveFile(FileDescriptor(opening: path, .readOnly, mustBeRegular: true))
            // Another file may have got this name in between.
            if let known = registry.files[opened.identity] {
                registry.surplus.append(opened)
                return known
            }
            registry.files[opened.identity] = opened
            return opened
        }
    }

    /// Closes the descriptors of databases that were replaced: files without a name and without a connection. Their
    /// disk space is freed with it.
    ///
    /// The process that replaced a file may still have it locked when it admits the others. Such a file is closed a
    /// little later, by another thread.
    package static func closeRemovedFiles() {
        if closeUnlockedFiles() { check(after: SharingLimits.firstRemovedFilePause) }
    }

    /// Closes the files without a name that nobody has locked.
    ///
    /// - Returns: Whether others without a name are left.
    private static func closeUnlockedFiles() -> Bool {
        let removed = registry.withLock { Array($0.files.values) }.filter(\.isRemoved)
        for file in removed { file.closeIfUnused() }
        return removed.contains { !$0.isClosed }
    }

    /// Tries again after a pause, and after twice the pause if need be.
    private static func check(after pause: Duration) {
        let isFirst = registry.withLock { registry in
            defer { registry.isCheckPending = true }
            return !registry.isCheckPending
        }
        guard isFirst else { return }
        DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + .nanoseconds(Int(pause.wholeNanoseconds))) {
            registry.withLock { $0.isCheckPending = false }
            if closeUnlockedFiles(), pause < SharingLimits.longestRemovedFilePause { check(after: pause * 2) }
        }
    }

    fileprivate static func forget(_ file: LiveFile) {
        registry.withLock { registry in
            if registry.files[file.identity] === file { registry.files[file.identity] = nil }
        }
    }
}

/// A database file of ``LiveFiles``, open for reading; any thread may read.
///
/// It is closed only when SQLite's lock bytes prove that no connection of this process is left: closing it drops the
/// locks of all of them.
package final class LiveFile: Sendable {
    /// The second descriptor of the file, open for writing, as exclusive locks on SQLite's bytes require.
    private struct Locking: ~Copyable {
        var descriptor: FileDescriptor?
        /// Whether SQLite's bytes are locked. Both callers use one open file, so the system would grant the lock twice.
        var isLocked = false
    }

    /// The file's identity, whatever its name is now.
    package let identity: FileIdentity
    /// The path it was opened by.
    let path: String
    private let file: OpenFile
    private let link: String
    private let locking = Mutex(Locking())

    fileprivate init(_ descriptor: consuming FileDescriptor) throws(SystemError) {
        path = descriptor.path
        link = "/proc/self/fd/\(descriptor.number)"
        file = OpenFile(descriptor)
        identity = try file.status().identity
    }

    /// Reads at a position, up to the length of `buffer` or the end of the file.
    ///
    /// - Returns: The number of bytes read.
    package func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(SystemError) -> Int {
        try file.read(at: offset, into: buffer)
    }

    /// The first position from `offset` on that is not in a hole of the file; nil where only a hole follows, or nothing.
    package func nextData(from offset: Int) throws(SystemError) -> Int? { try file.nextData(from: offset) }

    package func status() throws(SystemError) -> FileStatus { try file.status() }

    /// Refuses a file that is mostly holes: reading all of its pages would take for ever.
    ///
    /// A filesystem that allocates later shows few blocks for a moment, and no hole.
    /// - Throws: ``StoreError`` `headerDamaged`; ``SystemError``.
    package func requireContent() throws {
        let status = try status()
        guard status.isMostlyHoles, try hasHole(before: status.byteCount) else { return }
        throw StoreError(
            .headerDamaged, what: "\"\(path)\" is mostly holes.",
            why:
                "It has \(status.byteCount) bytes, of which only \(status.allocatedBytes) are on the disk: the rest are "
                + "holes, which no store has.",
            remedy:
                "Restore the store from a backup, or copy the part of the file that is not empty. Nothing was changed.")
    }

    private func hasHole(before end: Int) throws(SystemError) -> Bool {
        for offset in stride(from: 0, to: end, by: SharingLimits.holeSearchBytes) {
            guard let data = try nextData(from: offset) else { return true }
            if data > offset { return true }
        }
        return false
    }

    fileprivate var isClosed: Bool { file.isClosed }

    /// Whether the file has lost its name.
    fileprivate var isRemoved: Bool { (try? status().linkCount) == 0 }

    /// Locks all bytes that SQLite's connections lock, if they are free. It proves that no process, this one included,
    /// has a connection to the file, and keeps new ones out.
    ///
    /// - Returns: Whether they were free; also false when another thread of this process holds them.
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

    /// Admits SQLite's connections again; does nothing when the bytes are not locked here.
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

    /// Makes a replaced database unreadable for processes that still have it open, by overwriting its first page. Does
    /// nothing when the file has a name, or when SQLite's bytes are not locked here.
    ///
    /// A connection that has not read yet holds no lock, so no lock proves that there is no such connection. With its
    /// first read it would use the WAL of the other database, which has the same path, as its own, and write to it
    /// under the former key. Without a first page it fails (`SQLITE_NOTADB`). An empty file would not do: SQLite
    /// removes the WAL beside one.
    package func invalidateFirstPage() throws(SystemError) {
        let status = try status()
        guard status.linkCount == 0 else { return }
        try locking.withLock { locking throws(SystemError) in
            guard locking.isLocked else { return }
            // Not zeros: SQLCipher treats a page of zeros as an empty one.
            let bytes = [UInt8](repeating: 0xff, count: min(status.byteCount, SharingLimits.invalidatedBytes))
            switch locking.descriptor {
            case .some(let descriptor): try descriptor.write(bytes, at: 0)
            case .none: break
            }
        }
    }

    /// Closes the file, which also unlocks SQLite's bytes. Does nothing unless these are locked here: the locks prove
    /// that the process has no connection that the close could harm.
    package func giveUp() {
        guard locking.withLock({ $0.isLocked }) else { return }
        close()
    }

    /// Closes the file when no connection is left that the close could harm. It has no name, so no new one can come.
    fileprivate func closeIfUnused() {
        let isUnused = locking.withLock { locking in
            // The index of a WAL has locks, too.
            !locking.isLocked && (try? file.isLocked(SQLiteLockByte.all)) == false
                && (try? file.isLocked(WALLockByte.write..<WALLockByte.open + 1)) == false
        }
        if isUnused { close() }
    }

    /// Opens the file a second time, for writing, whatever its name is now.
    private func reopened() throws(SystemError) -> FileDescriptor {
        // If the system has no such link, the path is used while it still names the file.
        let (linked, named) = (try Files.identity(link), try Files.identity(path))
        guard linked == identity || named == identity else { throw SystemError.stale("open", path) }
        do {
            return try FileDescriptor(opening: linked == identity ? link : path, .readWrite, mustBeRegular: true)
        } catch {
            throw SystemError(call: "open", path: path, errorNumber: error.errorNumber)
        }
    }

    private func close() {
        LiveFiles.forget(self)
        let last = locking.withLock { locking in
            locking.isLocked = false
            // A file without a name is truncated before it is closed, which requires a descriptor for writing.
            let last = locking.descriptor.take() ?? (try? reopened())
            file.close()
            return last
        }
        last?.closeGradually()
    }
}
