import StoreCrypto
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Exchange of segments with a remote")
struct ExchangeTests {
    @Test("two stores have each other's commits after three exchanges, and the fourth one makes one call")
    func twoStores() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let b = try a.admit()
        for key in 1...3 {
            try a.commit(key: Int64(key))
            try b.commit(key: Int64(-key))
        }
        let exchange = try Exchange(a, with: remote, named: "r")
        _ = try exchange.run(now: 1)
        #expect(try b.sync(remote).receivedCommits == 3)
        #expect(try exchange.run(now: 2).receivedCommits == 3)
        #expect(a.hashes == b.hashes && a.hashes.count == 6)
        _ = try exchange.run(now: 3)
        remote.calls = [:]
        let report = try exchange.run(now: 4)
        #expect(remote.calls == ["list": 1] && report.isComplete && report.sentObjects == 0)
    }

    /// Schedule 1000672: the records of the list counted as held, were never added, and were not fetched again. All objects
    /// of the new epoch waited for its secret for ever.
    @Test("records that were fetched before a remote fails are kept")
    func recordsBeforeFailure() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let b = try a.admit()
        for name in ["c", "d", "e", "f", "g", "h"] { try a.remove(a.admit(named: name).keys.id) }
        try a.commit()
        try a.sync(remote)
        for first in 1...8 {
            _ = try? b.sync(FailingRemote(remote, afterGets: first))
        }
        try b.sync(remote)
        #expect(b.list.records.count == a.list.records.count && b.hashes == a.hashes)
    }

    /// A device that was killed, or whose remote failed, while it put its records left an entry that refers to one that
    /// nobody else had. From then on the remote admitted no device.
    @Test("a remote never has a record without those that it knows, whichever calls fail", arguments: [true, false])
    func recordsInOrder(failsForGood: Bool) throws {
        let a = try TestStore.founder()
        for name in ["b", "c", "d", "e"] { try a.remove(a.admit(named: name).keys.id) }
        let key = try ObjectKey(secret: a.rosterSecret, id: .zero, repository: a.repository)
        for number in 0..<12 {
            let remote = MemoryRemote()
            remote.failingPuts = failsForGood ? number..<Int.max : number..<number + 1
            _ = try? a.sync(remote, named: "remote \(number) \(failsForGood)")
            let names = remote.names("m/")
            let records = try names.map { name in
                try MemberRecord(decoding: key.open(#require(remote.objects[name]), .memberRecord))
            }
            let known = Set(records.flatMap(\.known))
            #expect(known.isSubset(of: records.map(\.hash)), "put \(number) fails")
            #expect(records.count < a.list.records.count || number >= a.list.records.count)
        }
    }

    @Test("a folder is a remote, and an object in it has its whole content under its name")
    func folder() throws {
        let folder = TemporaryFolder()
        let a = try TestStore.founder()
        let b = try a.admit()
        let remote = FolderStore(path: folder.url.path, repository: a.repository)
        try a.commit()
        #expect(try a.sync(remote).sentCommits == 1)
        #expect(try b.sync(remote).receivedCommits == 1)
        let name = try #require(try remote.list("c/").first?.name)
        #expect(try remote.put(name, [1]) == .alreadyPresent)
        #expect(try remote.get(name, limitBytes: 10)?.count == 11)
        #expect(try remote.list("").count == remote.list("m/").count + 1)
        #expect(throws: RemoteNameError.self) { try remote.get("c/../../x", limitBytes: 1) }
        try remote.delete(name)
        try remote.delete(name)
        #expect(try remote.get(name, limitBytes: 10) == nil)
        #expect(try b.sync(remote).lostCommits == 1)
        #expect(try remote.list("c/").map(\.name) == [name])
    }

    @Test("a remote that was emptied or set back is filled again by any replica, and the report says so")
    func emptiedRemote() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let b = try a.admit()
        for key in 1...5 { try a.commit(key: Int64(key)) }
        try a.sync(remote)
        let former = remote.objects
        for key in 6...8 { try a.commit(key: Int64(key)) }
        try a.sync(remote)
        try b.sync(remote)
        // b fills it, though a wrote everything.
        remote.objects = [:]
        #expect(try b.sync(remote).lostCommits == 8)
        let c = try a.admit()
        try c.add(a.memberRecords())
        try c.sync(remote)
        #expect(c.hashes == a.hashes)
        remote.objects = former
        let report = try b.sync(remote)
        #expect(report.lostCommits == 3 && report.unsent == 0)
        let again = try b.sync(remote)
        #expect(again.lostCommits == 0 && again.sentCommits == 0)
    }

    @Test("a store carries what it has from others: along a chain of remotes, and where two remotes meet")
    func chain() throws {
        let (left, right) = (MemoryRemote(), MemoryRemote())
        let a = try TestStore.founder()
        let b = try a.admit()
        let c = try a.admit()
        try b.add(a.memberRecords())
        try a.commit()
        try c.commit()
        try a.sync(left)
        try c.sync(right)
        try b.sync(left, named: "left")
        try b.sync(right, named: "right")
        try b.sync(left, named: "left")
        try a.sync(left)
        try c.sync(right)
        #expect(a.hashes == c.hashes && a.hashes.count == 2)
        #expect(try b.sync(right, named: "right").sentObjects == 0)
    }

    @Test("a damaged object is replaced by a replica that has the content, also where nothing may be deleted")
    func damagedObject() throws {
        let remote = MemoryRemote(mayDelete: false)
        let a = try TestStore.founder()
        let b = try a.admit()
        try a.commit()
        try a.sync(remote)
        let name = try #require(remote.names("c/").first)
        remote.objects[name]?[90] ^= 1
        #expect(try b.sync(remote).damaged == [name] && b.hashes.isEmpty)
        #expect(remote.names("x/").count == 1)
        // Story: the exchange that had put it again still said that it was damaged.
        let repair = try a.sync(remote)
        #expect(repair.sentCommits == 1 && repair.lostCommits == 1 && repair.isComplete, "\(repair)")
        #expect(remote.names("c/").count == 2)
        #expect(try b.sync(remote).receivedCommits == 1)
        #expect(try a.sync(remote).sentObjects == 0 && b.sync(remote).damaged.isEmpty)
        // A complaint without a reason costs one look.
        let good = try #require(remote.names("c/").first { $0 != name })
        remote.objects["x/" + good.suffix(32)] = [1]
        #expect(try a.sync(remote).sentObjects == 0 && a.sync(remote).damaged.isEmpty)
    }

    /// It was reported to every device for ever: nothing replaces records as a longer segment replaces commits.
    @Test("a damaged member record is no finding once the remote has its content again", arguments: [true, false])
    func damagedRecord(mayDelete: Bool) throws {
        let remote = MemoryRemote(mayDelete: mayDelete)
        let a = try TestStore.founder()
        let b = try a.admit()
        try a.commit()
        for store in [a, b] { try store.sync(remote) }
        let names = remote.names("m/")
        for name in names { remote.objects[name]?[90] ^= 1 }
        // A newcomer that has no record yet.
        let c = try a.admit()
        c.list = MemberList(repository: a.repository)
        #expect(try Set(c.sync(remote).damaged) == Set(names))
        #expect(try a.sync(remote).damaged.isEmpty)
        #expect(remote.names("m/").count > names.count)
        try c.sync(remote)
        #expect(c.list.records.count == a.list.records.count && c.hashes == a.hashes)
        for store in [a, b, c, a, b, c] {
            let report = try store.sync(remote)
            #expect(report.isComplete && report.damaged.isEmpty, "\(report)")
        }
        // The other edition is damaged too.
        for name in remote.names("m/") where !names.contains(name) { remote.objects[name]?[90] ^= 1 }
        let d = try a.admit()
        d.list = MemberList(repository: a.repository)
        #expect(try d.sync(remote).damaged.count > names.count)
        for store in [a, d] { try store.sync(remote) }
        #expect(d.list.records.count == a.list.records.count)
        for store in [a, b, c, d] { #expect(try store.sync(remote).damaged.isEmpty) }
    }

    @Test("truncated, swapped and foreign objects are named, and everything else is received")
    func hostileObjects() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let b = try a.admit()
        for key in 1...4 {
            try a.commit(key: Int64(key))
            try a.sync(remote)
        }
        let names = remote.names("c/")
        remote.objects[names[0]] = Array((remote.objects[names[0]] ?? []).prefix(100))
        remote.objects[names[1]] = remote.objects[names[2]]
        let other = try TestStore.founder()
        try other.commit()
        let foreign = MemoryRemote()
        try other.sync(foreign)
        for (name, bytes) in foreign.objects { remote.objects[name] = bytes }
        let report = try b.sync(remote)
        #expect(Set(report.damaged) == [names[0], names[1]])
        #expect(report.receivedCommits == 2)
        // Its author is in no list; its member records are those of another repository.
        #expect(report.waiting.map(\.error) == [.unknownAuthor])
        #expect(report.refused.count == foreign.names("m/").count)
        #expect(report.refused.allSatisfy { $0.error == .otherRepository })
        try a.sync(remote)
        try b.sync(remote)
        #expect(b.hashes == a.hashes)
    }

    @Test("an object of a later version waits and stops nobody")
    func laterVersion() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let b = try a.admit()
        try a.commit()
        try a.sync(remote)
        try a.commit()
        let name = try #require(remote.names("c/").first)
        var bytes = try #require(remote.objects[name])
        bytes[ObjectKey.Offset.version] = 2
        let tag = name.dropFirst(2).prefix(16)
        let later = try ObjectName(
            .segment(author: String(tag), first: 7, last: 9, tip: "0123456789abcdef", part: 1, parts: 1), of: bytes)
        remote.objects[later.text] = bytes
        let report = try b.sync(remote)
        #expect(report.waiting == [.init(name: later.text, error: .laterVersion(2))])
        #expect(report.receivedCommits == 1 && !report.isComplete)
    }

    @Test(
        "a remote with every fault: after it is right again, all stores have everything",
        arguments: Sweep.sample(Array(0..<40), oneIn: 3))
    func faults(index: Int) throws {
        let seed = Seed()
        var numbers = seed.numbers(index)
        let memory = MemoryRemote(mayDelete: index % 2 == 0)
        let remote = FaultyRemote(memory, seed.numbers(1000 + index), rate: 4)
        let a = try TestStore.founder()
        var stores = [a]
        for _ in 0..<3 { stores.append(try a.admit()) }
        for store in stores { try store.add(a.memberRecords()) }
        for round in 0..<30 {
            let store = stores[Int.random(in: 0..<stores.count, using: &numbers)]
            store.pass(1000)
            if Int.random(in: 0..<3, using: &numbers) > 0 { try store.commit(key: Int64(round)) }
            if round == 15 { memory.objects = [:] }
            do { try store.sync(remote) } catch is RemoteFailure {}
        }
        remote.calm()
        // The listing before the calm may be an old one: one round to fill, one to complain and replace, one to fetch.
        for _ in 0..<4 { for store in stores { try store.sync(remote) } }
        let all = stores.reduce(into: Set<CommitHash>()) { $0.formUnion($1.hashes) }
        for store in stores { #expect(store.hashes == all, "\(seed) \(index)") }
        let newcomer = try a.admit()
        // A damaged object that nobody had to fetch is found by the newcomer.
        for store in [a, newcomer, a, newcomer] { try store.sync(remote) }
        #expect(newcomer.hashes == all, "\(seed) \(index)")
    }
}
