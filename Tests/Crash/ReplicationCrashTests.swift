import CipherStore
import Foundation
import StoreBackups
import TestKit
import Testing

/// A store that one process has open, and a replica of it.
private struct ReplicaPlace {
    let folder = TemporaryFolder()
    var path: String { folder.path("app.db") }
    var place: String { folder.path("place") }

    init() throws { try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false) }

    func repository() throws -> BackupRepository { try BackupRepository(openingAt: place) }

    /// The texts of the rows at a moment.
    func texts(at moment: ReplicatedMoment) throws -> Set<String> {
        let target = folder.path("restored-\(UUID().uuidString).db")
        try repository().restore(moment, to: target, unlockedBy: TestKeys.source("raw"))
        let store = try SharedStore.open(at: target, unlockedBy: TestKeys.source("raw"))
        defer {
            try? store.close()
            for end in ["", "-wal", "-shm", "-lock", "-sidecar", "-sidecar.bak", "-keylog"] {
                try? FileManager.default.removeItem(atPath: target + end)
            }
        }
        return try store.read { Set(try String.fetchAll($0, sql: "SELECT text FROM mark")) }
    }

    /// The number of rows at the last moment.
    func lastCount() throws -> Int {
        let moment = try #require(try repository().moment(at: nil))
        let target = folder.path("restored-\(UUID().uuidString).db")
        try repository().restore(moment, to: target, unlockedBy: TestKeys.source("raw"))
        let store = try SharedStore.open(at: target, unlockedBy: TestKeys.source("raw"))
        defer { try? store.close() }
        return try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM mark") ?? -1 }
    }
}

@Suite("Replicators that are killed, and calls that fail", .serialized) struct ReplicationCrashTests {
    struct Fault: CustomStringConvertible, Sendable {
        let command: String
        let files: String
        let kinds: String
        let words: String
        var description: String { "\(command) \(kinds) of \(files) \(words)" }
    }

    static let faults = [
        Fault(command: "die-at-call", files: "/place*", kinds: "all,folder", words: ""),
        Fault(command: "die-at-call", files: "/place*", kinds: "write", words: "torn"),
        Fault(command: "fail-call", files: "/*", kinds: "all,read,folder", words: "once EIO"),
        Fault(command: "fail-call", files: "/place*", kinds: "open,write,name,folder", words: "once ENOSPC"),
    ]
    private static let stride = 9

    // Beginning with the call that makes the repository: the first run makes the base, later ones segments.
    @Test("at any call: nothing is lost, and the next run completes", arguments: faults)
    func everyCall(_ fault: Fault) throws {
        let ordinal = Self.faults.firstIndex { "\($0)" == "\(fault)" } ?? 0
        let place = try ReplicaPlace()
        let owner = try ActorProcess()
        #expect(owner.ask("open \(place.path) raw")?.hasPrefix("ok") == true)
        var (number, misses) = (1 + Sweep.first(oneIn: Self.stride, offset: ordinal), 0)
        let run = "replicate \(place.path) \(place.place)"
        let failing = try ActorProcess()
        while misses < 2 {
            #expect(owner.ask("mark 2") == "ok")
            let rows = owner.ask("total")
            let dies = fault.command == "die-at-call"
            let victim = dies ? try ActorProcess() : failing
            #expect(
                victim.ask(
                    "\(fault.command) \(place.folder.url.path)\(fault.files) \(fault.kinds) \(number) \(fault.words)")
                    == "ok")
            let answer = victim.ask(run)
            let calls =
                dies ? answer == nil ? number : 0 : Int(victim.ask("calls")?.split(separator: " ").last ?? "") ?? 0
            if !dies { #expect(victim.ask("end-faults") == "ok") }
            let next = dies ? try ActorProcess() : failing
            #expect(next.ask(run) == "ok", "\(fault), call \(number): \(answer ?? "died")")
            #expect(try "ok \(place.lastCount())" == rows, "\(fault), call \(number)")
            if calls < number { misses += 1 }
            number =
                calls < number
                ? 1 + Sweep.first(oneIn: Self.stride, offset: ordinal + 1) : number + Sweep.stride(Self.stride)
        }
        #expect(try place.repository().verify().problems.isEmpty)
        #expect(owner.ask("check") == "ok ok")
        #expect(StoreProof.problems(place.path).isEmpty)
    }
}

