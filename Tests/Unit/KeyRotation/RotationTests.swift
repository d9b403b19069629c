import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

@testable import KeyRotation

/// Rotations of a store that only this process has open.
@Suite(.serialized) struct RotationTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    private func open(_ path: String? = nil, scheme: KeyScheme = .slots) throws -> SharedStore {
        var config = Configuration()
        config.keyScheme = scheme
        return try SharedStore.open(
            at: path ?? self.path, unlockedBy: TestKeys.source("raw"), configuration: config)
    }

    /// A store of some hundred pages, a part of which is in the WAL only.
    private func filled(_ scheme: KeyScheme = .slots) throws -> SharedStore {
        let store = try open(scheme: scheme)
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
            for _ in 0..<200 { try db.execute(sql: "INSERT INTO t (a) VALUES (hex(randomblob(2000)))") }
        }
        try store.checkpoint(.passive)
        try store.write { db in try db.execute(sql: "UPDATE t SET a = hex(randomblob(1000)) WHERE id % 7 = 0") }
        return store
    }

    private var quick: KeyRotation.Options {
        var options = KeyRotation.Options()
        options.checksIntegrity = false
        return options
    }

    private func content(_ store: SharedStore) throws -> [String] {
        try store.read { try String.fetchAll($0, sql: "SELECT id || a FROM t ORDER BY id") }
    }

    private func sidecar() throws -> Sidecar {
        let files = SidecarFiles(databasePath: path)
        return try #require(try files.choose(files.read()) { try TestKeys.material("raw").unlock($0) }).sidecar
    }

    @Test("a rotation keeps the history: tokens stay valid, readers stay registered, and recording continues")
    func keepsHistory() throws {
        let store = try filled()
        let token = try store.write { db in
            try db.recordHistory(of: .tables(["t"]))
            try db.registerHistoryReader("reader")
            return try db.historyToken()
        }
        try store.write { try $0.execute(sql: "DELETE FROM t WHERE id = 5") }
        let author = store.historyAuthor
        try KeyRotation(store, options: quick).run()
        try store.write { try $0.execute(sql: "DELETE FROM t WHERE id = 6") }
        let page = try store.history(since: token)
        #expect(page.transactions.flatMap(\.changes).map(\.rowID) == [5, 6])
        #expect(page.transactions.map(\.author) == [author, author])
        #expect(try store.read { try $0.historyToken(ofReader: "reader") } == token)
        try store.close()
    }

    // Story: a rotation waited 30 seconds for a write lock that nobody held.
    @Test("a rollback journal that somebody has planted does not stop a rotation")
    func plantedJournal() throws {
        let store = try filled()
        let rows = try content(store)
        let header = Data([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1])
        try (header + Data(count: 1004)).write(to: URL(fileURLWithPath: path + "-journal"))
        try KeyRotation(store, options: quick).run()
        #expect(try content(store) == rows)
        try store.close()
    }

    @Test("a rotated store has the same content under another data key and salt, and its log and copy are gone")
    func rotates() throws {
        let store = try filled()
        let (before, former) = (try content(store), try sidecar())
        let formerKey = try store.keys.reveal().withKey { Array($0) }
        let report = try KeyRotation(store).run()
        #expect(report.fromEpoch == 1 && report.toEpoch == 2 && report.attempts == 1)
        #expect(report.pages > 200 && report.bytes == report.pages * 4096)
        #expect(report.notices.isEmpty, "\(report.notices)")
        #expect(try content(store) == before)
        #expect(store.epoch == 2)
        let present = try sidecar()
        #expect(present.salt != former.salt && present.state == .ready && present.slots == former.slots)
        #expect(try store.keys.reveal().withKey { Array($0) } != formerKey)
        try store.write { try $0.execute(sql: "DELETE FROM t WHERE id = 1") }
        try store.close()
        #expect(!FileManager.default.fileExists(atPath: path + "-rotating"))
        #expect(StoreProof.problems(path).isEmpty)
        // The former key opens no remaining file.
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.url.path)
        #expect(files.allSatisfy { !$0.contains("rotating") && !$0.contains(".tmp") }, "\(files)")
    }

    @Test("a store is rotated again and again, also while its log was begun anew")
    func repeatedly() throws {
        let store = try filled()
        for round in 1...4 {
            let report = try KeyRotation(store, options: quick).run()
            #expect(report.toEpoch == UInt64(round + 1))
            try store.write { try $0.execute(sql: "UPDATE t SET a = 'round \(round)' WHERE id = \(round)") }
            if round.isMultiple(of: 2) { try store.checkpoint(.passive) }
        }
        try store.close()
        #expect(StoreProof.problems(path).isEmpty)
    }

    @Test("an auto-vacuum database, other page sizes and an empty store are rotated", arguments: [512, 4096, 65_536])
    func otherStores(pageBytes: Int) throws {
        let store = try open()
        if pageBytes == 4096 {
            try store.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA auto_vacuum = INCREMENTAL")
                try db.execute(sql: "VACUUM")
                try db.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (randomblob(100000)); DELETE FROM t")
                try db.execute(sql: "PRAGMA incremental_vacuum(3)")
            }
        }
        #expect(try KeyRotation(store).run().toEpoch == 2)
        try store.close()
        #expect(StoreProof.problems(path).isEmpty)
    }

    @Test("a direct store gets a new key, which alone opens it; the one it has is refused")
    func directStore() throws {
        let store = try filled(.direct)
        var options = quick
        options.mode = .newKey(TestKeys.source("raw"))
        #expect(storeError { try KeyRotation(store, options: options).run() } == .invalidKey)
        options.mode = .newDataKey
        #expect(storeError { try KeyRotation(store, options: options).run() } == .modeConflict)
        let newKey = KeySource.rawKey([UInt8](repeating: 0x77, count: 32))
        options.mode = .newKey(newKey)
        options.provesNewKey = TestKeys.source("raw")
        #expect(storeError { try KeyRotation(store, options: options).run() } == .invalidKey)
        #expect(try content(store).count == 200)
        options.provesNewKey = newKey
        #expect(try KeyRotation(store, options: options).run().toEpoch == 2)
        try? store.close()
        #expect(storeError { try open(scheme: .direct) } == .wrongKey)
        let anew = try SharedStore.open(at: path, unlockedBy: newKey)
        #expect(try content(anew).count == 200)
        try anew.close()
    }

    @Test("progress goes through the phases in their order")
    func tellsProgress() throws {
        let store = try filled()
        let told = Mutex<[RotationProgress]>([])
        try KeyRotation(store).run { progress in told.withLock { $0.append(progress) } }
        var phases: [RotationProgress.Phase] = []
        for progress in told.withLock({ $0 }) where phases.last != progress.phase { phases.append(progress.phase) }
        #expect(phases == [.preflight, .copying, .verifying, .catchingUp, .switching, .completed])
        #expect(told.withLock { $0 }.allSatisfy { $0.pagesDone <= max($0.pagesTotal, 0) })
        try store.close()
    }

    @Test("a cancellation at any phase before the switch leaves the store as it was")
    func cancels() throws {
        let store = try filled()
        let before = try content(store)
        for phase in [RotationProgress.Phase.preflight, .copying, .verifying, .catchingUp, .switching] {
            let flag = Flag()
            #expect(throws: CancellationError.self, "\(phase)") {
                try KeyRotation(store, options: quick).run(isCancelled: { flag.isSet }) {
                    if $0.phase == phase { flag.set() }
                }
            }
            #expect(try sidecar().state == .ready)
            #expect(!FileManager.default.fileExists(atPath: path + "-rotating"))
            #expect(try content(store) == before)
        }
        #expect(store.epoch == 1)
        try store.close()
    }

    @Test("a task that is cancelled ends its rotation")
    func cancelsTask() async throws {
        let store = try filled()
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await KeyRotation(store, options: quick).run()
        }
        await #expect(throws: CancellationError.self) { _ = try await task.value }
        #expect(try sidecar().state == .ready)
        #expect(try await KeyRotation(store, options: quick).run().toEpoch == 2)
        try store.close()
    }

    @Test("what has the copy's name and is no copy is left alone; what a cut rotation left is removed")
    func copyInTheWay() throws {
        let store = try filled()
        let copy = path + "-rotating"
        let manager = FileManager.default
        let plants: [(String, () throws -> Void)] = [
            ("folder", { try manager.createDirectory(atPath: copy, withIntermediateDirectories: false) }),
            ("link", { try manager.createSymbolicLink(atPath: copy, withDestinationPath: path) }),
            ("dangling link", { try manager.createSymbolicLink(atPath: copy, withDestinationPath: "/nowhere") }),
            ("text", { try Data("a letter".utf8).write(to: URL(fileURLWithPath: copy)) }),
        ]
        for (name, plant) in plants {
            try plant()
            #expect(storeError { try KeyRotation(store, options: quick).run() } == .rotationPending, "\(name)")
            #expect((try? manager.attributesOfItem(atPath: copy)) != nil, "\(name) is gone")
            #expect(try sidecar().state == .ready)
            try manager.removeItem(atPath: copy)
        }
        try Data(count: 10_000).write(to: URL(fileURLWithPath: copy))
        #expect(try KeyRotation(store, options: quick).run().toEpoch == 2)
        try store.close()
    }

    @Test("a damaged page ends the rotation by its number, and nothing is changed")
    func damagedPage() throws {
        let store = try filled()
        try store.checkpoint(.passive)
        try store.close()
        var bytes = try #require(FileManager.default.contents(atPath: path))
        bytes[149 * 4096 + 77] ^= 1
        try bytes.write(to: URL(fileURLWithPath: path))
        let damaged = try open()
        #expect(storeError { try KeyRotation(damaged, options: quick).run() } == .pageDamaged(150))
        #expect(try sidecar().state == .ready)
        #expect(damaged.epoch == 1)
        // The preflight finds it, too, and refuses before anything is done.
        let plan = try KeyRotation(damaged).preflight()
        #expect(!plan.canBegin && plan.damage?.isEmpty == false)
        try damaged.close()
    }

    // Otherwise a flipped bit on disk or in memory would be noticed only when the last intact database is removed.
    @Test(
        "a bit of the copy that turned is found when it is read back, of the whole copy and of what is carried over",
        arguments: [RotationProgress.Phase.verifying, .catchingUp])
    func turnedBit(phase: RotationProgress.Phase) throws {
        let store = try filled()
        let copy = path + "-rotating"
        let reached = Mutex<RotationProgress.Phase?>(nil)
        let error = storeError {
            try KeyRotation(store, options: quick).run(isCancelled: {
                // Called before each batch, so also between the writing of pages and their reading.
                guard reached.withLock({ $0 == phase }) else { return false }
                let file = try? FileDescriptor(opening: copy, .readWrite)
                guard let byte = try? file?.read(at: 1000, byteCount: 1), let byte = byte.first else { return false }
                try? file?.write([byte &+ 1], at: 1000)
                return false
            }) { progress in
                let isFirst = reached.withLock { former in
                    defer { former = progress.phase }
                    return former != progress.phase
                }
                // The first page changes with the length of the database, so it is carried over.
                guard progress.phase == .verifying, isFirst else { return }
                try? store.write { try $0.execute(sql: "INSERT INTO t (a) VALUES (hex(randomblob(5000)))") }
            }
        }
        #expect(error == .pageDamaged(1))
        #expect(try sidecar().state == .ready)
        #expect(try content(store).count == 201)
        try store.close()
        #expect(StoreProof.problems(path).isEmpty)
    }

    @Test("one rotation at a time: the second is told that a first one runs")
    func excludes() throws {
        let store = try filled()
        let admin = try #require(try LockFile(path: path + "-lock", likeFile: path).tryLock(.admin, .exclusive))
        #expect(try KeyRotation.status(of: path).isRunning)
        #expect(storeError { try KeyRotation(store, options: quick).run() } == .storeInUse)
        admin.release()
        #expect(try !KeyRotation.status(of: path).isRunning)
        #expect(try KeyRotation(store, options: quick).run().toEpoch == 2)
        try store.close()
    }

    // MARK: Single steps

    private func run(_ store: SharedStore) throws -> RotationRun {
        let (keys, _) = try store.requireRotationKeys()
        return RotationRun(
            paths: StorePaths(path), storeKeys: keys, journal: RotationJournal(databasePath: path, keys: keys),
            options: quick, epoch: 1, reporter: ProgressReporter(nil), isCancelled: { false },
            examine: { _ in throw CancellationError() })
    }

    private func pause() throws -> ExclusivePause {
        try #require(
            try ExclusivePause.begin(StorePaths(path), insists: false, budget: .seconds(30), isCancelled: { false }))
    }

    @Test("while a pause is withdrawn nobody waits for a program that cannot be asked and holds the write lock")
    func withdrawsBesideWriter() async throws {
        let store = try filled()
        let run = try run(store)
        let stranger = try run.makeView()
        let pause = try pause()
        let (isWriting, isRead) = (Flag(), Flag())
        let outcome = Mutex<Bool?>(nil)
        Thread.detachNewThread {
            // The lock is held until another access has resumed.
            let wentOn = try? stranger.withWriteLock(until: .now + .seconds(30)) {
                isWriting.set()
                return waitUntil { isRead.isSet }
            }
            outcome.withLock { $0 = wentOn ?? false }
        }
        #expect(await eventually { isWriting.isSet })
        Thread.detachNewThread {
            if (try? content(store).count) == 200 { isRead.set() }
        }
        let (view, isWALLost) = try run.reopenView(after: stranger.position, pause)
        #expect(pause.length > .zero && !isWALLost && view.position == stranger.position)
        #expect(await eventually { outcome.withLock { $0 } == true })
        try view.close()
        try stranger.close()
        try store.close()
    }

    /// The lease remembered that the store was direct when it was opened: the store object reported `keyRotated` for
    /// good although it held the new keys.
    @Test("a store that was converted to keyslots is rotated and used by the same object")
    func rotatesAfterConversion() throws {
        let store = try filled(.direct)
        let before = try content(store)
        try store.keys.convertToSlots(.rawKey(TestKeys.rawKey))
        #expect(try KeyRotation(store, options: quick).run().toEpoch == 2)
        #expect(try content(store) == before)
        try store.write { try $0.execute(sql: "INSERT INTO t (a) VALUES ('more')") }
        try store.close()
    }

    /// The key that the store was opened with was always among those to be kept, also when its keyslot was gone.
    @Test("after a leaked key was changed the store is rotated without it")
    func compromisedAfterChange() throws {
        let store = try filled()
        let before = try content(store)
        let other = KeySource.rawKey([UInt8](repeating: 7, count: 32))
        try store.keys.change(1, to: other)
        var options = quick
        options.mode = .compromised(dropsOtherSlots: false, alsoKeeping: [other])
        #expect(try KeyRotation(store, options: options).run().toEpoch == 2)
        #expect(try content(store) == before)
        try store.close()
        #expect(storeError { try open() } == .wrongKey)
        let opened = try SharedStore.open(at: path, unlockedBy: other)
        #expect(try content(opened) == before)
        try opened.close()
    }

    @Test("the preflight names the keyslots for which the rotation would be refused")
    func preflightOfCompromised() throws {
        // Story: a dry run said yes where the run refused.
        let store = try filled()
        try store.keys.add(KeySource.rawKey([UInt8](repeating: 7, count: 32)))
        var options = quick
        options.mode = .compromised(dropsOtherSlots: false, alsoKeeping: [])
        #expect(storeError { try KeyRotation(store, options: options).run() } == .modeConflict)
        let plan = try KeyRotation(store, options: options).preflight()
        #expect(!plan.canBegin && plan.obstacles.contains { $0.what.contains("keyslots cannot be kept") })
        options.mode = .compromised(dropsOtherSlots: true, alsoKeeping: [])
        #expect(try KeyRotation(store, options: options).preflight().canBegin)
        try store.close()
    }

    @Test("a pause is withdrawn also when the proof that nobody is connected has failed, which keeps connections out")
    func withdrawsAfterProof() throws {
        let store = try filled()
        let run = try run(store)
        let former = try run.makeView()
        try store.write { try $0.execute(sql: "INSERT INTO t (a) VALUES (0)") }
        try former.close()
        let pause = try pause()
        // No copy is put in place.
        let copy = FileIdentity(device: 0, inode: 0)
        guard case .withheld = try run.prove(copy, at: former.position) else {
            Issue.record("the WAL does not end there any more")
            return
        }
        let (view, isWALLost) = try run.reopenView(after: former.position, pause)
        #expect(isWALLost && view.position != former.position)
        pause.end()
        #expect(try content(store).count == 201)
        try view.close()
        try store.close()
    }

    // Story: libdispatch freed its cache of the thread twice, and the process died with a corrupted heap.
    @Test("the last reference to a store may end with a thread that has rotated it, or backed it up")
    func endingThreads() throws {
        try filled().close()
        for round in 1...6 {
            let done = DispatchSemaphore(value: 0)
            do {
                let (store, options, backup) = (try open(), quick, folder.path("backup-\(round)"))
                Thread.detachNewThread {
                    defer { done.signal() }
                    do {
                        try KeyRotation(store, options: options).run()
                        try store.backup(toFolder: backup)
                    } catch {
                        Issue.record(error)
                    }
                }
            }
            done.wait()
        }
        #expect(try open().epoch == 7)
    }

    @Test("the preflight tells what a rotation would need and meet")
    func preflight() throws {
        let store = try filled()
        let plan = try KeyRotation(store).preflight()
        #expect(plan.canBegin, "\(plan.obstacles)")
        #expect(plan.epoch == 1 && plan.hasSlots && plan.hasRecoverySlot == false && plan.damage == [])
        #expect(plan.databaseBytes == plan.pages * 4096 && plan.pages > 200)
        #expect(plan.sampleBytesPerSecond > 0 && plan.freeBytes > 0 && plan.walLimitBytes > 0)
        #expect(plan.holders.contains { $0.process == ProcessInspector.currentProcess })
        #expect(plan.warnings.contains { $0.what.contains("recovery") })
        #expect(plan.library.hasPrefix("SQLCipher 4"))
        #expect(store.epoch == 1)
        try store.close()
    }
}
