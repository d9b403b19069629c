import CipherStore
import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

/// A store whose files are renamed or replaced while a process has it open.
@Suite struct MovedStoreTests {
    let folder = TemporaryFolder()
    private var directory: String { folder.path("store") }
    private var path: String { directory + "/app.db" }

    private func actor(_ command: String, key: String = "raw") throws -> ActorProcess {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let actor = try ActorProcess()
        #expect(actor.ask("\(command) \(path) \(key)")?.hasPrefix("ok") == true)
        #expect(actor.ask("mark 1") == "ok")
        return actor
    }

    private func rename(_ from: String, _ to: String) throws {
        try FileManager.default.moveItem(atPath: from, toPath: to)
    }

    @Test(
        "a write throws storeMoved when the directory was renamed, and goes on when it is back",
        arguments: ["open", "open-pool"])
    func directoryRenamed(command: String) throws {
        let actor = try actor(command, key: command == "open" ? "raw" : "secret")
        try rename(directory, folder.path("elsewhere"))
        #expect(actor.ask("mark 1")?.hasPrefix("error storeMoved") == true)
        try rename(folder.path("elsewhere"), directory)
        #expect(actor.ask("mark 1") == "ok")
        #expect(actor.ask("total") == "ok 3")
    }

    // SQLite continues with the old file, and its WAL then belongs to the new one: every later opening once failed with
    // CORRUPT.
    @Test(
        "a write throws storeMoved when another file took the name, and the other file stays sound",
        arguments: ["open", "open-pool"])
    func fileReplaced(command: String) throws {
        let key = command == "open" ? "raw" : "secret"
        let actor = try actor(command, key: key)
        #expect(actor.ask("checkpoint")?.hasPrefix("ok") == true)
        try FileManager.default.copyItem(atPath: path, toPath: path + ".new")
        #expect(Foundation.rename(path + ".new", path) == 0)
        #expect(actor.ask("mark 1")?.hasPrefix("error storeMoved") == true)
        actor.kill()
        let other = try ActorProcess()
        #expect(other.ask("open \(path) \(key)")?.hasPrefix("ok") == true)
        #expect(other.ask("check") == "ok ok")
        #expect(other.ask("total") == "ok 2")
    }

    @Test("a hard link to the same file is no other file")
    func hardLink() throws {
        let actor = try actor("open")
        try FileManager.default.linkItem(atPath: path, toPath: folder.path("link.db"))
        #expect(actor.ask("mark 1") == "ok")
        try FileManager.default.removeItem(atPath: path)
        #expect(actor.ask("mark 1")?.hasPrefix("error storeMoved") == true)
        try FileManager.default.linkItem(atPath: folder.path("link.db"), toPath: path)
        #expect(actor.ask("mark 1") == "ok")
        // Under its second name it is a store without its sidecar, which cannot be opened by accident.
        let other = try ActorProcess()
        #expect(other.ask("open \(folder.path("link.db")) raw")?.hasPrefix("error hardLinked") == true)
    }

    @Test("a store that was replaced during a suspension throws storeMoved behind it, before any access")
    func replacedWhileSuspended() throws {
        let actor = try actor("open")
        #expect(actor.ask("suspend")?.hasPrefix("ok released") == true)
        try rename(directory, folder.path("elsewhere"))
        #expect(actor.ask("total")?.hasPrefix("error storeMoved") == true)
        #expect(actor.ask("resume") == "ok")
        #expect(actor.ask("total")?.hasPrefix("error storeMoved") == true)
        #expect(actor.ask("mark 1")?.hasPrefix("error storeMoved") == true)
        try rename(folder.path("elsewhere"), directory)
        #expect(actor.ask("resume") == "ok")
        #expect(actor.ask("mark 1") == "ok")
    }

