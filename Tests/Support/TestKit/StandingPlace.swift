import Foundation

/// Where a process under test stands still until its test lets it go on. Both know it by a file, which is there for as long.
public struct StandingPlace: Sendable {
    /// The order to the process.
    public let path: String
    /// Nobody stands for ever: a test that has failed does not come back.
    private static let patience = Duration.seconds(120)

    public init(_ path: String) { self.path = path }

    /// For the process: says that it is here, and waits.
    public func stand() {
        _ = FileManager.default.createFile(atPath: path, contents: nil)
        _ = waitUntil(within: Self.patience) { !isReached }
    }

    /// For the test: whether the process stands here.
    public var isReached: Bool { FileManager.default.fileExists(atPath: path) }

    /// For the test: lets the process go on.
    public func leave() { try? FileManager.default.removeItem(atPath: path) }
}
