import Dispatch
import StorePlatform
import Synchronization

/// A folder as a remote: on this machine, on a mounted share, or synced by another program.
///
/// There are no locks. A file appears under its name as a whole and durable, and never changes; two writers of one name
/// agree by comparing bytes. So any number of processes may use the folder, and each may be killed at any moment.
/// The files: Docs/Formats/Envelope.md.
///
/// Symbolic links inside the folder are not followed. Files with other names are ignored.
public final class DirectoryRemote: SyncRemote {
    public let name: String
    public let repository: RepositoryID

    private let isShared: Bool
    fileprivate let openRoot: @Sendable () throws(SystemError) -> any RemoteFolder
    fileprivate let durable = DurableFolders()
    private let hasSwept = Atomic<Bool>(false)
    /// Calls wait for disks and networks, which tasks of the program must not.
    private let queue = DispatchQueue(label: "CipherStore.DirectoryRemote", attributes: .concurrent)

    /// - Parameters:
    ///   - path: The folder, which must exist: a share that is not mounted must not be taken for an empty remote. It may
    ///     be a symbolic link. A relative path is taken from the current directory.
    ///   - sharedWithOthers: Whether the folder may hold other repositories as well. Otherwise a folder that holds only
    ///     others is taken for a wrong address.
    public convenience init(path: String, repository: RepositoryID, sharedWithOthers: Bool = false) {
        let place = RemoteAddress.normalized(path)
        self.init(path: place, repository: repository, sharedWithOthers: sharedWithOthers) { () throws(SystemError) in
            try SystemFolder(opening: place)
        }
    }

    init(
        path: String, repository: RepositoryID, sharedWithOthers: Bool = false,
        opening openRoot: @escaping @Sendable () throws(SystemError) -> any RemoteFolder
    ) {
        name = "dir:" + RemoteAddress.normalized(path)
        self.repository = repository
        isShared = sharedWithOthers
        self.openRoot = openRoot
    }

    public func put(_ objects: [RemoteObject]) async throws -> [PutResult] {
        try await run { call in
            try RemoteError.check(objects, of: self.repository, at: self.name)
            guard !objects.isEmpty else { return [] }
            let root = try self.openRoot()
            try self.refuseOthers(in: root)
            // Before anything is created: an emptied remote may be a share that is not mounted.
            let present = try DirectoryFolders.open(
                in: root, self.repository, remote: self.name, durable: self.durable)
            try DirectoryReader(remote: self.name, folders: present).checkPredecessors(of: objects)
            let folders = try DirectoryFolders.make(
                in: root, self.repository, remote: self.name, durable: self.durable)
            let writer = try DirectoryWriter(folders)
            if !self.hasSwept.exchange(true, ordering: .relaxed) { writer.removeAbandonedFiles() }
            return try writer.put(objects, while: call.check)
        }
    }

    public func list(after cursor: RemoteCursor, limit: Int) async throws -> RemotePage {
        try await run { call in
            let root = try self.openRoot()
            try self.refuseOthers(in: root)
            let folders = try DirectoryFolders.open(
                in: root, self.repository, remote: self.name, durable: self.durable)
            let reader = DirectoryReader(remote: self.name, folders: folders)
            let entries = max(1, min(limit, Limits.remotePageEntries))
            return try reader.list(after: cursor, limit: entries, while: call.check)
        }
    }

    public func get(_ ids: [ObjectID]) async throws -> [RemoteObject] {
        try await run { call in
            let folders = try DirectoryFolders.open(
                in: self.openRoot(), self.repository, remote: self.name, durable: self.durable)
            let reader = DirectoryReader(remote: self.name, folders: folders)
            return try reader.get(ids, of: self.repository, while: call.check)
        }
    }

    /// The repositories that the folder holds, in the order of their names.
    public func repositories() async throws -> [RepositoryID] {
        try await run { _ in try Self.repositories(in: self.openRoot()) }
    }

    private static func repositories(in root: any RemoteFolder) throws -> [RepositoryID] {
        try root.names(limit: Limits.remoteAuthors).compactMap { RepositoryID($0) }
            .filter { try root.status(of: $0.description)?.kind == .directory }.sorted()
    }

    fileprivate func refuseOthers(in root: any RemoteFolder) throws {
        guard !isShared, try root.status(of: repository.description) == nil else { return }
        let found = try Self.repositories(in: root)
        if !found.isEmpty { throw RemoteError.otherRepository(remote: name, found: found) }
    }

    public var compaction: (any RemoteCompaction)? { self }

    /// Whether a call shall stop.
    fileprivate final class Call: Sendable {
        private let isCancelled = Atomic<Bool>(false)

        func cancel() { isCancelled.store(true, ordering: .relaxed) }

        @Sendable func check() throws {
            if isCancelled.load(ordering: .relaxed) { throw CancellationError() }
        }
    }

    fileprivate func run<Result: Sendable>(_ work: @escaping @Sendable (Call) throws -> Result) async throws -> Result {
        let call = Call()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                queue.async {
                    do {
                        try call.check()
                        continuation.resume(returning: try work(call))
                    } catch let error as SystemError {
                        continuation.resume(throwing: RemoteError.unavailable(remote: self.name, error))
                    } catch {
                        continuation.resume(throwing: error)
                    }
                }
            }
        } onCancel: {
            call.cancel()
        }
    }
}

extension DirectoryRemote: RemoteCompaction {
    public func acknowledge(_ acknowledgement: RemoteAcknowledgement) async throws {
        try await run { _ in
            let root = try self.openRoot()
            try self.refuseOthers(in: root)
            let folders = try DirectoryFolders.make(
                in: root, self.repository, remote: self.name, durable: self.durable)
            try DirectoryCompaction(folders: folders).put(acknowledgement)
        }
    }

    public func acknowledgements() async throws -> [RemoteAcknowledgement] {
        try await run { _ in
            let root = try self.openRoot()
            try self.refuseOthers(in: root)
            let folders = try DirectoryFolders.open(
                in: root, self.repository, remote: self.name, durable: self.durable)
            return try folders.map { try DirectoryCompaction(folders: $0).all() } ?? []
        }
    }

    public func delete(
        _ objects: [ObjectID], through cursor: RemoteCursor, except needed: Set<ObjectID>
    ) async throws {
        try await run { call in
            let folders = try DirectoryFolders.open(
                in: self.openRoot(), self.repository, remote: self.name, durable: self.durable)
            guard let folders else { return }
            try DirectoryCompaction(folders: folders).delete(
                objects, through: cursor, except: needed, while: call.check)
        }
    }
}
