import Foundation
import SyncSimulation
import TestKit
import Testing

/// Schedules of the simulation: stores that commit and exchange while everything goes wrong.
@Suite("Schedules of stores that sync") struct ScheduleTests {
    private static let environment = ProcessInfo.processInfo.environment
    /// `CIPHERSTORE_SCHEDULES`: how many schedules run.
    private static let count = environment["CIPHERSTORE_SCHEDULES"].flatMap { Int($0) } ?? 6

    @Test("all stores have every acknowledged commit and equal rows after any schedule")
    func schedules() throws {
        let seed = Seed()
        // Without a number the first ones run, the same each time: `make simulation` looks for new ones.
        let isChosen = Self.environment["CIPHERSTORE_SCHEDULES"] != nil || Self.environment["CIPHERSTORE_SEED"] != nil
        let first = isChosen ? Int(seed.value % 1_000_000_000) : 0
        var summary = ScheduleSummary()
        for number in first..<first + Self.count { summary += try Simulation(Plan(number)).run() }
        #expect(summary.steps > 5 * Self.count && summary.commits > Self.count, "\(seed)")
        #expect(summary.kills > 0 && summary.errors > 0 && summary.snapshots > 0, "\(seed) \(summary)")
    }
}
