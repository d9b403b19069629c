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

    // Story: another member of the group renamed the folder, and the backup was reported as made.
    @Test("a backup whose folder was renamed away is not reported as made")
    func renamedAway() throws {
        let staged = try StagedBundle(for: target)
        try Files.rename(staged.bundle.folder, to: folder.path("away"))
        #expect(throws: SystemError.self) { try staged.publish() }
        #expect(!Files.exists(target.folder))
    }

    // The files were made and renamed by the path of the folder: a folder that had its name for a moment got some of them,
    // and a backup that lacked them was reported as made.
    @Test("the files of a backup go into its own folder, and no other folder becomes the backup")
    func swapped() throws {
        let staged = try StagedBundle(for: target)
        let own = staged.bundle.folder
        try Files.rename(own, to: folder.path("away"))
        try Files.makeDirectory(own)
        try staged.newFile(BackupBundle.databaseName).write([1])
        #expect(try Files.names(inDirectory: own) == [])
        #expect(try staged.openDatabase().status().byteCount == 1)
        #expect(throws: SystemError.self) { try staged.publish() }
        #expect(!Files.exists(target.folder))
        #expect(rmdir(own) == 0)
        try Files.rename(folder.path("away"), to: own)
        try staged.publish()
        #expect(try names() == ["backup"])
        #expect(Files.exists(target.databasePath))
    }
}
