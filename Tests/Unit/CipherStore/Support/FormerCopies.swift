import Foundation
import Testing

/// Both copies of a sidecar as they were.
struct FormerCopies {
    let bench: SlotBench
    private let contents: [String: Data]

    init(_ bench: SlotBench) throws {
        self.bench = bench
        var contents: [String: Data] = [:]
        for ending in ["-sidecar", "-sidecar.bak"] {
            let content = try #require(bench.contents(ending))
            contents[ending] = content
        }
        self.contents = contents
    }

    func putBack(_ endings: [String] = ["-sidecar", "-sidecar.bak"]) throws {
        for ending in endings { try contents[ending]?.write(to: URL(fileURLWithPath: bench.path + ending)) }
    }

    /// Whether the files are these copies.
    var arePresent: Bool { contents.allSatisfy { bench.contents($0.key) == $0.value } }
}
