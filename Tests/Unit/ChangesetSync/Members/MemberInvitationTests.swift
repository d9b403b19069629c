import KeyCustody
import StoreCrypto
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Invitations of members")
struct MemberInvitationTests {
    private func content(_ list: MemberList, _ record: MemberRecord, _ key: SigningKey, _ secrets: EpochSecrets) throws
        -> InvitationContent
    {
        InvitationContent(
            repository: list.repository, record: record.hash, key: key,
            rosterSecret: try SecretBytes.random(count: 32), epochs: secrets, address: "folder:/media/stick")
    }

    @Test("a new device joins while the inviting one is offline, and both exchange commits")
    func offline() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        try a.commit()
        let (record, key) = try a.list.invite(as: .writer, until: a.now + 1000, by: a.keys, time: a.now)
        try a.sync(remote)
        let new = TestStore(
            MemberList(repository: a.repository), a.secrets, try .random(), roster: a.rosterSecret)
        try new.sync(remote)
        #expect(new.hashes == a.hashes)
        _ = try new.list.accept(record.hash, with: key, as: new.keys, named: "phone", time: a.now)
        try new.commit(key: 2)
        #expect(try new.sync(remote).sentCommits == 1)
        #expect(try a.sync(remote).receivedCommits == 1)
        #expect(a.list.members[new.keys.id]?.role == .writer && a.list.members[new.keys.id]?.member.name == "phone")
        // A further member learns of both, by the same list.
        let b = try a.admit()
        try a.sync(remote)
        try b.sync(remote)
        #expect(b.hashes == new.hashes)
    }

    @Test("an invitation that has ended, was withdrawn or was used is refused")
    func unusable() throws {
        let club = try Club()
        var list = club.list
        let new = try ReplicaKeys.random()
        let (record, key) = try list.invite(as: .writer, until: 100, by: club.x, time: 1)
        #expect(throws: MemberError.invitationExpired) {
            try list.accept(record.hash, with: key, as: new, named: "", time: 101)
        }
        #expect(throws: MemberError.wrongKeyOfInvitation) {
            var other = list
            _ = try other.accept(record.hash, with: SigningKey.random(), as: new, named: "", time: 99)
        }
        var withdrawn = list
        _ = try withdrawn.withdraw(record.hash, by: club.x, time: 101)
        #expect(throws: MemberError.invitationWithdrawn) {
            try withdrawn.accept(record.hash, with: key, as: new, named: "", time: 99)
        }
        _ = try list.accept(record.hash, with: key, as: new, named: "", time: 99)
        #expect(throws: MemberError.invitationUsed) {
            try list.accept(record.hash, with: key, as: ReplicaKeys.random(), named: "", time: 99)
        }
        // The withdrawal did not know the acceptance.
        let joined = try club.joined([list, withdrawn])
        #expect(joined.members[new.id] == nil)
        let late = try MemberRecord(
            .acceptance(invitation: record.hash, new.member(named: "")), repository: list.repository, keys: new,
            time: 101, known: [record.hash], invitation: key)
        var other = club.list
        try other.add([record, late])
        #expect(other.members[new.id] == nil)
    }

    @Test("of two devices that accept one invitation the one counts that another member knew first, and both are named")
    func usedTwice() throws {
        let club = try Club()
        var list = club.list
        let (record, key) = try list.invite(as: .writer, until: 100, by: club.x, time: 1)
        let (phone, thief) = (try ReplicaKeys.random(), try ReplicaKeys.random())
        var (one, other) = (list, list)
        _ = try one.accept(record.hash, with: key, as: phone, named: "phone", time: 2)
        _ = try other.accept(record.hash, with: key, as: thief, named: "thief", time: 2)
        var own = try club.secrets(of: club.y, in: one)
        _ = try one.beginEpoch(club.y, &own, time: 3)
        let joined = try club.joined([one, other])
        #expect(joined.members[phone.id] != nil && joined.members[thief.id] == nil)
        #expect(joined.state.usedTwice == [record.hash])
    }

    @Test("an invitation is locked by a key, and any other byte of it is a typed error")
    func lockedBytes() throws {
        let club = try Club()
        var list = club.list
        let (record, key) = try list.invite(as: .reader, until: 100, by: club.x, time: 1)
        let content = try content(list, record, key, club.secrets)
        let secret = Secret.rawKey(try RawKey(bytes: Array(repeating: 5, count: 32)))
        let invitation = try Invitation(content, lockedBy: secret)
        let opened = try Invitation(bytes: invitation.bytes).open(with: secret)
        #expect(opened.record == record.hash && opened.key.verifyingKey == key.verifyingKey)
        #expect(opened.address == content.address && opened.epochs.secrets.keys == club.secrets.secrets.keys)
        #expect(opened.rosterSecret.isEqual(to: content.rosterSecret))
        let other = Secret.rawKey(try RawKey(bytes: Array(repeating: 6, count: 32)))
        #expect(throws: MemberError.wrongKeyOfInvitation) { try invitation.open(with: other) }
        for index in invitation.bytes.indices
        where !(Invitation.Offset.derivation..<Invitation.Offset.reserved).contains(index) {
            var bytes = invitation.bytes
            bytes[index] ^= 0x10
            #expect(throws: MemberError.self) { try Invitation(bytes: bytes).open(with: secret) }
        }
        for count in 0..<invitation.bytes.count {
            #expect(throws: MemberError.self) {
                try Invitation(bytes: Array(invitation.bytes.prefix(count))).open(with: secret)
            }
        }
        #expect("\(invitation) \(content)".contains("repository"))
    }
}
