import StoreCrypto
import Testing

@testable import ChangesetSync

@Suite("Sizes and times of the exchange")
struct SizeTests {
    @Test("a commit of one row takes 300 bytes at most at the remote, in a segment of 100")
    func oneRowCommits() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        for key in 1...100 { try a.commit(.string("a value of a row"), key: Int64(key)) }
        try a.sync(remote)
        let bytes = remote.names("c/").compactMap { remote.objects[$0]?.count }
        #expect(bytes.count == 1 && bytes[0] <= 100 * 300, "\(bytes)")
        let body = try #require(a.bodies.values.map(\.body.count).max())
        #expect(body <= 200, "\(body)")
    }

    @Test("with 1,000 authors an exchange with nothing new is one call and takes 2 ms of processor at most")
    func nothingNew() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let exchange = try Exchange(a, with: remote, named: "remote")
        try a.commit()
        _ = try exchange.run(now: 1)
        // Objects of others, of which the store remembers that it has them.
        for number in 0..<1000 {
            var bytes: [UInt8] = []
            bytes.append(bigEndian: UInt64(number))
            let tag = try exchange.tag(ofAuthor: ReplicaID(bytes: bytes + bytes) ?? .zero)
            let name = try ObjectName(
                .segment(author: tag, first: 1, last: 1, tip: tag, part: 1, parts: 1), of: bytes)
            remote.objects[name.text] = bytes
            try a.remember([name.text: .held], of: "remote")
        }
        let other = try Exchange(a, with: remote, named: "remote")
        _ = try other.run(now: 2)
        remote.calls = [:]
        let clock = ContinuousClock()
        let times = try (0..<20).map { _ in try clock.measure { _ = try other.run(now: 3) } }
        #expect(remote.calls == ["list": 20])
        let best = try #require(times.min())
        #if DEBUG
            // A debug build takes several times as long.
            #expect(best < .milliseconds(20), "\(best)")
        #else
            #expect(best < .milliseconds(2), "\(best)")
        #endif
    }

    @Test("a commit that is longer than a segment is put in parts and received")
    func longCommit() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let b = try a.admit()
        try a.commit(.blob(Array(repeating: 7, count: 2 * ExchangeLimits.segmentBytes + 5)[...]))
        try a.commit()
        try a.sync(remote)
        #expect(remote.names("c/").count == 4)
        let longest = try #require(remote.objects.values.map(\.count).max())
        #expect(longest <= ExchangeLimits.objectBytes)
        #expect(try b.sync(remote).receivedCommits == 2)
        #expect(b.hashes == a.hashes)
        // One part is damaged: it is replaced, and the others stay.
        let c = try a.admit()
        try a.sync(remote)
        let name = try #require(remote.names("c/").first { $0.contains("-2-3-") })
        remote.objects[name]?.removeLast()
        try c.sync(remote)
        #expect(c.hashes.count == 1)
        try a.sync(remote)
        try c.sync(remote)
        #expect(c.hashes == a.hashes)
    }

    @Test("1,000 exchanges of one commit each leave few objects")
    func tidying() throws {
        let remote = MemoryRemote()
        let a = try TestStore.founder()
        let b = try a.admit()
        for key in 1...300 {
            try a.commit(key: Int64(key))
            try a.sync(remote)
            if key % 7 == 0 { try b.sync(remote) }
        }
        #expect(remote.names("c/").count < 40, "\(remote.names("c/").count)")
        try b.sync(remote)
        #expect(b.hashes == a.hashes)
        let c = try a.admit()
        try a.sync(remote)
        #expect(try c.sync(remote).receivedCommits == 300)
    }

    @Test("the padding of a length is at most 12 percent, and never shorter")
    func padding() {
        for count in [0, 1, 2, 9, 100, 1000, 4095, 4096, 65_537, 4_194_310] {
            let padded = ObjectKey.paddedCount(count)
            #expect(padded >= count && Double(padded) <= Double(count) * 1.12 + 1, "\(count) \(padded)")
            #expect(ObjectKey.paddedCount(padded) == padded)
        }
    }
}
