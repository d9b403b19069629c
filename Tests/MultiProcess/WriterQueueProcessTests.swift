import CipherStore
import Foundation
import StoreSharing
import TestKit
import Testing

/// The writer queue among real processes: killed, stopped, and many.
@Suite struct WriterQueueProcessTests {
    let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    private func actor() throws -> ActorProcess {
        let process = try ActorProcess()
        #expect(process.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        return process
    }

    private func store(_ mode: Database.BusyMode? = nil) throws -> SharedStore {
        var config = Configuration()
        if let mode { config.busyMode = mode }
        return try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"), configuration: config)
    }

    private func isWaiting(_ process: ActorProcess) throws -> Bool {
        try StoreHolders(of: path).contains {
            $0.process == process.processIdentifier && $0.uses.contains(.waiting)
        }
    }

    private func mark(_ store: SharedStore) throws {
        try store.write { try $0.execute(sql: "INSERT INTO mark (text) VALUES ('here')") }
    }

    @Test("a holder that is killed in its transaction gives the turn to the one that waits")
    func killedHolder() throws {
        let victim = try actor()
        #expect(victim.ask("hold-write") == "ok held")
        let next = try actor()
        next.send("mark 1")
        #expect(try waitUntil { try isWaiting(next) })
        victim.kill()
        #expect(next.answer() == "ok")
        #expect(next.ask("count held") == "ok 0")
    }

    @Test("a holder that is stopped is named with its number and state, readers go on, and it goes on when it may")
    func stoppedHolder() throws {
        let holder = try actor()
        let store = try store(.timeout(0.1))
        #expect(holder.ask("hold-write") == "ok held")
        kill(holder.processIdentifier, SIGSTOP)
        let error = #expect(throws: DatabaseError.self) { try mark(store) }
        #expect(error?.extendedResultCode == .SQLITE_BUSY)
        let name = "process \(holder.processIdentifier) (StoreActor, stopped) is writing for "
        #expect(error?.message?.contains(name) == true, "\(error?.message ?? "")")
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM mark WHERE text = 'held'") } == 0)
        kill(holder.processIdentifier, SIGCONT)
        #expect(holder.ask("go on") == "ok released")
        try mark(store)
        try store.close()
    }

    @Test("one that is killed while it waits, and one that is stopped, do not keep the turn from the others")
    func killedAndStoppedWaiters() throws {
        let holder = try actor()
        let (dead, stopped, next) = (try actor(), try actor(), try actor())
        #expect(holder.ask("hold-write") == "ok held")
        for process in [dead, stopped, next] {
            process.send("mark 1")
            #expect(try waitUntil { try isWaiting(process) })
        }
        kill(stopped.processIdentifier, SIGSTOP)
        dead.kill()
        #expect(holder.ask("go on") == "ok released")
        #expect(next.answer() == "ok")
        // Writers that come later do not wait for the stopped one, either.
        #expect(holder.ask("mark 200") == "ok")
        kill(stopped.processIdentifier, SIGCONT)
        #expect(stopped.answer() == "ok")
        // The rows of the migration and of the processes that held, waited and came later; none of the killed one.
        #expect(holder.ask("total") == "ok 204")
    }

    @Test("many processes write, each gets its turn, and no row is lost")
    func crowd() throws {
        let crowd = try (0..<12).map { _ in try actor() }
        for process in crowd { process.send("mark 100") }
        for process in crowd { #expect(process.answer() == "ok") }
        #expect(crowd[0].ask("total") == "ok 1201")
        #expect(crowd[0].ask("check") == "ok ok")
        let holders = try StoreHolders(of: path)
        #expect(Set(holders.map(\.process)) == Set(crowd.map(\.processIdentifier)))
        #expect(holders.allSatisfy { $0.uses.starts(with: [.lease, .writer]) && $0.command == "StoreActor" })
        #expect(holders.map(\.writeCount).reduce(0, +) >= 1200)
        for process in crowd.dropFirst() { process.kill() }
        #expect(try waitUntil { try StoreHolders(of: path).count == 1 })
    }

    @Test("a reader shows in the table of holders as such")
    func reader() throws {
        let writer = try actor()
        let reader = try ActorProcess()
        #expect(reader.ask("open-read-only \(path) raw")?.hasPrefix("ok ") == true)
        let uses = try StoreHolders(of: path).filter { $0.process == reader.processIdentifier }.map(\.uses)
        #expect(uses == [[.lease, .readOnly]])
        #expect(reader.ask("close") == "ok")
        #expect(try StoreHolders(of: path).map(\.process) == [writer.processIdentifier])
    }

    @Test("a lock file that vanishes under two writers splits their turns, and SQLite's locks keep them apart")
    func vanishedLockFile() throws {
        let old = try actor()
        #expect(old.ask("hold-write") == "ok held")
        try FileManager.default.removeItem(atPath: path + "-lock")
        let store = try store(.timeout(0.1))
        let error = #expect(throws: DatabaseError.self) { try mark(store) }
        #expect(error?.message?.contains("process \(old.processIdentifier) (StoreActor, running) holds") == true)
        #expect(old.ask("go on") == "ok released")
        try mark(store)
        try store.close()
    }
}
