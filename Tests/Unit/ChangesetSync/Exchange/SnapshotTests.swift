import StoreCrypto
import Testing

@testable import ChangesetSync

@Suite("Snapshots at a remote")
struct SnapshotTests {
    @Test("a snapshot replaces the segments that it covers, and a newcomer receives it")
    func compaction() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let b = try a.admit()
        try b.commit()
        try b.sync(remote)
        for key in 1...250 {
            try a.commit(key: Int64(key))
            if key % 50 == 0 { try a.sync(remote) }
        }
        let report = try Exchange(a, with: remote, named: "remote").compact(now: a.now)
        #expect(report.sentSnapshots == 1 && report.failures.isEmpty)
        #expect(remote.names("c/").isEmpty && remote.names("p/").count == 3)
        let newcomer = try a.admit()
        try a.sync(remote)
        #expect(try newcomer.sync(remote).receivedSnapshots == 1)
        #expect(newcomer.hashes == a.hashes)
        #expect(try b.sync(remote).receivedSnapshots == 1)
        #expect(b.hashes == a.hashes)
        // A commit that the snapshot covers is not lost, and is not put again.
        #expect(try a.sync(remote).lostCommits == 0 && remote.names("c/").isEmpty)
        try a.commit()
        try a.sync(remote)
        #expect(remote.names("c/").count == 1)
    }

    /// Each push, and each invitation, put again all commits that the snapshot had replaced.
    @Test("an exchange that only puts knows which commits a snapshot has replaced, and puts later ones alone")
    func puttingAlone() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        for key in 1...3 { try a.commit(key: Int64(key)) }
        try a.sync(remote)
        let report = try Exchange(a, with: remote, named: "remote").compact(now: a.now)
        #expect(report.sentSnapshots == 1 && remote.names("c/").isEmpty)
        func push() throws -> ExchangeReport {
            try Exchange(a, with: remote, named: "remote").run(now: a.now, .putting)
        }
        #expect(try push().sentObjects == 0 && remote.names("c/").isEmpty)
        try a.commit(key: 4)
        #expect(try push().sentCommits == 1 && remote.names("c/").count == 1)
        // Without a part it stands for nothing.
        let part = try #require(remote.names("p/").first)
        remote.objects[part] = nil
        #expect(try push().sentCommits == 3)
    }

    @Test("a snapshot goes only when another one covers it")
    func twoSnapshots() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let b = try a.admit()
        try a.commit()
        try b.commit()
        let (left, right) = (MemoryRemote(), MemoryRemote())
        _ = try Exchange(a, with: left, named: "left").compact(now: 1)
        _ = try Exchange(b, with: right, named: "right").compact(now: 1)
        for (name, bytes) in left.objects { remote.objects[name] = bytes }
        for (name, bytes) in right.objects { remote.objects[name] = bytes }
        let c = try a.admit()
        try c.add(a.memberRecords())
        _ = try c.sync(remote)
        #expect(c.hashes.count == 2)
        #expect(remote.names("s/").count == 2)
        #expect(try Exchange(c, with: remote, named: "remote").compact(now: 1).sentSnapshots == 1)
        #expect(remote.names("s/").count == 1)
        let d = try a.admit()
        try a.sync(remote)
        try d.sync(remote)
        #expect(d.hashes == c.hashes)
    }

    @Test("a snapshot of a reader, and one whose signature is not the maker's, are refused")
    func forgedSnapshots() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let reader = try a.admit(.reader)
        try a.commit()
        try a.sync(remote)
        try reader.sync(remote)
        #expect(try Exchange(reader, with: remote, named: "remote").compact(now: 1).sentSnapshots == 0)
        let exchange = try Exchange(reader, with: remote, named: "liar")
        try exchange.loadMembers()
        let key = try #require(try exchange.sealingKey())
        let manifest = try SnapshotManifest(
            a.repository, time: HybridTime(rawValue: 1), vector: reader.vector, parts: [], by: reader.keys)
        let tag = try exchange.tag(ofAuthor: reader.keys.id)
        _ = try exchange.put(manifest.bytes, .snapshot, with: key) { ObjectName(.snapshot(author: tag), digest: $0) }
        var forged = manifest.bytes
        forged.replaceSubrange(17..<33, with: a.keys.id.bytes)
        let other = try exchange.tag(ofAuthor: a.keys.id)
        _ = try exchange.put(forged, .snapshot, with: key) { ObjectName(.snapshot(author: other), digest: $0) }
        let report = try a.sync(remote)
        #expect(Set(report.refused.map(\.error)) == [.notAllowed, .wrongSignature])
    }

    @Test("an emptied remote gets a snapshot where the store has no bodies any more")
    func forgottenBodies() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        for key in 1...10 { try a.commit(key: Int64(key)) }
        try a.sync(remote)
        a.forgetBodies()
        try a.commit(key: 11)
        remote.objects = [:]
        a.canMakeSnapshots = false
        #expect(try a.sync(remote).unsent == 10)
        a.canMakeSnapshots = true
        let report = try a.sync(remote)
        #expect(report.sentSnapshots == 1 && report.unsent == 0)
        let b = try a.admit()
        try a.sync(remote)
        try b.sync(remote)
        #expect(b.hashes == a.hashes)
    }
}
