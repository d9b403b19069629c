import StoreCrypto

/// Admitting a device that is not here yet.
extension MemberList {
    /// Makes an invitation. Who has its private key becomes a member, once, until the end.
    ///
    /// - Parameter end: Milliseconds since 1970, by the clock of the new device.
    /// - Throws: ``MemberError`` `notAdmin`.
    mutating func invite(
        as role: Role, until end: UInt64, by keys: ReplicaKeys, time: UInt64
    ) throws -> (record: MemberRecord, key: SigningKey) {
        try requireAdmin(keys)
        let key = try SigningKey.random()
        return (try make(.invitation(key.verifyingKey, role, end: end), by: keys, time: time), key)
    }

    /// Makes this replica a member. The inviting device need not be there: the key of the invitation signs the entry.
    ///
    /// - Throws: ``MemberError`` `invitationMissing` if the list lacks it or a record that it knows, `invitationExpired`, `invitationUsed`,
    ///   `invitationWithdrawn`, `alreadyAMember`.
    mutating func accept(
        _ invitation: RecordHash, with key: SigningKey, as keys: ReplicaKeys, named name: String, time: UInt64
    ) throws -> MemberRecord {
        guard everMember(keys.id) == nil else { throw MemberError.alreadyAMember }
        guard let record = ordered.first(where: { $0.hash == invitation }),
            case .invitation(_, _, let end) = record.content
        else { throw MemberError.invitationMissing }
        guard time <= end else { throw MemberError.invitationExpired }
        if let listed = state.invitations[invitation] {
            if listed.isWithdrawn { throw MemberError.invitationWithdrawn }
            if listed.isUsed { throw MemberError.invitationUsed }
        }
        let acceptance = try make(
            .acceptance(invitation: invitation, keys.member(named: name)), by: keys, time: time, invitation: key)
        guard members[keys.id] != nil else { throw MemberError.wrongKeyOfInvitation }
        return acceptance
    }

    /// Withdraws an invitation: an acceptance that is not known here does not count, and nobody seals with a secret that the
    /// invitation has.
    ///
    /// - Returns: The record; nil if the invitation was withdrawn already.
    /// - Throws: ``MemberError`` `notAdmin`, `unknownInvitation`, `invitationAccepted`.
    mutating func withdraw(_ invitation: RecordHash, by keys: ReplicaKeys, time: UInt64) throws -> MemberRecord? {
        try requireAdmin(keys)
        guard let listed = state.invitations[invitation] else { throw MemberError.unknownInvitation }
        if listed.isWithdrawn { return nil }
        if listed.isUsed { throw MemberError.invitationAccepted }
        return try make(.withdrawal(invitation: invitation), by: keys, time: time)
    }
}
