import CipherStore
import Foundation
import ObjectStorage
import StorePlatform
import Synchronization
import TestKit
import Testing

@testable import StoreBackups

/// A replica in the repository of a fixture.
extension RepositoryFixture {
    func replicate(_ repository: BackupRepository? = nil) throws {
        try StoreReplication(of: path, to: repository ?? self.repository).once()
    }

    /// Restores a moment to a new path and returns its rows.
    func restored(at time: UInt64?) throws -> [String] {
        let moment = try #require(try repository.moment(at: time))
        let target = folder.path("restored-\(UUID().uuidString).db")
        try repository.restore(moment, to: target, unlockedBy: TestKeys.source("raw"))
        let store = try SharedStore.open(at: target, unlockedBy: TestKeys.source("raw"))
        defer { try? store.close() }
        #expect(try store.read { try String.fetchAll($0, sql: "PRAGMA integrity_check") } == ["ok"])
        return try Self.content(store)
    }

    /// The salts in the header of the WAL, which a reset changes.
    func walSalts() throws -> Data { try Data(contentsOf: URL(filePath: path + "-wal")).prefix(24).suffix(8) }

    func replica() throws -> Replica { try #require(try repository.replicas().first) }
}

/// Runs a replication on a thread.
final class RunningReplication: Sendable {
    private let isStopped = Atomic<Bool>(false)
    private let hasEnded = Atomic<Bool>(false)
    private let gapCount = Atomic<Int>(0)
    private let baseCount = Atomic<Int>(0)

    init(_ path: String, _ repository: BackupRepository, walLimitBytes: Int = 1 << 30) {
        let thread = Thread { [self] in
            var options = StoreReplication.Options()
            options.walLimitBytes = walLimitBytes
            let replication = StoreReplication(of: path, to: repository, options: options) { event in
                switch event {
                case .gap: self.gapCount.add(1, ordering: .relaxed)
                case .base: self.baseCount.add(1, ordering: .relaxed)
                default: break
                }
            }
            try? replication.run { self.isStopped.load(ordering: .relaxed) }
            hasEnded.store(true, ordering: .relaxed)
        }
        thread.start()
        #expect(waitUntil { bases > 0 }, "no base was stored")
    }

    deinit { isStopped.store(true, ordering: .relaxed) }

    var gaps: Int { gapCount.load(ordering: .relaxed) }
    var bases: Int { baseCount.load(ordering: .relaxed) }

