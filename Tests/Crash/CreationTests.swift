import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

/// Stores whose creation is interrupted by a kill.
@Suite(.serialized) struct CreationTests {
    @Test("a creation killed at any named place is taken up by the next opening", arguments: CrashPoint.ofCreation)
    func killedAt(_ point: CrashPoint) throws {
        let folder = TemporaryFolder()
        let path = folder.path("app.db")
        let victim = try ActorProcess(crashAt: point.rawValue)
        #expect(victim.ask("open \(path) secret") == nil, "the process did not pass \(point)")
        #expect(victim.diedBySignal())
        let salt = try sidecarSalt(path)

        let next = try ActorProcess()
        #expect(next.ask("open \(path) secret")?.hasPrefix("ok ") == true)
        #expect(next.ask("count migrated") == "ok 1")
        #expect(next.ask("mark 1") == "ok")
        #expect(next.ask("check") == "ok ok")
        // A salt that was durable once never changes.
        if let salt { #expect(try sidecarSalt(path) == salt) }
        next.end()
        #expect(
            FileManager.default.contents(atPath: path + "-sidecar")
                == FileManager.default.contents(atPath: path + "-sidecar.bak"))
    }

    @Test("a creation by hand killed at any named place is taken up", arguments: CrashPoint.ofCreation)
    func byHandKilledAt(_ point: CrashPoint) throws {
        // A pool without SharedStore has no lease, and its opening runs no migrations.
        guard point != .storeMigrated else { return }
        let folder = TemporaryFolder()
        let path = folder.path("app.db")
        let victim = try ActorProcess(crashAt: point.rawValue)
        #expect(victim.ask("open-pool \(path) secret") == nil, "the process did not pass \(point)")
        #expect(victim.diedBySignal())

        let next = try ActorProcess()
        #expect(next.ask("open-pool \(path) secret") == "ok")
        #expect(next.ask("count migrated") == "ok 1")
        #expect(next.ask("check") == "ok ok")
    }

    private func sidecarSalt(_ path: String) throws -> String? {
        guard let text = try? String(contentsOfFile: path + "-sidecar", encoding: .utf8) else { return nil }
        return text.split(separator: "\n").first { $0.contains("\"salt\"") }.map(String.init)
    }
}
