import Foundation
import Testing

/// Both copies of a sidecar as they were.
struct FormerCopies {
    let fixture: KeyslotFixture
    private let contents: [String: Data]

    init(_ fixture: KeyslotFixture) throws {
        self.fixture = fixture
        var contents: [String: Data] = [:]
        for ending in ["-sidecar", "-sidecar.bak"] {
            let content = try #require(fixture.contents(ending))
            contents[ending] = content
        }
        self.contents = contents
    }

    func putBack(_ endings: [String] = ["-sidecar", "-sidecar.bak"]) throws {
        for ending in endings { try contents[ending]?.write(to: URL(fileURLWithPath: fixture.path + ending)) }
    }

    /// Whether the files are these copies.
    var arePresent: Bool { contents.allSatisfy { fixture.contents($0.key) == $0.value } }
}
