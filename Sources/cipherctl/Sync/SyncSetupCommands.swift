import CipherStore
import ChangesetSync
import KeyCustody
import StorePlatform
import StoreTools

/// `sync init STORE`: begins a repository, or tracks more tables.
struct SyncInitCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync init",
        summary: "track tables from now on, so that their commits can be exchanged with other devices",
        operands: [SyncAccess.storeOperand],
        options: SyncTables.options + [SyncMembersCommand.nameOption, SyncRemotes.option] + SyncAccess.longOptions,
        examples: [
            "cipherctl sync init app.db --table player --remote dir:/mnt/share --key-file app.key",
            "cipherctl sync init app.db --all-tables --remote \"postgresql://app@db.example/sync?sslmode=verify-full\" "
                + "--key-file app.key",
        ],
        notes: [
            "The rows that the tables have become the first commits. The store is the first member, and an admin. In a "
                + "store that has a repository the command tracks further tables.",
            "Only one device begins a repository; all others join it: cipherctl sync invite, cipherctl sync join.",
        ])

    private let arguments: ParsedArguments
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        try SyncTables.check(arguments)
        remote = try SyncRemotes.address(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        SyncRemotes.warnOfPassword(remote, console)
        // Before the tables are tracked.
        try SyncRemotes.requireFolder(remote)
        let store = try SyncAccess.writable(arguments, console)
        defer { try? store.close() }
        var tables = try SyncTables.named(by: arguments, in: store, console)
        if try ChangesetRepository.repositoryID(of: store) != nil {
            let tracked = try ChangesetRepository(existing: store).status().tables
            tables = tracked + tables.filter { !tracked.contains($0) }
        }
        let repository = try ChangesetRepository(
            store, tracking: .only(tables), named: arguments.value(SyncMembersCommand.nameOption.name) ?? "")
        let access = SyncAccess(
            path: BackupBundle.database(meantBy: arguments.operands[0]), store: store, repository: repository)
        try SyncSetup(access, arguments).complete(with: remote, console, done: "the tables are tracked")
        return .ok
    }
}

/// `sync invite STORE FILE`: writes an invitation.
struct SyncInviteCommand: SyncCommand {
    static let writes = true
    static let syntax = CommandSyntax(
        name: "sync invite",
        summary: "write an invitation, with which one other device joins the repository",
        operands: [SyncAccess.storeOperand, OperandSyntax("FILE", "a file that does not exist yet; its mode is 0600")],
        options: [
            OptionSyntax("--role", value: "ROLE", "reader, writer or admin; writer unless given"),
            OptionSyntax("--for", value: "AGE", "how long it may be used, as 2h or 30d; 7d unless given"),
            OptionSyntax("--without-remote", "do not say where the remote is"), SyncRemotes.option,
        ] + SyncAccess.longOptions + KeyOptions.invitation,
        examples: [
            "cipherctl sync invite app.db app.invitation --key-file app.key",
            "cipherctl sync invite app.db app.invitation --role reader --for 1d --key-file app.key "
                + "--invitation-raw-key-file invitation.key",
        ],
        notes: [
            "Who has the file and its key becomes a member, once, until the time is over. Let the two go different ways, and "
                + "remove the file when the device has joined. The command puts the invitation at the remotes, where the new "
                + "device looks it up.",
            "Without an option for the key of the invitation, it asks for a new passphrase, twice.",
        ])

