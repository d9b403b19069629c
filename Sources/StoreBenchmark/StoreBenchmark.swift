import Foundation

/// `make bench`: the library beside plain C on the same SQLCipher, in one process, in turns.
@main
enum StoreBenchmark {
    static func main() throws {
        let fixture = try Fixture()
        var measurements: [Measurement] = []
        for work in [ReadingWork.fetchByPosition, ReadingWork.pointReads, OpeningWork.poolByPassphrase] {
            let measurement = try work(fixture)
            print(measurement.line)
            measurements.append(measurement)
        }
        guard let file = CommandLine.arguments.dropFirst().first else { return }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try encoder.encode(measurements).write(to: URL(fileURLWithPath: file))
    }
}

struct BenchmarkError: Error, CustomStringConvertible {
    let description: String

    /// Throws unless a measured piece of work did what it was to do.
    static func require(_ condition: Bool, _ failure: String) throws {
        if !condition { throw BenchmarkError(description: failure) }
    }
}