/// Restores to random times, compared with a log of what was acknowledged when.
@Suite("Replicas of a workload with kills and a rotation", .serialized) struct ReplicaMomentTests {
    private let place: ReplicaPlace
    private var log: String { place.folder.path("log") }

    init() throws { place = try ReplicaPlace() }

    private static let isWhole = Sweep.isWhole
    private static let moments = isWhole ? 1000 : 30
    private static let rounds = isWhole ? 150 : 10

    private func writer(_ name: String) throws -> ActorProcess {
        let writer = try ActorProcess()
        #expect(writer.ask("open \(place.path) raw")?.hasPrefix("ok") == true)
        writer.send("mark-timed \(log) \(name) 2000")
        return writer
    }

    private func replicator() throws -> ActorProcess {
        let process = try ActorProcess()
        process.send("replicate-for-ever \(place.path) \(place.place)")
        return process
    }

    private func bases() -> Int {
        ((try? place.repository().replicatedRanges()) ?? []).reduce(0) { $0 + $1.bases }
    }

    @Test("each restored time has exactly the commits that were acknowledged before it")
    func randomTimes() throws {
        let owner = try ActorProcess()
        #expect(owner.ask("open \(place.path) raw")?.hasPrefix("ok") == true)
        var replica = try replicator()
        #expect(waitUntil { bases() > 0 })
        var writers = [try writer("a0"), try writer("b0")]
        for round in 1...Self.rounds {
            let next = Date() + 0.4
            _ = waitUntil { Date() > next }
            switch round % 5 {
            case 1: writers[round % 2] = try writer("\(round % 2 == 0 ? "a" : "b")\(round)")
            case 2: #expect(owner.ask("checkpoint")?.hasPrefix("ok") == true)
            case 3:
                replica.kill()
                replica = try replicator()
            case 4 where round % 10 == 4:
                let answer = owner.ask("rotate")
                #expect(answer?.hasPrefix("ok") == true, "\(answer ?? "died")")
            default: break
            }
        }
        for writer in writers { writer.kill() }
        #expect(
            try waitUntil { try place.repository().replicationStatus(of: place.path).pendingFrames == 0 },
            "the replica does not follow")
        replica.kill()
        try judge()
    }

    private struct Commit {
        let text: String
        let begun: UInt64
        var acknowledged: UInt64?
    }

    private func commits() throws -> [Commit] {
        var found: [String: Commit] = [:]
        for line in try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n") {
            let words = line.split(separator: " ")
            guard words.count == 3, let time = UInt64(words[2]) else { continue }
            let text = String(words[1])
            if words[0] == "begin" { found[text] = Commit(text: text, begun: time) }
            if words[0] == "end" { found[text]?.acknowledged = time }
        }
        return Array(found.values)
    }

    private func judge() throws {
        let commits = try commits()
        let ranges = try place.repository().replicatedRanges()
        let (first, last) = (try #require(ranges.first?.since), try #require(ranges.last?.until))
        var generator = SeededGenerator(Sweep.seed.value)
        var (refused, late) = (0, 0)
        for _ in 0..<Self.moments {
            let time = UInt64.random(in: first...last, using: &generator)
            let moment: ReplicatedMoment
            do {
                moment = try #require(try place.repository().moment(at: time))
            } catch let error as StoreError where error.code == .noSuchStore {
                let isInGap = zip(ranges, ranges.dropFirst()).contains { $0.until <= time && time <= $1.since }
                #expect(isInGap, "\(time) was refused: \(ranges)")
                refused += 1
                continue
            }
            let found = try place.texts(at: moment)
            let complete = min(time, moment.completeUntil)
            // The clock of the log is cut to milliseconds.
            let missing = commits.filter { ($0.acknowledged ?? .max) < complete && !found.contains($0.text) }
            #expect(missing.isEmpty, "\(time): \(missing.prefix(3)) is missing, \(moment)")
            let early = commits.filter { $0.begun > time && found.contains($0.text) }
            #expect(early.isEmpty, "\(time): \(early.prefix(3)) is later, \(moment)")
            // Of the last commits before the time some may be found a moment later.
            if time > complete + 1000 { late += 1 }
        }
        #expect(
            refused + late <= Self.moments / 3,
            "\(refused) refused, \(late) late of \(Self.moments), seed \(Sweep.seed)")
    }
}

/// Numbers that follow from a seed.
private struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = (state ^ (state >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
