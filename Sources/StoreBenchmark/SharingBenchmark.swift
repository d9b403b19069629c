import Foundation

/// `make bench-sharing`: processes that write single rows to one store, with the writer queue, with SQLite's busy handler
/// alone, and in plain C, in turns.
///
/// The figures of a row are medians over the rounds, but for the worst wait, which is the worst of all.
struct SharingBenchmark {
    let rounds: Int
    let seconds: Double
    let processCounts: [Int]

    private struct Result {
        var throughput: [Double] = []
        var worst: [Double] = []
        var late: [Double] = []
    }

    func run() throws {
        var results: [String: Result] = [:]
        for _ in 0..<rounds {
            for count in processCounts {
                for mode in SharingMode.allCases {
                    let (throughput, worst, late) = try measure(mode, processes: count)
                    results["\(mode) \(count)", default: Result()].throughput.append(throughput)
                    results["\(mode) \(count)"]?.worst.append(worst)
                    results["\(mode) \(count)"]?.late.append(late)
                }
            }
        }
        print("processes  mode          tx/s    of one   99 %      worst wait (median, all)")
        for count in processCounts {
            for mode in SharingMode.allCases {
                guard let result = results["\(mode) \(count)"], let one = results["\(mode) \(processCounts[0])"]
                else { continue }
                print(
                    String(
                        format: "%9d  %@ %7.0f  %5.0f %%  %6.2f ms  %8.1f ms  %8.1f ms", count,
                        mode.name.padding(toLength: 12, withPad: " ", startingAt: 0), median(result.throughput),
                        100 * median(result.throughput) / median(one.throughput), median(result.late),
                        median(result.worst), result.worst.max() ?? 0))
            }
        }
    }

    private func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

    /// - Returns: Transactions a second of all processes together, the longest one, and the 99th percentile, in ms.
    private func measure(_ mode: SharingMode, processes count: Int) throws -> (Double, Double, Double) {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("sharing-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("app.db").path
        try SharingWorker.makeStore(at: path)
        let work = "\(mode.rawValue),\(seconds),\(path)"
        let workers = try (0..<count).map { _ in try BenchmarkWorker("--sharing-child", work) }
        for worker in workers { try BenchmarkError.require(worker.line() == "ready", "a worker did not start") }
        for worker in workers { worker.start() }
        let answers = try workers.map { worker in
            let figures = (worker.line() ?? "").split(separator: " ").compactMap { Double($0) }
            try BenchmarkError.require(figures.count == 3, "a worker failed")
            return figures
        }
        return (
            answers.map { $0[0] }.reduce(0, +) / seconds, (answers.map { $0[1] }.max() ?? 0) / 1000,
            (answers.map { $0[2] }.max() ?? 0) / 1000
        )
    }
}