    func stop() {
        isStopped.store(true, ordering: .relaxed)
        #expect(waitUntil { hasEnded.load(ordering: .relaxed) }, "the replication did not end")
    }
}

/// Waits until the clock has gone on.
func passTime(_ milliseconds: Int) {
    let end = WallClock.millisecondsSince1970 + milliseconds
    _ = waitUntil { WallClock.millisecondsSince1970 > end }
}

private func now() -> UInt64 { UInt64(WallClock.millisecondsSince1970) }

@Suite("Replicas", .serialized) struct ReplicationTests {
    @Test("a run ships what is committed, the next one continues, and each moment is restored")
    func moments() throws {
        let fixture = try RepositoryFixture(rows: 60)
        var moments: [(time: UInt64, content: [String])] = []
        let steps = [
            "", "UPDATE note SET body = randomblob(3000) WHERE id % 7 = 1", "DELETE FROM note WHERE id > 20", "VACUUM",
            "INSERT INTO note (body) SELECT randomblob(3000) FROM note", "CREATE TABLE other (id)",
        ]
        for step in steps {
            if !step.isEmpty { try fixture.store.writeWithoutTransaction { try $0.execute(sql: step) } }
            try fixture.replicate()
            moments.append((now(), try RepositoryFixture.content(fixture.store)))
            passTime(2)
        }
        let replica = try fixture.replica()
        #expect(replica.bases == [1] && replica.lastSegments == [1: 5])
        for (time, content) in moments { #expect(try fixture.restored(at: time) == content) }
        #expect(try fixture.restored(at: nil) == moments.last?.content)
        #expect(try fixture.repository.moment(at: moments[0].time - 60_000) == nil)
        #expect(try fixture.repository.replicationStatus(of: fixture.path).pendingFrames == 0)
        #expect(try fixture.repository.verify().problems.isEmpty)
        try fixture.store.close()
    }

    // Story: an empty file with the greatest number ended each replicator by SIGILL; one with a later number was taken for the
    // newest base, and nothing could be restored.
    @Test(
        "names that another user has taken neither end a replication nor count",
        arguments: [
            "ffffffff-00000000", "ffffffff-00000001", "00000002-00000000", "00000009-00000000", "00000001-00000002",
            "00000001-00000005",
        ])
    func plantedNames(_ name: String) throws {
        let fixture = try RepositoryFixture(rows: 20)
        defer { try? fixture.store.close() }
        try fixture.replicate()
        try fixture.change(oneIn: 2)
        try fixture.replicate()
        let (first, time) = (try RepositoryFixture.content(fixture.store), now())
        let file = fixture.place + "/r/\(try fixture.replica().storeID)-" + name
        #expect(FileManager.default.createFile(atPath: file, contents: nil) && chmod(file, 0o666) == 0)
        #expect(try fixture.restored(at: time) == first)
        // It cannot be the last moment as long as a later object is not proven.
        var error: StoreError?
        do { _ = try fixture.repository.moment(at: nil) } catch let found as StoreError { error = found }
        #expect(error?.code == .backupDamaged && error?.why.contains("another user") == true, "\(error as Any)")
        #expect(try fixture.repository.verify().problems.isEmpty)
        passTime(2)
        try fixture.change(oneIn: 3)
        try fixture.replicate()
        try fixture.replicate()
        passTime(2)
        #expect(try fixture.restored(at: now()) == RepositoryFixture.content(fixture.store))
        #expect(try fixture.repository.replicationStatus(of: fixture.path).pendingFrames == 0)
    }

    // Story: the file ended the replicator, which took it for that of another process.
    @Test("a running replication makes a new base where another user has taken the name of a segment to come")
    func plantedNextName() throws {
        let fixture = try RepositoryFixture(rows: 20)
        defer { try? fixture.store.close() }
        let running = RunningReplication(fixture.path, fixture.repository)
        // Not the next name: a segment without a commit may be stored at this moment.
        let planted = fixture.place + "/" + (try fixture.replica().lastName(ofBase: 1).next.next.object)
        #expect(FileManager.default.createFile(atPath: planted, contents: nil) && chmod(planted, 0o666) == 0)
        #expect(
            try waitUntil {
                try fixture.change(oneIn: 2)
                return running.bases == 2
            })
        running.stop()
        #expect(running.gaps == 1)
        passTime(2)
        #expect(try fixture.restored(at: nil) == RepositoryFixture.content(fixture.store))
    }

