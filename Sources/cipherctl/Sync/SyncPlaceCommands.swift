import CipherStore
import ChangesetSync
import Foundation
import StorePlatform
import StoreTools

/// `sync members STORE`: lists the members of the repository, and removes one.
struct SyncMembersCommand: SyncCommand {
    static let nameOption = OptionSyntax(
        "--name", value: "NAME", "the name of this device for other members; none unless given")
    /// The digits of an identifier that are shown.
    static let shownDigits = 12

    static let syntax = CommandSyntax(
        name: "sync members",
        summary: "list the members of the repository, and remove one",
        operands: [SyncAccess.readOperand],
        options: [
            OptionSyntax("--remove", value: "MEMBER", "remove the member whose identifier begins with MEMBER"), .yes,
        ] + SyncAccess.longOptions,
        examples: [
            "cipherctl sync members app.db --key-file app.key",
            "cipherctl sync members app.db --remove 3f2a9c --key-file app.key",
        ],
        notes: [
            "Members are added by invitation: cipherctl sync invite.",
            "A removed member cannot read later commits, and the other members refuse the commits that it makes later. It "
                + "keeps all that it has read. Only an admin removes other members; a member may remove itself.",
        ])

    let arguments: ParsedArguments
    private let removed: String?
    var changesFiles: Bool { removed != nil }

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        removed = arguments.value("--remove")
    }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        if let removed { try remove(removed, access, console) }
        let members = try access.repository.members()
        try console.report(
            json: .object([
                "store": .string(access.path),
                "members": .array(
                    members.map { member in
                        .object([
                            "member": .string(member.id), "name": .string(member.name),
                            "role": .string("\(member.role)"), "removed": .bool(member.isRemoved),
                            "this_store": .bool(member.isThisStore),
                        ])
                    }),
            ]),
            lines: members.map { member in
                let state = member.isRemoved ? ", removed" : member.isThisStore ? ", this store" : ""
                return "\(member.id.prefix(Self.shownDigits))  \(member.name.isEmpty ? "-" : "\"\(member.name)\""), "
                    + "\(member.role)\(state)"
            })
        return .ok
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
        let progress = SyncProgress()
        do {
            try SyncExchange(access, given: nil, progress).run(.putting).throwFailure()
        } catch {
            console.warn(
                "the member is removed here, and the remotes do not have it yet (\(ErrorReport(error).message)). Run: "
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
