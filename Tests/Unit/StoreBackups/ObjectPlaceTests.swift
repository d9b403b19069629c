import CipherStore
import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

@testable import StoreBackups

@Suite("A repository at a server without locks") struct ObjectPlaceTests {
    private let fixture: RepositoryFixture
    private let objects = MemoryObjects()
    private let repository: BackupRepository

    init() throws {
        fixture = try RepositoryFixture(rows: 60)
        repository = try BackupRepository(creatingIn: ObjectPlace(objects, times: Self.times))
    }

    /// Nobody waits long, and nothing is renewed.
    private static var times: PlaceTimes {
        var times = PlaceTimes()
        times.listingDelay = .zero
        times.useWait = .milliseconds(50)
        times.removalWait = .milliseconds(50)
        times.pause = .milliseconds(5)
        return times
    }

    @discardableResult
    private func prune(_ last: Int = 1) throws -> PruneReport {
        try repository.prune(keeping: RetentionPolicy(last: last))
    }

    private func pass(_ seconds: Int) { objects.with { $0.now += seconds } }

    /// Backs up, and expects no mark to stay.
    @discardableResult
    private func backUp() throws -> ObjectHash {
        defer { #expect(objects.names("u/").isEmpty && objects.names("x/").isEmpty) }
        return try repository.backUp(fixture.store).id
    }

    @Test("a series is restored and pruned; objects of the last hour stay")
    func series() throws {
        try backUp()
        let first = try RepositoryFixture.content(fixture.store)
        try fixture.change(oneIn: 10)
        try backUp()
        #expect(try fixture.restored(repository.backups()[0], from: repository) == first)
        #expect(try repository.verify(unlockedBy: TestKeys.source("raw")).problems.isEmpty)
        let packs = objects.names("p/").count
        #expect(try prune().decisions.count { !$0.isKept } == 1)
        #expect(objects.names("b/").count == 1 && objects.names("p/").count == packs)
        try fixture.change(oneIn: 1)
        try backUp()
        pass(3601)
        #expect(try prune().objects > 0)
        let needed = try repository.backup().record.packs.map { ObjectKind.pack.name($0) }
        #expect(objects.names("p/") == needed.sorted())
        #expect(try fixture.restored(repository.backup(), from: repository) == RepositoryFixture.content(fixture.store))
    }

    @Test("a repository is created only where no other object is")
    func occupied() throws {
        let other = MemoryObjects()
        other.with { $0.objects["photo.jpg"] = ([1], $0.now) }
        expectRefusal(.alreadyExists) { try BackupRepository(creatingIn: ObjectPlace(other)) }
        expectRefusal(.noSuchStore) { try BackupRepository(opening: ObjectPlace(MemoryObjects())) }
    }

    @Test("a prune waits for a backup, and a backup for a prune; then each is refused, and leaves no mark")
    func exclusion() throws {
        try backUp()
        let use = try repository.place.lockForUse(isWriting: true) { false }
        expectRefusal(.storeInUse) { try prune() }
        // Two backups at once are no obstacle.
        try repository.backUp(fixture.store)
        use.release()
        let removal = try repository.place.lockForRemoval { false }
        expectRefusal(.storeInUse) { try backUpBeside() }
        expectRefusal(.storeInUse) { try prune() }
        removal.release()
        try prune()
        #expect(objects.names("u/").isEmpty && objects.names("x/").isEmpty)
    }

    private func backUpBeside() throws -> ObjectHash { try repository.backUp(fixture.store).id }

    @Test("a backup and a prune that begin at once never both run, whichever call comes first")
    func simultaneous() throws {
        try backUp()
        // The other one begins before each call of the first one.
        for isPruneFirst in [true, false] {
            for number in 1...6 {
                let calls = Atomic<Int>(0)
                let other = Mutex<(any PlaceLock)?>(nil)
                let place = ObjectPlace(objects, times: Self.times)
                objects.before { _, name in
                    guard calls.wrappingAdd(1, ordering: .relaxed).newValue == number else { return }
                    let lock =
                        try? isPruneFirst ? place.lockForUse(isWriting: true) { false } : place.lockForRemoval { false }
                    other.withLock { $0 = lock }
                }
                let place2 = repository.place
                let lock =
                    try? isPruneFirst ? place2.lockForRemoval { false } : place2.lockForUse(isWriting: true) { false }
                objects.before(nil)
                let second = other.withLock(\.self)
                // A lock that was taken and released again before the first one got its own is no fault.
                #expect(lock == nil || second == nil, "\(isPruneFirst) \(number)")
                lock?.release()
                second?.release()
                #expect(objects.names("u/").isEmpty && objects.names("x/").isEmpty)
            }
        }
    }

    @Test("a backup that a prune took for killed is refused at its end, and leaves no record")
    func fenced() throws {
        try backUp()
        try fixture.change()
        let objects = objects
        // The machine sleeps before the first pack is stored; a prune runs meanwhile.
        let pruner = try BackupRepository(opening: ObjectPlace(objects, times: Self.times))
        let hasPruned = Atomic<Bool>(false)
        for isLate in [false, true] {
            hasPruned.store(false, ordering: .relaxed)
            objects.before { call, name in
                guard call == "put", name.hasPrefix(isLate ? "b/" : "p/"),
                    !hasPruned.exchange(true, ordering: .relaxed)
                else { return }
                objects.with { $0.now += 1201 }
                _ = try? pruner.prune(keeping: RetentionPolicy(last: 1))
            }
            expectRefusal(.storeInUse) { try repository.backUp(fixture.store) }
            objects.before(nil)
            #expect(hasPruned.load(ordering: .relaxed) && objects.names("b/").count == 1)
        }
        try backUp()
        #expect(objects.names("b/").count == 2)
        #expect(try repository.verify(unlockedBy: TestKeys.source("raw")).problems.isEmpty)
    }

    @Test("the mark of a killed process is void after its lease, and the next prune removes what it left")
    func killed() throws {
        try backUp()
        let killed = ObjectPlace(objects, times: Self.times)
        _ = try killed.lockForUse(isWriting: true) { false }
        expectRefusal(.storeInUse) { try prune() }
        pass(1201)
        try prune()
        #expect(objects.names("u/").isEmpty)
        _ = try killed.lockForRemoval { false }
        expectRefusal(.storeInUse) { try backUpBeside() }
        pass(1201)
        try backUp()
        #expect(objects.names("x/").isEmpty)
    }

    @Test("a prune that was taken for killed removes nothing more")
    func fencedPrune() throws {
        for _ in 0..<3 {
            try fixture.change(oneIn: 1)
            try backUp()
        }
        pass(3601)
        var times = Self.times
        times.trust = .zero
        let pruner = try BackupRepository(opening: ObjectPlace(objects, times: times))
        let objects = objects
        let hasBackedUp = Atomic<Bool>(false)
        let (store, other) = (fixture.store, try BackupRepository(opening: ObjectPlace(objects, times: Self.times)))
        objects.before { call, name in
            guard call == "list", name == "o/", !hasBackedUp.exchange(true, ordering: .relaxed) else { return }
            objects.with { $0.now += 1201 }
            _ = try? other.backUp(store)
        }
        expectRefusal(.storeInUse) { try pruner.prune(keeping: RetentionPolicy(last: 1)) }
        objects.before(nil)
        #expect(objects.names("b/").count == 4)
        #expect(try repository.verify(unlockedBy: TestKeys.source("raw")).problems.isEmpty)
        try prune()
        #expect(objects.names("b/").count == 1)
    }

    @Test("a prune waits for listings that are late: a backup whose mark was not listed is seen")
    func lateListing() throws {
        try backUp()
        objects.with { $0.isListingLate = true }
        var times = Self.times
        times.listingDelay = .milliseconds(40)
        let place = ObjectPlace(objects, times: times)
        let use = try repository.place.lockForUse(isWriting: true) { false }
        let objects = objects
        // Objects of before the prune are listed when it has waited.
        let begun = Mutex<ContinuousClock.Instant?>(nil)
        objects.before { call, name in
            if call == "put", name == "x/prune" { begun.withLock { $0 = $0 ?? .now } }
            guard call == "list", let start = begun.withLock(\.self), .now - start >= .milliseconds(40) else { return }
            objects.with { $0.unlisted = [] }
        }
        expectRefusal(.storeInUse) { try place.lockForRemoval { false } }
        objects.before(nil)
        use.release()
    }

    @Test("a user without the right to write reads without a mark, and backs up nothing")
    func readOnly() throws {
        try backUp()
        objects.with { $0.deniesWriting = true }
        #expect(try fixture.restored(repository.backup(), from: repository) == RepositoryFixture.content(fixture.store))
        #expect(try repository.verify().problems.isEmpty)
        #expect(throws: MemoryObjects.Denied.self) { try repository.backUp(fixture.store) }
    }

    @Test("marks are renewed while a backup runs, and the last one is removed")
    func renewal() throws {
        var times = Self.times
        times.renewal = .milliseconds(10)
        let place = ObjectPlace(objects, times: times)
        for isRemoval in [false, true] {
            let lock = try isRemoval ? place.lockForRemoval { false } : place.lockForUse(isWriting: true) { false }
            for _ in 0..<3 {
                pass(1000)
                let now = objects.with(\.now)
                let prefix = isRemoval ? "x/" : "u/"
                #expect(
                    waitUntil {
                        objects.with { $0.objects.contains { $0.key.hasPrefix(prefix) && $0.value.stored == now } }
                    })
            }
            lock.release()
            #expect(objects.names("u/").isEmpty && objects.names("x/").isEmpty)
        }
    }

