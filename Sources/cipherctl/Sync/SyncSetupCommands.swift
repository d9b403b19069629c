import ChangesetSync
import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import StoreTools

/// `sync init STORE`: makes a repository of tables.
struct SyncInitCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync init",
        summary: "track tables from now on, so that their commits can be exchanged with other devices",
        operands: [SyncAccess.storeOperand],
        options: SyncAccess.tableOptions + [SyncAccess.remoteOption] + SyncAccess.longOptions,
        examples: [
            "cipherctl sync init app.db --table player --remote dir:/mnt/share --key-file app.key",
            "cipherctl sync init app.db --all-tables --remote \"postgresql://app@db.example/sync?sslmode=verify-full\" "
                + "--key-file app.key",
        ],
        notes: [
            "The rows that the tables have become the first commits. The store gets a random key for its repository, with "
                + "which everything is encrypted that leaves it. Run again with more tables, it tracks these as well.",
            "Only one device begins a repository; all others join it: cipherctl sync invite, cipherctl sync join.",
        ])

    private let arguments: ParsedArguments
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        try SyncAccess.checkTables(arguments)
        remote = try SyncAccess.remote(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        SyncAccess.warnOfPassword(remote, console)
        // Before the tables are tracked.
        try RemoteOpening.requireFolder(remote)
        let access = try SyncAccess.writable(arguments, console)
        defer { access.close() }
        let tables = try access.tables(arguments, console)
        try access.warnOfNumbers(tables, console)
        try access.repository.migrate()
        try access.repository.enable(tables)
        let name = try SetupReport.sayingWhatIsDone("the tables are tracked", console) {
            try connect(access, remote, console)
        }
        let known = try access.repository.knownRemotes().map(\.name)
        try SetupReport(access, remote: name ?? known.first).print(console)
        return .ok
    }

    /// Sets a remote up.
    ///
    /// - Returns: Its name.
    private func connect(_ access: SyncAccess, _ remote: RemoteAddress?, _ console: Console) throws -> String? {
        guard let remote else { return nil }
        let progress = SyncProgress()
        return try AsyncWork.wait {
            try await access.forgettingUnused(remote) { try await access.manager(remote, progress).remote.name }
        }
    }
}

