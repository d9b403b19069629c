import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

/// Coordinated accesses of `FileCoordinator` between processes, and the spellings that existing code uses.
@Suite struct CoordinationTests {
    private static let short = Duration.milliseconds(150)
    let folder = TemporaryFolder()
    var path: String { folder.path("app.db") }
    var url: URL { URL(fileURLWithPath: path) }

    /// A process that stays in a coordinated access until it gets a command or is killed.
    private func holder(_ kind: String) throws -> ActorProcess {
        let process = try ActorProcess()
        #expect(process.ask("coordinate-and-hold \(path) \(kind)") == "ok held")
        return process
    }

    private func canWrite() -> Bool {
        storeError { try FileCoordinator(timeout: Self.short).coordinate(writingItemAt: url) { _ in } } == nil
    }

    private func canRead() -> Bool {
        storeError { try FileCoordinator(timeout: Self.short).coordinate(readingItemAt: url) { _ in } } == nil
    }

    @Test("a writer in another process keeps writers and readers out until it is done")
    func exclusive() throws {
        let other = try holder("writing")
        #expect(!canWrite())
        #expect(!canRead())
        #expect(other.ask("done") == "ok released")
        #expect(canWrite())
        #expect(canRead())
    }

    @Test("readers go together and keep writers out")
    func shared() throws {
        let one = try holder("reading")
        let two = try holder("reading")
        #expect(canRead())
        #expect(!canWrite())
        #expect(one.ask("done") == "ok released")
        #expect(!canWrite())
        #expect(two.ask("done") == "ok released")
        #expect(canWrite())
    }

    @Test("a process that is killed gives its turn back to the one that waits")
    func killed() throws {
        let victim = try holder("writing")
        let waiting = try ActorProcess()
        waiting.send("coordinate-and-hold \(path) writing")
        #expect(!canWrite())
        victim.kill()
        #expect(waiting.answer() == "ok held")
        #expect(!canRead())
        waiting.kill()
        #expect(canWrite())
    }

