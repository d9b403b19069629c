import Foundation

/// One row of the benchmark: the library's time and plain C's for the same work, taken in turns.
struct Measurement: Codable {
    /// What was measured.
    let work: String
    /// Median of the ratios library / C, run by run.
    let ratio: Double
    /// The ratio that the project aims at.
    let goal: Double
    /// Median time of the library, in seconds.
    let librarySeconds: Double
    /// Median time of plain C, in seconds.
    let baselineSeconds: Double
    let runs: Int

    /// Runs both in turns, so that whatever else the machine does hits both alike.
    static func compare(
        _ work: String, goal: Double, runs: Int = 15, library: () throws -> Void, baseline: () throws -> Void
    ) throws -> Measurement {
        try library()
        try baseline()
        var pairs: [(library: Double, baseline: Double)] = []
        for run in 0..<runs {
            // Each goes first every other time.
            if run.isMultiple(of: 2) {
                let first = try seconds(library)
                pairs.append((first, try seconds(baseline)))
            } else {
                let first = try seconds(baseline)
                pairs.append((try seconds(library), first))
            }
        }
        return Measurement(
            work: work, ratio: median(pairs.map { $0.library / $0.baseline }), goal: goal,
            librarySeconds: median(pairs.map(\.library)), baselineSeconds: median(pairs.map(\.baseline)), runs: runs)
    }

    private static func seconds(_ body: () throws -> Void) rethrows -> Double {
        let duration = try ContinuousClock().measure(body)
        let (seconds, attoseconds) = duration.components
        return Double(seconds) + Double(attoseconds) * 1e-18
    }

    private static func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

    var line: String {
        let verdict = ratio <= goal ? "met" : "missed"
        let name = work.padding(toLength: 56, withPad: " ", startingAt: 0)
        return name
            + String(
                format: "%6.2fx  goal %.2fx ", ratio, goal) + verdict
            + String(format: "  (%.1f ms beside %.1f ms)", librarySeconds * 1000, baselineSeconds * 1000)
    }
}
