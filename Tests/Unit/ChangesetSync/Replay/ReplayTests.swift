import Foundation
import Testing

/// The rules of the model hold for the engine: runs of the model are replayed event by event, and each state is compared.
@Suite("The engine does what the model does", .enabled(if: ModelTrace.isAvailable))
struct ReplayTests {
    static let all = [
        "deletes", "unique", "check", "foreign", "counters", "snapshots", "slices", "versions", "clocks", "members",
        "lies",
        "restores",
    ]

    private func expectEqual(_ seeds: Range<Int>, _ features: [String]) throws {
        let runs = try ModelTrace.runs(seeds, features: features.isEmpty ? "none" : features.joined(separator: ","))
        #expect(!runs.isEmpty)
        var failures = 0
        for run in runs {
            guard let difference = Replay.difference(in: run) else { continue }
            failures += 1
            if failures <= 3 { Issue.record(Comment(rawValue: difference)) }
        }
        #expect(failures == 0, "\(failures) of \(runs.count) runs differ")
    }

    private static let seeds: Range<Int> = {
        let environment = ProcessInfo.processInfo.environment
        let first = Int(environment["CIPHERSTORE_SEED"] ?? "") ?? 0
        return first..<(first + (Int(environment["CIPHERSTORE_RUNS"] ?? "") ?? 4))
    }()

    @Test("commits that insert and update rows")
    func rows() throws { try expectEqual(Self.seeds, []) }

    @Test("deletions, and revivals of updates that they did not know")
    func deletions() throws { try expectEqual(Self.seeds, ["deletes"]) }

    @Test("NOT NULL, CHECK, UNIQUE and FOREIGN KEY decide what is shown")
    func constraints() throws { try expectEqual(Self.seeds, ["deletes", "unique", "check", "foreign"]) }

    @Test("counters add up")
    func counters() throws { try expectEqual(Self.seeds, ["deletes", "counters", "unique"]) }

    @Test("snapshots and forgotten tombstones")
    func snapshots() throws { try expectEqual(Self.seeds, ["deletes", "snapshots"]) }

    @Test("slices, kills and writes between them")
    func slices() throws { try expectEqual(Self.seeds, ["deletes", "snapshots", "slices", "counters"]) }

    @Test("older and newer schemas, and far clocks")
    func versions() throws { try expectEqual(Self.seeds, ["deletes", "versions", "clocks", "unique", "check"]) }

    @Test("removed members, lies and restored stores")
    func members() throws { try expectEqual(Self.seeds, ["deletes", "members", "lies", "restores", "counters"]) }

    @Test("events of all kinds in one run")
    func everything() throws { try expectEqual(Self.seeds, Self.all) }
}
