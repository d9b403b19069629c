import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import TestKit
import Testing

/// Keys of a store that several processes have open.
@Suite(.serialized) struct KeyChangeTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    /// A process that has a new store open, whose second slot has this passphrase.
    private func owner(_ passphrase: String = "former") throws -> ActorProcess {
        let owner = try ActorProcess()
        #expect(owner.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        try store.keys.add(.passphrase(passphrase), derivation: TestKeys.cheap)
        try store.close()
        return owner
    }

    @Test("opening a store and five readers of it costs one derivation, by hand too; a store opened raw costs none")
    func oneDerivation() throws {
        let owner = try owner()
        #expect(owner.ask("derivations") == "ok 0")
        for command in ["open", "open-pool"] {
            let process = try ActorProcess()
            #expect(process.ask("\(command) \(path) former")?.hasPrefix("ok") == true)
            #expect(process.ask("derivations") == "ok 1", "\(command)")
            #expect(process.ask("readers 5") == "ok 5")
            #expect(process.ask("derivations") == "ok 1", "\(command)")
        }
    }

    @Test("an opening derives once, verifies the copies of the sidecar once, and reads them again under its lock alone")
    func oneVerification() throws {
        _ = try owner()
        for (command, work) in [("open", "1 2 1"), ("open-read-only", "1 1 1"), ("open-pool", "1 1 1")] {
            let process = try ActorProcess()
            #expect(process.ask("\(command) \(path) former")?.hasPrefix("ok") == true)
            #expect(process.ask("key-work") == "ok \(work)", "\(command)")
            if command != "open-read-only" { #expect(process.ask("readers 5") == "ok 5") }
            #expect(process.ask("key-work") == "ok \(work)", "\(command), with readers")
        }
    }

    @Test("copies of the sidecar that differ, and a mended one, cost no second derivation")
    func differingCopies() throws {
        _ = try owner()
        let backup = FileManager.default.contents(atPath: path + "-sidecar.bak")
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        try store.keys.label(1, "new label")
        try store.close()
        // The state after a change that was interrupted between the two copies.
        try #require(backup).write(to: URL(fileURLWithPath: path + "-sidecar.bak"))
        let process = try ActorProcess()
        #expect(process.ask("open \(path) former")?.hasPrefix("ok ") == true)
        #expect(process.ask("derivations") == "ok 1")
        #expect(
            FileManager.default.contents(atPath: path + "-sidecar")
                == FileManager.default.contents(atPath: path + "-sidecar.bak"))
    }

    @Test("creating a store by a passphrase derives twice, to prove the slot, and a process that waits derives once")
    func creating() throws {
        let processes = try (0..<3).map { _ in try ActorProcess() }
        for process in processes { process.send("open \(path) secret") }
        let answers = Set(processes.map { $0.answer() })
        #expect(answers.count == 1 && answers.first??.hasPrefix("ok ") == true, "\(answers)")
        #expect(processes.map { $0.ask("derivations") ?? "" }.sorted() == ["ok 1", "ok 1", "ok 2"])
    }

    @Test("when a passphrase is changed or removed, processes that have the store open go on, opened by it or not")
    func peersGoOn() throws {
        let owner = try owner()
        let peer = try ActorProcess()
        #expect(peer.ask("open \(path) former")?.hasPrefix("ok ") == true)
        #expect(peer.ask("mark 1") == "ok")
        #expect(owner.ask("change-slot 2 new") == "ok 2")
        #expect(peer.ask("mark 2") == "ok")
        #expect(peer.ask("readers 3") == "ok 3")
        let late = try ActorProcess()
        #expect(late.ask("open \(path) former")?.hasPrefix("error wrongKey") == true)
        #expect(late.ask("open \(path) new")?.hasPrefix("ok ") == true)
        #expect(late.ask("remove-slot 1") == "ok")
        #expect(owner.ask("mark 3") == "ok")
        #expect(owner.ask("close") == "ok")
        #expect(owner.ask("open \(path) raw")?.hasPrefix("error wrongKey") == true)
        // The process whose key was removed can still change keys: it has the master key.
        #expect(peer.ask("change-slot 2 newest") == "ok 2")
        #expect(late.ask("mark 4") == "ok")
    }

    @Test("the backup of the sidecar opens the store at every instant of a change of keys, a kill included")
    func killedChange() throws {
        let points: [CrashPoint] = [
            .keyChangeLocked, .keyChangeProved, .temporaryFileWritten, .fileRenamed, .sidecarMainWritten,
            .sidecarWritten, .keyChangeEnded,
        ]
        for point in points {
            let folder = TemporaryFolder()
            let path = folder.path("app.db")
            let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
            try store.keys.add(.passphrase("former"), derivation: TestKeys.cheap)
            try store.close()
            let victim = try ActorProcess()
            #expect(victim.ask("open \(path) raw")?.hasPrefix("ok ") == true)
            #expect(victim.ask("die-at \(point.rawValue)") == "ok")
            #expect(victim.ask("change-slot 2 new") == nil, "\(point) was not passed")
            for ending in ["-sidecar", "-sidecar.bak"] {
                let trial = TemporaryFolder()
                try FileManager.default.copyItem(atPath: path, toPath: trial.path("app.db"))
                try FileManager.default.copyItem(atPath: path + ending, toPath: trial.path("app.db" + ending))
                try SharedStore.open(at: trial.path("app.db"), unlockedBy: TestKeys.source("raw")).close()
            }
            // One of the two passphrases opens, and never both.
            let opened = ["former", "new"].filter { passphrase in
                (try? SharedStore.open(at: path, unlockedBy: .passphrase(passphrase)).close()) != nil
            }
            #expect(opened.count == 1, "\(point): \(opened)")
        }
    }

    @Test(
        "a kill between the sidecar and what the store remembers refuses nobody, and the next opening makes up for it")
    func killedMemory() throws {
        for point in [CrashPoint.keyChangeProved, .sidecarMainWritten, .keyChangeEnded] {
            let folder = TemporaryFolder()
            let path = folder.path("app.db")
            let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
            let other = KeySource.rawKey([UInt8](repeating: 0x2b, count: 32))
            try store.keys.add(other)
            try store.close()
            func sidecars() throws -> [Data] {
                try ["-sidecar", "-sidecar.bak"].map { try #require(FileManager.default.contents(atPath: path + $0)) }
            }
            let former = try sidecars()
            let victim = try ActorProcess()
            #expect(victim.ask("open \(path) raw")?.hasPrefix("ok ") == true)
            #expect(victim.ask("die-at \(point.rawValue)") == "ok")
            #expect(victim.ask("remove-slot 2") == nil, "\(point) was not passed")
            let isRemoved = point != .keyChangeProved
            let reader = try #require(try SharedStore.openReadOnly(at: path, unlockedBy: TestKeys.source("raw")))
            let row = try reader.read { try RollbackTable.generation(of: reader.storeID, in: $0) }
            #expect(row == 3, "\(point)")
            try reader.close()
            #expect(
                storeError { try SharedStore.openReadOnly(at: path, unlockedBy: other)?.close() }
                    == (isRemoved ? .wrongKey : nil))
            let next = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
            #expect(try next.read { try RollbackTable.generation(of: next.storeID, in: $0) } == (isRemoved ? 4 : 3))
            try next.close()
            for (ending, content) in zip(["-sidecar", "-sidecar.bak"], former) {
                try content.write(to: URL(fileURLWithPath: path + ending))
            }
            let code = storeError { try SharedStore.open(at: path, unlockedBy: other).close() }
            #expect(code == (isRemoved ? .sidecarRolledBack : nil), "\(point)")
        }
    }
}
