import ChangesetSync
import CipherStore
import Foundation
import TestKit
import Testing

@testable import cipherctl

/// The sentences of the commands of `sync` to a person, and their exit codes.
@Suite("What the commands of sync say")
struct SyncMessageTests {
    private static let errors: [any Error] =
        EngineError.Code.allCases.map { EngineError($0) } + MemberError.allCases

    @Test("the table of exit codes has every error of a repository")
    func documented() throws {
        let text = try String(
            contentsOf: Workplace.repositoryRoot.appendingPathComponent("Docs/Commands.md"), encoding: .utf8)
        let meanings = try String(
            contentsOf: Workplace.repositoryRoot.appendingPathComponent("Docs/Errors.md"), encoding: .utf8)
        for error in Self.errors {
            let report = try #require(SyncErrorReport(error))
            let row = text.split(separator: "\n").first {
                $0.hasPrefix("| \(report.exitCode.rawValue) |") && $0.contains("`\(report.name)`")
            }
            #expect(row != nil, "\(report.name), \(report.exitCode.rawValue)")
            #expect(meanings.contains("`\(report.name)`"), "\(report.name)")
        }
    }

    /// They had the calls of the library: "Call rejoin()", "See status()".
    @Test("no error names a call of the library, and each says what to do")
    func noCalls() throws {
        for error in Self.errors {
            let report = try #require(SyncErrorReport(error))
            let said = report.message + " " + (report.hint ?? "")
            #expect(!said.contains("()") && !said.contains("(_:)") && !said.contains("(meta:)"), "\(said)")
            #expect(said.split(separator: ". ").count >= 2, "\(said)")
        }
    }

    @Test("an error of a remote has its cause, its exit code and what to do")
    func remoteErrors() throws {
        let place = try SyncPlace()
        try place.makeStore("a.db")
        try place.begin("a.db")
        let identity = try #require(place.sync("status", "a.db").json["repository"] as? String)
        try place.place.remove("remote/" + identity)
        try place.place.write("x", to: "remote/" + identity)
        let failed = try place.sync("run", "a.db")
        #expect(failed.status == 74 || failed.status == 66 || failed.status == 77, "\(failed.errors)")
        #expect(failed.code == "remoteFailed" && failed.message.contains(place.place.path("remote")))
        #expect(!failed.hint.isEmpty)
    }

    /// Makes a commit on a device whose clock is ahead by so many days, or behind.
    private func commit(_ name: String, days: Int64, _ sql: String, in place: SyncPlace) throws {
        let store = try SharedStore.open(at: place.place.path(name), unlockedBy: .rawKeyFile(path: place.place.key))
        defer { try? store.close() }
        let time = HybridTime(wallClock: Int64(Date().timeIntervalSince1970 * 1_000) + days * 86_400_000)
        let repository = try ChangesetRepository(existing: store, clock: { time })
        try repository.commit { try $0.execute(sql: sql) }
    }

    @Test("a clock that was ahead is named on its own device and on others, each with what to do")
    func clocks() throws {
        let place = try SyncPlace()
        try place.makeDevices("a.db", "b.db")
        try place.settle("a.db", "b.db")
        try commit("b.db", days: 183, "INSERT INTO player VALUES ('1', 'Ann', 1)", in: place)
        for name in ["b.db", "a.db"] {
            let run = try place.sync("run", name)
            #expect(run.status == 2 && run.attention.contains("ahead"), "\(run.output)")
            #expect(run.attention.contains("join with a new store"), "\(run.output)")
            #expect(run.attention.contains("This store made a commit") == (name == "b.db"), "\(run.output)")
            #expect(!run.attention.contains("If the clock is behind, set it right: "), "\(run.output)")
        }
        // Both stores have such commits: the clock of the device is behind, or both were ahead.
        try commit("a.db", days: 183, "UPDATE player SET score = 2", in: place)
        let run = try place.sync("run", "a.db")
        #expect(run.status == 2 && run.attention.contains("If the clock is behind, set it right: "), "\(run.output)")
    }

    @Test("one commit is not \"1 commits\"")
    func singular() throws {
        let place = try SyncPlace()
        try place.makeDevices("a.db", "b.db")
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        #expect(try place.text("push", "a.db").output.contains("pushed 1 commit to"))
        #expect(try place.text("fetch", "b.db").output.contains("fetched 1 commit from"))
        let status = try place.text("status", "b.db").output
        #expect(status.contains("1 commit can be joined"), "\(status)")
    }
}