    @Test("a server that replaces names that are taken loses nothing")
    func withoutConditions() throws {
        objects.with { $0.ignoresConditions = true }
        let first = try backUp()
        let second = try backUp()
        #expect(first != second)
        #expect(try repository.verify(unlockedBy: TestKeys.source("raw")).problems.isEmpty)
    }
}

/// Each call to a server fails once, before or after it is done.
@Suite("A server whose calls fail", .serialized) struct ObjectPlaceFaultTests {
    private let fixture: RepositoryFixture
    private let objects = MemoryObjects()
    private let repository: BackupRepository

    init() throws {
        fixture = try RepositoryFixture(rows: 60)
        repository = try BackupRepository(creatingIn: ObjectPlace(objects, times: Self.times))
    }

    private static var times: PlaceTimes {
        var times = PlaceTimes()
        times.listingDelay = .zero
        return times
    }

    /// Does work with each call failing in turn, until it makes fewer calls. Marks that could not be removed are void after
    /// each of them.
    private func each(
        isDone: Bool, _ work: (BackupRepository) throws -> Void, afterwards: (_ hasFailed: Bool) throws -> Void
    ) throws {
        var number = 1 + Sweep.first(oneIn: 3)
        var hits = 0
        while true {
            objects.with { state in
                state.calls = 0
                state.failing = (number, isDone)
            }
            var hasFailed = false
            do {
                try work(BackupRepository(opening: ObjectPlace(objects, times: Self.times)))
            } catch is MemoryObjects.Failure {
                hasFailed = true
            }
            let calls = objects.with { state in
                state.failing = nil
                state.now += 3601
                return state.calls
            }
            try afterwards(hasFailed)
            if calls < number { break }
            hits += 1
            number += Sweep.stride(3)
        }
        #expect(hits > 3)
    }

