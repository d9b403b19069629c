import Foundation

/// The same work as that of a large table, by DoltLite: SQLite with commits and merges, without encryption. A program of
/// its own does it, because its library takes the place of SQLite.
struct PeerWork {
    /// The program, which takes the number of rows and prints figures as JSON.
    let program: String
    let rows: Int

    private struct Answer: Decodable {
        let commit: Double
        let commitBytes: Double
        let merge: Double
        let version: String
    }

    /// The exit code if the peer cannot be installed.
    private static let unavailable: Int32 = 3

    /// - Returns: No figures where the peer cannot be installed; the program has said why.
    /// - Throws: ``BenchmarkError`` where the program fails.
    func measure() throws -> [Figure] {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = [String(rows)]
        process.standardOutput = output
        try process.run()
        let printed = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        if process.terminationStatus == Self.unavailable { return [] }
        try BenchmarkError.require(process.terminationStatus == 0, "\(program) failed")
        let answer = try JSONDecoder().decode(Answer.self, from: printed)
        let name = "DoltLite \(answer.version), not encrypted, \(rows) rows"
        return [
            Figure("\(name): a row and its commit", answer.commit, "ms", goal: nil),
            Figure("\(name): bytes of that", answer.commitBytes, "", goal: nil),
            Figure("\(name): merge of 1,000 changed rows a side", answer.merge, "ms", goal: nil),
        ]
    }
}
