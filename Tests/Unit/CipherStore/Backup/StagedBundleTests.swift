import Foundation
import StorePlatform
import TestKit
import Testing

@testable import CipherStore

/// The folder of a backup before it has its name.
@Suite("Staged backups")
struct StagedBundleTests {
    private let folder = TemporaryFolder()
    private var target: BackupBundle { BackupBundle(folder.path("backup")) }

    private func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: folder.url.path) }

    @Test("a backup that has its name is one, also where its lock file cannot be removed")
    func lockFileStays() throws {
        let staged = try StagedBundle(for: target)
        let lock = staged.bundle.folder + "/" + StagingDirectory.Purpose.backup.lockName
        try Files.remove(lock)
        try FileManager.default.createDirectory(atPath: lock + "/inside", withIntermediateDirectories: true)
        try staged.publish()
        #expect(try names() == ["backup"])
    }
}
