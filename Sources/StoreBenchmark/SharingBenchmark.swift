import Foundation

/// `make bench-sharing`: processes that write single rows to one store, as programs do it, by the library's pool with and
/// without the writer queue, and in plain C, in turns.
///
/// The figures of a row are medians over the rounds, but for the longest transaction, which is the longest of all.
struct SharingBenchmark {
    let rounds: Int
    let seconds: Double
    let processCounts: [Int]

    /// The measurements of one row, a value for each round; times in milliseconds.
    private struct Result {
        /// Until the last process had the store open.
        var opening: [Double] = []
        /// Transactions per second of all processes together.
        var rate: [Double] = []
        var late: [Double] = []
        var longest: [Double] = []
    }

    func run() throws {
        BenchmarkTable.printHead([
            "processes", "mode", "all open after", "tx/s", "of one process", "99 %", "longest (median)", "longest",
        ])
        var ratesOfOne: [SharingMode: Double] = [:]
        for count in processCounts {
            var results: [SharingMode: Result] = [:]
            for _ in 0..<rounds {
                for mode in SharingMode.allCases {
                    try measure(mode, processes: count, &results[mode, default: Result()])
                }
            }
            for mode in SharingMode.allCases {
                guard let result = results[mode] else { continue }
                let rate = median(result.rate)
                if count == 1 { ratesOfOne[mode] = rate }
                printRow(count, mode, result, share: ratesOfOne[mode].map { rate / $0 })
            }
        }
    }

    private func printRow(_ count: Int, _ mode: SharingMode, _ result: Result, share: Double?) {
        BenchmarkTable.printRow([
            "\(count)", mode.name, String(format: "%.0f ms", median(result.opening)),
            String(format: "%.0f", median(result.rate)), share.map { String(format: "%.0f %%", 100 * $0) } ?? "",
            String(format: "%.2f ms", median(result.late)), String(format: "%.1f ms", median(result.longest)),
            String(format: "%.1f ms", result.longest.max() ?? 0),
        ])
    }

    private func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

    private func measure(_ mode: SharingMode, processes count: Int, _ result: inout Result) throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("sharing-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("app.db").path
        try SharingWorker.makeStore(at: path, mode)
        let work = "\(mode.rawValue),\(seconds),\(path)"
        let workers = try (0..<count).map { _ in try BenchmarkWorker("--sharing-child", work) }
        for worker in workers { try BenchmarkError.require(worker.line() == "started", "a worker did not start") }
        let start = DispatchTime.now().uptimeNanoseconds
        for worker in workers { worker.start() }
        for worker in workers { try BenchmarkError.require(worker.line() == "ready", "a worker could not open it") }
        result.opening.append(Double(DispatchTime.now().uptimeNanoseconds - start) / 1e6)
        for worker in workers { worker.start() }
        let answers = try workers.map { worker in
            let figures = (worker.line() ?? "").split(separator: " ").compactMap { Double($0) }
            try BenchmarkError.require(figures.count == 3, "a worker failed")
            return figures
        }
        result.rate.append(answers.map { $0[0] }.reduce(0, +) / seconds)
        result.longest.append((answers.map { $0[1] }.max() ?? 0) / 1000)
        result.late.append((answers.map { $0[2] }.max() ?? 0) / 1000)
    }
}
