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

    func start() { tell("go") }

    /// Writes a line to its standard input.
    func tell(_ line: String) { try? input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8)) }

    /// Writes a line, and returns the answer.
    ///
    /// - Throws: ``BenchmarkError`` when the worker has ended.
    func ask(_ question: String) throws -> String {
        tell(question)
        guard let answer = line() else { throw BenchmarkError(description: "a worker has ended") }
        return answer
    }

    /// Ends it: it sees the end of its input.
    func finish() {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }

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
