import CipherStore
import Foundation
import TestKit
import Testing

/// Many processes that open one store at the same moment.
@Suite(.serialized) struct OpeningTests {
    /// How often fifty processes meet: `make soak`, which sets `CIPHERSTORE_CROWD`, has them meet more often.
    private static let isSoak = ProcessInfo.processInfo.environment["CIPHERSTORE_CROWD"] != nil

    /// Starts processes that all open the store at once.
    private func open(_ count: Int, path: String, command: String, key: String) throws -> [ActorProcess] {
        let actors = try (0..<count).map { _ in try ActorProcess() }
        for actor in actors { actor.send("\(command) \(path) \(key)") }
        return actors
    }

    @Test("of fifty processes at a store that does not exist, one creates and migrates it and all open it")
    func fiftyAtOnce() throws {
        // One round with a passphrase, whose derivations keep the processes apart; the rest without.
        for round in 0..<(Self.isSoak ? 40 : 2) {
            let key = round == 0 ? "secret" : "raw"
            let folder = TemporaryFolder()
            let path = folder.path("app.db")
            let actors = try open(50, path: path, command: "open", key: key)
            let answers = actors.map { $0.answer() }
            #expect(Set(answers).count == 1, "\(Set(answers))")
            #expect(answers.first??.hasPrefix("ok ") == true)
            #expect(actors[0].ask("count migrated") == "ok 1")
            let log = try String(contentsOfFile: path + "-keylog", encoding: .utf8)
            #expect(log.split(separator: "\n").count == 1 && log.contains("store-created"), "\(log)")
            try expectSound(path, key)
        }
    }

    @Test("a killed creator among fifty leaves the store to the others")
    func fiftyWithKills() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<(Self.isSoak ? 40 : 1) {
            let folder = TemporaryFolder()
            let path = folder.path("app.db")
            let actors = try open(50, path: path, command: "open", key: "raw")
            let victims = Set(actors.indices.shuffled(using: &generator).prefix(5))
            for victim in victims {
                actors[victim].kill(within: .milliseconds(40))
            }
            let answers = Set(actors.indices.filter { !victims.contains($0) }.map { actors[$0].answer() })
            #expect(answers.count == 1 && answers.first??.hasPrefix("ok ") == true, "\(answers)")
            let survivor = try #require(actors.indices.first { !victims.contains($0) })
            #expect(actors[survivor].ask("count migrated") == "ok 1")
            try expectSound(path, "raw")
        }
    }

    @Test("processes that open by hand at the same moment agree on one salt")
    func byHand() throws {
        let folder = TemporaryFolder()
        let path = folder.path("app.db")
        let actors = try open(12, path: path, command: "open-pool", key: "secret")
        #expect(Set(actors.map { $0.answer() }) == ["ok"])
        #expect(actors[3].ask("count migrated") == "ok 1")
        for actor in actors { #expect(actor.ask("mark 5") == "ok") }
        #expect(actors[5].ask("total") == "ok 61")
        try expectSound(path, "secret")
    }

    /// Expects one sidecar in two equal copies, no temporary file, and a store that opens and is sound.
    private func expectSound(_ path: String, _ key: String) throws {
        #expect(
            FileManager.default.contents(atPath: path + "-sidecar")
                == FileManager.default.contents(atPath: path + "-sidecar.bak"))
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source(key))
        #expect(try store.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
        try store.close()
    }
}
