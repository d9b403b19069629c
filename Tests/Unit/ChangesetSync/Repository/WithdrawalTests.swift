import StoreCrypto
import TestKit
import Testing

@testable import ChangesetSync

@Suite("A repository withdraws invitations")
struct WithdrawalTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()

    private func devices(_ role: Role = .admin) throws -> (Device, Device) {
        let a = try Device(folder.path("a.db"))
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, as: role)
        try a.write("INSERT INTO player VALUES (1, 'a', 1)")
        try settle(a, b)
        return (a, b)
    }

    private func settle(_ devices: Device...) throws {
        for _ in 0..<3 { for device in devices { try device.sync(remote) } }
    }

    /// The objects whose secret an invitation has.
    private func readable(_ invitation: InvitationContent, _ prefix: String) throws -> Set<String> {
        let ids = Set(invitation.epochs.secrets.keys.map(ObjectKey.id))
        return Set(
            try remote.objects.filter { try $0.key.hasPrefix(prefix) && ids.contains(ObjectHeader($0.value).key) }.keys)
    }

    @Test("each admin sees the open invitations and withdraws one; a device that comes later is told so")
    func withdraw() throws {
        let (a, b) = try devices()
        let invitation = try a.repository.invite(as: .reader, until: .max)
        let other = try a.repository.invite(as: .writer, until: .max)
        try settle(a, b)
        #expect(
            try Set(b.repository.openInvitations().map(\.id)) == [
                invitation.record.description, other.record.description,
            ])
        let own = try a.repository.store().keys.id.description
        #expect(try b.repository.openInvitations().allSatisfy { $0.inviter == own && $0.made < $0.end })
        try b.repository.withdrawInvitation(invitation.record.description)
        try b.repository.withdrawInvitation(invitation.record.description)
        #expect(try b.repository.openInvitations().map(\.id) == [other.record.description])
        try settle(b, a)
        let pool = try Device.open(folder.path("c.db"))
        #expect(throws: MemberError.invitationWithdrawn) {
            try ChangesetRepository.join(pool, invitation, at: remote, remoteName: "remote")
        }
        #expect(try !ChangesetRepository.isPresent(in: pool))
        let d = try Device(folder.path("d.db"), other, at: remote)
        try settle(d, a, b)
        #expect(try d.rows() == a.rows() && a.repository.openInvitations().isEmpty)
        for (id, error) in [
            (other.record.description, MemberError.invitationAccepted), ("00", .unknownInvitation),
            (String(repeating: "0", count: 64), .unknownInvitation),
        ] {
            #expect(throws: error) { try a.repository.withdrawInvitation(id) }
        }
        #expect(throws: MemberError.notAdmin) { try d.repository.withdrawInvitation(invitation.record.description) }
        for device in [a, b, d] { #expect(try device.repository.status().isSettled) }
    }

    @Test("a withdrawn invitation opens nothing that comes after it, also if the remote got the withdrawal alone")
    func secrets() throws {
        let (a, b) = try devices(.writer)
        let invitation = try a.repository.invite(as: .writer, until: .max)
        try settle(a, b)
        let before = try readable(invitation, "c/")
        #expect(!before.isEmpty)
        try a.repository.withdrawInvitation(invitation.record.description)
        // The withdrawal comes to the remote, and the epoch of the admin does not.
        remote.calls["put"] = 0
        remote.failingPuts = 1..<1_000
        _ = try? a.sync(remote)
        remote.failingPuts = 0..<0
        try b.sync(remote)
        try b.write("INSERT INTO player VALUES (2, 'b', 2)")
        try b.sync(remote)
        try a.write("INSERT INTO player VALUES (3, 'a', 3)")
        try settle(a, b)
        #expect(try readable(invitation, "c/").isSubset(of: before))
        #expect(remote.names("c/").count > before.count && !before.isEmpty)
        #expect(try a.rows() == b.rows() && a.repository.status().isSettled && b.repository.status().isSettled)
    }

    @Test("a withdrawal that races a join wins; commits that a member had joined stay, and the device may join again")
    func race() throws {
        let (a, b) = try devices()
        let invitation = try a.repository.invite(as: .writer, until: .max)
        try a.sync(remote)
        // The other admin withdraws it, and is offline.
        try b.sync(remote)
        try b.repository.withdrawInvitation(invitation.record.description)
        let c = try Device(folder.path("c.db"), invitation, at: remote)
        try c.write("INSERT INTO player VALUES (10, 'seen by a', 10)")
        for device in [c, a] { try device.sync(remote) }
        try c.write("INSERT INTO player VALUES (11, 'seen by none', 11)")
        try b.sync(remote)
        try settle(a, b, c)
        #expect(try a.rows() == ["player 1 a 1", "player 10 seen by a 10"] && b.rows() == a.rows())
        for device in [a, b] {
            let status = try device.repository.status()
            #expect(status.isSettled, "\(status.obstacles) \(status.remotes)")
            #expect(try device.repository.members().filter(\.isRejected).map(\.name) == [c.path])
        }
        #expect(try c.repository.members().first(where: \.isThisStore)?.isRejected == true)
        let d = try Device(folder.path("d.db"), invitedBy: a, at: remote)
        try settle(d, a)
        #expect(try d.rows() == a.rows() && d.repository.status().isSettled)
        let again = try Device(c, joiningAgainBy: a, at: remote)
        try settle(again, a, b, d)
        #expect(try again.rows().count == 3 && [a, b, d].allSatisfy { try $0.rows() == again.rows() })
        #expect(try a.repository.verify() == again.repository.verify())
        for device in [a, b, d, again] { #expect(try device.repository.status().isSettled) }
    }

    /// Its commits waited for an entry of the list of members for ever: all devices ended with exit code 2.
    @Test(
        "of two devices with one invitation one is told that it is no member, and no other device needs attention",
        arguments: [false, true])
    func usedTwice(isWitnessed: Bool) throws {
        let (a, b) = try devices()
        let invitation = try a.repository.invite(as: .writer, until: .max)
        try a.sync(remote)
        let island = MemoryRemote()
        island.objects = remote.objects
        let first = try Device(folder.path("c.db"), invitation, at: remote)
        // A record of another member decides. Without one, the hashes of both acceptances do.
        if isWitnessed {
            for device in [first, a] { try device.sync(remote) }
            _ = try a.repository.invite(as: .reader, until: .max)
        }
        for device in [first, a, b] { try device.sync(remote) }
        let second = try Device(folder.path("d.db"), invitation, at: island)
        try second.write("INSERT INTO player VALUES (4, 'second', 4)")
        try second.sync(island)
        try second.sync(remote)
        try settle(a, b, first, second)
        let isFirstRejected = try first.isRejected()
        let isSecondRejected = try second.isRejected()
        #expect(isFirstRejected != isSecondRejected && !(isWitnessed && isFirstRejected))
        let rows = try a.rows()
        #expect(rows.count == (isFirstRejected ? 2 : 1))
        for device in [a, b, isFirstRejected ? second : first] {
            let status = try device.repository.status()
            #expect(try status.isSettled && device.rows() == rows, "\(status.obstacles) \(status.remotes)")
        }
    }
}

extension Device {
    fileprivate func isRejected() throws -> Bool {
        try repository.members().contains { $0.isThisStore && $0.isRejected }
    }
}
