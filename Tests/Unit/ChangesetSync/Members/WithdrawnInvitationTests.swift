import StoreCrypto
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Invitations that an admin withdraws")
struct WithdrawnInvitationTests {
    /// A list with an invitation, and what an unsuspecting or hostile device makes of it without the withdrawal.
    private func accepted(
        _ list: MemberList, _ record: MemberRecord, _ key: SigningKey
    ) throws -> (MemberList, ReplicaKeys) {
        let new = try ReplicaKeys.random()
        var accepting = list
        _ = try accepting.accept(record.hash, with: key, as: new, named: "new", time: 99)
        return (accepting, new)
    }

    @Test("each admin can withdraw each invitation: an acceptance that the withdrawal did not know does not count")
    func everyAdmin() throws {
        let club = try Club()
        let z = try ReplicaKeys.random()
        var base = club.list
        // An admin by an admin: junior to each member that x admits.
        _ = try base.admit(z.member(named: "z"), as: .admin, by: club.y, time: 6)
        for (inviter, admin) in [(club.x, club.x), (club.x, club.y), (club.x, z), (club.y, club.x), (z, club.y)] {
            var list = base
            let (record, key) = try list.invite(as: .writer, until: 100, by: inviter, time: 7)
            let (accepting, new) = try accepted(list, record, key)
            var withdrawn = list
            _ = try withdrawn.withdraw(record.hash, by: admin, time: 8)
            let joined = try club.joined([accepting, withdrawn])
            #expect(joined.members[new.id] == nil && joined.members.count == 5)
            // Who was a member before stays.
            var late = accepting
            #expect(late.members[new.id] != nil)
            _ = try? late.withdraw(record.hash, by: admin, time: 8)
            #expect(late.members[new.id] != nil)
        }
    }

    /// A removed admin could void each admission by an invitation, with a record that did not know it.
    @Test("the withdrawal of one who is no admin, or is one no longer, does not count")
    func noAdmin() throws {
        let club = try Club()
        var list = club.list
        let (record, key) = try list.invite(as: .writer, until: 100, by: club.x, time: 7)
        let (accepting, new) = try accepted(list, record, key)
        let without = try club.removing(club.y, by: club.x, from: accepting)
        for author in [club.y, club.m] {
            let forged = try MemberRecord(
                .withdrawal(invitation: record.hash), repository: list.repository, keys: author, time: 8,
                known: [record.hash])
            var joined = without
            try joined.add([forged])
            #expect(joined.members[new.id] != nil, "\(author)")
            // It keeps no device from joining either.
            var open = try club.removing(club.y, by: club.x, from: list)
            try open.add([forged])
            #expect(try accepted(open, record, key).0.members.count == 4)
        }
    }

    @Test("nobody seals with a secret that a withdrawn invitation has, also if the remote lacks the epoch of the admin")
    func secrets() throws {
        let club = try Club()
        var list = club.list
        let (record, _) = try list.invite(as: .writer, until: 100, by: club.x, time: 7)
        let carried = try club.secrets(of: club.x, in: list)
        #expect(list.sealingEpoch(among: carried) != nil)
        _ = try list.withdraw(record.hash, by: club.y, time: 8)
        for writer in [club.x, club.y, club.m] {
            let own = try club.secrets(of: writer, in: list)
            #expect(list.sealingEpoch(among: own).map { carried.secrets[$0] == nil } ?? true)
        }
    }
}
