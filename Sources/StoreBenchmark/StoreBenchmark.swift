import Foundation

/// `make bench`: the library beside plain C on the same SQLCipher, in one process, in turns.
@main
enum StoreBenchmark {
    /// `StoreBenchmark [--runs N] [--cpu] [--only TEXT] [--json FILE] [--report FOLDER] [--allocations]`, or
    /// `StoreBenchmark --sharing [--runs N] [--seconds N]`
    static func main() throws {
        if let mode = option("--sharing-child") { return try SharingWorker(mode: mode).run() }
        if CommandLine.arguments.contains("--sharing") {
            return try SharingBenchmark(
                rounds: option("--runs").flatMap { Int($0) } ?? 3,
                seconds: option("--seconds").flatMap { Double($0) } ?? 2
            ).run()
        }
        let fixture = try Fixture()
        if CommandLine.arguments.contains("--allocations") {
            let counts = try AllocationCount.all(fixture)
            for count in counts { print(count.line) }
            try BenchmarkError.require(counts.allSatisfy(\.isAsPromised), "more allocations than promised")
            return
        }
        let measurements = try measure(fixture)
        if let file = option("--json") { try write(measurements, to: file) }
        if let folder = option("--report") {
            let report = try PerformanceReport(measurements: measurements, counts: AllocationCount.all(fixture))
            try report.write(to: URL(fileURLWithPath: folder))
        }
    }

    private static func measure(_ fixture: Fixture) throws -> [Measurement] {
        let comparison = Comparison(
            runs: option("--runs").flatMap { Int($0) } ?? 15,
            takesProcessorTime: CommandLine.arguments.contains("--cpu"))
        let only = option("--only") ?? ""
        var measurements: [Measurement] = []
        for work in Work.all where only.isEmpty || work.name.contains(only) {
            let measurement = try work.measure(comparison, fixture)
            print(measurement.line)
            measurements.append(measurement)
        }
        return measurements
    }

    private static func write(_ measurements: [Measurement], to file: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try encoder.encode(measurements).write(to: URL(fileURLWithPath: file))
    }

    private static func option(_ name: String) -> String? {
        let arguments = CommandLine.arguments
        guard let index = arguments.firstIndex(of: name), index + 1 < arguments.count else { return nil }
        return arguments[index + 1]
    }
}
