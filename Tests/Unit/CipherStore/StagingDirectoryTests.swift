import Foundation
import StorePlatform
import StoreSharing
import TestKit
import Testing

@testable import CipherStore

/// The directory in which an import, an export, an adoption or a backup is made.
@Suite("Staging directories")
struct StagingDirectoryTests {
    private let folder = TemporaryFolder()
    private var target: String { folder.path("s.db") }

    private func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: folder.url.path) }

    private func lock(of directory: String, _ purpose: StagingDirectory.Purpose) throws -> HeldLock? {
        try LockFile(path: directory + "/" + purpose.lockName, likeFile: nil).tryLock(.admin, .exclusive)
    }

    // An import waited for the lock of the other, or failed with "No such file or directory"; a backup had its files
    // removed while it made them.
    @Test(
        "a directory that another run has taken for an abandoned one is left to it, and another one is made",
        arguments: StagingDirectory.Purpose.allCases)
    func takenAway(_ purpose: StagingDirectory.Purpose) throws {
        var taken: (path: String, lock: HeldLock?)?
        let staging = try StagingDirectory(for: target, purpose) { path in
            if taken == nil { taken = (path, try lock(of: path, purpose)) }
        }
        let first = try #require(taken)
        #expect(first.lock != nil && staging.path != first.path)
        #expect(try lock(of: staging.path, purpose) == nil)
        // The other run removes what it has taken, and nothing else.
        first.lock?.release()
        #expect(try StagingDirectory.removeAbandoned(for: target, purpose) == [first.path])
        #expect(try names() == [Files.name(of: staging.path)])
        staging.remove()
        #expect(try names() == [])
    }

    @Test(
        "a directory that is removed before it is locked is made anew", arguments: StagingDirectory.Purpose.allCases)
    func removed(_ purpose: StagingDirectory.Purpose) throws {
        var removed: [String] = []
        let staging = try StagingDirectory(for: target, purpose) { _ in
            if removed.isEmpty { removed = try StagingDirectory.removeAbandoned(for: target, purpose) }
        }
        #expect(removed.count == 1 && !removed.contains(staging.path) && Files.exists(staging.path))
        staging.remove()
    }

    // It was asked whether the lock is held, and the directory removed afterwards: whoever locked it in between lost it.
    @Test("a directory is removed under its lock: its maker, who comes late, does not get it")
    func removedUnderLock() throws {
        var lateLock: HeldLock?
        var made: [String] = []
        let staging = try StagingDirectory(for: target, .importing) { path in
            made.append(path)
            guard made.count == 1 else { return }
            try StagingDirectory.removeAbandoned(for: target, .importing) { lateLock = try lock(of: $0, .importing) }
        }
        #expect(lateLock == nil && made.count == 2 && staging.path == made.last)
        staging.remove()
    }

    @Test("the directory of a run under way is left alone, and so is one with another name")
    func underWay() throws {
        let staging = try StagingDirectory(for: target, .importing)
        let others = [
            "s.db.importing-1", "s.db.importing-1-123", "s.db.importing-1-0123abcz", "t.db.importing-1-0123abcd",
        ]
        for name in others {
            try Files.makeDirectory(folder.path(name))
        }
        #expect(try StagingDirectory.removeAbandoned(for: target, .importing) == [])
        #expect(try StagingDirectory.abandoned(for: target, .importing) == [])
        #expect(try Set(names()) == Set(others + [Files.name(of: staging.path)]))
        staging.remove()
    }

    @Test("a name that is taken is not replaced")
    func taken() throws {
        try Data("new".utf8).write(to: folder.url.appendingPathComponent("new"))
        try Data("old".utf8).write(to: folder.url.appendingPathComponent("old"))
        #expect(throws: SystemError.self) { try StagingDirectory.link(folder.path("new"), to: folder.path("old")) }
        #expect(try String(contentsOfFile: folder.path("old"), encoding: .utf8) == "old")
    }
}