    let arguments: ParsedArguments
    private let remote: RemoteAddress?
    private let role: Role
    private let lifetime: Duration

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        remote = try SyncRemotes.address(arguments)
        let name = arguments.value("--role") ?? "writer"
        guard let role = Role.allCases.first(where: { "\($0)" == name }) else {
            throw UsageError("There is no such role.", hint: "Give --role reader, writer or admin.")
        }
        self.role = role
        lifetime =
            try arguments.value("--for").map { text in
                guard let seconds = AgeText.seconds(text), seconds > 0 else {
                    throw UsageError("--for is not a time.", hint: "For example: --for 2d")
                }
                return .seconds(seconds)
            } ?? ChangesetRepository.invitationLifetime
    }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        let file = arguments.operands[1]
        try ToolError.requireDirectory(for: file)
        if try Files.entryExists(file) { throw MemberError.invitationExists }
        SyncRemotes.warnOfPassword(remote, console)
        let progress = SyncProgress()
        let exchange = try SyncExchange(access, given: remote, progress)
        // Before a passphrase is asked for.
        guard try access.repository.members().contains(where: { $0.isThisStore && $0.role == .admin && !$0.isRemoved })
        else { throw MemberError.notAdmin }
        if exchange.names.count > 1, remote == nil, !arguments.has("--without-remote") {
            console.note("the store has several remotes: the invitation names the first one")
        }
        let address =
            try arguments.has("--without-remote") ? nil : exchange.names.first.map { try RemoteAddress(named: $0) }
        let key = try UnlockedKey(new: KeyOptions.invitationSource(arguments, isNew: true), console)
        let (invitation, id) = try access.repository.invitation(
            as: role, for: lifetime, lockedBy: key.source, address: address)
        // The new device finds the invitation in the list of members at the remote.
        try exchange.run(.putting).throwFailure()
        try invitation.write(to: file)
        try console.report(
            json: .object([
                "store": .string(access.path), "invitation": .string(file), "id": .string(id),
                "repository": .string("\(invitation.repository)"), "role": .string("\(role)"),
                "remote": .optional(address) { .string($0.withoutCredentials.name) },
            ]),
            lines: [
                "wrote \(file): one device becomes a \(role) within \(AgeText.text(UInt64(lifetime.components.seconds)))",
                "its identifier is \(id.prefix(SyncMembersCommand.shownDigits)); to withdraw it: "
                    + SuggestedCommand.completing(
                        "cipherctl sync members --withdraw \(id.prefix(SyncMembersCommand.shownDigits))"),
                address.map { "it names the remote \($0.withoutCredentials.name)" } ?? "it names no remote",
            ])
        return .ok
    }
}

