import Foundation
import SyncSimulation
import TestKit
import Testing

/// Schedules of the simulation: stores that commit and exchange while everything goes wrong.
@Suite("Schedules of stores that sync") struct ScheduleTests {
    /// `CIPHERSTORE_SCHEDULES`: how many schedules run.
    private static let count =
        ProcessInfo.processInfo.environment["CIPHERSTORE_SCHEDULES"].flatMap { Int($0) } ?? 60

    @Test("all stores have every acknowledged commit and equal rows after any schedule")
    func schedules() throws {
        let seed = Seed()
        let first = Int(seed.value % 1_000_000_000)
        var summary = ScheduleSummary()
        for number in first..<first + Self.count { summary += try Simulation(Plan(number)).run() }
        #expect(summary.steps > 5 * Self.count && summary.commits > Self.count, "\(seed)")
        #expect(summary.kills > 0 && summary.errors > 0 && summary.snapshots > 0, "\(seed) \(summary)")
    }
}
