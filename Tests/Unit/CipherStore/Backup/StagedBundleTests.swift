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

    // Without the lock it was removed below the backup that was made in it.
    @Test("a folder that another backup has taken for an abandoned one is left to it, and another one is made")
    func takenAway() throws {
        var first: (folder: String, lock: HeldLock?)?
        var staged: StagedBundle? = try StagedBundle(for: target) { folder in
            guard first == nil else { return }
            let lock = try LockFile(path: folder + "/" + StagedBundle.lockName, likeFile: nil)
            first = (folder, try lock.tryLock(.admin, .exclusive))
        }
        let taken = try #require(first)
        let made = try #require(staged?.bundle.folder)
        #expect(taken.lock != nil && made != taken.folder && Files.exists(made))
        // The other one removes what it has taken, and nothing else.
        try BackupBundle.remove(taken.folder)
        taken.lock?.release()
        let lock = made + "/" + StagedBundle.lockName
        #expect(try LockFile(path: lock, likeFile: nil).tryLock(.admin, .exclusive) == nil)
        staged = nil
        #expect(try names() == [])
    }

    @Test("a folder that is removed before it is locked is made anew")
    func removed() throws {
        var isFirst = true
        let staged = try StagedBundle(for: target) { folder in
            if isFirst { try Files.removeDirectory(folder) }
            isFirst = false
        }
        #expect(Files.exists(staged.bundle.folder))
    }

    @Test("a backup that has its name is one, also where its lock file cannot be removed")
    func lockFileStays() throws {
        let staged = try StagedBundle(for: target)
        let lock = staged.bundle.folder + "/" + StagedBundle.lockName
        try Files.remove(lock)
        try FileManager.default.createDirectory(atPath: lock + "/inside", withIntermediateDirectories: true)
        try staged.publish()
        #expect(try names() == ["backup"])
    }
}
