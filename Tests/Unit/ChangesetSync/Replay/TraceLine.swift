import Foundation

/// An event of the model, and the state of its replica after it (Tests/SyncModel/trace.py).
struct TraceLine {
    let values: [String: Any]

    init(_ values: [String: Any]) { self.values = values }

    init?(_ text: Substring) {
        guard let values = try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] else {
            return nil
        }
        self.values = values
    }

    var event: String { text("e") }
    var replica: String { text("r") }
    func text(_ name: String) -> String { values[name] as? String ?? "" }
    func integer(_ name: String) -> Int64? { (values[name] as? NSNumber)?.int64Value }
    func flag(_ name: String) -> Bool { (values[name] as? NSNumber)?.boolValue ?? false }
    func list(_ name: String) -> [Any] { values[name] as? [Any] ?? [] }
    func lines(_ name: String) -> [TraceLine] { list(name).compactMap { ($0 as? [String: Any]).map(TraceLine.init) } }
    func line(_ name: String) -> TraceLine? { (values[name] as? [String: Any]).map(TraceLine.init) }

    var description: String {
        let data = try? JSONSerialization.data(
            withJSONObject: values.filter { $0.key != "state" }, options: .sortedKeys)
        return data.map { String(decoding: $0, as: UTF8.self) } ?? ""
    }
}

/// Plays runs of the model.
enum ModelTrace {
    /// Tests/Unit/ChangesetSync/Replay/TraceLine.swift is five levels below the repository.
    static let script = (0..<5).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        .appending(path: "Tests/SyncModel/trace.py")

    static let isAvailable: Bool = (try? run("-c", "print(1)")) == "1\n"

    /// The lines of some runs.
    static func runs(_ seeds: Range<Int>, features: String) throws -> [[TraceLine]] {
        let output = try run(
            script.path(), "--seed", String(seeds.lowerBound), "--runs", String(seeds.count), "--features", features)
        var runs: [[TraceLine]] = []
        for line in output.split(separator: "\n").compactMap({ TraceLine($0) }) {
            if line.event == "run" { runs.append([]) }
            if !runs.isEmpty { runs[runs.count - 1].append(line) }
        }
        return runs
    }

    private static func run(_ arguments: String...) throws -> String {
        let (process, pipe) = (Process(), Pipe())
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", "-B"] + arguments
        process.standardOutput = pipe
        try process.run()
        let data = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw ModelFailure(text: "trace.py \(arguments) failed") }
        return String(decoding: data, as: UTF8.self)
    }
}

struct ModelFailure: Error, CustomStringConvertible {
    let text: String
    var description: String { text }
}
