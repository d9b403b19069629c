import Foundation
import StorePlatform
import Testing

/// Names that are removed only while they are those of one file, through the folder that was open then.
@Suite("Names that this process gave to files")
struct OwnedNameTests {
    private let folder: TemporaryFolder
    private let open: OpenFolder

    init() throws {
        folder = try TemporaryFolder()
        open = try OpenFolder(opening: folder.path)
        try open.createFile("file", [1])
    }

    private func removalError(_ name: OwnedName) -> Int32? {
        do {
            try name.remove()
            return nil
        } catch { return error.errorNumber }
    }

    @Test("the file itself is removed, and its absence is no error")
    func removed() throws {
        let name = try #require(try OwnedName(at: folder.file("file")))
        #expect(removalError(name) == nil)
        #expect(try open.status(of: "file") == nil)
        #expect(removalError(name) == nil)
    }

    @Test(
        "another file, a link, a folder and a pipe that got the name stay",
        arguments: ["file", "link", "folder", "pipe"])
    func exchanged(_ kind: String) throws {
        let name = try #require(try OwnedName(at: folder.file("file")))
        try open.rename("file", to: open, "moved")
        switch kind {
        case "file": try open.createFile("file", [2])
        case "link": #expect(symlink(folder.file("moved"), folder.file("file")) == 0)
        case "folder": try open.makeFolder("file")
        default: #expect(mkfifo(folder.file("file"), 0o600) == 0)
        }
        #expect(removalError(name) == ESTALE)
        #expect(try open.status(of: "file") != nil && open.status(of: "moved") != nil)
    }

    @Test("what is no regular file gives no name, and neither does an absent one")
    func others() throws {
        #expect(symlink(folder.file("file"), folder.file("link")) == 0)
        try open.makeFolder("folder")
        for name in ["link", "folder", "absent"] { #expect(try OwnedName(at: folder.file(name)) == nil) }
    }

    // Story: files were removed by their path after their folder had been exchanged for a link to a private one.
    @Test("a folder that was exchanged for another one is left alone")
    func exchangedFolder() throws {
        try open.makeFolder("store")
        try open.makeFolder("private")
        let (store, other) = (try #require(try open.folder("store")), try #require(try open.folder("private")))
        try store.createFile("app.db", [1])
        try other.createFile("app.db", [2])
        let name = try #require(try OwnedName(at: folder.file("store") + "/app.db"))
        #expect(rename(folder.file("store"), folder.file("moved")) == 0)
        #expect(symlink("private", folder.file("store")) == 0)
        #expect(removalError(name) == nil)
        #expect(try other.status(of: "app.db") != nil)
        #expect(try store.status(of: "app.db") == nil)
        // A path that ends in the link is not taken.
        #expect(throws: SystemError.self) { try OwnedName(at: folder.file("store") + "/app.db") }
    }
}
