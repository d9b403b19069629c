import Foundation
import FuzzTargets
import Testing

@Suite("Fuzzing") struct FuzzTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

    private static func files(_ folder: URL) throws -> [URL] {
        try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil).sorted {
            $0.path < $1.path
        }
    }

    /// The findings of libFuzzer, each in the folder of its target, under a name that describes it.
    @Test("what fuzzing has found stays repaired")
    func findings() throws {
        let findings = Self.folder.appending(path: "Findings")
        // There is no folder while nothing was found.
        guard FileManager.default.fileExists(atPath: findings.path) else { return }
        for folder in try Self.files(findings) {
            let target = try #require(FuzzTarget.all.first { $0.name == folder.lastPathComponent }, "\(folder.path)")
            for file in try Self.files(folder) {
                let violation = target.violation(of: Array(try Data(contentsOf: file)))
                #expect(violation == nil, "\(folder.lastPathComponent)/\(file.lastPathComponent)")
            }
        }
    }

    /// One input of each length; `make fuzz` reads as many as its time allows, and learns from them.
    @Test("every target holds for random inputs", arguments: FuzzTarget.all.map(\.name))
    func targets(name: String) throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        var numbers = SystemRandomNumberGenerator()
        for length in 0..<200 {
            let input = (0..<length).map { _ in UInt8.random(in: 0...255, using: &numbers) }
            #expect(target.violation(of: input) == nil, "\(input)")
        }
    }
}