    // Story: a restoration to a moment before a long outage had commits of 12 s later. One poll had found more than a segment
    // holds, and the first of these segments names no commit.
    @Test("a moment has no commit that a later poll has found, however many segments these fill")
    func longGroup() throws {
        let fixture = try RepositoryFixture(rows: 5)
        try fixture.replicate()
        try fixture.change(oneIn: 2)
        try fixture.replicate()
        let content = try RepositoryFixture.content(fixture.store)
        let time = now()
        passTime(2)
        // It keeps the WAL from being reset.
        let snapshot = try fixture.store.makeSnapshot()
        for _ in 0..<5 {
            try fixture.store.write { try $0.execute(sql: "INSERT INTO note (body) VALUES (randomblob(3000000))") }
        }
        try fixture.replicate()
        let segments = try fixture.replica().lastSegments[1] ?? 0
        withExtendedLifetime(snapshot) { #expect(segments >= 3) }
        #expect(try fixture.restored(at: time) == content)
        #expect(try fixture.restored(at: nil) == RepositoryFixture.content(fixture.store))
        try fixture.store.close()
    }

    // Story: a segment with a sidecar alone had no commit, and a restoration took the sidecar of the base.
    @Test("a key that was added after the last commit opens the restored store")
    func addedKey() throws {
        let fixture = try RepositoryFixture(rows: 5)
        try fixture.replicate()
        try fixture.store.keys.add(TestKeys.source("second"), derivation: TestKeys.cheap)
        try fixture.replicate()
        let target = fixture.folder.path("restored.db")
        let moment = try #require(try fixture.repository.moment(at: nil))
        try fixture.repository.restore(moment, to: target, unlockedBy: TestKeys.source("second"))
        try fixture.store.close()
    }

    @Test("without a connection the frames of the WAL are shipped as the next opening finds them")
    func closedStore() throws {
        let fixture = try RepositoryFixture(rows: 30)
        let content = try RepositoryFixture.content(fixture.store)
        try fixture.store.close()
        // The time of a file is exact to some milliseconds.
        passTime(50)
        try fixture.replicate()
        try fixture.replicate()
        #expect(try fixture.replica().bases == [1])
        #expect(try fixture.restored(at: nil) == content)
    }

    @Test("a store without a WAL is opened while it is replicated")
    func openedWithoutWAL() throws {
        let fixture = try RepositoryFixture(rows: 10)
        try fixture.store.close()
        for ending in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: fixture.path + ending) }
        let running = RunningReplication(fixture.path, fixture.repository)
        let store = try SharedStore.open(at: fixture.path, unlockedBy: TestKeys.source("raw"))
        try store.write { try $0.execute(sql: "INSERT INTO note (body) VALUES (1)") }
        let content = try RepositoryFixture.content(store)
        #expect(waitUntil { (try? fixture.repository.replicationStatus(of: fixture.path).pendingFrames) == 0 })
        running.stop()
        try store.close()
        #expect(try fixture.restored(at: nil) == content)
    }

    @Test("commits that a reset overwrote before they were shipped are a gap, and a new base follows")
    func gap() throws {
        let fixture = try RepositoryFixture(rows: 30)
        try fixture.replicate()
        passTime(5)
        try fixture.change(oneIn: 2)
        let lost = now()
        passTime(5)
        _ = try fixture.store.writeWithoutTransaction { try $0.checkpoint(.truncate) }
        try fixture.change(oneIn: 2)
        try fixture.replicate()
        let ranges = try fixture.repository.replicatedRanges()
        #expect(ranges.count == 2 && ranges[0].until < ranges[1].since)
        _ = try fixture.restored(at: ranges[0].until)
        expectRefusal(.noSuchStore) { try fixture.repository.moment(at: lost) }
        #expect(try fixture.restored(at: nil) == RepositoryFixture.content(fixture.store))
        // Pages that the first base has are not stored again.
        let newest = try fixture.repository.replicaObject(fixture.replica().baseName(2)).object
        let oldest = try fixture.repository.replicaObject(fixture.replica().baseName(1)).object
        #expect(!Set(newest.packs).isDisjoint(with: oldest.packs))
        try fixture.store.close()
    }

    @Test("a reset after everything was shipped leaves no gap, also if nobody replicates then")
    func provenReset() throws {
        let fixture = try RepositoryFixture(rows: 30)
        try fixture.replicate()
        _ = try fixture.store.writeWithoutTransaction { try $0.checkpoint(.truncate) }
        try fixture.change(oneIn: 30)
        try fixture.replicate()
        #expect(try fixture.replica().bases == [1])
        #expect(try fixture.restored(at: nil) == RepositoryFixture.content(fixture.store))
        try fixture.store.close()
    }