    @Test(
        "a backup at a server whose call fails is none or whole, and the next one completes", arguments: [true, false])
    func backup(isDone: Bool) throws {
        var contents = [try repository.backUp(fixture.store).id: try RepositoryFixture.content(fixture.store)]
        try each(isDone: isDone) { faulty in
            try fixture.change(oneIn: 10)
            try faulty.backUp(fixture.store)
        } afterwards: { hasFailed in
            let new = objects.names("b/").compactMap { ObjectKind.backup.hash(ofName: $0) }.filter {
                contents[$0] == nil
            }
            #expect(hasFailed ? new.count <= 1 : new.count == 1)
            for id in new { contents[id] = try RepositoryFixture.content(fixture.store) }
        }
        #expect(try repository.verify(unlockedBy: TestKeys.source("raw")).problems.isEmpty)
        for backup in try repository.backups().suffix(6) {
            #expect(try fixture.restored(backup, from: repository) == contents[backup.id])
        }
    }

    @Test(
        "a prune at a server whose call fails loses no backup that is kept, and the next one completes",
        arguments: [true, false])
    func prune(isDone: Bool) throws {
        try repository.backUp(fixture.store)
        try each(isDone: isDone) { faulty in
            let failing = objects.with { state in
                defer { state.failing = nil }
                return state.failing
            }
            for _ in 0..<2 {
                try fixture.change(oneIn: 10)
                try repository.backUp(fixture.store)
            }
            objects.with { state in
                state.now += 3601
                // The first call has opened the repository.
                state.calls = 1
                state.failing = failing
            }
            try faulty.prune(keeping: RetentionPolicy(last: 1))
        } afterwards: { _ in
            #expect(try repository.verify().problems.isEmpty)
            try repository.prune(keeping: RetentionPolicy(last: 1))
            #expect(try objects.names("p/").count == repository.backup().record.packs.count)
        }
        #expect(try fixture.restored(repository.backup(), from: repository) == RepositoryFixture.content(fixture.store))
    }
}