    @Test("a turn that does not come in time is an error that says who is in the way, and the closure has not run")
    func timeout() throws {
        let other = try holder("writing")
        let coordinator = FileCoordinator(timeout: Self.short)
        var runs = 0
        let error = #expect(throws: StoreError.self) {
            try coordinator.coordinate(writingItemAt: url) { _ in runs += 1 }
        }
        #expect(error?.code == .storeInUse)
        #expect(error?.description.contains("app.db-lock") == true)
        // The system's table of locks names no process for these locks.
        let name = "Process \(other.processIdentifier) (StoreActor, "
        #expect(error?.why == name + "running) is coordinating access to the file.")
        other.stop()
        let whileStopped = #expect(throws: StoreError.self) {
            try coordinator.coordinate(writingItemAt: url) { _ in runs += 1 }
        }
        #expect(whileStopped?.why == name + "stopped) is coordinating access to the file.")
        other.go()
        var nsError: NSError?
        coordinator.coordinate(writingItemAt: url, options: .forMerging, error: &nsError) { _ in runs += 1 }
        #expect(nsError?.localizedDescription.contains("storeInUse") == true)
        #expect((nsError?.userInfo[NSUnderlyingErrorKey] as? StoreError)?.code == .storeInUse)
        nsError = nil
        coordinator.coordinate(readingItemAt: url, options: .withoutChanges, error: &nsError) { _ in runs += 1 }
        #expect(nsError != nil)
        // Without an error pointer the error is dropped; the closure still has not run.
        coordinator.coordinate(readingItemAt: url, options: [], error: nil, byAccessor: { _ in runs += 1 })
        #expect(runs == 0)
        #expect(other.ask("done") == "ok released")
        nsError = nil
        coordinator.coordinate(writingItemAt: url, options: .forMerging, error: &nsError) { _ in runs += 1 }
        #expect(nsError == nil && runs == 1)
    }

    @Test("all spellings run their closure once, with the same URL")
    func spellings() throws {
        let coordinator = FileCoordinator(filePresenter: nil)
        var seen: [URL] = []
        var error: NSError?
        coordinator.coordinate(writingItemAt: url, options: .forMerging, error: &error) { seen.append($0) }
        coordinator.coordinate(writingItemAt: url, options: .forMerging, error: &error, byAccessor: { seen.append($0) })
        coordinator.coordinate(writingItemAt: url, options: [.forMoving, .forDeleting], error: nil) { seen.append($0) }
        coordinator.coordinate(readingItemAt: url, options: .withoutChanges, error: &error) { seen.append($0) }
        coordinator.coordinate(
            readingItemAt: url, options: .withoutChanges, error: nil, byAccessor: { seen.append($0) })
        try coordinator.coordinate(writingItemAt: url) { seen.append($0) }
        try coordinator.coordinate(readingItemAt: url, options: .withoutChanges) { seen.append($0) }
        #expect(error == nil)
        #expect(seen == Array(repeating: url, count: 7))
        let value = try coordinator.coordinate(writingItemAt: url) { $0.lastPathComponent }
        #expect(value == "app.db")
    }

    @Test("an error of the closure comes back as it is, and the turn is given back")
    func throwingClosure() {
        struct Mine: Error {}
        #expect(throws: Mine.self) { try FileCoordinator().coordinate(writingItemAt: url) { _ in throw Mine() } }
        #expect(canWrite())
    }

    @Test("a coordinator that holds a turn may ask for it again, for less or for as much")
    func nested() throws {
        let coordinator = FileCoordinator(timeout: Self.short)
        let depth = try coordinator.coordinate(writingItemAt: url) { outer in
            try coordinator.coordinate(writingItemAt: outer) { inner in
                try coordinator.coordinate(readingItemAt: inner) { _ in canRead() ? 0 : 3 }
            }
        }
        #expect(depth == 3, "the outer turn ended with an inner one")
        let readers = try coordinator.coordinate(readingItemAt: url) { outer in
            try coordinator.coordinate(readingItemAt: outer) { _ in canRead() && !canWrite() }
        }
        #expect(readers)
        #expect(canWrite())
    }

    @Test("two threads of one process take turns like two processes")
    func threads() {
        let inside = Atomic<Int>(0)
        let overlaps = Atomic<Int>(0)
        let coordinator = FileCoordinator()
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            for _ in 0..<25 {
                try? coordinator.coordinate(writingItemAt: url) { _ in
                    if inside.wrappingAdd(1, ordering: .sequentiallyConsistent).oldValue != 0 {
                        overlaps.wrappingAdd(1, ordering: .sequentiallyConsistent)
                    }
                    sched_yield()
                    inside.wrappingSubtract(1, ordering: .sequentiallyConsistent)
                }
            }
        }
        #expect(overlaps.load(ordering: .sequentiallyConsistent) == 0)
    }

    @Test("any opening may stand inside a turn, of a store that others have open as well")
    func aroundOpenings() throws {
        let other = try ActorProcess()
        #expect(other.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        let source = TestKeys.source("raw")
        let coordinator = FileCoordinator(filePresenter: nil, timeout: .seconds(20))
        let store = try coordinator.coordinate(writingItemAt: url) { try SharedStore.open(at: $0, unlockedBy: source) }
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM mark") } == 1)
        let reader = try coordinator.coordinate(readingItemAt: url) {
            try SharedStore.openReadOnly(at: $0, unlockedBy: source)
        }
        #expect(reader != nil)
        var pool: DatabasePool?
        var error: NSError?
        coordinator.coordinate(writingItemAt: url, options: .forMerging, error: &error) { url in
            var config = Configuration()
            config.prepareDatabase { try $0.useRawKey(Data(repeating: 0x2a, count: 32)) }
            pool = try? DatabasePool(path: url.path, configuration: config)
            try? pool?.write { try $0.execute(sql: "INSERT INTO mark (text) VALUES ('turn')") }
        }
        #expect(error == nil && pool != nil)
        #expect(other.ask("total") == "ok 2")
        // The reverse: a coordinated access begins while stores are open, in this process and in others.
        #expect(canWrite())
    }

    @Test("processes that all open inside a turn get through one after another, however many")
    func manyOpenings() throws {
        let actors = try (0..<8).map { _ in try ActorProcess() }
        for actor in actors { actor.send("coordinated-open \(path) raw") }
        for actor in actors { #expect(actor.answer()?.hasPrefix("ok ") == true) }
        #expect(actors[0].ask("count migrated") == "ok 1")
    }

    /// A destruction once removed the lock file while its own caller was inside the coordinator. A process that waited
    /// for the coordinator created a new lock file, and was inside at the same time.
    @Test("a store that is destroyed and made anew inside a turn keeps out who waits for that turn")
    func destruction() throws {
        let source = TestKeys.source("raw")
        try SharedStore.open(at: path, unlockedBy: source).close()
        let waiting = try ActorProcess()
        // With any answer, the process runs.
        #expect(waiting.ask("total") != nil)
        let file = try LockFile(path: path + "-lock", likeFile: nil)
        let before = try Files.identity(file.path)
        try FileCoordinator().coordinate(writingItemAt: url, options: .forDeleting) { url in
            waiting.send("coordinate-and-hold \(path) writing")
            let report = try SharedStore.destroy(at: url)
            #expect(report.notices.contains { $0.contains("This process is coordinating") }, "\(report.notices)")
            #expect(!report.removed.contains(file.path))
            // During this wait the waiting process could have entered.
            #expect(!canWrite())
            #expect(file.owners(of: .coordinator) == [getpid()])
            #expect(try Files.identity(file.path) == before)
            try SharedStore.open(at: url, unlockedBy: source).close()
        }
        #expect(waiting.answer() == "ok held")
        // A coordinated access of another process keeps the lock file as well, and that process is named.
        let report = try SharedStore.destroy(at: url)
        #expect(
            report.notices.contains { $0.contains("Process \(waiting.processIdentifier) (StoreActor") },
            "\(report.notices)")
        #expect(waiting.ask("done") == "ok released")
        // The next destruction removes the files that were kept.
        #expect(try SharedStore.destroy(at: url).removed == [file.path])
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).isEmpty)
    }

    @Test("a file in a directory that does not exist is an error, not a wait")
    func noDirectory() {
        let url = URL(fileURLWithPath: folder.path("missing/app.db"))
        #expect(throws: (any Error).self) { try FileCoordinator().coordinate(writingItemAt: url) { _ in } }
        var error: NSError?
        FileCoordinator().coordinate(writingItemAt: url, options: [], error: &error) { _ in }
        #expect(error?.localizedDescription.contains("missing") == true)
    }
}