    @Test("a replicated store resets its WAL, and loses no moment by that")
    func resets() throws {
        let fixture = try RepositoryFixture(rows: 5)
        let running = RunningReplication(fixture.path, fixture.repository)
        func salts() throws -> [UInt8] {
            let wal = try FileHandle(forReadingFrom: URL(fileURLWithPath: fixture.path + "-wal"))
            defer { try? wal.close() }
            return Array(try wal.read(upToCount: 24)?.suffix(8) ?? Data())
        }
        // Under load the moments are rare in which everything is copied and stored.
        let (first, deadline) = (try salts(), Date() + 30)
        var runs = Set([first])
        while runs.count < 3, Date() < deadline {
            try fixture.store.write { db in
                for _ in 0..<100 { try db.execute(sql: "INSERT INTO note (body) VALUES (randomblob(3000))") }
            }
            runs.insert(try salts())
            passTime(20)
        }
        let content = try RepositoryFixture.content(fixture.store)
        running.stop()
        #expect(runs.count == 3, "the WAL is not reset")
        #expect(running.gaps == 0 && running.bases == 1)
        #expect(try fixture.restored(at: nil) == content)
        try fixture.store.close()
    }

    @Test("while the place fails the WAL grows to its bound; then commits are given up, and a base closes the gap")
    func failingPlace() throws {
        let fixture = try RepositoryFixture(rows: 30)
        let faulty = OutagePlace(fixture.place)
        let running = RunningReplication(fixture.path, try BackupRepository(opening: faulty), walLimitBytes: 1 << 20)
        faulty.fails(true)
        #expect(
            try waitUntil {
                try fixture.change(oneIn: 2)
                return running.gaps > 0
            })
        // A reset, without which the replica would continue. An attempt of the replica may prevent it for a moment.
        let salts = try fixture.walSalts()
        #expect(
            try waitUntil {
                _ = try? fixture.store.writeWithoutTransaction { try $0.checkpoint(.truncate) }
                try fixture.change(oneIn: 2)
                return try fixture.walSalts() != salts
            })
        try fixture.change(oneIn: 3)
        faulty.fails(false)
        // After a long outage the next attempt comes 30 s later.
        #expect(waitUntil(within: .seconds(90)) { running.bases > 1 })
        let content = try RepositoryFixture.content(fixture.store)
        running.stop()
        #expect(try fixture.repository.replicatedRanges().count == 2)
        #expect(try fixture.restored(at: nil) == content)
        try fixture.store.close()
    }

    @Test("a second replicator of a store at one place is refused while the first one runs")
    func second() throws {
        let fixture = try RepositoryFixture(rows: 5)
        let running = RunningReplication(fixture.path, fixture.repository)
        expectRefusal(.storeInUse) { try fixture.replicate() }
        #expect(try fixture.repository.replicationStatus(of: fixture.path).isRunning)
        running.stop()
        try fixture.replicate()
        try fixture.store.close()
    }

    @Test("a copy of a store with the same identifier does not continue the replica of the first one")
    func copies() throws {
        let fixture = try RepositoryFixture(rows: 30)
        try fixture.replicate()
        let target = fixture.folder.path("copy.db")
        let moment = try #require(try fixture.repository.moment(at: nil))
        try fixture.repository.restore(moment, to: target, unlockedBy: TestKeys.source("raw"))
        let copy = try SharedStore.open(at: target, unlockedBy: TestKeys.source("raw"))
        try copy.write { try $0.execute(sql: "DELETE FROM note WHERE id < 10") }
        try StoreReplication(of: target, to: fixture.repository).once()
        #expect(try fixture.replica().bases == [1, 2])
        #expect(try fixture.restored(at: nil) == RepositoryFixture.content(copy))
        try copy.close()
        try fixture.store.close()
    }

    @Test("a call of the place that fails loses nothing, and the next run completes", arguments: [true, false])
    func faults(isDone: Bool) throws {
        let fixture = try RepositoryFixture(rows: 30)
        var (number, hits) = (1 + Sweep.first(oneIn: 2), 0)
        while true {
            try fixture.change(oneIn: 10)
            let faulty = FaultyPlace(fixture.place, failing: number, isDone: isDone)
            do {
                try fixture.replicate(BackupRepository(opening: faulty))
            } catch let error as SystemError {
                #expect(error.errorNumber == EIO)
            }
            let isOver = faulty.count < number
            try fixture.replicate()
            #expect(try fixture.restored(at: nil) == RepositoryFixture.content(fixture.store), "call \(number)")
            if isOver { break }
            (number, hits) = (number + Sweep.stride(2), hits + 1)
        }
        #expect(hits > 2)
        #expect(try fixture.repository.verify().problems.isEmpty)
        #expect(try fixture.repository.replicatedRanges().count == 1)
        try fixture.store.close()
    }
}

