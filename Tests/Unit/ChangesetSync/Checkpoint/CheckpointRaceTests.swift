import CipherDatabase
import FormerSimulation
import Synchronization
import TestKit
import Testing

@testable import ChangesetSync

/// What others do, or a remote shows, while a checkpoint is made.
@Suite("Races of checkpoints")
struct CheckpointRaceTests {
    /// The other maker has chosen an earlier commit, and announces it and removes its history between two calls. A maker
    /// that did not read again found logs without a beginning, and announced that nothing was removed: a new store then
    /// waited for ever for the first entry.
    @Test("another maker may finish an earlier checkpoint before any call; new stores begin with the later one")
    func otherMaker() async throws {
        // `make test` takes one call in so many.
        var (number, isReached) = (1 + Sweep.first(oneIn: 5), true)
        while isReached {
            var fleet = try await CheckpointFleet(3)
            try fleet.insert(0, 1...4)
            try fleet.insert(1, 5...6)
            try await fleet.settle()
            try fleet.insert(0, 7...8)
            try await fleet.settle([0, 1])
            let before = fleet.remote.content.withLock(\.self)
            let made = try await fleet.managers[0].checkpoint()
            let first = try #require(made)
            let after = fleet.remote.content.withLock(\.self)
            let author = try fleet.author(0)
            fleet.remote.content.withLock { $0 = before }
            try await fleet.managers[2].sync()
            let finish: @Sendable (inout MemoryRemote.Content) -> Void = { content in
                content.acknowledgements[author] = after.acknowledgements[author]
                content.removed = after.removed
                for id in before.objects.keys where after.objects[id] == nil { content.objects[id] = nil }
                content.objects.merge(after.objects) { first, _ in first }
            }
            fleet.remote.edit { [number] in $0.beforeCall = ($0.calls + number, finish) }
            let second = try await fleet.managers[1].checkpoint()
            isReached = fleet.remote.edit { $0.beforeCall == nil }
            #expect(second == nil || second?.commit != first.commit, "\(number)")
            if !isReached { fleet.remote.edit { content in finish(&content) } }
            for round in 0..<2 {
                try await fleet.join()
                try await fleet.settle()
                try fleet.expectEqual(nil, "\(number)")
                try fleet.expectInSync("\(number)")
                try fleet.insert(2, (10 * fleet.managers.count)...(10 * fleet.managers.count))
                try await fleet.settle()
                let third = try await fleet.managers[1].checkpoint()
                #expect(third != nil, "\(number) \(round)")
            }
            number += Sweep.stride(5)
        }
        #expect(number > 10)
    }

