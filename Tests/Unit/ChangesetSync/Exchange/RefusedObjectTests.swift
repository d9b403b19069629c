import StoreCrypto
import TestKit
import Testing

@testable import ChangesetSync

/// `sync status` ended with exit code 2 for ever, also after the object was deleted.
@Suite("An object with a content that no member makes")
struct RefusedObjectTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()

    /// Two devices, and an object whose name says another content than it has. Both have refused it.
    private func devices() throws -> (a: Device, b: Device, object: String) {
        let a = try Device(folder.path("a.db"))
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        try a.write("INSERT INTO player VALUES (1, 'a', 1)")
        for device in [a, b, a] { try device.sync(remote) }
        let exchange = try b.repository.makeExchange(MemoryRemote(), named: "none")
        let name = try #require(remote.names("c/").last)
        let claimed = ObjectName(
            .segment(
                author: try exchange.tag(ofAuthor: b.repository.store().keys.id), first: 7, last: 7,
                tip: try exchange.roster.tag("tip", [UInt8](repeating: 9, count: 32)), part: 1, parts: 1),
            digest: String(name.suffix(32)))
        remote.objects[claimed.text] = remote.objects[name]
        for device in [a, b] {
            try device.sync(remote)
            try device.sync(remote)
            let status = try device.repository.status()
            #expect(!status.isSettled && status.remotes.flatMap(\.problems) == [.refused(object: claimed.text)])
        }
        return (a, b, claimed.text)
    }

    @Test("when the object is gone, no device needs attention")
    func gone() throws {
        let (a, b, object) = try devices()
        remote.objects[object] = nil
        for device in [a, b, a] { try device.sync(remote) }
        for device in [a, b] {
            let status = try device.repository.status()
            #expect(status.isSettled && status.remotes.map(\.evidence) == [[object]])
        }
    }

    @Test("who acknowledges it needs no attention, and the evidence stays; for others nothing changes")
    func acknowledged() throws {
        let (a, b, object) = try devices()
        #expect(try a.repository.acknowledgeObjects() == 1 && a.repository.acknowledgeObjects() == 0)
        for _ in 0..<2 {
            try a.sync(remote)
            let status = try a.repository.status()
            #expect(status.isSettled && status.remotes.map(\.evidence) == [[object]])
            try a.write("INSERT INTO player (name) VALUES ('later')")
            try a.sync(remote)
        }
        #expect(try !b.repository.status().isSettled && remote.objects[object] != nil)
        try b.sync(remote)
        #expect(try a.rows() == b.rows())
    }

    @Test("acknowledged damage, and a segment of an unknown secret, are tried again: what becomes usable is used")
    func retried() throws {
        let a = try Device(folder.path("a.db"))
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        for device in [a, b, a] { try device.sync(remote) }
        try b.write("INSERT INTO player VALUES (2, 'of b', 2)")
        let former = Set(remote.names("c/"))
        try b.sync(remote)
        let name = try #require(remote.names("c/").first { !former.contains($0) })
        let whole = try #require(remote.objects[name])
        // An object that no secret opens, and a damaged one.
        let foreign = try ObjectKey(
            secret: SecretBytes.random(count: 32), epoch: RecordHash(bytes: [UInt8](repeating: 3, count: 32))!,
            repository: a.repository.repositoryID())
        let bytes = try foreign.seal([1, 2, 3], .segment, edition: 0)
        let sealed = try ObjectName(name.dropLast(32) + ObjectName.digest(of: bytes))!
        remote.objects[sealed.text] = bytes
        remote.objects[name]?[40] ^= 1
        try a.sync(remote)
        #expect(try a.repository.status().remotes.flatMap(\.problems).count == 2)
        #expect(try a.repository.acknowledgeObjects() == 2)
        try a.sync(remote)
        var status = try a.repository.status()
        #expect(status.isSettled && status.remotes.flatMap(\.evidence).sorted() == [name, sealed.text].sorted())
        remote.objects[name] = whole
        try a.sync(remote)
        status = try a.repository.status()
        #expect(try a.rows() == ["player 2 of b 2"] && status.isSettled)
        #expect(status.remotes.flatMap(\.evidence) == [sealed.text])
    }

    /// The last snapshot of a member that an admin removed was an object without valid content for all others.
    @Test("a snapshot of a former member needs no attention")
    func snapshotOfFormerMember() throws {
        let a = try Device(folder.path("a.db"))
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        try b.write("INSERT INTO player VALUES (2, 'of b', 2)")
        for device in [a, b, a] { try device.sync(remote) }
        #expect(try b.repository.compact(remote, named: "remote").sentSnapshots == 1)
        let old = remote.objects
        try a.sync(remote)
        try a.repository.remove(b.repository.store().keys.id)
        try a.sync(remote)
        for (name, bytes) in old { remote.objects[name] = bytes }
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote)
        for device in [c, a, c] { try device.sync(remote) }
        for device in [a, c] {
            let status = try device.repository.status()
            #expect(status.isSettled && status.remotes.allSatisfy(\.evidence.isEmpty), "\(status.remotes)")
        }
        #expect(try c.rows() == a.rows())
    }
}
