import Foundation
import TestKit
import Testing

/// A folder that is seen read-only at another place, until the object goes.
final class ReadOnlyMount {
    let folder = TemporaryFolder()

    /// Whether this process may mount.
    static let isPossible: Bool = {
        guard geteuid() == 0 else { return false }
        let folder = TemporaryFolder()
        return withExtendedLifetime(folder) { (try? ReadOnlyMount(of: folder.url.path)) != nil }
    }()

    init(of path: String) throws {
        try run("mount", "--bind", path, folder.url.path)
        try run("mount", "-o", "remount,bind,ro", folder.url.path)
    }

    deinit { try? run("umount", "-l", folder.url.path) }

    private func run(_ words: String...) throws {
        let program = try #require(SystemProgram.find(words[0]))
        let outcome = try CommandRun(program, Array(words.dropFirst())).finish()
        guard outcome.status == 0 else { throw CocoaError(.featureUnsupported) }
    }
}