@Suite("Objects of replicas", .serialized) struct ReplicaObjectTests {
    private func fixture() throws -> RepositoryFixture {
        let fixture = try RepositoryFixture(rows: 20)
        for _ in 0..<3 {
            try fixture.replicate()
            try fixture.change(oneIn: 5)
            passTime(2)
        }
        try fixture.replicate()
        return fixture
    }

    @Test("a damaged or missing segment is reported, and moments before it are restored")
    func damage() throws {
        let fixture = try fixture()
        let files = try fixture.files(.replica)
        try #require(files.count == 4)
        try fixture.flip(files[2], at: 1000)
        #expect(
            try fixture.repository.verify().problems.map(\.object) == [
                String(files[2].suffix(from: files[2].range(of: "/r/")!.lowerBound).dropFirst())
            ])
        expectRefusal(.backupDamaged) { try fixture.repository.moment(at: nil) }
        let first = try #require(try fixture.repository.replicatedRanges().first)
        _ = try fixture.restored(at: first.since)
        try FileManager.default.removeItem(atPath: files[2])
        #expect(try fixture.repository.verify().problems.count == 1)
        var sentences: [String] = []
        _ = try fixture.repository.replicatedRanges { sentences.append($0) }
        #expect(sentences.count == 1)
        // The next run makes a base, because it cannot continue.
        try fixture.replicate()
        #expect(try fixture.restored(at: nil) == RepositoryFixture.content(fixture.store))
        #expect(try fixture.replica().bases == [1, 2])
        try fixture.store.close()
    }

    @Test("every changed byte of an object is found")
    func everyByte() throws {
        let fixture = try fixture()
        let file = try fixture.files(.replica)[1]
        let bytes = Array(try Data(contentsOf: URL(fileURLWithPath: file)))
        let name = try #require(ReplicaName("r/" + (file.split(separator: "/").last ?? "")))
        _ = try ReplicaObject.parse(bytes, named: name)
        for offset in stride(from: Sweep.first(oneIn: 97), to: bytes.count, by: Sweep.stride(97)) {
            var changed = bytes
            changed[offset] ^= 0x10
            #expect(throws: FormatFault.self, "\(offset)") { try ReplicaObject.parse(changed, named: name) }
        }
        for count in stride(from: 0, to: bytes.count, by: 501) {
            #expect(throws: FormatFault.self) { try ReplicaObject.parse(Array(bytes.prefix(count)), named: name) }
        }
        let other = ReplicaName(name.storeID, base: 1, segment: 2)
        #expect(throws: FormatFault.self) { try ReplicaObject.parse(bytes, named: other) }
        try fixture.store.close()
    }

    @Test("an object of a newer version is not overwritten")
    func newerVersion() throws {
        let fixture = try fixture()
        let file = try #require(try fixture.files(.replica).last)
        try fixture.flip(file, at: ReplicaObject.Offset.version + 1)
        var bytes = Array(try Data(contentsOf: URL(fileURLWithPath: file)))
        bytes[ReplicaObject.Offset.version + 1] = 9
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        expectRefusal(.sidecarAhead) { try fixture.repository.moment(at: nil) }
        expectRefusal(.sidecarAhead) { try fixture.replicate() }
        try fixture.store.close()
    }

    @Test("an object that another user may have written is neither restored nor continued")
    func otherUser() throws {
        let fixture = try fixture()
        let file = try #require(try fixture.files(.replica).last)
        #expect(chmod(file, 0o666) == 0)
        expectRefusal(.backupDamaged) { try fixture.repository.moment(at: nil) }
        try fixture.replicate()
        #expect(try fixture.replica().bases == [1, 2])
        try fixture.store.close()
    }

    @Test("a prune keeps what the kept moments need")
    func prune() throws {
        let fixture = try fixture()
        try fixture.repository.backUp(fixture.store)
        // A gap, so that there is a second base.
        try fixture.change(oneIn: 2)
        _ = try fixture.store.writeWithoutTransaction { try $0.checkpoint(.truncate) }
        try fixture.change(oneIn: 2)
        try fixture.replicate()
        passTime(1100)
        let all = try fixture.repository.prune(keeping: RetentionPolicy(last: 1))
        #expect(all.bases == (2, 0))
        let planned = try fixture.repository.prune(keeping: RetentionPolicy(continuousSeconds: 0), isDryRun: true)
        #expect(planned.bases == (1, 1) && planned.decisions.allSatisfy(\.isKept))
        let pruned = try fixture.repository.prune(keeping: RetentionPolicy(continuousSeconds: 0))
        #expect(pruned.bases == (1, 1))
        #expect(try fixture.replica().bases == [2])
        #expect(try fixture.repository.verify(unlockedBy: TestKeys.source("raw")).problems.isEmpty)
        #expect(try fixture.restored(at: nil) == RepositoryFixture.content(fixture.store))
        let base = try #require(try fixture.files(.replica).first)
        try fixture.flip(base, at: 200)
        expectRefusal(.backupDamaged) { try fixture.repository.prune(keeping: RetentionPolicy(last: 1)) }
        try fixture.store.close()
    }

    @Test("names are read as they are written, and other texts are none")
    func names() throws {
        let storeID = try #require(StoreID(bytes: Array(0..<16)))
        let name = ReplicaName(storeID, base: 1, segment: 0xfe)
        #expect(name.object == "r/000102030405060708090a0b0c0d0e0f-00000001-000000fe")
        #expect(ReplicaName(name.object) == name && ObjectKind.isName(name.object))
        for text in ["r/", name.object + "0", name.object.uppercased(), "b" + name.object.dropFirst(), "r/x-1-1"] {
            #expect(ReplicaName(text) == nil)
        }
    }
}

