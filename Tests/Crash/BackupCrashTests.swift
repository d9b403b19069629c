import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

/// Backups and restorations that are interrupted by a kill.
@Suite(.serialized) struct BackupCrashTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private var bundle: String { folder.path("backup") }

    private static let names: Set = ["store.db", "store.db-sidecar", "manifest.json"]

    /// Makes a store with some marks.
    private func makeStore(marks: Int = 3) throws {
        let actor = try ActorProcess()
        #expect(actor.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(actor.ask("mark \(marks)") == "ok")
        #expect(actor.ask("close") == "ok")
    }

    private func total(_ path: String) throws -> Int {
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        defer { try? store.close() }
        return try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM mark") ?? -1 }
    }

    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.url.path)
    }

    @Test(
        "a backup that is killed anywhere is none or whole, and the next one clears up", arguments: CrashPoint.ofBackup)
    func backup(_ point: CrashPoint) throws {
        try makeStore()
        let victim = try ActorProcess(crashAt: point.rawValue)
        #expect(victim.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(victim.ask("backup \(bundle)") == nil, "the process did not pass \(point)")
        #expect(victim.diedBySignal())
        if point == .backupPublished {
            #expect(try Set(FileManager.default.contentsOfDirectory(atPath: bundle)) == Self.names)
            _ = try SharedStore.verifyBackup(at: bundle, unlockedBy: TestKeys.source("raw"))
        } else {
            #expect(!FileManager.default.fileExists(atPath: bundle))
            let partial = try #require(try names().first { $0.hasPrefix("backup.partial-") })
            if point != .backupComplete {
                #expect(throws: StoreError.self) {
                    try SharedStore.verifyBackup(at: folder.path(partial), unlockedBy: TestKeys.source("raw"))
                }
            }
            let next = try ActorProcess()
            #expect(next.ask("open \(path) raw")?.hasPrefix("ok") == true)
            #expect(next.ask("backup \(bundle)")?.hasPrefix("ok") == true)
            #expect(try !names().contains { $0.hasPrefix("backup.partial-") })
        }
        #expect(StoreProof.problems(path).isEmpty)
    }

    @Test(
        "a restoration that is killed anywhere leaves the former store, or one that nobody opens until it is run again",
        arguments: CrashPoint.ofRestoration + [.backupPagesCopied], [true, false])
    func restoration(_ point: CrashPoint, replacing: Bool) throws {
        try makeStore(marks: 3)
        let saved = try total(path)
        let maker = try ActorProcess()
        #expect(maker.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(maker.ask("backup \(bundle)")?.hasPrefix("ok") == true)
        #expect(maker.ask("mark 5") == "ok")
        let present = saved + 5
        // Killed, so that its WAL has commits that the file does not have.
        maker.kill()
        let target = replacing ? path : folder.path("new.db")
        let command = "restore \(bundle) \(target) raw" + (replacing ? " replace" : "")
        let victim = try ActorProcess(crashAt: point.rawValue)
        #expect(victim.ask(command) == nil, "the process did not pass \(point)")
        #expect(victim.diedBySignal())

        switch point {
        case .restoreRenamed: #expect(try total(target) == saved)
        case .backupPagesCopied, .restorePrepared:
            if replacing { #expect(try total(target) == present) }
        default:
            if replacing {
                let error = #expect(throws: StoreError.self) { try total(target) }
                #expect(
                    error?.what.contains("a restoration of it was interrupted") == true, "\(point): \(error as Any)")
            }
        }
        if point != .restoreRenamed {
            let next = try ActorProcess()
            let answer = next.ask(command) ?? "died"
            #expect(answer.hasPrefix("ok"), "\(answer)")
        }
        #expect(try total(target) == saved)
        #expect(StoreProof.problems(target).isEmpty)
        #expect(try !names().contains { $0.hasSuffix("-restoring") })
        if replacing {
            let kept = try names().filter { $0.hasPrefix("app.db-replaced-") }
            #expect(kept.count == 1, "\(kept)")
            #expect(try kept.first.map { try total(folder.path($0) + "/app.db") } == present)
        }
    }

    @Test("a restoration that was cut can be undone by hand: the former files move back")
    func undoneByHand() throws {
        try makeStore(marks: 3)
        let saved = try total(path)
        let maker = try ActorProcess()
        #expect(maker.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(maker.ask("backup \(bundle)")?.hasPrefix("ok") == true)
        maker.end()
        let victim = try ActorProcess(crashAt: CrashPoint.restoreAnnounced.rawValue)
        #expect(victim.ask("restore \(bundle) \(path) raw replace") == nil)
        let kept = folder.path(try #require(try names().first { $0.hasPrefix("app.db-replaced-") }))
        for name in try FileManager.default.contentsOfDirectory(atPath: kept) {
            #expect(rename("\(kept)/\(name)", folder.path(name)) == 0)
        }
        try? FileManager.default.removeItem(atPath: path + "-restoring")
        try FileManager.default.removeItem(atPath: kept)
        #expect(try total(path) == saved)
    }

    @Test(
        "after a power cut in a restoration the store is one of the two or refused, and the same command completes it",
        arguments: [0, 0.5, 0.9])
    func powerCut(keeping likelihood: Double) throws {
        let seed = Seed()
        let other = TemporaryFolder()
        let actor = try ActorProcess()
        #expect(actor.ask("record-calls \(folder.url.path)* \(other.path("calls"))") == "ok")
        for command in ["open \(path) raw", "mark 3", "backup \(other.path("backup"))", "mark 5", "close"] {
            #expect(actor.ask(command)?.hasPrefix("ok") == true, "\(command)")
        }
        let before = try SystemCallLog(contentsOf: other.path("calls")).calls.count
        let present = try total(path)
        #expect(actor.ask("restore \(other.path("backup")) \(path) raw replace")?.hasPrefix("ok") == true)
        actor.end()
        let saved = present - 5
        let calls = try SystemCallLog(contentsOf: other.path("calls")).calls
        #expect(calls.count > before + 20)
        var numbers = seed.numbers(Int(likelihood * 10))
        var seen: Set<Int> = []
        // `make test` takes every second call and the last one, the cases different ones.
        let first = before + Sweep.first(oneIn: 2, offset: Int(likelihood * 2))
        let counts = Set(stride(from: first, through: calls.count, by: Sweep.stride(2)) + [calls.count])
        for count in counts.sorted() {
            let disk = TemporaryFolder()
            try PowerCut(after: calls[..<count]).restore(
                from: folder.url.path, to: disk.url.path, keeping: likelihood, ignoring: ["-shm"], using: &numbers)
            let place = disk.path("app.db")
            let found = try? total(place)
            if let found { #expect([saved, present].contains(found), "\(seed) after call \(count): \(found)") }
            seen.insert(found ?? -1)
            if found == saved { continue }
            _ = try SharedStore.restore(
                from: other.path("backup"), to: place, unlockedBy: TestKeys.source("raw"), replacing: true)
            #expect(try total(place) == saved, "\(seed) after call \(count)")
            #expect(StoreProof.problems(place).isEmpty, "\(seed) after call \(count)")
        }
        #expect(seen == [saved, present, -1], "\(seed)")
    }
}