    // Story: what opened the store again made an empty database in the other folder, and every access failed.
    @Test("a store that was opened through a link stays open when the link leads elsewhere, also behind a suspension")
    func linkChanged() throws {
        let other = try actor("open")
        let (link, elsewhere) = (folder.path("link"), folder.path("elsewhere"))
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: directory)
        try FileManager.default.createDirectory(atPath: elsewhere, withIntermediateDirectories: false)
        let linked = try ActorProcess()
        #expect(linked.ask("open \(link)/app.db raw")?.hasPrefix("ok") == true)
        #expect(linked.ask("mark 1") == "ok")
        try FileManager.default.removeItem(atPath: link)
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: elsewhere)
        #expect(linked.ask("suspend")?.hasPrefix("ok released") == true)
        #expect(linked.ask("resume") == "ok")
        #expect(linked.ask("mark 1") == "ok")
        #expect(try FileManager.default.contentsOfDirectory(atPath: elsewhere).isEmpty)
        #expect(other.ask("close") == "ok")
        #expect(try total(after: linked) == "ok 4")
    }

    // MARK: The WAL and its index

    /// Closes the store and opens it in another process, which must find it sound.
    private func total(after actor: ActorProcess) throws -> String {
        _ = actor.ask("close")
        actor.end()
        let other = try ActorProcess()
        #expect(other.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(other.ask("check") == "ok ok")
        return other.ask("total") ?? "died"
    }

    /// A writer trusts for two milliseconds that the files are in place.
    private func waitForNextCheck() {
        let time = ContinuousClock.now + .milliseconds(10)
        #expect(waitUntil { ContinuousClock.now > time })
    }

    // Two groups of processes wrote one WAL by two indexes, and acknowledged rows were overwritten.
    @Test("a write throws storeMoved when the -shm was removed, and another process that has a new one loses nothing")
    func indexRemoved() throws {
        let actor = try actor("open")
        #expect(actor.ask("mark 2") == "ok")
        try FileManager.default.removeItem(atPath: path + "-shm")
        let other = try ActorProcess()
        #expect(other.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(other.ask("mark 1") == "ok")
        for command in ["mark 1", "checkpoint", "mark 1"] {
            let answer = actor.ask(command) ?? "died"
            #expect(answer.hasPrefix("error storeMoved") && answer.contains("-shm"), "\(answer)")
        }
        #expect(other.ask("mark 1") == "ok")
        _ = actor.ask("close")
        #expect(other.ask("mark 1") == "ok")
        #expect(try total(after: other) == "ok 7")
    }

    @Test("commits whose WAL was removed are copied when the store is closed, unless others have written since")
    func logRemoved() throws {
        let actor = try actor("open")
        #expect(actor.ask("mark 2") == "ok")
        for ending in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: path + ending) }
        waitForNextCheck()
        #expect(actor.ask("mark 1")?.hasPrefix("error storeMoved") == true)
        #expect(try total(after: actor) == "ok 4")

        let stock = try ActorProcess()
        #expect(stock.ask("open \(path) raw")?.hasPrefix("ok") == true && stock.ask("stock-key") == "ok")
        let second = try ActorProcess()
        #expect(second.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(second.ask("mark 1") == "ok")
        for ending in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: path + ending) }
        #expect(stock.ask("stock-write \(path) stock emptying") == "ok")
        waitForNextCheck()
        #expect(second.ask("mark 1")?.hasPrefix("error storeMoved") == true)
        stock.end()
        // The commit in the removed WAL is lost, that of the other program is not.
        #expect(try total(after: second) == "ok 5")
    }

    // Story: the opener got in, and neither its commits nor those of the removed WAL were all there at the end.
    @Test("an opening that finds neither -wal nor -shm beside a process that has the store open is refused")
    func openedAfterRemoval() throws {
        let actor = try actor("open")
        #expect(actor.ask("mark 2") == "ok")
        for ending in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: path + ending) }
        let other = try ActorProcess()
        for command in ["open", "open-read-only"] {
            let answer = other.ask("\(command) \(path) raw") ?? "died"
            let holder = "process \(actor.processIdentifier)"
            #expect(answer.hasPrefix("error storeInUse") && answer.contains(holder), "\(answer)")
        }
        #expect(actor.ask("close") == "ok")
        #expect(other.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(try total(after: other) == "ok 4")
    }

    // Story: the suspension closed the connections without a checkpoint; the resumption opened a new, empty WAL. 6 rows
    // became 3.
    @Test("commits whose WAL was removed are copied by a suspension too", arguments: [["-wal"], ["-wal", "-shm"]])
    func removedBeforeSuspension(endings: [String]) throws {
        let actor = try actor("open")
        #expect(actor.ask("checkpoint")?.hasPrefix("ok") == true)
        #expect(actor.ask("mark 2") == "ok")
        for ending in endings { try FileManager.default.removeItem(atPath: path + ending) }
        #expect(actor.ask("suspend")?.hasPrefix("ok") == true && actor.ask("resume") == "ok")
        #expect(actor.ask("total") == "ok 4")
        #expect(actor.ask("mark 1") == "ok")
        #expect(try total(after: actor) == "ok 5")
    }

    // Story: the snapshot's connection made a new WAL, which the next opener took for that of the store.
    @Test("a new connection of a process whose WAL was removed makes no other one, and gets storeMoved")
    func newConnection() throws {
        let actor = try actor("open")
        #expect(actor.ask("checkpoint")?.hasPrefix("ok") == true)
        #expect(actor.ask("mark 2") == "ok")
        for ending in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: path + ending) }
        let answer = actor.ask("snapshot") ?? "died"
        #expect(answer.hasPrefix("error storeMoved"), "\(answer)")
        #expect(!FileManager.default.fileExists(atPath: path + "-wal"))
        #expect(try total(after: actor) == "ok 4")
    }

    // Story: the snapshot read the other store.
    @Test("a snapshot of a store whose name another file has is refused")
    func snapshotOfReplaced() throws {
        let actor = try actor("open")
        #expect(actor.ask("checkpoint")?.hasPrefix("ok") == true)
        try FileManager.default.copyItem(atPath: path, toPath: path + ".new")
        #expect(Foundation.rename(path + ".new", path) == 0)
        let answer = actor.ask("snapshot") ?? "died"
        #expect(answer.hasPrefix("error storeMoved"), "\(answer)")
        _ = actor.ask("close")
    }

    // Story: a snapshot kept SQLite's close from copying anything, and the close said nothing.
    @Test("a close that a snapshot keeps from copying a removed WAL fails, and succeeds after the snapshot")
    func snapshotAtClose() throws {
        let actor = try actor("open")
        #expect(actor.ask("mark 2") == "ok" && actor.ask("snapshot") == "ok" && actor.ask("mark 2") == "ok")
        for ending in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: path + ending) }
        let answer = actor.ask("close") ?? "died"
        #expect(answer.hasPrefix("error storeMoved") && answer.contains("snapshot"), "\(answer)")
        #expect(actor.ask("snapshot-end") == "ok")
        #expect(try total(after: actor) == "ok 6")
    }

    // Story: SQLite gave the removed index to the new connections. Two processes overwrote each other's commits.
    @Test("a store whose index was removed is not opened again beside a snapshot of the same process")
    func openedBesideSnapshot() throws {
        let other = try actor("open")
        let source = TestKeys.source("raw")
        func count(_ store: SharedStore) throws -> Int? {
            try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM mark") }
        }
        let store = try SharedStore.open(at: path, unlockedBy: source)
        let snapshot = try store.makeSnapshot()
        for isMadeAgain in [false, true] {
            if isMadeAgain {
                #expect(other.ask("close") != nil && other.ask("open \(path) raw")?.hasPrefix("ok") == true)
            } else {
                try FileManager.default.removeItem(atPath: path + "-shm")
            }
            try store.close()
            for _ in 1...2 {
                #expect(storeError { _ = try SharedStore.open(at: path, unlockedBy: source) } == .storeMoved)
            }
            if isMadeAgain { #expect(other.ask("mark 2") == "ok") }
        }
        try snapshot.close()
        let again = try SharedStore.open(at: path, unlockedBy: source)
        // The migration has written one, too.
        #expect(try count(again) == 4)
        try again.close()
    }

    @Test("a close says nothing of lost commits where the WAL went with the database, or only the index was removed")
    func noticesAtClose() throws {
        for (round, move) in ["directory", "files", "index"].enumerated() {
            let notices = Mutex<[String]>([])
            var configuration = Configuration()
            configuration.onNotice = { text in notices.withLock { $0.append(text) } }
            let place = folder.path("place\(round)")
            try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false)
            let store = try SharedStore.open(
                at: place + "/a.db", unlockedBy: TestKeys.source("raw"), configuration: configuration)
            try store.write { try $0.execute(sql: "CREATE TABLE t (a)") }
            switch move {
            case "directory": try rename(place, place + "-away")
            case "files":
                for ending in ["", "-wal", "-shm"] { try rename("\(place)/a.db\(ending)", "\(place)/b.db\(ending)") }
            default: try FileManager.default.removeItem(atPath: place + "/a.db-shm")
            }
            try? store.close()
            #expect(notices.withLock { $0.filter { $0.contains("are lost") } } == [], "\(move)")
        }
    }

    // Story: another process opened the store, read and closed it. Nobody had written, and the close saved nothing.
    @Test("a reader that has come and gone does not keep the close from copying a removed WAL")
    func readerAfterRemoval() throws {
        let actor = try actor("open")
        // Otherwise the reader would find no tables of the store, and create them.
        #expect(actor.ask("checkpoint")?.hasPrefix("ok") == true)
        #expect(actor.ask("mark 2") == "ok")
        let reader = try ActorProcess()
        #expect(reader.ask("open \(path) raw")?.hasPrefix("ok") == true && reader.ask("stock-key") == "ok")
        for ending in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: path + ending) }
        #expect(reader.ask("stock-hold \(path)") == "ok" && reader.ask("stock-close") == "ok")
        reader.end()
        waitForNextCheck()
        #expect(actor.ask("mark 1")?.hasPrefix("error storeMoved") == true)
        #expect(try total(after: actor) == "ok 4")
    }

    // Story: writes went on, and a kill of the process lost all of them.
    @Test("nobody writes to a WAL without a name, and others fail; the close copies it")
    func nameOfLogRemoved() throws {
        let actor = try actor("open")
        #expect(actor.ask("mark 2") == "ok")
        try FileManager.default.removeItem(atPath: path + "-wal")
        waitForNextCheck()
        for _ in 1...3 { #expect(actor.ask("mark 1")?.hasPrefix("error storeMoved") == true) }
        let other = try ActorProcess()
        let answer = other.ask("open \(path) raw") ?? "died"
        #expect(answer.hasPrefix("error walDamaged") && answer.contains("-wal"), "\(answer)")
        waitForNextCheck()
        // That process has made an empty file of the name.
        #expect(actor.ask("mark 1")?.hasPrefix("error storeMoved") == true)
        #expect(try total(after: actor) == "ok 4")
    }

    // The close copied zeros into the database: its first page was destroyed.
    @Test(
        "a WAL or an index that is cut under a living store is an error, and nothing of it is copied",
        arguments: [
            ("-wal", 0), ("-wal", 5000), ("-shm", 0), ("-shm", 100),
        ])
    func logCut(ending: String, bytes: Int) throws {
        let actor = try actor("open")
        #expect(actor.ask("checkpoint")?.hasPrefix("ok") == true)
        #expect(actor.ask("mark 3") == "ok")
        try FileHandle(forWritingTo: URL(fileURLWithPath: path + ending)).truncate(atOffset: UInt64(bytes))
        waitForNextCheck()
        let answer = actor.ask("mark 1") ?? "died"
        #expect(answer.hasPrefix("error walDamaged") && answer.contains(ending), "\(answer)")
        let total = try total(after: actor)
        #expect(ending == "-shm" ? total == "ok 5" : ["ok 2", "ok 3", "ok 4"].contains(total), "\(total)")
    }
}