/// A place that fails for a time.
private final class OutagePlace: BackupPlace {
    private let place: FolderPlace
    private let isOut = Atomic<Bool>(false)

    init(_ path: String) { place = FolderPlace(path) }

    func fails(_ isOut: Bool) { self.isOut.store(isOut, ordering: .relaxed) }

    var description: String { place.description }

    private func call<T>(_ body: () throws -> T) throws -> T {
        if isOut.load(ordering: .relaxed) { throw SystemError(call: "put", path: place.path, errorNumber: EIO) }
        return try body()
    }

    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome { try call { try place.put(name, bytes) } }
    func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        try call { try place.get(name, limitBytes: limitBytes) }
    }
    func read(_ name: String, at offset: Int, byteCount: Int) throws -> [UInt8]? {
        try call { try place.read(name, at: offset, byteCount: byteCount) }
    }
    func attributed(_ name: String, limitBytes: Int) throws -> AttributedObject? {
        try call { try place.attributed(name, limitBytes: limitBytes) }
    }
    func list(_ prefix: String) throws -> [ListedObject] { try call { try place.list(prefix) } }
    func delete(_ name: String) throws { try call { try place.delete(name) } }
    func delete(_ names: [String]) throws { try call { try place.delete(names) } }
    func deleteUnneeded(_ names: [String]) throws -> Int { try call { try place.deleteUnneeded(names) } }
    func removeUploads() throws -> Int { try call { try place.removeUploads() } }
    func lockForUse(isWriting: Bool, _ isCancelled: () -> Bool) throws -> any PlaceLock {
        try call { try place.lockForUse(isWriting: isWriting, isCancelled) }
    }
    func lockForRemoval(_ isCancelled: () -> Bool) throws -> any PlaceLock {
        try call { try place.lockForRemoval(isCancelled) }
    }
}