/// `sync invite STORE FILE`: writes an invitation.
struct SyncInviteCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "sync invite",
        summary: "write an invitation, with which another device joins the repository",
        operands: [SyncAccess.storeOperand, OperandSyntax("FILE", "a file that does not exist yet; its mode is 0600")],
        options: [OptionSyntax("--without-remote", "do not say where the remote is")] + SyncAccess.options
            + KeyOptions.invitation,
        examples: [
            "cipherctl sync invite app.db app.invitation --key-file app.key",
            "cipherctl sync invite app.db app.invitation --key-file app.key --invitation-raw-key-file invitation.key",
        ],
        notes: [
            "The file has the key of the repository, encrypted by the key of the invitation: who has both reads and writes "
                + "the repository. Let the two go different ways, and remove the file when the device has joined.",
            "Without an option for the key of the invitation, a new passphrase is asked for, twice.",
        ])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws { self.arguments = arguments }

    func run(_ console: Console) throws -> ExitCode {
        let file = arguments.operands[1]
        try ToolError.requireDirectory(for: file)
        guard try !Files.entryExists(file) else {
            throw CommandFailure(
                .usage, "exists", what: "\"\(file)\" is there already.", why: "An invitation replaces no file.",
                hint: "Name a file that does not exist yet.")
        }
        let access = try SyncAccess.readOnly(arguments, console)
        defer { access.close() }
        // Before a passphrase is asked for.
        _ = try access.repository.id
        let known = arguments.has("--without-remote") ? [] : try access.repository.knownRemotes().compactMap(\.address)
        if known.count > 1 { console.note("the store has several remotes: the invitation names the first one") }
        let address = known.first?.withoutCredentials
        let key = try UnlockedKey(new: KeyOptions.invitationSource(arguments, isNew: true), console)
        let invitation = try access.repository.invitation(lockedBy: key.secret, remote: address)
        try invitation.write(to: file)
        try console.report(
            json: .object([
                "store": .string(access.path), "invitation": .string(file),
                "repository": .string("\(invitation.repository)"), "epoch": .int(invitation.epoch),
                "remote": .optional(address) { .string("\($0)") },
            ]),
            lines: [
                "wrote \(file), an invitation to repository \(invitation.repository)",
                address.map { "it names the remote \($0)" } ?? "it names no remote",
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
        options: SyncAccess.tableOptions + [SyncAccess.remoteOption] + SyncAccess.longOptions + KeyOptions.invitation,
        examples: [
            "cipherctl sync join app.db app.invitation --table player --key-file app.key",
            "cipherctl sync join app.db app.invitation --all-tables --remote dir:/Volumes/share --key-file app.key "
                + "--invitation-raw-key-file invitation.key",
        ],
        notes: [
            "The store must have the tables, with the columns that the other devices have. Rows that they have already "
                + "become commits of this store. What the others have comes with `cipherctl sync run`.",
            "Without --remote the remote of the invitation is used, if it has one. For a server give --remote, where a user "
                + "is needed: an invitation has no credentials.",
        ])

    private let arguments: ParsedArguments
    private let remote: RemoteAddress?

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        try SyncAccess.checkTables(arguments)
        remote = try SyncAccess.remote(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        SyncAccess.warnOfPassword(remote, console)
        try RemoteOpening.requireFolder(remote)
        let invitation = try Invitation(contentsOf: arguments.operands[1])
        let access = try SyncAccess.writable(arguments, console)
        defer { access.close() }
        // Before a passphrase is asked for.
        try access.repository.requireRoom(for: invitation)
        let tables = try access.tables(arguments, console)
        try access.warnOfNumbers(tables, console)
        let key = try UnlockedKey(KeyOptions.invitationSource(arguments, isNew: false), console)
        let named = try access.repository.join(invitation, unlockedBy: key.secret, tables: tables)
        let name = try SetupReport.sayingWhatIsDone("the store has joined", console) {
            try connect(access, named, console)
        }
        try SetupReport(access, remote: name).print(console)
        return .ok
    }

    /// Sets up the remote that was given. That of the invitation may not be reachable from here.
    private func connect(_ access: SyncAccess, _ named: RemoteAddress?, _ console: Console) throws -> String? {
        guard let address = remote ?? named else { return nil }
        let progress = SyncProgress()
        do {
            return try AsyncWork.wait {
                try await access.forgettingUnused(address) { try await access.manager(address, progress).remote.name }
            }
        } catch {
            if remote != nil || Interruption.shared.isSet { throw error }
            console.warn(
                "the store has joined, but the remote of the invitation, \(address), cannot be used from here "
                    + "(\(ErrorReport(error).message)). Name it with --remote at the next command")
            return nil
        }
    }
}

/// The output of `sync init` and `sync join`.
private struct SetupReport {
    private let path: String
    private let summary: RepositorySummary
    private let remote: String?

    /// Sets a remote up, and says what stays if that fails.
    static func sayingWhatIsDone(
        _ done: String, _ console: Console, _ connect: () throws -> String?
    ) throws -> String? {
        do {
            return try connect()
        } catch {
            console.warn("\(done), but the remote is not set up: name it again with --remote at the next command")
            throw error
        }
    }

    init(_ access: SyncAccess, remote: String?) throws {
        (path, summary, self.remote) = (access.path, try access.repository.summary(), remote)
    }

    func print(_ console: Console) throws {
        try console.report(
            json: .object([
                "store": .string(path), "repository": .string("\(summary.repository)"),
                "author": .string("\(summary.author)"), "tables": .array(summary.tables.map(JSON.string)),
                "head": .optional(summary.head) { .string("\($0)") }, "remote": .optional(remote, JSON.string),
            ]),
            lines: [
                "repository \(summary.repository), tracked: \(CountText.list(summary.tables))",
                remote.map { "remote \($0)" } ?? "no remote yet: give --remote at the next command",
            ])
    }
}
