import ChangesetSync
import StorePlatform
import StoreSharing

/// The remotes that a command means.
struct SyncRemotes {
    /// A remote, by the name under which the store remembers it.
    struct Remote {
        let name: String
        let address: RemoteAddress
        /// Whether the store remembers it.
        let isKnown: Bool
        let objects: any ObjectStore
    }

    let all: [Remote]

    static let option = OptionSyntax(
        "--remote", value: "R", "only this remote, dir:PATH or postgresql://...; the store remembers a new one")

    /// The value of `--remote`; nil without it. Warns of a password in it.
    ///
    /// - Throws: ``UsageError``, which repeats nothing of it.
    static func address(_ arguments: ParsedArguments, _ option: String = option.name) throws -> RemoteAddress? {
        guard let text = arguments.value(option) else { return nil }
        do {
            return try RemoteAddress(text)
        } catch let error as RemoteAddressError {
            throw UsageError(error.reason, hint: error.remedy)
        }
    }

    static func warnOfPassword(_ address: RemoteAddress?, _ console: Console) {
        guard let address, address.hasPassword else { return }
        console.warn(
            "every user of the machine sees a password in --remote in the list of processes, and the shell keeps it in its "
                + "history; better: a file named by PGPASSFILE, or ~/.pgpass")
    }

    /// - Parameter given: The remote of `--remote`; nil for all that the store remembers.
    /// - Throws: ``UsageError`` if there is none.
    init(_ repository: ChangesetRepository, given: RemoteAddress?, _ progress: SyncProgress) throws {
        let names = try repository.remoteNames()
        let id = try repository.repositoryID()
        let addresses = try given.map { [$0] } ?? names.map { try RemoteAddress(named: $0) }
        guard !addresses.isEmpty else {
            throw UsageError(
                "The store has no remote yet.", hint: "Give --remote dir:PATH or --remote postgresql://...")
        }
        all = try addresses.map { address in
            Remote(
                name: address.name, address: address, isKnown: names.contains(address.name),
                objects: MeteredStore(try Self.objects(at: address, of: id), progress))
        }
    }

    /// The objects of a repository at a remote. A folder that is missing is not made.
    static func objects(at address: RemoteAddress, of repository: RepositoryID) throws -> any ObjectStore {
        switch address.kind {
        case .directory(let path): FolderStore(path: path, repository: repository)
        case .postgreSQL: try ServerRemote.make(address, repository)
        }
    }

    /// Refuses a folder that is not there, or behind a symbolic link of another user.
    static func requireFolder(_ address: RemoteAddress?) throws {
        guard case .directory(let path) = address?.kind else { return }
        let kind = try Files.kind(path)
        if kind == .directory { return try OtherUserLink.refuse(path) }
        guard kind == nil else {
            throw CommandFailure(
                .usage, "notFolder", what: "\"\(path)\" is no folder.",
                why: "It is a file, a device, a pipe or a socket.", hint: "Give the name of a folder.")
        }
        throw CommandFailure(
            .noSuchStore, "noDirectory", what: "There is no folder \"\(path)\".",
            why: "A remote is not created by itself: it could be a share that is not mounted.",
            hint: "Mount it, or make it with mkdir, and run the command again.")
    }
}

/// Servers and folders whose traffic is shown, and that a signal ends.
struct MeteredStore: ObjectStore {
    private let base: any ObjectStore
    private let progress: SyncProgress

    init(_ base: any ObjectStore, _ progress: SyncProgress) { (self.base, self.progress) = (base, progress) }

    var description: String { base.description }

    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome {
        try Self.checkSignal()
        let outcome = try base.put(name, bytes)
        progress.add(bytes: bytes.count)
        return outcome
    }

    func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        try Self.checkSignal()
        let bytes = try base.get(name, limitBytes: limitBytes)
        progress.add(bytes: bytes?.count ?? 0)
        return bytes
    }

    func list(_ prefix: String) throws -> [ListedObject] {
        try Self.checkSignal()
        return try base.list(prefix)
    }

    func delete(_ name: String) throws {
        try Self.checkSignal()
        try base.delete(name)
    }

    private static func checkSignal() throws { if Interruption.hasArrived { throw CancellationError() } }
}