    /// It is known, but what it pushes now it has not said: a reset store pushes old commits again, in a new log.
    /// It said for ever that it was making one, and no store with work of its own could join.
    @Test("a store whose preparation reached the remote, and that does not know it, takes it back")
    func lostPreparation() async throws {
        var fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...3)
        try await fleet.settle()
        fleet.remote.edit { $0.before = ("acknowledge", { $0.lostAcknowledgements = 1 }) }
        await #expect(throws: MemoryRemote.Fault.self) { try await fleet.managers[0].checkpoint() }
        try await fleet.join()
        try fleet.insert(2, 9...9)
        #expect(await syncCode { try await fleet.managers[2].push() } == .checkpointPending)
        try await fleet.managers[0].sync()
        try await fleet.settle()
        try fleet.expectEqual()
    }

    /// It removed entries that no announcement named, and new stores waited for them for ever.
    @Test("a second maker of a checkpoint that sees more of the logs than the first one announces it too")
    func laterLogs() async throws {
        var fleet = try await CheckpointFleet(2)
        for id in 1...3 {
            try fleet.insert(0, id...id)
            try fleet.insert(1, 10 + id...10 + id)
            try await fleet.settle()
        }
        // The second listing is that of the maker: it lacks the last entries, as that of a slow medium.
        let logs = Mutex<[AuthorPseudonym: [ObjectID]]>([:])
        fleet.remote.edit { content in
            content.act(before: 2, of: "list") { content in
                logs.withLock { $0 = content.logs }
                content.logs = content.logs.mapValues { Array($0.prefix(1)) }
                content.before = ("put", { content in content.logs = logs.withLock { $0 } })
            }
        }
        #expect(try await fleet.managers[0].checkpoint() != nil)
        #expect(try await fleet.managers[1].checkpoint() != nil)
        try await fleet.join()
        try await fleet.settle()
        try fleet.expectEqual()
        #expect(try fleet.managers[2].status().isInSync)
    }

    @Test("a store that begins a new log while a checkpoint is made is waited for")
    func newLog() async throws {
        let fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        let author = try fleet.replicas[1].read { try RepositoryState($0).author }
        let object = try Acknowledgement(author: author, pusher: Samples.author(9)).sealed(
            with: fleet.replicas[0].key())
        let before = fleet.objects
        fleet.remote.edit { $0.before = ("put", { $0.acknowledgements[object.author] = object.bytes }) }
        #expect(try await fleet.managers[0].checkpoint() == nil)
        #expect(try before.isSubset(of: fleet.objects) && fleet.replicas[0].commitCount > 1)
        #expect(try fleet.announced(by: 0) == nil)
    }

    /// Entries are not authenticated. One that the remote had made up was passed by all stores, and what its author pushed
    /// there later came to none of them.
    @Test("an entry that an author has not acknowledged is not replaced, whatever object the remote shows there")
    func madeUpEntry() async throws {
        let fleet = try await CheckpointFleet(3)
        for place in 0..<3 { try fleet.insert(place, (10 * place)...(10 * place + 2)) }
        try await fleet.settle()
        let pusher = try fleet.replicas[1].read { try RemoteState.require("memory", $0).pusher }
        let log = try pusher.bytes.withUnsafeBytes { try fleet.replicas[1].key().pseudonym(ofAuthor: $0) }
        fleet.remote.edit { content in content.logs[log, default: []].append(content.logs[log]?.first ?? Samples.id(1))
        }
        #expect(try await fleet.managers[0].checkpoint() != nil)
        fleet.remote.edit { _ = $0.logs[log]?.popLast() }
        try fleet.insert(1, 50...50)
        try await fleet.settle([1, 2])
        try fleet.expectEqual([1, 2])
    }

    @Test("a new store that reads the logs while a checkpoint removes them begins with the checkpoint, at any call")
    func pagingReader() async throws {
        var (number, isReached) = (1, true)
        while isReached {
            var fleet = try await CheckpointFleet(2)
            try fleet.insert(0, 1...5)
            try await fleet.settle()
            let before = fleet.remote.content.withLock(\.self)
            #expect(try await fleet.managers[1].checkpoint() != nil)
            let after = fleet.remote.content.withLock(\.self)
            fleet.remote.content.withLock { $0 = before }
            try await fleet.join()
            fleet.remote.edit { [number] content in
                // One entry a page.
                content.isReversed = true
                let finish: @Sendable (inout MemoryRemote.Content) -> Void = { content in
                    content.acknowledgements = after.acknowledgements
                    content.removed = after.removed
                    content.objects = after.objects
                }
                content.beforeCall = (content.calls + number, finish)
            }
            try await fleet.managers[2].fetch()
            isReached = fleet.remote.edit { $0.beforeCall == nil }
            _ = try fleet.replicas[2].repository.mergeAll()
            _ = try fleet.replicas[2].repository.pull()
            #expect(try fleet.replicas[2].state() == fleet.replicas[0].state(), "\(number)")
            #expect(try fleet.managers[2].status().isInSync, "\(number)")
            number += 1
        }
        #expect(number > 10)
    }
}

extension CheckpointFleet {
    /// The place of the acknowledgement of a store.
    func author(_ place: Int) throws -> AuthorPseudonym {
        let author = try replicas[place].read { try RepositoryState($0).author }
        return try author.bytes.withUnsafeBytes { try replicas[place].key().pseudonym(ofAuthor: $0) }
    }
}
