import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

/// Rotations while other processes read and write.
@Suite(.serialized) struct LiveRotationTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    /// A process with the store open.
    private func opened(_ key: String = "raw") throws -> ActorProcess {
        let process = try ActorProcess()
        #expect(process.ask("open \(path) \(key) 30")?.hasPrefix("ok") == true)
        return process
    }

    /// The bank's accounts, and some megabytes of other rows.
    private func founder(_ key: String = "raw", megabytes: Int = 8) throws -> ActorProcess {
        let process = try opened(key)
        #expect(process.ask("bank-fill \(Bank.accounts) \(Bank.balance)") == "ok")
        for _ in 0..<megabytes { #expect(process.ask("fill 1000000") == "ok") }
        return process
    }

    /// The work of a busy process, from its answer to `load-end`.
    private struct Work {
        let accesses: Int
        let failures: Int
        let longest: Int
        let text: String

        init(_ answer: String?) {
            text = answer ?? "died"
            let words = text.split(separator: " ").dropFirst().prefix(3).compactMap { Int($0) }
            (accesses, failures, longest) = words.count == 3 ? (words[0], words[1], words[2]) : (0, 1, 0)
        }
    }

    /// Expects that each writer's rows are those it acknowledged, and that the sum of all balances is unchanged.
    private func audit(_ writers: [(process: Int32, acknowledged: Int)]) -> [String] {
        StoreProof.problems(path) { db in
            var problems: [String] = []
            let sum = try Int.fetchOne(db, sql: "SELECT SUM(balance) FROM account")
            if sum != Bank.total { problems.append("a sum of \(sum ?? -1)") }
            for writer in writers {
                let rows = try Int.fetchOne(
                    db, sql: "SELECT COUNT(*) FROM mark WHERE process = ? AND text = 'busy'",
                    arguments: [writer.process])
                if rows != writer.acknowledged { problems.append("\(rows ?? -1) rows of \(writer.acknowledged)") }
            }
            return problems
        }
    }

    @Test("four writers and two readers go on while a store is rotated, twice: nothing fails, and nothing is lost")
    func underLoad() throws {
        let rotator = try founder()
        let writers = try (0..<4).map { _ in try opened() }
        let readers = try (0..<2).map { _ in try opened() }
        for (index, writer) in writers.enumerated() {
            #expect(writer.ask("load-write \(folder.path("acknowledged-\(index)"))") == "ok")
        }
        for reader in readers { #expect(reader.ask("load-read") == "ok") }
        var told: [String] = []
        for epoch in 1...2 {
            let answer = rotator.ask("rotate") ?? "died"
            #expect(answer.hasPrefix("ok \(epoch) \(epoch + 1) "), "\(answer)")
            told.append(answer)
            #expect(FileManager.default.fileExists(atPath: path + "-rotating") == false)
        }
        let work = (writers + readers).map { Work($0.ask("load-end")) }
        for process in work {
            #expect(process.failures == 0, "\(process.text)")
            #expect(process.accesses > 0)
        }
        for process in writers + readers + [rotator] { #expect(process.ask("epoch") == "ok 3") }
        let rows = zip(writers, work).map { (process: $0.processIdentifier, acknowledged: $1.accesses) }
        for process in writers + readers + [rotator] { process.end() }
        #expect(audit(rows).isEmpty)
        print(
            "rotation: from-epoch to-epoch pause-ms rounds attempts: \(told); longest access of any process "
                + "\(work.map(\.longest).max() ?? 0) ms, \(work.map(\.accesses).reduce(0, +)) accesses")
    }

    // Before its first read a connection holds no lock, and with that read it would use the new WAL as its own.
    @Test(
        "a connection that knows of no leases ends the rotation by its name, and nothing is changed",
        arguments: ["stock", "stock-open"])
    func stockConnection(command: String) throws {
        let rotator = try founder(megabytes: 1)
        let stock = try opened()
        if command == "stock-open" { #expect(stock.ask("stock-key") == "ok") }
        #expect(stock.ask("\(command) \(path)") == "ok")
        let (sidecar, bytes) = (try contents("-sidecar"), try contents(""))
        let answer = rotator.ask("rotate give-up:1") ?? "died"
        #expect(answer.hasPrefix("error storeInUse"), "\(answer)")
        #expect(answer.contains("process \(stock.processIdentifier) (StoreActor"), "\(answer)")
        #expect(rotator.ask("epoch") == "ok 1")
        #expect(!FileManager.default.fileExists(atPath: path + "-rotating"))
        #expect(try contents("") == bytes)
        // Only the generation has changed; salt, slots and data key are the same.
        #expect(try secretLines(contents("-sidecar")) == secretLines(sidecar))
        #expect(rotator.ask("mark 1") == "ok")
        #expect(stock.ask("stock-close") == "ok")
        #expect(rotator.ask("rotate")?.hasPrefix("ok 1 2 ") == true)
    }

    private func contents(_ suffix: String) throws -> Data {
        try #require(FileManager.default.contents(atPath: path + suffix))
    }

    private func secretLines(_ sidecar: Data) -> [Substring] {
        String(decoding: sidecar, as: UTF8.self).split(separator: "\n").filter {
            !$0.contains("generation") && !$0.contains("\"mac\"")
        }
    }

    @Test("a process that is stopped ends the rotation by its name when patience is over; the others go on")
    func stoppedPeer() throws {
        let (rotator, stopped, writer) = (try founder(megabytes: 1), try opened(), try opened())
        #expect(writer.ask("load-write \(folder.path("acknowledged"))") == "ok")
        stopped.stop()
        let answer = rotator.ask("rotate give-up:1") ?? "died"
        #expect(answer.hasPrefix("error storeInUse"), "\(answer)")
        #expect(answer.contains("process \(stopped.processIdentifier) (StoreActor, stopped)"), "\(answer)")
        stopped.go()
        let work = Work(writer.ask("load-end"))
        #expect(work.failures == 0, "\(work.text)")
        #expect(stopped.ask("mark 1") == "ok")
        #expect(rotator.ask("rotate")?.hasPrefix("ok 1 2 ") == true)
        #expect(stopped.ask("mark 1") == "ok")
    }

    @Test("a long read makes the rotation give up, or is ended by it, as was chosen")
    func longRead() throws {
        let (rotator, reader) = (try founder(megabytes: 1), try opened())
        #expect(reader.ask("long-read") == "ok")
        #expect(rotator.ask("rotate give-up:0.5")?.hasPrefix("error storeInUse") == true)
        #expect(rotator.ask("rotate end:0.5")?.hasPrefix("ok 1 2 ") == true)
        #expect(reader.ask("long-read-end")?.contains("keyRotated") == true)
        #expect(reader.ask("mark 1") == "ok")
        #expect(rotator.ask("total") == "ok 3")
    }

    @Test("the processes of a direct store are told keyRotated, and open it with the new key")
    func directStore() throws {
        let (rotator, peer) = (try ActorProcess(), try ActorProcess())
        #expect(rotator.ask("open-direct \(path) raw")?.hasPrefix("ok") == true)
        #expect(peer.ask("open \(path) raw")?.hasPrefix("ok") == true)
        let same = rotator.ask("rotate key:raw") ?? "died"
        #expect(same.hasPrefix("error invalidKey"), "\(same)")
        let answer = rotator.ask("rotate key:new") ?? "died"
        #expect(answer.hasPrefix("ok 1 2 "), "\(answer)")
        #expect(peer.ask("mark 1")?.hasPrefix("error keyRotated") == true)
        #expect(peer.ask("close") == "ok")
        #expect(peer.ask("open \(path) raw")?.hasPrefix("error wrongKey") == true)
        #expect(peer.ask("open \(path) new")?.hasPrefix("ok") == true)
        #expect(peer.ask("check") == "ok ok")
    }

    @Test(
        "while a secret manager takes its time to prove the new key nobody waits, and the switch comes behind its answer"
    )
    func slowManager() throws {
        let (rotator, peer) = (try ActorProcess(), try ActorProcess())
        #expect(rotator.ask("open-direct \(path) raw")?.hasPrefix("ok") == true)
        #expect(peer.ask("open \(path) raw 30")?.hasPrefix("ok") == true)
        let manager = StandingPlace(folder.path("manager"))
        rotator.send("rotate key:new proof:new proof-at:\(manager.path)")
        #expect(waitUntil { manager.isReached })
        #expect(peer.ask("mark 3") == "ok")
        let newcomer = try opened()
        #expect(newcomer.ask("mark 1") == "ok")
        #expect(newcomer.ask("close") == "ok")
        #expect(manager.isReached)
        manager.leave()
        let answer = rotator.answer() ?? "died"
        #expect(answer.hasPrefix("ok 1 2 "), "\(answer)")
        #expect(peer.ask("close") == "ok")
        #expect(peer.ask("open \(path) new")?.hasPrefix("ok") == true)
        #expect(peer.ask("total") == "ok 5")
    }

    @Test("a secret manager that gives another key ends the rotation before the switch, and nothing is changed")
    func wrongManager() throws {
        let (rotator, peer) = (try ActorProcess(), try ActorProcess())
        #expect(rotator.ask("open-direct \(path) raw")?.hasPrefix("ok") == true)
        #expect(peer.ask("open \(path) raw 30")?.hasPrefix("ok") == true)
        let (sidecar, bytes) = (try contents("-sidecar"), try contents(""))
        let answer = rotator.ask("rotate key:new proof:other") ?? "died"
        #expect(answer.hasPrefix("error invalidKey") && answer.contains("was not given a second time"), "\(answer)")
        #expect(try contents("") == bytes)
        #expect(try secretLines(contents("-sidecar")) == secretLines(sidecar))
        #expect(!FileManager.default.fileExists(atPath: path + "-rotating"))
        for process in [rotator, peer] {
            #expect(process.ask("mark 1") == "ok")
            #expect(process.ask("epoch") == "ok 1")
        }
        #expect(rotator.ask("rotate key:new proof:new")?.hasPrefix("ok 1 2 ") == true)
    }

    @Test("a throttled rotation ends under writers all the same, and loses nothing")
    func throttled() throws {
        let (rotator, writers) = (try founder(), try (0..<2).map { _ in try opened() })
        for (index, writer) in writers.enumerated() {
            #expect(writer.ask("load-write \(folder.path("acknowledged-\(index)"))") == "ok")
        }
        let answer = rotator.ask("rotate throttle:12000000") ?? "died"
        #expect(answer.hasPrefix("ok 1 2 "), "\(answer)")
        let work = writers.map { Work($0.ask("load-end")) }
        for process in work { #expect(process.failures == 0 && process.accesses > 0, "\(process.text)") }
        let rows = zip(writers, work).map { (process: $0.processIdentifier, acknowledged: $1.accesses) }
        for process in writers + [rotator] { process.end() }
        #expect(audit(rows).isEmpty)
    }

    @Test("when all keys are renewed, the slot that is at hand opens the store again, and the other processes are told")
    func compromised() throws {
        let (rotator, peer) = (try founder("one", megabytes: 1), try opened("one"))
        #expect(rotator.ask("key-add two")?.hasPrefix("ok") == true)
        let refused = rotator.ask("rotate compromised") ?? "died"
        #expect(refused.hasPrefix("error modeConflict"), "\(refused)")
        let answer = rotator.ask("rotate compromised drop") ?? "died"
        #expect(answer.hasPrefix("ok 1 2 "), "\(answer)")
        #expect(peer.ask("mark 1")?.hasPrefix("error keyRotated") == true)
        #expect(peer.ask("close") == "ok")
        #expect(peer.ask("open \(path) two")?.hasPrefix("error wrongKey") == true)
        #expect(peer.ask("open \(path) one")?.hasPrefix("ok") == true)
        #expect(peer.ask("mark 1") == "ok")
    }

    @Test("writers that are faster than the log may grow end the rotation, and nothing is changed")
    func outrun() throws {
        let (rotator, writer) = (try founder(megabytes: 8), try opened())
        #expect(writer.ask("load-write \(folder.path("acknowledged"))") == "ok")
        let answer = rotator.ask("rotate log:4096") ?? "died"
        #expect(answer.hasPrefix("error storeInUse"), "\(answer)")
        #expect(!FileManager.default.fileExists(atPath: path + "-rotating"))
        #expect(Work(writer.ask("load-end")).failures == 0)
        #expect(rotator.ask("epoch") == "ok 1")
    }
}
