import Foundation

/// `make bench`: the library beside plain C on the same SQLCipher, in one process, in turns.
@main
enum StoreBenchmark {
    /// `StoreBenchmark [--json FILE] [--only TEXT]`
    static func main() throws {
        let fixture = try Fixture()
        let only = option("--only") ?? ""
        var measurements: [Measurement] = []
        for (name, work) in all where name.contains(only) {
            let measurement = try work(name, fixture)
            print(measurement.line)
            measurements.append(measurement)
        }
        guard let file = option("--json") else { return }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try encoder.encode(measurements).write(to: URL(fileURLWithPath: file))
    }

    private static let all: [(String, @Sendable (String, Fixture) throws -> Measurement)] = [
        ("fetch 200k x 10 ints by position", ReadingWork.fetchByPosition),
        ("10k point reads, one read each, cached statement", ReadingWork.pointReads),
        ("open a pool with 5 readers by passphrase / 1 derivation", OpeningWork.poolByPassphrase),
    ]

    private static func option(_ name: String) -> String? {
        let arguments = CommandLine.arguments
        guard let index = arguments.firstIndex(of: name), index + 1 < arguments.count else { return nil }
        return arguments[index + 1]
    }
}

struct BenchmarkError: Error, CustomStringConvertible {
    let description: String

    /// Throws unless a measured piece of work did what it was to do.
    static func require(_ condition: Bool, _ failure: String) throws {
        if !condition { throw BenchmarkError(description: failure) }
    }
}
