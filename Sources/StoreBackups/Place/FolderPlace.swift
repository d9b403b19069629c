import ObjectStorage
import StorePlatform
import StoreSharing
import Synchronization

/// A repository in a folder: each kind of objects has a folder in it, and the bytes of the file `lock` are its locks.
package struct FolderPlace: BackupPlace {
    static let lockName = "lock"
    private static let lockedByte: Range<Int64> = 0..<1
    /// Each store has a byte of these, by the first bytes of its identifier.
    private static let replicaBytes: Range<Int64> = 1 << 40..<1 << 48

    let path: String
    private let objects: ObjectFolder

    /// - Parameters:
    ///   - path: An existing folder.
    ///   - identity: The folder that the path has led to; nil accepts each.
    package init(_ path: String, identity: FileIdentity? = nil) {
        self.path = path
        objects = ObjectFolder(
            path: path, identity: identity, subfolder: nil, kinds: ObjectKind.allCases.map(\.rawValue),
            nameLimit: BackupLimits.objects, isName: { ObjectKind.isName($0) })
    }

    /// Opens a folder, and refuses a path with a link of another user in it. Later calls refuse another folder under the
    /// path.
    ///
    /// - Throws: `StoreError` `storeName`; `SystemError`.
    package init(verifying path: String) throws {
        let path = Files.absolute(path)
        try OtherUserLink.refuse(path)
        let identity = try OpenFolder(opening: path).status().identity
        // A link may have been there only while the folder was opened.
        try OtherUserLink.refuse(path)
        self.init(path, identity: identity)
    }

    package var description: String { path }

    /// The names in the folder.
    func names(limit: Int) throws -> [String] { try objects.openRoot().names(limit: limit) }

    package func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome { try objects.put(name, bytes) }

    package func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        try objects.get(name, limitBytes: limitBytes)
    }

    package func read(_ name: String, at offset: Int, byteCount: Int) throws -> [UInt8]? {
        try objects.read(name, at: offset, byteCount: byteCount)
    }

    /// A file counts as written by its owner, unless its mode lets others write it: somebody can then have put other
    /// bytes into it, and given it the name that they have.
    package func attributed(_ name: String, limitBytes: Int) throws -> AttributedObject? {
        guard let found = try objects.getWithStatus(name, limitBytes: limitBytes) else { return nil }
        let trusted = [0, ProcessInspector.effectiveUser, try objects.openRoot().status().owner]
        return AttributedObject(
            bytes: found.bytes,
            isUnproven: !trusted.contains(found.status.owner) || found.status.permissions & 0o022 != 0)
    }

    package func isUnproven(_ name: String) throws -> Bool { try attributed(name, limitBytes: 0)?.isUnproven ?? false }

    package func list(_ prefix: String) throws -> [ListedObject] { try objects.list(prefix) }

    package func delete(_ name: String) throws { try objects.delete(name) }

    package func delete(_ names: [String]) throws { try objects.delete(names) }

    package func deleteUnneeded(_ names: [String]) throws -> Int {
        do {
            try objects.delete(names)
            return 0
        } catch let error as SystemError where error.isPermission || error.isDirectory {
            return try names.count { name in
                do {
                    try objects.delete(name)
                    return false
                } catch let error as SystemError where error.isPermission || error.isDirectory {
                    guard try isUnproven(name) else { throw error }
                    return true
                }
            }
        }
    }

    package func removeUploads() throws -> Int { try objects.removeUploads() }

    // MARK: Locks

    package func lockForUse(isWriting: Bool, _ isCancelled: () -> Bool) throws -> any PlaceLock {
        let folder = try objects.openRoot()
        do {
            let file = try lockFile(in: folder)
            guard try wait(for: file, .shared, BackupLimits.useWait, isCancelled) else {
                throw inUse(
                    "A prune holds its lock, or a process of another user who may write it.",
                    "Try again when that process has ended: lslocks names it.")
            }
            return HeldPlaceLock(file)
        } catch let error as SystemError where !isWriting && (error.isPermission || error.isReadOnlyFilesystem) {
            // A user who may not write here, as on a read-only mount. The file may be there to be read.
            guard let file = try readableLockFile(in: folder) else { return HeldPlaceLock(nil) }
            guard try wait(for: file, .shared, BackupLimits.useWait, isCancelled) else {
                throw inUse(
                    "A prune holds its lock, or a process of another user who may write it.",
                    "Try again when that process has ended: lslocks names it.")
            }
            return HeldPlaceLock(file)
        }
    }

    package func lockForRemoval(_ isCancelled: () -> Bool) throws -> any PlaceLock {
        let file = try lockFile(in: objects.openRoot())
        guard try wait(for: file, .exclusive, BackupLimits.removalWait, isCancelled) else {
            throw inUse(
                "A backup, a restoration or a verification uses it.",
                "Try again when that has ended. Nothing was changed.")
        }
        return HeldPlaceLock(file)
    }

    package func lockReplica(of store: [UInt8]) throws -> (any PlaceLock)? {
        let file = try lockFile(in: objects.openRoot())
        let place = store.prefix(5).reduce(Int64(0)) { $0 << 8 | Int64($1) }
        let byte = Self.replicaBytes.lowerBound + place
        return try file.tryLock(byte..<byte + 1, .exclusive) ? HeldPlaceLock(file) : nil
    }

    private func lockFile(in folder: OpenFolder) throws(SystemError) -> LockableFile {
        if let file = try folder.writableFile(Self.lockName, creating: nil) { return LockableFile(file) }
        // It gets its name with its permissions: another member may open it at once.
        let first = ".new-\(String(UInt64.random(in: .min ... .max), radix: 16))"
        try folder.createFile(first, [], sharedAs: ObjectPermissions(in: folder.status()).lock)
        defer { try? folder.remove(first) }
        do throws(SystemError) {
            try folder.place(first, in: folder, Self.lockName)
        } catch  where error.isAlreadyThere {
            // Another process has made it.
        }
        guard let file = try folder.writableFile(Self.lockName, creating: nil) else {
            throw SystemError.notFound("openat", path + "/" + Self.lockName)
        }
        return LockableFile(file)
    }

    private func readableLockFile(in folder: OpenFolder) throws -> LockableFile? {
        guard try folder.status(of: Self.lockName)?.kind == .regular else { return nil }
        return LockableFile(
            try FileDescriptor(opening: path + "/" + Self.lockName, .readOnly, followsLinks: false))
    }

    private func wait(
        for file: LockableFile, _ kind: LockKind, _ limit: Duration, _ isCancelled: () -> Bool
    ) throws -> Bool {
        let deadline = ContinuousClock.now + limit
        while true {
            if try file.tryLock(Self.lockedByte, kind) { return true }
            if isCancelled() { throw CancellationError() }
            if ContinuousClock.now >= deadline { return false }
            Pause.sleep(for: BackupLimits.lockPause)
        }
    }

    private func inUse(_ why: String, _ remedy: String) -> StoreError {
        StoreError(.storeInUse, what: "The backup repository \"\(path)\" is in use.", why: why, remedy: remedy)
    }
}

/// The open lock file; closing it releases its locks.
private final class LockableFile: Sendable {
    private let descriptor: FileDescriptor

    init(_ descriptor: consuming FileDescriptor) { self.descriptor = descriptor }

    func tryLock(_ bytes: Range<Int64>, _ kind: LockKind) throws(SystemError) -> Bool {
        try descriptor.tryLock(bytes, kind)
    }
}

/// A lock that lasts as long as its file is open.
private final class HeldPlaceLock: PlaceLock {
    private let file: Mutex<LockableFile?>

    init(_ file: LockableFile?) { self.file = Mutex(file) }

    func release() { file.withLock { $0 = nil } }
}
