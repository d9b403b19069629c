import CipherDatabase
import StoreCrypto

/// The members of the repository.
extension ChangesetRepository {
    /// The part of the store that an exchange sees.
    package func store() throws -> RepositoryStore { try RepositoryStore(writer, replica, clock: clock) }

    func memberList(_ store: RepositoryStore) throws -> MemberList {
        var list = MemberList(repository: store.repository)
        try list.add(store.memberRecords())
        return list
    }

    /// Makes an invitation. Who has its content becomes a member, once, until the end.
    ///
    /// - Parameters:
    ///   - end: Milliseconds since 1970, by the clock of the new device.
    ///   - address: The place of a remote, or nothing.
    /// - Throws: ``MemberError`` `.notAdmin`.
    package func invite(
        as role: Role = .writer, until end: UInt64, address: String = ""
    ) throws -> InvitationContent {
        let store = try store()
        var list = try memberList(store)
        let (record, key) = try list.invite(as: role, until: end, by: store.keys, time: clock().milliseconds)
        try store.add([record])
        return InvitationContent(
            repository: store.repository, record: record.hash, key: key, rosterSecret: store.rosterSecret,
            epochs: try store.epochSecrets(), address: address)
    }

    /// Withdraws an invitation, and begins an epoch whose secret it lacks.
    ///
    /// - Throws: ``MemberError`` `.notAdmin`, `.unknownInvitation`, `.invitationAccepted`.
    func withdraw(_ invitation: RecordHash) throws {
        let store = try store()
        var (list, secrets) = (try memberList(store), try store.epochSecrets())
        let time = clock().milliseconds
        guard let record = try list.withdraw(invitation, by: store.keys, time: time) else { return }
        let epoch = try list.beginEpoch(store.keys, &secrets, time: time)
        try store.keep(secrets)
        try store.add([record, epoch])
    }

    /// Removes a member. Commits that it makes from here on are refused, and it cannot read those of others.
    ///
    /// - Throws: ``MemberError`` `.notAdmin`, `.notAMember`, `.lastAdmin`.
    package func remove(_ member: ReplicaID) throws {
        let store = try store()
        var (list, secrets) = (try memberList(store), try store.epochSecrets())
        let time = clock().milliseconds
        try list.requireRemovable(member, by: store.keys.id)
        // The commit comes first: it says which commits of the member are known, and a removal without it holds nothing back.
        let vector = try writer.unsafeReentrantWrite { db in
            _ = try replica.commitEvents(db, clock: clock(), [.remove(member)])
            return try replica.inspect(db, clock: clock()) { try $0.vector() }
        }
        let records = try list.remove(member, knowing: vector, by: store.keys, &secrets, time: time)
        try store.keep(secrets)
        try store.add(records)
    }
}
