import CipherDatabase
import Foundation
import KeyCustody

/// A present or former member of a repository.
public struct RepositoryMember: Hashable, Identifiable, Sendable {
    /// Its name as the author of commits: hexadecimal digits.
    public let id: String
    /// For people; it may be empty.
    public let name: String
    public let role: Role
    /// Whether an admin has removed it, or it has left.
    public let isRemoved: Bool
    /// Whether it was never admitted: its invitation was withdrawn, or another device had used it. It counts as removed.
    public let isRejected: Bool
    public let isThisStore: Bool
}

/// An invitation that a device may use.
public struct OpenInvitation: Hashable, Identifiable, Sendable {
    /// Its name in the list of members: hexadecimal digits.
    public let id: String
    /// The rights of the new member.
    public let role: Role
    /// ``RepositoryMember/id`` of the admin who made it.
    public let inviter: String
    /// By the clock of the inviting device.
    public let made: Date
    /// The end of its time. A device with a wrong clock may use it later.
    public let end: Date
}

/// Members by their names, and invitations as files.
extension ChangesetRepository {
    /// How long an invitation may be used, unless its maker says otherwise: a week.
    public static let invitationLifetime = Duration.seconds(7 * 86_400)

    /// The present and former members, by their roles and names.
    ///
    /// - Throws: `DatabaseError`.
    public func members() throws -> [RepositoryMember] {
        let (list, own) = try listing()
        let present = list.members
        return list.everMembers.compactMap { id in
            list.everMember(id).map { entry in
                RepositoryMember(
                    id: id.description, name: entry.member.name, role: entry.role, isRemoved: present[id] == nil,
                    isRejected: list.rejected.contains(id), isThisStore: id == own)
            }
        }.sorted { ($1.role, $0.name, $0.id) < ($0.role, $1.name, $1.id) }
    }

    /// The list of members, and this store.
    private func listing() throws -> (list: MemberList, own: ReplicaID) {
        try looking { work in
            var list = MemberList(repository: work.state.repository)
            try list.add(MemberRows(db: work.db).records())
            return (list, try work.index.authorID(work.state.author))
        }
    }

    /// The invitations of all admins that nobody has used or withdrawn, the oldest first, also those whose time is over.
    ///
    /// - Throws: `DatabaseError`.
    public func openInvitations() throws -> [OpenInvitation] {
        func date(_ milliseconds: UInt64) -> Date { Date(timeIntervalSince1970: Double(milliseconds) / 1_000) }
        return try listing().list.openInvitations.map { invitation in
            OpenInvitation(
                id: invitation.hash.description, role: invitation.role, inviter: invitation.inviter.description,
                made: date(invitation.time), end: date(invitation.end))
        }
    }

    /// Withdraws an invitation: no device becomes a member by it, and its secrets open no later commit. A device that has
    /// used it meanwhile, unknown to this store, is no member.
    ///
    /// Others learn of it by the next exchange of this store. To withdraw it again changes nothing.
    ///
    /// - Parameter id: ``OpenInvitation/id``.
    /// - Throws: ``MemberError`` `.notAdmin`, `.unknownInvitation`, `.invitationAccepted` (remove the member then);
    ///   `DatabaseError`.
    public func withdrawInvitation(_ id: String) throws {
        guard let invitation = RecordHash(id) else { throw MemberError.unknownInvitation }
        try withdraw(invitation)
    }

    /// Removes a member. Its later commits are refused, and it cannot read those of others. It keeps what it has read.
    ///
    /// Others learn of it by the next exchange of this store.
    ///
    /// - Parameter id: ``RepositoryMember/id``. This store may leave by its own.
    /// - Throws: ``MemberError`` `.notAdmin`, `.notAMember`, `.lastAdmin`; `DatabaseError`.
    public func removeMember(_ id: String) throws {
        guard let member = ReplicaID(id) else { throw MemberError.notAMember }
        try remove(member)
    }

    /// Makes an invitation. Who has it and its key becomes a member, once.
    ///
    /// The new device reads the list of members at the remote, so this store has to push before the other one joins.
    ///
    /// - Parameters:
    ///   - role: The rights of the new member.
    ///   - lifetime: How long it may be used, by the clock of the new device.
    ///   - source: The key of the invitation: a passphrase or a key file of its own.
    /// - Throws: ``MemberError`` `.notAdmin`; the error of the source; `DatabaseError`.
    public func invitation(
        as role: Role = .writer, for lifetime: Duration = invitationLifetime, lockedBy source: KeySource
    ) throws -> Invitation {
        try invitation(as: role, for: lifetime, lockedBy: source, address: nil).invitation
    }

    /// - Parameter address: The remote; the invitation has it without credentials.
    /// - Returns: The invitation, and ``OpenInvitation/id``.
    package func invitation(
        as role: Role, for lifetime: Duration, lockedBy source: KeySource, address: RemoteAddress?
    ) throws -> (invitation: Invitation, id: String) {
        // A key that cannot be read leaves no record of an invitation.
        let secret = try source.read()
        let end = clock().milliseconds &+ UInt64(max(0, lifetime / .milliseconds(1)))
        let content = try invite(as: role, until: end, address: address?.withoutCredentials.text ?? "")
        return (try Invitation(content, lockedBy: secret), content.record.description)
    }
}
