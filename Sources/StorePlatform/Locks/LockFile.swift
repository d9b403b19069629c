import CPlatform
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

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
            let code = kind == .shared ? CPLATFORM_LOCK_SHARED : CPLATFORM_LOCK_EXCLUSIVE
            let failure = cplatform_lock_set(file.number, Int32(code.rawValue), byte.rawValue, 1)
            if failure != 0 {
                let error = SystemError(call: "fcntl(F_OFD_SETLK)", path: path, errorNumber: failure)
                if error.isLocked { return nil }
                // The kernel's way to say that the file could be opened for reading only: name the real reason.
                throw failure == EBADF ? SystemError(call: "open", path: path, errorNumber: EACCES) : error
            }
            // The path may name another file by now; a lock on the old one would keep nobody out.
            if try Files.identity(path) == file.status().identity { return HeldLock(file, byte, kind) }
        }
    }

    /// Whether somebody, this process included, holds a lock on the byte.
    package func isHeld(_ byte: LockByte, against kind: LockKind = .exclusive) throws(SystemError) -> Bool {
        let file = try openDescriptor()
        var found: Int32 = 0
        let code = kind == .shared ? CPLATFORM_LOCK_SHARED : CPLATFORM_LOCK_EXCLUSIVE
        let failure = cplatform_lock_probe(file.number, Int32(code.rawValue), byte.rawValue, 1, &found)
        guard failure == 0 else {
            throw SystemError(call: "fcntl(F_OFD_GETLK)", path: path, errorNumber: failure)
        }
        return found != Int32(CPLATFORM_UNLOCK.rawValue)
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

    private func timeout(of byte: LockByte) -> StoreError {
        StoreError(
            .storeInUse,
            what: "The \(byte) lock of \"\(path)\" did not become free in time.",
            why: "\(nameOwner(of: byte)) \(byte.purpose).",
            remedy: "Let it finish or end it, or wait longer; a process that dies frees its locks.")
    }
}

/// A lock on one byte of a lock file, held until it is released or this object is gone.
package final class HeldLock: Sendable {
    package let byte: LockByte
    package let kind: LockKind
    private let file: Mutex<OpenFile>
    /// The process that took the lock, told by the forks before it.
    private let forkCount = ForkWatch.count

    private struct OpenFile: ~Copyable {
        var descriptor: FileDescriptor?
    }

    fileprivate init(_ descriptor: consuming FileDescriptor, _ byte: LockByte, _ kind: LockKind) {
        self.byte = byte
        self.kind = kind
        file = Mutex(OpenFile(descriptor: consume descriptor))
    }

    deinit { release() }

    /// Gives the lock back; a second call does nothing.
    package func release() {
        file.withLock { file in
            guard let descriptor = file.descriptor.take() else { return }
            // Not left to the closing alone: a forked child would keep the open file and with it the lock. The child itself
            // must leave it alone: it would take the lock from its parent.
            guard ForkWatch.count == forkCount else { return }
            _ = cplatform_lock_set(descriptor.number, Int32(CPLATFORM_UNLOCK.rawValue), byte.rawValue, 1)
        }
    }
}
