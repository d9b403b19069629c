import Foundation

/// A process of this program that does the work of a measurement.
final class BenchmarkWorker {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()

    /// - Parameters:
    ///   - option: What makes this program a worker.
    ///   - work: What it does.
    init(_ option: String, _ work: String) throws {
        process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        process.arguments = [option, work]
        process.standardInput = input
        process.standardOutput = output
        try process.run()
    }

    deinit { process.terminate() }

    func start() { try? input.fileHandleForWriting.write(contentsOf: Data("go\n".utf8)) }

    /// The next line; a worker writes each at once.
    func line() -> String? {
        var bytes = Data()
        while !bytes.contains(10) {
            let chunk = output.fileHandleForReading.availableData
            if chunk.isEmpty { return nil }
            bytes += chunk
        }
        return String(decoding: bytes.prefix { $0 != 10 }, as: UTF8.self)
    }
}

/// A table as Docs/Performance.md has them. Each row appears when it was measured, also in a file.
enum BenchmarkTable {
    static func printHead(_ names: [String]) {
        printRow(names)
        printRow(names.map { $0 == "mode" ? "---" : "---:" })
    }

    static func printRow(_ cells: [String]) {
        print("| " + cells.joined(separator: " | ") + " |")
        fflush(nil)
    }
}
