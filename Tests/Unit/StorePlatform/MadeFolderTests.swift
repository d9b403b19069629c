import Foundation
import Testing

@testable import StorePlatform

@Suite struct MadeFolderTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test("a folder is removed with its files, folders and links, and nothing behind a link")
    func removal() throws {
        let kept = folder.file("kept")
        try FileManager.default.createDirectory(atPath: kept, withIntermediateDirectories: false)
        try Data("a".utf8).write(to: URL(fileURLWithPath: kept + "/a"))
        let made = try MadeFolder(folder.file("made"))
        #expect(try Files.status(of: made.path)?.permissions == 0o700)
        try FileManager.default.createDirectory(atPath: made.path + "/a/b", withIntermediateDirectories: true)
        try Data("a".utf8).write(to: URL(fileURLWithPath: made.path + "/a/b/c"))
        try FileManager.default.createSymbolicLink(atPath: made.path + "/a/link", withDestinationPath: kept)
        #expect(made.remove())
        #expect(try !Files.entryExists(made.path))
        #expect(try Files.names(inDirectory: kept) == ["a"])
        #expect(throws: SystemError.self) { try MadeFolder(kept) }
    }

    @Test("a folder that got its name is left alone, and its own files are removed")
    func exchanged() throws {
        let made = try MadeFolder(folder.file("made"))
        try Data("a".utf8).write(to: URL(fileURLWithPath: made.path + "/a"))
        let away = folder.file("away")
        try Files.rename(made.path, to: away)
        try FileManager.default.createDirectory(atPath: made.path, withIntermediateDirectories: false)
        try Data("b".utf8).write(to: URL(fileURLWithPath: made.path + "/a"))
        #expect(!made.remove())
        #expect(FileManager.default.contents(atPath: made.path + "/a") == Data("b".utf8))
        #expect(try Files.names(inDirectory: away) == [])
    }

    @Test("a file is its own only while it is open, and its folder has its name")
    func opened() throws {
        let made = try MadeFolder(folder.file("made"))
        defer { made.remove() }
        try Data("a".utf8).write(to: URL(fileURLWithPath: made.path + "/a"))
        #expect(throws: SystemError.self) { try made.requireOpened("a") }
        let file = try FileDescriptor(opening: made.path + "/a", .readOnly)
        try made.requireOpened("a")
        try Files.rename(made.path, to: folder.file("away"))
        #expect(throws: SystemError.self) { try made.requireOpened("a") }
        _ = file.number
    }

    @Test("in a folder with the sticky bit, owners and root alone remove a file")
    func sticky() throws {
        let path = folder.file("shared")
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try Data().write(to: URL(fileURLWithPath: path + "/a"))
        let open = try OpenFolder(opening: path)
        let file = try #require(try open.status(of: "a"))
        let others = file.owner + 1000
        #expect(try open.permitsRemoval(of: file, by: others))
        #expect(chmod(path, 0o1777) == 0)
        #expect(try !open.permitsRemoval(of: file, by: others))
        #expect(try open.permitsRemoval(of: file, by: file.owner) && open.permitsRemoval(of: file, by: 0))
    }
}
