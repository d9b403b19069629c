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

    // The test asked whether the lock is held, and removed the directory afterwards: a process that locked it in
    // between lost it.
    @Test("a directory is removed under its lock: its maker, who comes late, does not get it")
    func removedUnderLock() throws {
        var lateLock: HeldLock?
        var made: [String] = []
        let staging = try StagingDirectory(for: target, .importing) { path in
            made.append(path)
            guard made.count == 1 else { return }
            try StagingDirectory.removeAbandoned(for: target, .importing) { path, _ in
                lateLock = try lock(of: path, .importing)
            }
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
        try Data().write(to: URL(fileURLWithPath: folder.path(killed + "/backup.lock")))
        for file in ["store.db", "store.db-journal", "manifest.json"] {
            try Data("x".utf8).write(to: URL(fileURLWithPath: folder.path(killed + "/" + file)))
        }
        #expect(try StagingDirectory.removeAbandoned(for: folder.path("wednesday"), .backup) == [folder.path(killed)])
        #expect(try Set(names()) == [Files.name(of: running.path), unlocked])
        #expect(try StagingDirectory.removeAbandoned(for: folder.path("wednesday"), .exporting) == [])
        running.remove()
    }

    @Test("a name that is taken is not replaced, not even by a link that leads nowhere")
    func taken() throws {
        let staging = try StagingDirectory(for: target, .exporting)
        defer { staging.remove() }
        try staging.folder.createFile("s.db", Array("new".utf8))
        try Data("old".utf8).write(to: folder.url.appendingPathComponent("old"))
        try FileManager.default.createSymbolicLink(
            atPath: folder.path("nowhere"), withDestinationPath: folder.path("absent"))
        #expect(throws: SystemError.self) { try staging.link("s.db", to: folder.path("old")) }
        #expect(throws: SystemError.self) { try staging.link("s.db", to: folder.path("nowhere")) }
        #expect(try String(contentsOfFile: folder.path("old"), encoding: .utf8) == "old")
        #expect(!Files.exists(folder.path("absent")))
        try staging.link("s.db", to: folder.path("free"))
        #expect(try String(contentsOfFile: folder.path("free"), encoding: .utf8) == "new")
    }

    // Another member of the group cannot remove a private directory of the user, but renames it: the next run removed a
    // finished backup, or a store in a directory of its own.
    @Test(
        "a directory of the user that was renamed is not taken for an abandoned one",
        arguments: StagingDirectory.Purpose.allCases)
    func renamed(_ purpose: StagingDirectory.Purpose) throws {
        let files = purpose == .backup ? ["store.db", "store.db-sidecar", "manifest.json"] : ["s.db", "s.db-sidecar"]
        let finished = "s.db.\(purpose.rawValue)-1-deadbeef"
        // A directory that others may write: the entries in it may be theirs, such as a second name of a database.
        let shared = "s.db.\(purpose.rawValue)-1-0123abcd"
        for (name, files) in [(finished, files), (shared, files + [purpose.lockName])] {
            try Files.makeDirectory(folder.path(name))
            for file in files { try Data("x".utf8).write(to: URL(fileURLWithPath: folder.path(name + "/" + file))) }
        }
        #expect(chmod(folder.path(shared), 0o2770) == 0)
        let before = try FileManager.default.subpathsOfDirectory(atPath: folder.url.path).sorted()
        #expect(try StagingDirectory.removeAbandoned(for: target, purpose) == [])
        #expect(try FileManager.default.subpathsOfDirectory(atPath: folder.url.path).sorted() == before)
    }

    @Test("a directory that took the name of a new one is not used", arguments: ["shared", "full", "link"])
    func swapped(kind: String) throws {
        let other = folder.path("other")
        try Files.makeDirectory(other)
        if kind == "full" { try Data("x".utf8).write(to: URL(fileURLWithPath: other + "/letter")) }
        if kind == "shared" { #expect(chmod(other, 0o2770) == 0) }
        var made = ""
        let staging = Result {
            try StagingDirectory(for: target, .exporting) { path in
                made = path
                try Files.rename(path, to: folder.path("away"))
                if kind == "link" {
                    try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: other)
                } else {
                    try Files.rename(other, to: path)
                }
            }
        }
        if kind == "shared" {
            // It is empty and the user's: nobody else may enter it from now on.
            #expect(try Files.status(of: staging.get().path)?.permissions == 0o700)
            return try staging.get().remove()
        }
        #expect(throws: SystemError.self) { try staging.get() }
        #expect(kind != "full" || Files.exists(made + "/letter"))
    }

    // It was used by its path: the rows of an export went into the directory that had the name by then.
    @Test("a file that was opened by the path of a directory is the one in the directory, or is refused")
    func opened() throws {
        let staging = try StagingDirectory(for: target, .exporting)
        defer { staging.remove() }
        try staging.folder.createFile("s.db", [])
        #expect(throws: SystemError.self) { try staging.requireOpened("s.db") }
        let file = try FileDescriptor(opening: staging.path + "/s.db", .readWrite)
        try staging.requireOpened("s.db")
        try Files.rename(staging.path, to: folder.path("away"))
        try Files.makeDirectory(staging.path)
        #expect(throws: SystemError.self) { try staging.requireOpened("s.db") }
        #expect(throws: SystemError.self) { try staging.moveItself(to: folder.path("backup")) }
        #expect(!Files.exists(folder.path("backup")))
        _ = try file.status()
    }
}
