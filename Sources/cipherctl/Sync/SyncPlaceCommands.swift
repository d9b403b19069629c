import CipherStore
import ChangesetSync
import Foundation
import StorePlatform
import StoreTools

/// `sync members STORE`: lists the members and the open invitations, removes a member, and withdraws an invitation.
struct SyncMembersCommand: SyncCommand {
    static let nameOption = OptionSyntax(
        "--name", value: "NAME", "the name of this device for other members; none unless given")
    /// The digits of an identifier that are shown.
    static let shownDigits = 12

    static let syntax = CommandSyntax(
        name: "sync members",
        summary:
            "list the members of the repository and its open invitations, remove a member, or withdraw an invitation",
        operands: [SyncAccess.readOperand],
        options: [
            OptionSyntax("--remove", value: "MEMBER", "remove the member whose identifier begins with MEMBER"),
            OptionSyntax("--withdraw", value: "ID", "withdraw the invitation whose identifier begins with ID"), .yes,
        ] + SyncAccess.longOptions,
        examples: [
            "cipherctl sync members app.db --key-file app.key",
            "cipherctl sync members app.db --remove 3f2a9c --key-file app.key",
            "cipherctl sync members app.db --withdraw 81c04d --key-file app.key",
        ],
        notes: [
            "Members are added by invitation: cipherctl sync invite.",
            "A removed member cannot read later commits, and the other members refuse the commits that it makes later. It "
                + "keeps all that it has read. Only an admin removes other members; a member may remove itself.",
            "No device becomes a member by a withdrawn invitation, and the invitation opens no later commit. An admin may "
                + "withdraw the invitations of all admins.",
        ])

    let arguments: ParsedArguments
    private let removed: String?
    private let withdrawn: String?
    var changesFiles: Bool { removed != nil || withdrawn != nil }

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        (removed, withdrawn) = (arguments.value("--remove"), arguments.value("--withdraw"))
    }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        if let removed { try remove(removed, access, console) }
        if let withdrawn { try withdraw(withdrawn, access, console) }
        let members = try access.repository.members()
        let invitations = try access.repository.openInvitations()
        try console.report(
            json: .object([
                "store": .string(access.path),
                "members": .array(
                    members.map { member in
                        .object([
                            "member": .string(member.id), "name": .string(member.name),
                            "role": .string("\(member.role)"), "removed": .bool(member.isRemoved),
                            "admitted": .bool(!member.isRejected), "this_store": .bool(member.isThisStore),
                        ])
                    }),
                "invitations": .array(
                    invitations.map { invitation in
                        .object([
                            "id": .string(invitation.id), "role": .string("\(invitation.role)"),
                            "inviter": .string(invitation.inviter),
                            "made": .string(HistoryReport.moment(invitation.made)),
                            "end": .string(HistoryReport.moment(invitation.end)),
                        ])
                    }),
            ]),
            lines: members.map(Self.line) + invitations.map { Self.line($0, members) })
        return .ok
    }

    private static func line(_ member: RepositoryMember) -> String {
        let removed = member.isRejected ? ", never admitted" : ", removed"
        return "\(member.id.prefix(shownDigits))  \(member.name.isEmpty ? "-" : "\"\(member.name)\""), \(member.role)"
            + (member.isRemoved ? removed : member.isThisStore ? ", this store" : "")
    }

    private static func line(_ invitation: OpenInvitation, _ members: [RepositoryMember]) -> String {
        func text(_ seconds: TimeInterval) -> String { AgeText.text(UInt64(max(0, min(seconds, 1e12)))) }
        let name = members.first { $0.id == invitation.inviter }?.name ?? ""
        let inviter = name.isEmpty ? String(invitation.inviter.prefix(shownDigits)) : "\"\(name)\""
        let rest = invitation.end.timeIntervalSinceNow
        return "\(invitation.id.prefix(shownDigits))  invitation as \(invitation.role), by \(inviter), "
            + "\(text(-invitation.made.timeIntervalSinceNow)) old, "
            + (rest > 0 ? "ends in \(text(rest))" : "its time is over")
    }

    private func withdraw(_ text: String, _ access: SyncAccess, _ console: Console) throws {
        let found = try access.repository.openInvitations().filter { $0.id.hasPrefix(text.lowercased()) }
        guard text.count >= 4, let invitation = found.first, found.count == 1 else {
            throw MemberError.unknownInvitation
        }
        try access.repository.withdrawInvitation(invitation.id)
        send(access, console, done: "the invitation is withdrawn here")
    }

    private func remove(_ text: String, _ access: SyncAccess, _ console: Console) throws {
        let found = try access.repository.members().filter { !$0.isRemoved && $0.id.hasPrefix(text.lowercased()) }
        guard text.count >= 4, let member = found.first, found.count == 1 else { throw MemberError.notAMember }
        let name = member.name.isEmpty ? "" : " \"\(member.name)\""
        let who = "\(member.id.prefix(Self.shownDigits))\(name)"
        try Confirmation.require(
            member.isThisStore
                ? "This store, the member \(who), will leave the repository. Others will refuse its later commits."
                : "The member \(who) will be removed, and its later commits refused.",
            arguments)
        try access.repository.removeMember(member.id)
        send(access, console, done: "the member is removed here")
    }

    private func send(_ access: SyncAccess, _ console: Console, done: String) {
        let progress = SyncProgress()
        do {
            try SyncExchange(access, given: nil, progress).run(.putting).throwFailure()
        } catch {
            console.warn(
                "\(done), and the remotes do not have it yet (\(ErrorReport(error).message)). Run: "
                    + "cipherctl sync run")
        }
    }
}

/// `sync remotes STORE`: lists the remotes of a store, adds one and forgets one.
struct SyncRemotesCommand: SyncCommand {
    static let syntax = CommandSyntax(
        name: "sync remotes",
        summary: "list the remotes of a store, add one, or forget one",
        operands: [SyncAccess.readOperand],
        options: [
            OptionSyntax("--add", value: "R", "a remote, dir:PATH or postgresql://..., which gets all commits"),
            OptionSyntax("--remove", value: "R", "forget this remote; its objects stay there"),
        ] + SyncAccess.longOptions,
        examples: [
            "cipherctl sync remotes app.db --key-file app.key",
            "cipherctl sync remotes app.db --add dir:/mnt/stick --key-file app.key",
        ],
        notes: [
            "A store may have several remotes: it sends the commits of each to the other ones. The next cipherctl sync run of "
                + "any member fills an emptied or older remote again."
        ])

    let arguments: ParsedArguments
    private let added: RemoteAddress?
    private let removed: RemoteAddress?
    var changesFiles: Bool { added != nil || removed != nil }

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        added = try SyncRemotes.address(arguments, "--add")
        removed = try SyncRemotes.address(arguments, "--remove")
    }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        SyncRemotes.warnOfPassword(added, console)
        if let added {
            try SyncExchange(access, given: added, SyncProgress()).run().throwFailure()
        }
        if let removed, try !access.repository.forget(remote: removed.name) {
            throw UsageError(
                "The store has no remote \(removed.name).",
                hint: "It has: \(CountText.list(try access.repository.remoteNames())).")
        }
        let status = try SyncStatusReport(access.repository)
        try console.report(
            json: .object(["store": .string(access.path), "remotes": status.remotesJSON]),
            lines: status.remoteLines)
        return .ok
    }
}