/// `sync join STORE FILE`: joins a repository.
struct SyncJoinCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync join",
        summary: "join a repository by an invitation",
        operands: [SyncAccess.storeOperand, OperandSyntax("FILE", "the invitation")],
        options: SyncTables.options + [
            SyncMembersCommand.nameOption, SyncRemotes.option,
            OptionSyntax("--replace", "join again as a new member, or leave another repository; the rows stay"),
        ] + SyncAccess.longOptions + KeyOptions.invitation,
        examples: [
            "cipherctl sync join app.db app.invitation --table player --key-file app.key",
            "cipherctl sync join app.db app.invitation --all-tables --remote dir:/Volumes/share --key-file app.key "
                + "--invitation-raw-key-file invitation.key",
            "cipherctl sync join app.db app.invitation --replace --key-file app.key",
        ],
        notes: [
            "Rows that the tables have already become commits of this store, and are joined with the rows of the other "
                + "members. Rows of a table that the store lacks, and values of such a column, wait until it is created.",
            "A store that has the repository needs --replace and no tables: it keeps its tables, rows and commits, and "
                + "becomes a new member. Commits that the others refused are sent as its own.",
            "Without --remote the command uses the remote that the invitation names. For a server that needs a user give "
                + "--remote: an invitation has no credentials.",
        ])

    private let arguments: ParsedArguments
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        if SyncTables.areNamed(by: arguments) || !arguments.has("--replace") { try SyncTables.check(arguments) }
        remote = try SyncRemotes.address(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        SyncRemotes.warnOfPassword(remote, console)
        try SyncRemotes.requireFolder(remote)
        let invitation = try Invitation(contentsOf: arguments.operands[1])
        let store = try SyncAccess.writable(arguments, console)
        defer { try? store.close() }
        try requireRoom(for: invitation, in: store)
        let tables = try tables(for: invitation, in: store, console)
        let key = try UnlockedKey(KeyOptions.invitationSource(arguments, isNew: false), console)
        let content = try invitation.open(with: key.secret)
        let address = try remote ?? offered(content.address, console)
        guard let address else {
            throw UsageError("The invitation names no remote.", hint: "Give --remote dir:PATH or postgresql://...")
        }
        try SyncRemotes.requireFolder(address)
        let progress = SyncProgress()
        progress.begin("joining")
        let objects = MeteredStore(try SyncRemotes.objects(at: address, of: invitation.repository), progress)
        let repository = try Interruption.explaining {
            try ChangesetRepository.join(
                store, content, at: objects, remoteName: address.name, tracking: .only(tables),
                named: arguments.value(SyncMembersCommand.nameOption.name) ?? "")
        }
        progress.end()
        let access = SyncAccess(
            path: BackupBundle.database(meantBy: arguments.operands[0]), store: store, repository: repository)
        // From here on it is a remote of the store, whatever happens: the other devices are there.
        try repository.remember(remote: address.name)
        try SyncSetup(access, arguments).complete(with: address, console, done: "the store has joined")
        return .ok
    }

    /// The remote that the author of an invitation chose; nil for none.
    private func offered(_ address: String, _ console: Console) throws -> RemoteAddress? {
        guard !address.isEmpty else { return nil }
        let address = try RemoteAddress(offered: address)
        // libpq finds a user and a password for it in the environment and the files of this machine.
        if address.kind == .postgreSQL { console.note("the invitation names the server \(address)") }
        return address
    }

    /// The tables to track: a store that joins again keeps those that it tracks.
    private func tables(for invitation: Invitation, in store: SharedStore, _ console: Console) throws -> [String] {
        let isAgain = try ChangesetRepository.repositoryID(of: store) == invitation.repository
        let tracked = isAgain ? try ChangesetRepository(existing: store).status().tables : []
        if isAgain, !SyncTables.areNamed(by: arguments) { return tracked }
        try SyncTables.check(arguments)
        return try tracked + SyncTables.named(by: arguments, in: store, console).filter { !tracked.contains($0) }
    }

    /// Refuses to leave a repository unasked: commits that no remote has would go.
    private func requireRoom(for invitation: Invitation, in store: SharedStore) throws {
        guard let present = try ChangesetRepository.repositoryID(of: store), !arguments.has("--replace") else { return }
        if present == invitation.repository { throw MemberError.alreadyAMember }
        throw CommandFailure(
            .usage, "otherRepository", what: "The store has a repository of its own.",
            why: "It would leave that one, and commits that no remote has would be lost.",
            hint: "To leave it, add --replace. The rows stay.")
    }
}

/// The end of `sync init` and `sync join`: the first exchange, and the report.
private struct SyncSetup {
    private let access: SyncAccess
    private let arguments: ParsedArguments

    init(_ access: SyncAccess, _ arguments: ParsedArguments) { (self.access, self.arguments) = (access, arguments) }

    func complete(with remote: RemoteAddress?, _ console: Console, done: String) throws {
        let progress = SyncProgress()
        defer { progress.end() }
        do {
            if let remote { try SyncExchange(access, given: remote, progress).run().throwFailure() }
        } catch {
            console.warn("\(done), and the exchange with the remote has not ended")
            throw error
        }
        let status = try access.repository.status()
        try console.report(
            json: .object([
                "store": .string(access.path), "repository": .string(status.repository),
                "member": .string(status.replica), "tables": .array(status.tables.map(JSON.string)),
                "head": .optional(status.head, JSON.string),
                "remotes": .array(status.remotes.map { .string($0.name) }),
            ]),
            lines: [
                "repository \(status.repository), tracked: \(CountText.list(status.tables))",
                status.remotes.isEmpty
                    ? "no remote yet: give --remote at the next command"
                    : "remotes: \(CountText.list(status.remotes.map(\.name)))",
            ])
    }
}
