import StorePlatform
import Synchronization

/// The file `<database>-lock`, whose bytes are the locks between all threads of all processes that share a store.
///
/// Its locks belong to an open file description (F_OFD_SETLK), never to a process. So the kernel releases them when a
/// process dies for any reason, and two threads of one process exclude each other like two processes: every lock opens
/// the file again. `flock` is not used because it lets readers lock exclusively.
package final class LockFile: Sendable {
    package let path: String
    private let reference: String?
    private let permissions: UInt32
    private let allowsReadOnly: Bool

    /// Finds the lock file or creates it.
    ///
    /// - Parameters:
    ///   - path: The lock file.
    ///   - reference: The database, whose mode, owner, group and access control list a new lock file gets.
    ///   - permissions: The mode of a new lock file while there is no database, independent of the umask.
    ///   - allowsReadOnly: Whether read access to the lock file is enough: it allows shared locks only.
    /// - Throws: ``SystemError`` when it cannot be opened or created.
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

    /// Waits for a lock.
    ///
    /// - Parameters:
    ///   - deadline: When to give up; nil waits without limit.
    ///   - isCancelled: Called between two attempts; true ends the wait.
    ///   - onWait: Called once, when the lock is not free at once.
    /// - Throws: ``StoreError`` `storeInUse` when the deadline passes, with the holder of the lock; `CancellationError`
    ///   when the wait was cancelled; ``SystemError`` when the file cannot be opened or locked.
    package func lock(
        _ byte: LockByte, _ kind: LockKind, deadline: ContinuousClock.Instant? = nil,
        isCancelled: (() -> Bool)? = nil, onWait: (() -> Void)? = nil
    ) throws -> HeldLock {
        guard let lock = try tryLock(byte, kind, until: deadline, isCancelled: isCancelled, onWait: onWait) else {
            throw timeout(of: byte)
        }
        return lock
    }

    /// Waits for a lock where failing to get it is normal.
    ///
    /// - Parameters: As ``lock(_:_:deadline:isCancelled:onWait:)``.
    /// - Returns: The lock, or nil when others held it up to the deadline.
    package func tryLock(
        _ byte: LockByte, _ kind: LockKind, until deadline: ContinuousClock.Instant?,
        isCancelled: (() -> Bool)? = nil, onWait: (() -> Void)? = nil
    ) throws -> HeldLock? {
        var polling = Polling(
            first: SharingLimits.firstLockPause, longest: SharingLimits.longestLockPause, until: deadline,
            isCancelled: isCancelled,
            onWait: onWait)
        while true {
            if let lock = try tryLock(byte, kind) { return lock }
            guard try polling.next() else { return nil }
        }
    }

    /// Acquires a lock if it is free now.
    ///
    /// - Returns: The lock, or nil when others hold it.
    package func tryLock(_ byte: LockByte, _ kind: LockKind) throws(SystemError) -> HeldLock? {
        try tryLock(byte, kind, afterOpening: {})
    }

    /// - Parameter afterOpening: Called between opening and locking, where tests replace the file.
    func tryLock(
        _ byte: LockByte, _ kind: LockKind, afterOpening: () -> Void
    ) throws(SystemError) -> HeldLock? {
        // All openings wait for this lock: a process that has it must not be stopped by the terminal, as with Ctrl-Z.
        let hold = byte == .opening && kind == .exclusive ? StopHold(unlessStopping: ()) : nil
        if byte == .opening, kind == .exclusive, hold == nil { return nil }
        while true {
            let file = try openDescriptor()
            afterOpening()
            guard try file.tryLock(byte.range, kind) else { return nil }
            // The path may name another file by now; a lock on the old one would exclude no process.
            if try Files.identity(path) == file.status().identity { return HeldLock(file, byte, kind, hold) }
        }
    }

    /// Whether any process, this one included, holds a lock on the byte.
    package func isHeld(_ byte: LockByte, against kind: LockKind = .exclusive) throws(SystemError) -> Bool {
        try openDescriptor().isLocked(byte.range, against: kind)
    }

    /// Sets a lock file to the mode, owner, group and access control list of its database, once the database exists.
    ///
    /// Another user may have given the name to a file of this user, such as a key. So only a lock file is changed, and only
    /// one without a second name.
    package static func matchAttributes(of path: String, to reference: String) throws(SystemError) {
        guard let attributes = try FileAttributes(of: reference) else { return }
        // Closing another descriptor does no harm: these locks belong to open file descriptions, not to the process.
        let file = try FileDescriptor(opening: path, .readWrite, followsLinks: false)
        try file.requireNoSecondName()
        try requireOwn(file)
        try attributes.apply(to: file)
    }

    /// Does not follow a link: the table of holders is written into the file, and another user might have put a link
    /// there to a file that must not be overwritten.
    private func openDescriptor() throws(SystemError) -> FileDescriptor {
        let file = try openFile()
        try Self.requireOwn(file)
        try FileAccess.requireOwn(file.status(), path, beside: Self.database(of: path))
        return file
    }

    private func openFile() throws(SystemError) -> FileDescriptor {
        do {
            return try FileDescriptor(opening: path, .readWrite, followsLinks: false)
        } catch  where error.isNotFound {
            try AtomicFile.createEmpty(at: path, likeFile: reference, permissions: permissions)
            return try FileDescriptor(opening: path, .readWrite, followsLinks: false)
        } catch  where error.isPermission && allowsReadOnly {
            return try FileDescriptor(opening: path, .readOnly, followsLinks: false)
        }
    }

    // MARK: In an open folder

    /// Acquires a lock of a lock file in an open folder if it is free now. A missing lock file is created, its owner's
    /// alone. No link is followed, and no path is resolved.
    ///
    /// - Returns: The lock; nil when another process holds it, or has removed the file meanwhile.
    package static func tryLock(
        _ name: String, in folder: OpenFolder, _ byte: LockByte, _ kind: LockKind
    ) throws(SystemError) -> HeldLock? {
        guard let file = try folder.writableFile(name, creating: FileAttributes.privatePermissions) else { return nil }
        try requireOwn(file)
        guard try file.tryLock(byte.range, kind) else { return nil }
        guard try folder.status(of: name)?.identity == file.status().identity else { return nil }
        return HeldLock(file, byte, kind)
    }

    /// Whether any process holds a lock of a lock file in an open folder; nil when there is no such file.
    package static func isHeld(_ name: String, in folder: OpenFolder, _ byte: LockByte) throws(SystemError) -> Bool? {
        try folder.file(name)?.isLocked(byte.range)
    }

    // MARK: Holders of a byte

    /// The processes that hold a lock on a byte, this one included, as far as it may see them.
    ///
    /// The system's table of locks names no process for locks of open file descriptions. `/proc/PID/fdinfo` shows them,
    /// to processes of the same user and to root.
    package func owners(of byte: LockByte) -> [Int32] {
        let openings = ProcessInspector.openings(of: path).filter { opening in
            opening.lockedRanges.contains { $0.contains(byte.rawValue) }
        }
        // Programs without this library lock by process.
        let others = ((try? SystemLocks.posixLocks(on: path)) ?? nil ?? []).filter { $0.bytes.contains(byte.rawValue) }
        return Set(openings.map(\.process) + others.map(\.process)).sorted()
    }

    /// Another process that holds a byte; nil when the system does not show it.
    package func otherOwner(of byte: LockByte) -> StoreHolder? {
        owners(of: byte).first { $0 != ProcessInspector.currentProcess }.map { StoreHolder(process: $0, uses: []) }
    }

    /// The holder of a byte, to begin a sentence: `Process 4711 (importer, stopped)`.
    package func nameOwner(of byte: LockByte) -> String {
        let owners = owners(of: byte)
        guard let other = owners.first(where: { $0 != ProcessInspector.currentProcess }) else {
            return owners.isEmpty ? "Another process or thread" : "Another thread of this process"
        }
        let name = "\(StoreHolder(process: other, uses: []))"
        return name.prefix(1).uppercased() + name.dropFirst()
    }

    private func timeout(of byte: LockByte) -> StoreError {
        Self.timeout(of: byte, path, isOwnerKnown: !owners(of: byte).isEmpty, owner: nameOwner(of: byte))
    }

    /// - Parameter isOwnerKnown: Whether the system shows which process holds the lock.
    static func timeout(of byte: LockByte, _ path: String, isOwnerKnown: Bool, owner: String) -> StoreError {
        let what = "The \(byte) lock of \"\(path)\" did not become free in time."
        guard !isOwnerKnown else {
            return StoreError(
                .storeInUse, what: what, why: "\(owner) \(byte.purpose).",
                remedy: "Let it finish, end it, or wait longer. A process that dies releases its locks.")
        }
        return StoreError(
            .storeInUse, what: what,
            why: "A process of another user holds it. A user who may only read the file can hold a lock of it, too.",
            remedy: "Repeat it as root: the error then names the process. End that process, or wait longer. A process "
                + "that dies releases its locks.")
    }

    // MARK: Removing

    /// Removes the lock file, unless a process is inside `FileCoordinator` for its database: others may wait for that
    /// lock, and each of them would create a new lock file and get the lock at once.
    ///
    /// The caller holds the other locks of the file, as far as they matter. The coordinator byte is only tried, so this
    /// may be called while the locks below it in the order of locks are held, also inside the caller's own
    /// coordination.
    ///
    /// - Parameter folder: The folder in which the file is removed, whatever the folder's path names by now; nil for the one
    ///   that it names.
    /// - Returns: nil when the file was removed or did not exist; otherwise the process that coordinates, to begin a
    ///   sentence.
    package func removeUnlessCoordinated(in folder: OpenFolder? = nil) throws(SystemError) -> String? {
        guard let folder else {
            return try removeUnlessCoordinated(in: OpenFolder(opening: Files.directory(of: path)))
        }
        let name = Files.name(of: path)
        guard try folder.status(of: name) != nil else { return nil }
        guard let lock = try Self.tryLock(name, in: folder, .coordinator, .exclusive) else {
            let isOwn = owners(of: .coordinator).contains(ProcessInspector.currentProcess)
            return isOwn ? "This process" : nameOwner(of: .coordinator)
        }
        // Released after the unlink: a process that locks the removed file finds that the path no longer names it.
        defer { lock.release() }
        try folder.remove(name)
        return nil
    }

    /// Whether a file contains the table of holders, which a lock file has from the first opening of its store. A lock
    /// file without it is empty, and may be another program's.
    package static func isLibrarys(_ path: String) -> Bool {
        guard let file = try? FileDescriptor(opening: path, .readOnly, followsLinks: false) else { return false }
        return isLibrarys(file)
    }

    /// Refuses a file of another content, before it is locked or written: another user may have given the name to a file
    /// of this user, which would get the table of holders and the mode of the database.
    ///
    /// A lock file has the magic of the table before anything else is written. Without the magic, as after a write that was
    /// cut, it begins with zeros and has at most the length of a table. The beginning alone proves nothing: a disk image
    /// begins with zeros.
    /// - Throws: ``SystemError`` with `EEXIST`.
    static func requireOwn(_ file: borrowing FileDescriptor) throws(SystemError) {
        if isLibrarys(file) { return }
        if try file.status().byteCount <= TableLayout.fileBytes,
            try file.read(at: 0, byteCount: Int(LockByte.mappedBase)).allSatisfy({ $0 == 0 })
        {
            return
        }
        // Another process may have made the table meanwhile.
        if isLibrarys(file) { return }
        throw SystemError.foreign("open", file.path, "lock file")
    }

    /// The database of a lock file.
    private static func database(of path: String) -> String { String(path.dropLast("-lock".count)) }

    /// Why the file at a path may not be used as a lock file; nil where it may, and where there is none.
    package static func fault(of path: String) -> SystemError? {
        do throws(SystemError) {
            let file = try FileDescriptor(opening: path, .readOnly, followsLinks: false)
            try file.requireNoSecondName()
            try requireOwn(file)
            return nil
        } catch {
            // A file that may not be read, or is no regular one, is reported with the permissions.
            return error.isAlreadyThere || error.isSecondName || error.isLeased ? error : nil
        }
    }

    private static func isLibrarys(_ file: borrowing FileDescriptor) -> Bool {
        let count = MemoryLayout.size(ofValue: TableLayout.magic)
        guard let found = try? file.read(at: Int(LockByte.mappedBase), byteCount: count) else { return false }
        return found == withUnsafeBytes(of: TableLayout.magic, Array.init)
    }
}

/// A lock on one byte of a lock file, held until it is released or this object is deinitialized.
package final class HeldLock: Sendable {
    let byte: LockByte
    package let kind: LockKind
    private let file: Mutex<FileDescriptor?>
    private let hold: Mutex<StopHold?>
    /// Identifies the process that acquired the lock, by the number of forks before.
    private let forkCount = ForkWatch.count

    fileprivate init(
        _ descriptor: consuming FileDescriptor, _ byte: LockByte, _ kind: LockKind, _ hold: StopHold? = nil
    ) {
        self.byte = byte
        self.kind = kind
        file = Mutex(consume descriptor)
        self.hold = Mutex(hold)
    }

    deinit { release() }

    /// Releases the lock; a second call does nothing.
    package func release() {
        file.withLock { file in
            guard let descriptor = file.take() else { return }
            // Unlocked explicitly: a forked child keeps the open file, and with it the lock. The child itself must not
            // unlock: it would release its parent's lock.
            guard ForkWatch.count == forkCount else { return }
            try? descriptor.unlock(byte.range)
        }
        hold.withLock { $0 = nil }
    }
}
