import StorePlatform
import Synchronization

/// The file `<database>-lock`, whose bytes are the locks between all threads of all processes that share a store.
///
/// Its locks belong to an open file (F_OFD_SETLK), never to a process, so the kernel frees them when a process dies
/// for any reason, and two threads of one process exclude each other like two processes: every lock that is taken
/// opens the file anew. `flock` is not used because it lets readers lock exclusively.
package final class LockFile: Sendable {
    package let path: String
    private let reference: String?
    private let permissions: UInt32
    private let allowsReadOnly: Bool

    /// Finds the lock file or makes it.
    ///
    /// - Parameters:
    ///   - path: The lock file.
    ///   - reference: The database, whose mode, owner, group and access control list a new lock file takes.
    ///   - permissions: What a new lock file has while there is no database, whatever the umask is.
    ///   - allowsReadOnly: Whether a lock file that may only be read is enough: it gives shared locks only.
    /// - Throws: ``SystemError`` when it cannot be opened or made.
    package init(
        path: String, likeFile reference: String?, permissions: UInt32 = FileAttributes.privatePermissions,
        allowsReadOnly: Bool = false
    ) throws(SystemError) {
        self.path = path
        self.reference = reference
        self.permissions = permissions
        self.allowsReadOnly = allowsReadOnly
        _ = try openDescriptor()
    }

    /// Whether exclusive locks can be had: they need the right to write the lock file.
    package var isWritable: Bool { Files.canWrite(file: path) }

    /// Waits for a lock.
    ///
    /// - Parameters:
    ///   - deadline: When to give up; nil waits for ever.
    ///   - isCancelled: Asked between two attempts; true ends the wait.
    ///   - onWait: Called once, when the lock is not free at once.
    /// - Throws: ``StoreError`` `storeInUse` when the deadline passes, which names who holds the lock; `CancellationError`
    ///   when the wait was cancelled, ``SystemError`` when the file cannot be opened or locked.
    package func lock(
        _ byte: LockByte, _ kind: LockKind, deadline: ContinuousClock.Instant? = nil,
        isCancelled: (() -> Bool)? = nil, onWait: (() -> Void)? = nil
    ) throws -> HeldLock {
        guard let lock = try tryLock(byte, kind, until: deadline, isCancelled: isCancelled, onWait: onWait) else {
            throw timeout(of: byte)
        }
        return lock
    }

    /// Waits for a lock, where it is nothing unusual not to get it.
    ///
    /// - Parameters: As ``lock(_:_:deadline:isCancelled:onWait:)``.
    /// - Returns: The lock, or nil when others held it up to the deadline.
    package func tryLock(
        _ byte: LockByte, _ kind: LockKind, until deadline: ContinuousClock.Instant?,
        isCancelled: (() -> Bool)? = nil, onWait: (() -> Void)? = nil
    ) throws -> HeldLock? {
        var pause = Limits.firstLockPause
        var isFirst = true
        while true {
            if let lock = try tryLock(byte, kind) { return lock }
            if isCancelled?() == true { throw CancellationError() }
            let now = ContinuousClock.now
            if let deadline, now >= deadline { return nil }
            if isFirst { onWait?() }
            isFirst = false
            Pause.sleep(for: min(pause, deadline.map { now.duration(to: $0) } ?? pause))
            pause = min(pause * 2, Limits.longestLockPause)
        }
    }

    /// Takes a lock if it is free now.
    ///
    /// - Returns: The lock, or nil when others hold it.
    package func tryLock(_ byte: LockByte, _ kind: LockKind) throws(SystemError) -> HeldLock? {
        try tryLock(byte, kind, afterOpening: {})
    }

    /// - Parameter afterOpening: Called between opening and locking, where tests exchange the file.
    func tryLock(
        _ byte: LockByte, _ kind: LockKind, afterOpening: () -> Void
    ) throws(SystemError) -> HeldLock? {
        while true {
            let file = try openDescriptor()
            afterOpening()
            guard try file.tryLock(byte.range, kind) else { return nil }
            // The path may name another file by now; a lock on the old one would keep nobody out.
            if try Files.identity(path) == file.status().identity { return HeldLock(file, byte, kind) }
        }
    }

    /// Whether somebody, this process included, holds a lock on the byte.
    package func isHeld(_ byte: LockByte, against kind: LockKind = .exclusive) throws(SystemError) -> Bool {
        try openDescriptor().isLocked(byte.range, against: kind)
    }

    /// Gives a lock file the mode, owner, group and access control list of its database, once that exists.
    package static func matchAttributes(of path: String, to reference: String) throws(SystemError) {
        guard let attributes = try FileAttributes(of: reference) else { return }
        // Closing another descriptor does no harm: these locks belong to open files, not to the process.
        try attributes.apply(to: FileDescriptor(opening: path, .readWrite, followsLinks: false))
    }

    /// A link is not followed: the table of holders is written into the file, and somebody might have put there a link to
    /// a file that is not to be written over.
    private func openDescriptor() throws(SystemError) -> FileDescriptor {
        do {
            return try FileDescriptor(opening: path, .readWrite, followsLinks: false)
        } catch  where error.isNotFound {
            try AtomicFile.createEmpty(at: path, likeFile: reference, permissions: permissions)
            return try FileDescriptor(opening: path, .readWrite, followsLinks: false)
        } catch  where error.isPermission && allowsReadOnly {
            return try FileDescriptor(opening: path, .readOnly, followsLinks: false)
        }
    }

    // MARK: Who holds a byte

    /// The processes that hold a lock on a byte, this one included, as far as it may see them.
    ///
    /// The system's table of locks names no process for locks of open files. But what it tells of each descriptor
    /// (`/proc/PID/fdinfo`) shows them, to processes of the same user and to root.
    package func owners(of byte: LockByte) -> [Int32] {
        let openings = ProcessInspector.openings(of: path).filter { opening in
            opening.lockedRanges.contains { $0.contains(byte.rawValue) }
        }
        return Set(openings.map(\.process)).sorted()
    }

    /// Another process that holds a byte; nil when the system does not show it.
    package func otherOwner(of byte: LockByte) -> StoreHolder? {
        owners(of: byte).first { $0 != ProcessInspector.currentProcess }.map { StoreHolder(process: $0, uses: []) }
    }

    /// Who holds a byte, to begin a sentence: `Process 4711 (importer, stopped)`.
    package func nameOwner(of byte: LockByte) -> String {
        let owners = owners(of: byte)
        guard let other = owners.first(where: { $0 != ProcessInspector.currentProcess }) else {
            return owners.isEmpty ? "Another process or thread" : "Another thread of this process"
        }
        let name = "\(StoreHolder(process: other, uses: []))"
        return name.prefix(1).uppercased() + name.dropFirst()
    }

    private func timeout(of byte: LockByte) -> StoreError {
        StoreError(
            .storeInUse,
            what: "The \(byte) lock of \"\(path)\" did not become free in time.",
            why: "\(nameOwner(of: byte)) \(byte.purpose).",
            remedy: "Let it finish or end it, or wait longer; a process that dies frees its locks.")
    }

    // MARK: Removing

    /// Removes the lock file, unless a process is inside `FileCoordinator` for the file that it belongs to: others may wait
    /// for that lock, and each of them would make a new lock file and get the lock at once.
    ///
    /// Whoever calls holds the other locks of the file, as far as they matter. The coordinator byte is only tried, so
    /// that this may be done below it in the order of locks, also inside a coordination of the caller's own.
    ///
    /// - Returns: nil when it was removed or was not there; else who is coordinating, to begin a sentence.
    package func removeUnlessCoordinated() throws(SystemError) -> String? {
        guard try Files.entryExists(path) else { return nil }
        guard let lock = try tryLock(.coordinator, .exclusive) else {
            let isOwn = owners(of: .coordinator).contains(ProcessInspector.currentProcess)
            return isOwn ? "This process" : nameOwner(of: .coordinator)
        }
        // Released after the name is gone: whoever locks the removed file finds that the path does not name it any more.
        defer { lock.release() }
        try Files.remove(path)
        return nil
    }

    /// Whether a file holds the table of holders, which a lock file has from the first opening of its store. One without it is
    /// empty, as another program's may be.
    package static func isLibrarys(_ path: String) -> Bool {
        guard let file = try? FileDescriptor(opening: path, .readOnly, followsLinks: false) else { return false }
        let count = MemoryLayout.size(ofValue: TableLayout.magic)
        guard let found = try? file.read(at: Int(LockByte.mappedBase), byteCount: count) else { return false }
        return found == withUnsafeBytes(of: TableLayout.magic, Array.init)
    }
}

/// A lock on one byte of a lock file, held until it is released or this object is gone.
package final class HeldLock: Sendable {
    package let byte: LockByte
    package let kind: LockKind
    private let file: Mutex<FileDescriptor?>
    /// The process that took the lock, known by the forks before it.
    private let forkCount = ForkWatch.count

    fileprivate init(_ descriptor: consuming FileDescriptor, _ byte: LockByte, _ kind: LockKind) {
        self.byte = byte
        self.kind = kind
        file = Mutex(consume descriptor)
    }

    deinit { release() }

    /// Releases the lock; a second call does nothing.
    package func release() {
        file.withLock { file in
            guard let descriptor = file.take() else { return }
            // Not left to the closing alone: a forked child would keep the open file and with it the lock. The child itself
            // must leave it alone: it would take the lock from its parent.
            guard ForkWatch.count == forkCount else { return }
            try? descriptor.unlock(byte.range)
        }
    }
}
