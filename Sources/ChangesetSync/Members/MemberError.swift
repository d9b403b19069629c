/// Why a record of members cannot be made or an invitation cannot be used. Nothing was changed then.
public enum MemberError: String, CaseIterable, Error, Hashable, Sendable {
    case nameTooLong
    case notAdmin
    /// The last admin cannot leave: after it nobody could invite or remove a member.
    case lastAdmin
    case notAMember
    case alreadyAMember
    /// The list of members lacks the invitation.
    case invitationMissing
    case invitationExpired
    case invitationUsed
    case invitationWithdrawn
    /// No admin of the repository has made an invitation of this name.
    case unknownInvitation
    /// A device has become a member by it, so it cannot be withdrawn.
    case invitationAccepted
    case notAnInvitation
    case damagedInvitation
    case newerInvitation
    case wrongKeyOfInvitation
    case otherRepository
    /// Something is at the place of a new invitation.
    case invitationExists
}

extension MemberError: CustomStringConvertible {
    public var description: String { "\(reason) \(remedy)" }

    package var reason: String {
        switch self {
        case .nameTooLong: "The name of a member has more than \(ExchangeLimits.memberNameBytes) bytes."
        case .notAdmin: "This replica is no admin of the repository."
        case .lastAdmin:
            "The member is the last admin of the repository. Without one, nobody invites or removes members."
        case .notAMember: "The replica is no member of the repository."
        case .alreadyAMember: "The replica is a member of the repository already."
        case .invitationMissing: "The list of members at the remote lacks the invitation."
        case .invitationExpired: "The invitation has expired."
        case .invitationUsed: "Another device has used the invitation."
        case .invitationWithdrawn: "An admin has withdrawn the invitation, or removed the admin who made it."
        case .unknownInvitation: "The repository has no invitation of this name."
        case .invitationAccepted: "A device has become a member by the invitation."
        case .notAnInvitation: "The bytes are no invitation to a repository."
        case .damagedInvitation: "The invitation is damaged."
        case .newerInvitation: "A later version of this library has made the invitation."
        case .wrongKeyOfInvitation: "The key does not open the invitation, or the invitation was forged."
        case .otherRepository: "The invitation is for another repository."
        case .invitationExists: "A file is at the place of the new invitation, and an invitation replaces no file."
        }
    }

    package var remedy: String {
        switch self {
        case .nameTooLong: "Give the member a shorter name."
        case .notAdmin: "Ask an admin."
        case .lastAdmin: "Invite another admin first."
        case .notAMember, .invitationExpired, .invitationUsed, .invitationWithdrawn:
            "Ask an admin for a new invitation."
        case .unknownInvitation: "Sync the store, and list its open invitations."
        case .invitationAccepted: "Remove the member."
        case .alreadyAMember: "Sync the store."
        case .invitationMissing: "Sync the store of the inviting device with this remote."
        case .notAnInvitation: "Give the bytes that the inviting device has written."
        case .damagedInvitation: "Copy the invitation again, or ask for a new one."
        case .newerInvitation: "Update this program."
        case .wrongKeyOfInvitation: "Check the passphrase of the invitation, which is not that of a store."
        case .otherRepository: "Use the invitation with a store of its repository."
        case .invitationExists: "Name a file that does not exist yet."
        }
    }
}
