import Foundation

/// The figures for people: a chart, and tables in a document whose other parts are written by hand.
struct PerformanceReport {
    let machine: Machine
    let measurements: [Measurement]
    let counts: [AllocationCount]

    static let documentName = "Performance.md"
    static let chartName = "performance.svg"
    /// The part of the document between these lines is made here.
    static let beginning = "<!-- figures: written by make bench REPORT=1 -->"
    static let end = "<!-- end of figures -->"

    /// Writes the chart, and the figures into the document.
    ///
    /// - Parameter folder: Where document and chart are; a document that is not there is begun.
    func write(to folder: URL) throws {
        try PerformanceChart(measurements: measurements).svg
            .write(to: folder.appendingPathComponent(Self.chartName), atomically: true, encoding: .utf8)
        let document = folder.appendingPathComponent(Self.documentName)
        let old =
            FileManager.default.fileExists(atPath: document.path)
            ? try String(contentsOf: document, encoding: .utf8)
            : "# Performance\n\n\(Self.beginning)\n\(Self.end)\n"
        try Self.replacingFigures(in: old, after: Self.beginning, by: figures)
            .write(to: document, atomically: true, encoding: .utf8)
    }

    /// The document with other figures between a line and the next one that ends figures.
    ///
    /// - Throws: ``BenchmarkError`` where these lines are missing.
    static func replacingFigures(in document: String, after beginning: String, by figures: String) throws -> String {
        guard let start = document.range(of: beginning),
            let end = document.range(of: Self.end, range: start.upperBound..<document.endIndex)
        else { throw BenchmarkError(description: "\(Self.documentName) has no line \(beginning)") }
        return document[..<start.upperBound] + "\n" + figures + "\n" + document[end.lowerBound...]
    }

    private var figures: String {
        let missed = measurements.filter { !$0.isMet }.count
        let runs = measurements.first?.runs ?? 0
        return """

            Measured on: \(machine.description). Medians of \(runs) runs; \
            \(missed == 0 ? "every goal is met" : "\(missed) goals are missed").

            ![Time of the library as a multiple of plain C](\(Self.chartName))

            | work | library / C | goal | library | C |
            |---|---:|---:|---:|---:|
            \(measurements.map(\.row).joined(separator: "\n"))

            Times are for one row, access or transaction, or for the whole where it is done once.
            \(notes)

            | allocations for | library | C | what for |
            |---|---:|---:|---|
            \(counts.map(row).joined(separator: "\n"))

            """
    }

    /// The findings beside the times, one paragraph for each.
    private var notes: String {
        measurements.compactMap { measurement in
            measurement.note.map { "\n\(measurement.work): \($0).\n" }
        }.joined()
    }

    private func row(_ count: AllocationCount) -> String {
        String(format: "| %@ | %.3f | %.3f | %@ |", count.work, count.perUnit, count.baselinePerUnit, count.reason)
    }
}
