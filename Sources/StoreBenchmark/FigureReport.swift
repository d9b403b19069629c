import Foundation

/// One figure that is no ratio.
struct Figure {
    let name: String
    let value: Double
    /// Empty for a count.
    let unit: String
    let goal: Double?

    init(_ name: String, _ value: Double, _ unit: String, goal: Double?) {
        self.name = name
        self.value = value
        self.unit = unit
        self.goal = goal
    }

    var isMet: Bool { goal.map { value <= $0 } ?? true }

    private func text(_ number: Double) -> String {
        unit.isEmpty ? String(format: "%.0f", number) : String(format: "%.2f ", number) + unit
    }

    /// For the table of a document, and for the terminal.
    var row: String {
        let goalText = goal.map { isMet ? text($0) : "**\(text($0)) missed**" } ?? ""
        return "| " + [name, text(value), goalText].joined(separator: " | ") + " |"
    }
}

/// The figures of one `make bench-...`, for the document.
struct FigureReport {
    /// The target of the Makefile that measures them.
    let target: String
    var machine: Machine?
    var ratios: [Measurement] = []
    private var figures: [Figure] = []

    init(target: String) { self.target = target }

    /// The part of the document after this line is made here.
    private var beginning: String { "<!-- figures: written by make \(target) REPORT=1 -->" }

    /// Adds figures, and prints them at once.
    mutating func add(_ new: [Figure]) {
        for figure in new { print(figure.row) }
        fflush(nil)
        figures += new
    }

    /// - Throws: ``BenchmarkError`` where the document has no place for the figures.
    func write(to folder: URL) throws {
        let document = folder.appendingPathComponent(PerformanceReport.documentName)
        let old = try String(contentsOf: document, encoding: .utf8)
        try PerformanceReport.replacingFigures(in: old, after: beginning, by: text)
            .write(to: document, atomically: true, encoding: .utf8)
    }

    private var text: String {
        let missed = ratios.filter { !$0.isMet }.count + figures.filter { !$0.isMet }.count
        let verdict =
            missed == 0 ? "every goal is met" : missed == 1 ? "1 goal is missed" : "\(missed) goals are missed"
        var lines = ["", "Measured on: \(machine?.description ?? "unknown"); \(verdict).", ""]
        if !ratios.isEmpty {
            lines += ["| work | ratio | goal | with | without |", "|---|---:|---:|---:|---:|"]
            lines += ratios.map(\.row) + [""]
            lines += ratios.compactMap { ratio in ratio.note.map { "\(ratio.work): \($0).\n" } }
        }
        if !figures.isEmpty {
            lines += ["| what | measured | goal |", "|---|---:|---:|"] + figures.map(\.row) + [""]
        }
        return lines.joined(separator: "\n")
    }
}
