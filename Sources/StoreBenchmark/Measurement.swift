import CBaseline
import Foundation

/// One row of the benchmark: the library's time and plain C's for the same work, taken in turns.
struct Measurement: Codable {
    /// The measured figures.
    let work: String
    /// Median of the ratios library / C, run by run.
    let ratio: Double
    /// The ratio of the quickest run of each side: what is left when the machine does nothing else.
    let quickestRatio: Double
    /// The ratio that the project aims at; nil where there is none.
    let goal: Double?
    /// Median time of the library, in seconds.
    let librarySeconds: Double
    /// Median time of plain C, in seconds.
    let baselineSeconds: Double
    /// How often the unit of the work was done in these times: 10,000 for 10k reads.
    let repetitions: Int
    let runs: Int
    /// The part of the chart in which it stands, and what it is compared with.
    var section = ""
    /// Other findings.
    var note: String?

    var isMet: Bool { goal.map { ratio <= $0 } ?? true }

    /// Microseconds for each row or access, or milliseconds for what is done once.
    func time(_ seconds: Double) -> String {
        repetitions == 1
            ? String(format: "%.1f ms", seconds * 1000)
            : String(format: "%.2f us", seconds * 1e6 / Double(repetitions))
    }

    /// For the table of a document.
    var row: String {
        let goalText = goal.map { String(format: isMet ? "%.2f" : "**%.2f missed**", $0) } ?? ""
        let cells = [work, String(format: "%.2f", ratio), goalText, time(librarySeconds), time(baselineSeconds)]
        return "| " + cells.joined(separator: " | ") + " |"
    }

    /// For the terminal.
    var line: String {
        let name = work.padding(toLength: 64, withPad: " ", startingAt: 0)
        let verdict = goal.map { String(format: "  goal %.2fx ", $0) + (isMet ? "met   " : "missed") }
        return name + String(format: "%6.2fx", ratio) + (verdict ?? "                   ")
            + String(format: "  quickest %.2fx", quickestRatio)
            + "  (\(time(librarySeconds)) / \(time(baselineSeconds)))" + (note.map { "\n    " + $0 } ?? "")
    }
}

/// How to measure: both sides in turns, in the same process.
struct Comparison {
    let runs: Int
    /// Whether to take processor time: for machines on which other work runs at the same time.
    let takesProcessorTime: Bool

    /// Runs both in turns, so that whatever else the machine does hits both alike.
    ///
    /// - Parameters:
    ///   - repetitions: How often one call does the unit of the work.
    ///   - prepare: Runs before each call of either side, outside of the time.
    ///   - part: What of the library's last call counts, in seconds; nil counts all of it.
    func measure(
        _ work: String, goal: Double?, repetitions: Int = 1, prepare: () throws -> Void = {},
        part: (() -> Double)? = nil, library: () throws -> Void, baseline: () throws -> Void
    ) throws -> Measurement {
        func librarySeconds() throws -> Double {
            let all = try seconds(library)
            return part?() ?? all
        }
        func seconds(_ body: () throws -> Void) throws -> Double {
            try prepare()
            if takesProcessorTime {
                let start = processor_seconds()
                try body()
                return processor_seconds() - start
            }
            let (seconds, attoseconds) = try ContinuousClock().measure(body).components
            return Double(seconds) + Double(attoseconds) * 1e-18
        }
        _ = try librarySeconds()
        _ = try seconds(baseline)
        var pairs: [(library: Double, baseline: Double)] = []
        for run in 0..<runs {
            // Each goes first every other time.
            if run.isMultiple(of: 2) {
                let first = try librarySeconds()
                pairs.append((first, try seconds(baseline)))
            } else {
                let first = try seconds(baseline)
                pairs.append((try librarySeconds(), first))
            }
        }
        return Measurement(
            work: work, ratio: median(pairs.map { $0.library / $0.baseline }),
            quickestRatio: (pairs.map(\.library).min() ?? 0) / (pairs.map(\.baseline).min() ?? 0), goal: goal,
            librarySeconds: median(pairs.map(\.library)), baselineSeconds: median(pairs.map(\.baseline)),
            repetitions: repetitions, runs: runs)
    }

    private func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
}
