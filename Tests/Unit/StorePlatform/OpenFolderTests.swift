import Foundation
import Testing

@testable import StorePlatform

@Suite("Open folders")
struct OpenFolderTests {
    private let folder: TemporaryFolder
    private let open: OpenFolder

    init() throws {
        folder = try TemporaryFolder()
        open = try OpenFolder(opening: folder.path)
    }

    private func errorNumber(_ body: () throws -> some Any) -> Int32? {
        do {
            _ = try body()
            return nil
        } catch { return (error as? SystemError)?.errorNumber }
    }

    @Test("only plain names are names", arguments: ["", ".", "..", "a/b", "/etc", "a\0b"])
    func names(name: String) {
        #expect(errorNumber { try open.status(of: name) } == EINVAL)
        #expect(errorNumber { try open.folder(name) } == EINVAL)
        #expect(errorNumber { try open.makeFolder(name) } == EINVAL)
        #expect(errorNumber { try open.file(name) } == EINVAL)
        #expect(errorNumber { try open.createFile(name, []) } == EINVAL)
        #expect(errorNumber { try open.link("x", to: open, name) } == EINVAL)
        #expect(errorNumber { try open.renameExclusively("x", to: open, name) } == EINVAL)
        #expect(errorNumber { try open.rename(name, to: open, "x") } == EINVAL)
        #expect(errorNumber { try open.remove(name) } == EINVAL)
    }

    @Test("symbolic links are not followed, neither to files nor to folders")
    func links() throws {
        let files = FileManager.default
        try files.createSymbolicLink(atPath: folder.file("out"), withDestinationPath: "/etc")
        try files.createSymbolicLink(atPath: folder.file("password"), withDestinationPath: "/etc/passwd")
        #expect(errorNumber { try open.folder("out") } == ENOTDIR)
        #expect(try open.file("password") == nil)
        #expect(try open.status(of: "password")?.kind == .other)
        #expect(errorNumber { try open.createFile("password", [1]) } == EEXIST)
        try open.makeFolder("out")
        #expect(try open.status(of: "out")?.kind == .other)
    }

    @Test("a pipe and a folder are no files, and opening them waits for nobody")
    func otherKinds() throws {
        #expect(mkfifo(folder.file("pipe"), 0o600) == 0)
        try open.makeFolder("inner")
        #expect(try open.file("pipe") == nil)
        #expect(try open.file("inner") == nil)
        #expect(try open.file("absent") == nil && open.folder("absent") == nil && open.status(of: "absent") == nil)
        #expect(errorNumber { try open.folder("pipe") } == ENOTDIR)
    }

    @Test("files and folders have the permissions that the caller names, whatever the umask")
    func permissions() throws {
        #expect(chmod(folder.path, 0o2770) == 0)
        try open.makeFolder("private")
        try open.createFile("secret", [1], sharedAs: nil)
        let permissions = try open.status(of: "private")?.permissions
        #expect(permissions.map { $0 & 0o777 } == 0o700)
        #expect(try open.status(of: "secret")?.permissions == 0o600)
        let group = try open.status().group
        try open.makeFolder("inner", sharedAs: GroupPermissions(group: group, permissions: 0o2770))
        try open.createFile("readable", [1], sharedAs: GroupPermissions(group: group, permissions: 0o640))
        try open.createFile("file", [1, 2, 3])
        #expect(try open.status(of: "inner")?.permissions == 0o2770)
        #expect(try open.status(of: "readable")?.permissions == 0o640)
        #expect(try open.status(of: "file")?.permissions == 0o660)
        try open.makeFolder("inner")
        let read = try open.file("file")?.read(at: 0, byteCount: 9)
        #expect(read == [1, 2, 3])
        #expect(errorNumber { try open.createFile("file", []) } == EEXIST)
    }

    // A private folder was opened for the group, and a synchronization wrote into it.
    @Test("a folder that is exchanged for another one while it is made keeps its mode, and is not used")
    func exchangedFolder() throws {
        #expect(chmod(folder.path, 0o2770) == 0)
        let (mine, kept) = (folder.file("mine"), folder.file("kept"))
        #expect(mkdir(mine, 0o700) == 0)
        try Data("dear diary".utf8).write(to: URL(filePath: mine + "/diary"))
        var first = ""
        let error = errorNumber {
            try open.makeFolder("share") { name in
                first = name
                #expect(rename(folder.file(name), kept) == 0 && rename(mine, folder.file(name)) == 0)
            }
        }
        #expect(error == ESTALE)
        #expect(try open.status(of: "share") == nil)
        #expect(try (open.status(of: first)?.permissions ?? 0o777) & 0o077 == 0)
        #expect(FileManager.default.fileExists(atPath: folder.file(first) + "/diary"))
    }

    @Test("a link and an exclusive renaming never replace a file")
    func exclusive() throws {
        try open.makeFolder("inner")
        let inner = try #require(try open.folder("inner"))
        for name in ["a", "b", "c"] { try open.createFile(name, Array(name.utf8)) }
        try open.link("a", to: inner, "x")
        #expect(errorNumber { try open.link("b", to: inner, "x") } == EEXIST)
        #expect(errorNumber { try open.renameExclusively("b", to: inner, "x") } == EEXIST)
        try open.renameExclusively("c", to: inner, "y")
        #expect(try inner.names(limit: 9).sorted() == ["x", "y"])
        #expect(try inner.file("x")?.read(at: 0, byteCount: 9) == Array("a".utf8))
        try open.rename("b", to: inner, "x")
        #expect(try inner.file("x")?.read(at: 0, byteCount: 9) == Array("b".utf8))
        try inner.remove("x")
        try inner.remove("x")
        #expect(errorNumber { try inner.names(limit: 0) } == EFBIG)
        #expect(errorNumber { try OpenFolder(opening: folder.file("a")) } == ENOTDIR)
    }
}
