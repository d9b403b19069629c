import Foundation

/// `make bench`: the library beside plain C on the same SQLCipher, in one process, in turns.
@main
enum StoreBenchmark {
    /// `StoreBenchmark [--runs N] [--cpu] [--only TEXT] [--json FILE] [--report FOLDER] [--allocations]`, or
    /// `StoreBenchmark --sharing [--runs N] [--seconds N] [--processes N,N]`, `StoreBenchmark --rotation [--megabytes N,N]`,
    /// `StoreBenchmark --observation ...`, `--sync ...`, `--conformance ...`: the types named after them have the options.
    static func main() {
        do {
            try run()
        } catch {
            FileHandle.standardError.write(Data("StoreBenchmark: error: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func run() throws {
        if let mode = option("--sharing-child") { return try SharingWorker(mode: mode).run() }
        if CommandLine.arguments.contains("--sharing") {
            return try SharingBenchmark(
                rounds: option("--runs").flatMap { Int($0) } ?? 3,
                seconds: option("--seconds").flatMap { Double($0) } ?? 2,
                processCounts: numbers("--processes") ?? [1, 2, 4, 8, 16]
            ).run()
        }
        if let work = option("--rotation-child") { return try RotationWorker(work).run() }
        if CommandLine.arguments.contains("--rotation") {
            return try LiveRotationBenchmark(megabytes: numbers("--megabytes") ?? [100, 1024]).run()
        }
        if let work = option("--observation-child") { return try ObservationWorker(work).run() }
        if CommandLine.arguments.contains("--observation") {
            return try ObservationBenchmark(CommandLine.arguments).run()
        }
        if CommandLine.arguments.contains("--sync") { return try SyncBenchmark(CommandLine.arguments).run() }
        if CommandLine.arguments.contains("--conformance") {
            return try ConformanceBenchmark(CommandLine.arguments).run()
        }
        let options = try BenchmarkOptions(CommandLine.arguments.dropFirst())
        let fixture = try Fixture()
        if options.countsAllocations {
            let counts = try AllocationCount.all(fixture)
            for count in counts { print(count.line) }
            return try BenchmarkError.require(counts.allSatisfy(\.isAsPromised), "more allocations than promised")
        }
        let measurements = try measure(fixture, options)
        if let file = options.jsonFile { try write(measurements, to: file) }
        if let folder = options.reportFolder {
            let machine = try fixture.pool(at: fixture.path).read { try Machine($0) }
            let counts = try AllocationCount.all(fixture)
            let report = PerformanceReport(machine: machine, measurements: measurements, counts: counts)
            try report.write(to: URL(fileURLWithPath: folder))
        }
    }

    private static func measure(_ fixture: Fixture, _ options: BenchmarkOptions) throws -> [Measurement] {
        let comparison = Comparison(runs: options.runs, takesProcessorTime: options.takesProcessorTime)
        var measurements: [Measurement] = []
        for section in Work.sections {
            for work in section.works where options.only.isEmpty || work.name.contains(options.only) {
                var measurement = try work.measure(comparison, fixture)
                measurement.section = section.title
                print(measurement.line)
                measurements.append(measurement)
            }
        }
        try BenchmarkError.require(!measurements.isEmpty, "no work has this in its name: \(options.only)")
        return measurements
    }

    private static func write(_ measurements: [Measurement], to file: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try encoder.encode(measurements).write(to: URL(fileURLWithPath: file))
    }

    private static func numbers(_ name: String) -> [Int]? {
        option(name).map { $0.split(separator: ",").compactMap { Int($0) } }.flatMap { $0.isEmpty ? nil : $0 }
    }

    private static func option(_ name: String) -> String? {
        let arguments = CommandLine.arguments
        guard let index = arguments.firstIndex(of: name), index + 1 < arguments.count else { return nil }
        return arguments[index + 1]
    }
}
