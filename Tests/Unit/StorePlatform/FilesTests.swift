import Foundation
import Testing

@testable import StorePlatform

@Suite("Files and descriptors")
struct FilesTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test("a path is asked for its kind, length and identity without being opened")
    func status() throws {
        let path = folder.file("a")
        #expect(try Files.kind(path) == nil)
        #expect(try Files.byteCount(path) == nil)
        try Data("12345".utf8).write(to: URL(fileURLWithPath: path))
        #expect(try Files.kind(path) == .regular)
        #expect(try Files.kind(folder.path) == .directory)
        #expect(try Files.kind("/dev/null") == .other)
        #expect(try Files.byteCount(path) == 5)
        #expect(Files.exists(path) && !Files.exists(path + "x"))
        let first = try Files.identity(path)
        try FileManager.default.copyItem(atPath: path, toPath: folder.file("b"))
        #expect(try first != Files.identity(folder.file("b")))
        try FileManager.default.moveItem(atPath: path, toPath: folder.file("c"))
        #expect(try first == Files.identity(folder.file("c")))
    }

    // A filesystem without blocks, such as ramfs, once looked like a full one; the product trapped when it was too large.
    @Test(
        "the room of a filesystem is what it tells, and without bound where it tells nothing or more than a number holds"
    )
    func room() {
        var found = statvfs()
        (found.f_blocks, found.f_bavail, found.f_frsize) = (100, 7, 4096)
        #expect(Files.freeBytes(found) == 7 * 4096)
        found.f_bavail = 0
        #expect(Files.freeBytes(found) == 0)
        found.f_bavail = .max
        #expect(Files.freeBytes(found) == .max)
        found.f_bavail = .max / 4096
        #expect(Files.freeBytes(found) == .max)
        (found.f_blocks, found.f_bavail) = (0, 0)
        #expect(Files.freeBytes(found) == .max)
    }

    // The mode was set by name: a link that was swapped in led to a key, which others could read then.
    @Test(
        "the permissions of a new file are set on nothing else that has its name",
        arguments: ["link", "content", "second name", "more rights", "folder"])
    func permissionsOfNewFile(kind: String) throws {
        let (path, key) = (folder.file("app.db"), folder.file("key"))
        try Data(kind == "second name" || kind == "more rights" ? [] : [1]).write(to: URL(fileURLWithPath: key))
        #expect(chmod(key, kind == "more rights" ? 0o604 : 0o600) == 0)
        switch kind {
        case "link": try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: key)
        case "second name": try Files.link(key, to: path)
        case "folder": try Files.makeDirectory(path)
        default: try Files.rename(key, to: path)
        }
        let before = try Files.status(of: path)?.permissions
        let error = #expect(throws: SystemError.self) { try Files.completePermissions(ofEmpty: path, 0o660) }
        #expect(error?.errorNumber == ESTALE)
        #expect(try Files.status(of: path)?.permissions == before)
    }

    @Test("a new file gets its permissions, whatever the umask")
    func newFile() throws {
        let path = folder.file("app.db")
        #expect(Files.makeEmptyUnopened(path, permissions: 0o660))
        #expect(try Files.status(of: path)?.permissions == 0o660)
        #expect(chmod(path, 0o600) == 0)
        try Files.completePermissions(ofEmpty: path, 0o664)
        #expect(try Files.status(of: path)?.permissions == 0o664)
        // One that exists is kept unchanged.
        #expect(Files.makeEmptyUnopened(path, permissions: 0o600))
        #expect(try Files.status(of: path)?.permissions == 0o664)
    }

    @Test("the contents of a file come whole up to the limit and not at all beyond it")
    func contents() throws {
        let path = folder.file("a")
        try Data(repeating: 7, count: 100).write(to: URL(fileURLWithPath: path))
        #expect(try Files.contents(of: path, limitBytes: 100) == [UInt8](repeating: 7, count: 100))
        let tooLong = #expect(throws: SystemError.self) { try Files.contents(of: path, limitBytes: 99) }
        #expect(tooLong?.errorNumber == EFBIG)
        let folderError = #expect(throws: SystemError.self) { try Files.contents(of: folder.path, limitBytes: 99) }
        #expect(folderError?.errorNumber == EISDIR)
        let missing = #expect(throws: SystemError.self) { try Files.contents(of: path + "x", limitBytes: 99) }
        #expect(missing?.isNotFound == true)
    }

    // A pipe that another user put in the place of a WAL at the moment of its opening stopped commands for ever.
    @Test("a regular file is opened behind a link, and a pipe in its place fails at once")
    func regularFile() throws {
        let (path, link) = (folder.file("pipe"), folder.file("link"))
        #expect(mkfifo(path, 0o600) == 0 && symlink(path, link) == 0)
        for (name, access) in [(path, FileDescriptor.Access.readOnly), (path, .readWrite), (link, .readOnly)] {
            let error = #expect(throws: SystemError.self) {
                _ = try FileDescriptor(opening: name, access, mustBeRegular: true)
            }
            #expect(error?.errorNumber == EINVAL)
        }
        #expect(unlink(path) == 0)
        try Data("abc".utf8).write(to: URL(fileURLWithPath: path))
        let file = try FileDescriptor(opening: link, .readOnly, mustBeRegular: true)
        #expect(try file.read(at: 0, byteCount: 3) == Array("abc".utf8))
    }

    @Test("reading a pipe as a file fails at once and does not wait for a writer")
    func pipe() throws {
        let path = folder.file("pipe")
        #expect(mkfifo(path, 0o600) == 0)
        #expect(throws: SystemError.self) { try Files.contents(of: path, limitBytes: 99) }
    }

    @Test("a descriptor writes, reads at a position, truncates and reports")
    func descriptor() throws {
        let path = folder.file("a")
        let file = try FileDescriptor(opening: path, .readWrite, creating: .always(permissions: 0o600))
        try file.write(Array("hello world".utf8))
        try file.synchronize()
        #expect(try file.read(at: 6, byteCount: 100) == Array("world".utf8))
        try file.truncate(toByteCount: 5)
        #expect(try file.status().byteCount == 5)
        #expect(try file.status().identity == Files.identity(path))
        let again = #expect(throws: SystemError.self) {
            _ = try FileDescriptor(opening: path, .readWrite, creating: .always(permissions: 0o600))
        }
        #expect(again?.errorNumber == EEXIST)
    }

    @Test("a program that is started inherits no descriptor of this library")
    func closeOnExec() throws {
        let path = folder.file("held")
        let file = try FileDescriptor(opening: path, .readWrite, creating: .ifMissing(permissions: 0o600))
        let duplicate = try FileDescriptor(duplicating: file.number, path: path)
        // Not by a program started here: `Subprocess` closes every descriptor by itself.
        for number in [file.number, duplicate.number] { #expect(fcntl(number, F_GETFD) & FD_CLOEXEC != 0) }
        #expect(duplicate.number != file.number)
    }

    @Test("a buffer of secrets gives up its last bytes and stays within its capacity")
    func wipedBuffer() throws {
        let path = folder.file("a")
        try Data("secret\n12345".utf8).write(to: URL(fileURLWithPath: path))
        let file = try FileDescriptor(opening: path, .readOnly)
        var buffer = WipedBuffer(capacity: 8)
        let other = LockedPages(byteCount: 8)
        #expect(buffer.isLocked == (other != nil))
        other?.release()
        while try buffer.append(readingFrom: file) > 0 {}
        #expect(buffer.count == 8 && buffer.remaining == 0)
        buffer.append(1)
        buffer.removeLast(2)
        #expect(buffer.withBytes { Array($0) } == Array("secret".utf8))
        buffer.removeLast(99)
        #expect(buffer.count == 0)
    }

    @Test("the folder and the name of a path are its parts around the last slash")
    func paths() {
        #expect(Files.directory(of: "/a/b") == "/a" && Files.name(of: "/a/b") == "b")
        #expect(Files.directory(of: "/a") == "/" && Files.name(of: "/a") == "a")
        #expect(Files.directory(of: "a") == "." && Files.name(of: "a") == "a")
    }

    @Test("a path is resolved to the file itself, through links to files, folders and what does not exist yet")
    func links() throws {
        let manager = FileManager.default
        let real = try Files.resolvingLinks(of: folder.file("app.db"))
        #expect(Files.name(of: real) == "app.db" && real.hasPrefix("/"))
        try manager.createSymbolicLink(atPath: folder.file("folder"), withDestinationPath: ".")
        try manager.createSymbolicLink(atPath: folder.file("relative"), withDestinationPath: "folder/app.db")
        try manager.createSymbolicLink(atPath: folder.file("absolute"), withDestinationPath: folder.file("relative"))
        for isThere in [false, true] {
            if isThere { try Data().write(to: URL(fileURLWithPath: real)) }
            for name in ["app.db", "relative", "absolute", "folder/app.db", "folder/folder/absolute"] {
                #expect(try Files.resolvingLinks(of: folder.file(name)) == real)
            }
        }
        try manager.createSymbolicLink(atPath: folder.file("loop"), withDestinationPath: "loop")
        let loop = #expect(throws: SystemError.self) { try Files.resolvingLinks(of: folder.file("loop")) }
        #expect(loop?.errorNumber == ELOOP)
        let missing = #expect(throws: SystemError.self) { try Files.resolvingLinks(of: folder.file("no/app.db")) }
        #expect(missing?.isNotFound == true)
        #expect(try Files.resolvingLinks(of: "/etc") == "/etc")
    }

    // Story: a link that came after the check led commands to a private store of their caller.
    @Test(
        "a link of another user in the place of a file is not followed",
        .enabled(if: geteuid() == 0, "only root can give links away"))
    func otherUserLink() throws {
        let (link, target) = (try Files.resolvingLinks(of: folder.file("app.db")), folder.file("private.db"))
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: target)
        #expect(try Files.resolvingLinks(of: link) == Files.resolvingLinks(of: target))
        #expect(lchown(link, 61_001, 61_001) == 0)
        #expect(try Files.resolvingLinks(of: link) == link)
        // The owner of the folder may lead anywhere.
        #expect(chown(folder.path, 61_001, 61_001) == 0)
        #expect(try Files.resolvingLinks(of: link) == Files.resolvingLinks(of: target))
    }
}
