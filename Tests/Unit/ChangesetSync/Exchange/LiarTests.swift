import StoreCrypto
import Testing

@testable import ChangesetSync

@Suite("Members that lie, and members that were removed")
struct LiarTests {
    /// Puts a segment with these commits as a member can that has the secrets.
    private func put(
        _ commits: [StoredCommit], by store: TestStore, to remote: MemoryRemote
    ) throws {
        let exchange = try Exchange(store, with: remote, named: "liar")
        try exchange.loadMembers()
        let key = try #require(try exchange.sealingKey())
        try exchange.put(commits, with: key)
    }

    @Test("two contents of one number are both received and named, and later commits of both branches too")
    func twoContents() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let b = try a.admit()
        try a.commit(key: 1)
        let copy = a.copy()
        try a.commit(key: 2)
        try copy.commit(key: 3)
        try copy.commit(key: 4)
        try a.sync(remote)
        let report = try copy.sync(remote)
        #expect(report.twoContents == [.init(author: a.keys.id, number: 2)])
        let seen = try b.sync(remote)
        #expect(seen.twoContents == [.init(author: a.keys.id, number: 2)] && seen.refused.isEmpty)
        #expect(b.hashes == copy.hashes && b.hashes.count == 4)
        #expect(b.vector.tips[a.keys.id]?.count == 2)
        try a.sync(remote)
        #expect(a.hashes == b.hashes)
        remote.objects = [:]
        try b.sync(remote)
        let c = try a.admit()
        try a.sync(remote)
        try c.sync(remote)
        #expect(c.hashes == a.hashes)
    }

    @Test("commits that their author has not signed are refused and stay as evidence, and others go on")
    func forgedSignature() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let liar = try a.admit()
        let b = try a.admit()
        try a.commit()
        try a.sync(remote)
        // The liar writes in the name of a.
        let stolen = ReplicaKeys(id: a.keys.id, signing: liar.keys.signing, agreement: liar.keys.agreement)
        let forger = a.copy(stolen)
        try forger.commit(key: 66)
        let hash = try #require(forger.own)
        let commit = try #require(forger.bodies[hash])
        let signature = try CommitSignature.make(hash, by: stolen)
        try put([commit.signed(signature)], by: liar, to: remote)
        let report = try b.sync(remote)
        #expect(report.refused.map(\.error) == [.wrongSignature])
        #expect(b.hashes == a.hashes)
        #expect(try b.sync(remote).refused.isEmpty)
        #expect(remote.names("c/").count == 2)
    }

    @Test("a segment under a name of another content is refused, and the honest replica puts its own")
    func otherContent() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let liar = try a.admit()
        let b = try a.admit()
        try liar.commit()
        try liar.sync(remote)
        let name = try #require(remote.names("c/").first)
        let bytes = try #require(remote.objects[name])
        try a.commit()
        let exchange = try Exchange(a, with: MemoryRemote(), named: "none")
        let claimed = ObjectName(
            .segment(
                author: try exchange.tag(ofAuthor: a.keys.id), first: 1, last: 1,
                tip: try exchange.tag(ofTip: try #require(a.own)), part: 1, parts: 1),
            digest: String(name.suffix(32)))
        remote.objects[claimed.text] = bytes
        // a believes the name, as it costs nothing, until b finds the content.
        try a.sync(remote)
        #expect(try b.sync(remote).refused.map(\.error) == [.otherContent])
        try a.sync(remote)
        try b.sync(remote)
        #expect(b.hashes == a.hashes)
    }

    @Test("a reader's commits are refused")
    func reader() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let reader = try a.admit(.reader)
        try reader.commit()
        try reader.sync(remote)
        try a.sync(remote)
        #expect(a.hashes.isEmpty)
        #expect(remote.names("c/").isEmpty)
        let hash = try #require(reader.own)
        let commit = try #require(reader.bodies[hash])
        try put([commit.signed(try CommitSignature.make(hash, by: reader.keys))], by: reader, to: remote)
        #expect(try a.sync(remote).refused.map(\.error) == [.notAllowed])
    }

    @Test("a removed member cannot open what is put after it knows nothing of the new epoch")
    func removedMember() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let gone = try a.admit()
        let b = try a.admit()
        try a.commit(key: 1)
        try a.sync(remote)
        try gone.sync(remote)
        try gone.commit(key: 2)
        try a.remove(gone.keys.id)
        try a.commit(key: 3)
        try a.sync(remote)
        let report = try gone.sync(remote)
        #expect(report.receivedCommits == 0)
        #expect(report.waiting.count == 1)
        guard case .unknownEpoch? = report.waiting.first?.error else {
            Issue.record("\(report.waiting)")
            return
        }
        #expect(report.sentCommits == 0 && report.unsent > 0)
        try b.sync(remote)
        #expect(b.hashes == a.hashes)
        #expect(b.list.removals[gone.keys.id] == a.list.removals[gone.keys.id])
    }

    @Test("a commit that was sealed in a former epoch, and arrives late, is read by all, also by a later member")
    func lateCommit() throws {
        let (remote, island) = (MemoryRemote(), MemoryRemote())
        let a = try TestStore.founder()
        let gone = try a.admit()
        let b = try a.admit()
        try b.commit()
        try b.sync(island)
        try a.remove(gone.keys.id)
        let later = try a.admit()
        for (name, bytes) in island.objects { remote.objects[name] = bytes }
        try a.sync(remote)
        try later.sync(remote)
        #expect(later.hashes == b.hashes && a.hashes == b.hashes)
    }

    @Test("a commit of another repository does not verify, even with the same members and secrets")
    func otherRepository() throws {
        let a = try TestStore.founder()
        try a.commit()
        let hash = try #require(a.own)
        let commit = try #require(a.bodies[hash]?.signed(try CommitSignature.make(hash, by: a.keys)))
        var content = Segment.content([commit], in: a.repository)
        let key = a.keys.signing.verifyingKey
        #expect(try Segment.commits(of: content, in: a.repository) { _ in key }.count == 1)
        #expect(throws: ObjectError.otherRepository) { try Segment.commits(of: content, in: .zero) { _ in key } }
        content.replaceSubrange(Segment.Offset.repository..<Segment.Offset.author, with: RepositoryID.zero.bytes)
        #expect(throws: ObjectError.wrongSignature) { try Segment.commits(of: content, in: .zero) { _ in key } }
    }
}
