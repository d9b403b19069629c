import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

/// The effect of a checkpoint of one process on others.
@Suite(.serialized) struct CheckpointProcessTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    // A WAL that has grown during a long read takes long to fsync: no process may wait for that.
    @Test(
        "others write while a checkpoint brings the log to the medium, asked for or due",
        arguments: ["checkpoint", "fill 6000000"])
    func othersWrite(cause: String) throws {
        let (process, other) = (try ActorProcess(), try ActorProcess())
        for each in [process, other] { #expect(each.ask("open \(path) raw 0")?.hasPrefix("ok") == true) }
        let place = StandingPlace(folder.path("standing"))
        let record = folder.path("calls")
        #expect(process.ask("record-calls \(path)* \(record)") == "ok")
        #expect(process.ask("mark 40") == "ok")
        #expect(process.ask("stand-at \(CrashPoint.checkpointWALSynced.rawValue) \(place.path)") == "ok")
        process.send(cause)
        try #require(waitUntil { place.isReached }, "the log was not brought to the medium")
        // Its timeout is zero.
        #expect(other.ask("mark 1") == "ok")
        place.leave()
        #expect(process.answer()?.hasPrefix("ok") == true)
        #expect(process.ask("end-faults") == "ok")
        process.end()
        other.end()

        // After the writes to the WAL, and before any page is copied into the database.
        let calls = try SystemCallLog(contentsOf: record).calls
        let log = try #require(calls.compactMap { $0.file(named: path + "-wal") }.first)
        let written = try #require(calls.firstIndex { $0.writes(to: log) })
        let synced = try #require(calls.firstIndex { $0.file(named: path + "-wal") == log })
        #expect(written < synced)
        #expect(!calls[..<synced].contains { $0.writes && !$0.writes(to: log) })
        #expect(StoreProof.problems(path) { _ in [] }.isEmpty)
    }
}

extension SystemCallLog.Call {
    /// The file, if the call is an fsync of a file of this name.
    fileprivate func file(named name: String) -> UInt64? {
        if case .synchronize(let file, name) = self { file } else { nil }
    }

    fileprivate var writes: Bool {
        if case .write = self { true } else { false }
    }

    fileprivate func writes(to file: UInt64) -> Bool {
        if case .write(file, _, _) = self { true } else { false }
    }
}
