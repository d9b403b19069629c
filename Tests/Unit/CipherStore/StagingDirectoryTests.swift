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

    // An attacker who may write in the folder put a link there, and the next export removed the files of its target.
    @Test(
        "a link with the name of a staging directory is not followed, and what others made stays",
        arguments: StagingDirectory.Purpose.allCases)
    func planted(_ purpose: StagingDirectory.Purpose) throws {
        let manager = FileManager.default
        let lock = purpose.lockName
        let own = purpose == .backup ? "store.db" : "s.db"
        // A target of links, a directory with a file of the user, one with a folder in it, one with a link in it.
        for (name, files) in [
            ("victim", [own, lock]), ("s.db.\(purpose.rawValue)-1-0000000a", [own, lock, "letter.txt"]),
            ("s.db.\(purpose.rawValue)-1-0000000b", [lock]), ("s.db.\(purpose.rawValue)-1-0000000c", [lock]),
        ] {
            try Files.makeDirectory(folder.path(name))
            for file in files { try Data("x".utf8).write(to: URL(fileURLWithPath: folder.path(name + "/" + file))) }
        }
        try Files.makeDirectory(folder.path("s.db.\(purpose.rawValue)-1-0000000b/\(own)"))
        try manager.createSymbolicLink(
            atPath: folder.path("s.db.\(purpose.rawValue)-1-0000000c/\(own)"),
            withDestinationPath: folder.path("victim/\(own)"))
        for digits in ["deadbeef", "0123abcd"] {
            try manager.createSymbolicLink(
                atPath: folder.path("s.db.\(purpose.rawValue)-1-\(digits)"), withDestinationPath: folder.path("victim"))
        }
        let before = try manager.subpathsOfDirectory(atPath: folder.url.path).sorted()
        #expect(try StagingDirectory.abandoned(for: target, purpose).allSatisfy { !$0.hasSuffix("deadbeef") })
        #expect(try StagingDirectory.removeAbandoned(for: target, purpose) == [])
        #expect(try manager.subpathsOfDirectory(atPath: folder.url.path).sorted() == before)
        let staging = try StagingDirectory(for: target, purpose)
        staging.remove()
        #expect(try manager.subpathsOfDirectory(atPath: folder.url.path).sorted() == before)
    }

    // It was replaced by a link during the work, and the end of the work emptied the link's target.
    @Test("a staging directory that was replaced by a link leaves the link's target alone")
    func replaced() throws {
        try Files.makeDirectory(folder.path("victim"))
        try Data("x".utf8).write(to: URL(fileURLWithPath: folder.path("victim/s.db")))
        let staging = try StagingDirectory(for: target, .exporting)
        try Files.rename(staging.path, to: folder.path("moved"))
        try FileManager.default.createSymbolicLink(
            atPath: staging.path, withDestinationPath: folder.path("victim"))
        staging.remove()
        #expect(Files.exists(folder.path("victim/s.db")))
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path("moved")) == [])
    }

    // They stayed for ever: each backup has another name.
    @Test("a backup removes the folders of killed backups for other targets, and none that is in use")
    func otherTargets() throws {
        let running = try StagingDirectory(for: folder.path("tuesday"), .backup)
        let killed = "monday.partial-1-0123abcd"
        let unlocked = "sunday.partial-\(ProcessInspector.currentProcess)-0123abcd"
        for name in [killed, unlocked] { try Files.makeDirectory(folder.path(name)) }
        for file in ["store.db", "store.db-journal", "manifest.json", "backup.lock"] {
            try Data("x".utf8).write(to: URL(fileURLWithPath: folder.path(killed + "/" + file)))
        }
        #expect(try StagingDirectory.removeAbandoned(for: folder.path("wednesday"), .backup) == [folder.path(killed)])
        #expect(try Set(names()) == [Files.name(of: running.path), unlocked])
        #expect(try StagingDirectory.removeAbandoned(for: folder.path("wednesday"), .exporting) == [])
        running.remove()
    }

    @Test("a name that is taken is not replaced")
    func taken() throws {
        try Data("new".utf8).write(to: folder.url.appendingPathComponent("new"))
        try Data("old".utf8).write(to: folder.url.appendingPathComponent("old"))
        #expect(throws: SystemError.self) { try StagingDirectory.link(folder.path("new"), to: folder.path("old")) }
        #expect(try String(contentsOfFile: folder.path("old"), encoding: .utf8) == "old")
    }
}
