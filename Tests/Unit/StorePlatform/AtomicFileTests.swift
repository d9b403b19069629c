import Foundation
import Testing

@testable import StorePlatform

@Suite("Atomic files")
struct AtomicFileTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func permissions(_ path: String) throws -> UInt32 { try #require(try Files.status(of: path)).permissions }

    @Test("a file is made and replaced as a whole, and nothing else stays in the folder")
    func replace() throws {
        let path = folder.file("side")
        try AtomicFile.write(Array("one".utf8), to: path, likeFile: nil)
        let first = try Files.identity(path)
        try AtomicFile.write(Array("two".utf8), to: path, likeFile: nil)
        #expect(try Files.contents(of: path, limitBytes: 10) == Array("two".utf8))
        #expect(try Files.identity(path) != first)
        #expect(try folder.names() == ["side"])
    }

    @Test("a new file without a model is its owner's alone")
    func privateMode() throws {
        try AtomicFile.write([1], to: folder.file("a"), likeFile: nil)
        try AtomicFile.write([1], to: folder.file("b"), likeFile: folder.file("absent"))
        #expect(try permissions(folder.file("a")) == 0o600)
        #expect(try permissions(folder.file("b")) == 0o600)
    }

    @Test("a new file has the permissions of the database, whatever the mask, but never the right to execute")
    func mode() throws {
        let database = folder.file("app.db")
        try Data().write(to: URL(fileURLWithPath: database))
        for (model, expected) in [(0o660, 0o660), (0o644, 0o644), (0o666, 0o664), (0o755, 0o644), (0o600, 0o600)] {
            #expect(chmod(database, mode_t(model)) == 0)
            try AtomicFile.write([1], to: folder.file("a"), likeFile: database)
            try AtomicFile.createEmpty(at: folder.file("lock-\(model)"), likeFile: database)
            #expect(try permissions(folder.file("a")) == UInt32(expected))
            #expect(try permissions(folder.file("lock-\(model)")) == UInt32(expected))
        }
    }

    @Test("a new file has the owner and group of the database", .enabled(if: getuid() == 0, "needs root"))
    func owner() throws {
        let database = folder.file("app.db")
        try Data().write(to: URL(fileURLWithPath: database))
        #expect(chown(database, 1234, 2345) == 0 && chmod(database, 0o640) == 0)
        try AtomicFile.write([1], to: folder.file("a"), likeFile: database)
        let status = try #require(try Files.status(of: folder.file("a")))
        #expect(status.owner == 1234 && status.group == 2345 && status.permissions == 0o640)
    }

    @Test(
        "where the group of the database cannot be given, its permissions are not given to another group",
        .enabled(if: getuid() == 0, "needs root"))
    func foreignGroup() async throws {
        let database = folder.file("app.db")
        try Data().write(to: URL(fileURLWithPath: database))
        #expect(chown(database, 1234, 2345) == 0 && chmod(database, 0o660) == 0 && chmod(folder.path, 0o777) == 0)
        let target = folder.file("a")
        await #expect(processExitsWith: .success) { [target = target as String, database = database as String] in
            guard setgroups(0, nil) == 0, setgid(65534) == 0, setuid(65534) == 0 else { exit(2) }
            try AtomicFile.write([1], to: target, likeFile: database)
        }
        let status = try #require(try Files.status(of: target))
        #expect(status.owner == 65534 && status.permissions == 0o600)
    }

    @Test(
        "a new file has the access control list of the database",
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/python3"), "needs python3"))
    func accessControlList() throws {
        let database = folder.file("app.db")
        try Data().write(to: URL(fileURLWithPath: database))
        // Version 2, then entries of tag, permissions and id: owner, user 1234, group, mask, others.
        let set = """
            import os, struct, sys
            none = 0xffffffff
            entries = [(1, 6, none), (2, 6, 1234), (4, 0, none), (16, 6, none), (32, 0, none)]
            acl = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *e) for e in entries)
            try: os.setxattr(sys.argv[1], 'system.posix_acl_access', acl)
            except OSError: print('unsupported')
            """
        let get = "import os, sys; print(os.getxattr(sys.argv[1], 'system.posix_acl_access').hex())"
        guard try python(set, database).isEmpty else { return }
        try AtomicFile.write([1], to: folder.file("a"), likeFile: database)
        #expect(try python(get, folder.file("a")) == python(get, database))
        #expect(try permissions(folder.file("a")) == permissions(database))
    }

    private func python(_ program: String, _ argument: String) throws -> String {
        let output = try Subprocess.output(
            of: ["/usr/bin/python3", "-c", program, argument], limitBytes: 4096, timeout: .seconds(60))
        return output.withBytes { String(decoding: $0, as: UTF8.self) }
    }

    @Test("a failed replacement leaves no temporary file and the former content")
    func failure() throws {
        let path = folder.file("occupied")
        try FileManager.default.createDirectory(atPath: path + "/inside", withIntermediateDirectories: true)
        let error = #expect(throws: SystemError.self) { try AtomicFile.write([1], to: path, likeFile: nil) }
        #expect(error?.call == "renameat")
        #expect(try folder.names() == ["occupied"])
        let missing = #expect(throws: SystemError.self) {
            try AtomicFile.write([1], to: folder.file("no/such"), likeFile: nil)
        }
        #expect(missing?.isNotFound == true)
    }

    @Test("a full device keeps the former content", .enabled(if: getuid() == 0, "needs root to mount a tmpfs"))
    func fullDevice() throws {
        let mountPoint = folder.file("small")
        try FileManager.default.createDirectory(atPath: mountPoint, withIntermediateDirectories: true)
        let mounting = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", mountPoint]
        guard (try? run(mounting)) != nil else { return }
        defer { try? run(["umount", mountPoint]) }
        let path = mountPoint + "/side"
        try AtomicFile.write(Array("old".utf8), to: path, likeFile: nil)
        let error = #expect(throws: SystemError.self) {
            try AtomicFile.write([UInt8](repeating: 1, count: 100_000), to: path, likeFile: nil)
        }
        #expect(error?.isNoSpace == true)
        #expect(try Files.contents(of: path, limitBytes: 10) == Array("old".utf8))
        #expect(try Files.names(inDirectory: mountPoint) == ["side"])
    }

    private func run(_ command: [String]) throws {
        _ = try Subprocess.output(of: command, limitBytes: 4096, timeout: .seconds(20))
    }

    // Such a folder ended every switch of a rotation, and every destruction, with an error.
    @Test("a folder or a link with the name of a leftover stays, and hinders nothing")
    func plantedLeftovers() throws {
        let path = folder.file("side")
        let names = ["side.tmp-999999-0000000a", "side.tmp-999999-0000000b", "side.tmp-999999-0000000c"]
        try Files.makeDirectory(folder.file(names[0]))
        try FileManager.default.createSymbolicLink(
            atPath: folder.file(names[1]), withDestinationPath: folder.file(names[0]))
        try Data().write(to: URL(fileURLWithPath: folder.file(names[2])))
        #expect(try AtomicFile.leftovers(of: path) == [folder.file(names[2])])
        try AtomicFile.removeLeftovers(of: path)
        #expect(try folder.names().sorted() == Array(names.prefix(2)))
    }

    // It was verified under its name, and renamed by its name.
    @Test("a verified file is moved, and another one with its name is not")
    func moveVerified() throws {
        let (path, target) = (folder.file("copy"), folder.file("app.db"))
        try Data("good".utf8).write(to: URL(fileURLWithPath: path))
        let identity = try #require(try Files.identity(path))
        try Files.rename(path, to: folder.file("aside"))
        for kind in ["file", "link"] {
            if kind == "file" {
                try Data("bad".utf8).write(to: URL(fileURLWithPath: path))
            } else {
                try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: folder.file("aside"))
            }
            let error = #expect(throws: SystemError.self) {
                try AtomicFile.move(path, verifiedAs: identity, to: target)
            }
            #expect(error?.errorNumber == ESTALE && !Files.exists(target))
            try Files.remove(path)
        }
        try AtomicFile.move(folder.file("aside"), verifiedAs: identity, to: target)
        #expect(try Files.contents(of: target, limitBytes: 10) == Array("good".utf8))
    }

    // The attributes were read by path, following links: a new sidecar became as wide as the file of another user.
    @Test("a link in place of the model gives no attributes")
    func linkedModel() throws {
        let (wide, database) = (folder.file("wide"), folder.file("app.db"))
        try Data().write(to: URL(fileURLWithPath: wide))
        #expect(chmod(wide, 0o666) == 0)
        try FileManager.default.createSymbolicLink(atPath: database, withDestinationPath: wide)
        try AtomicFile.write([1], to: folder.file("side"), likeFile: database)
        try AtomicFile.createEmpty(at: folder.file("lock"), likeFile: database)
        #expect(try permissions(folder.file("side")) == 0o600)
        #expect(try permissions(folder.file("lock")) == 0o600)
    }

    #if DEBUG
        // The temporary file was renamed by its name, whatever that named by then.
        @Test("what took the name of the temporary file does not become the content", arguments: ["file", "link"])
        func exchangedTemporary(kind: String) async throws {
            let target = folder.file("side")
            try Data("old".utf8).write(to: URL(fileURLWithPath: target))
            let root = folder.path
            await #expect(processExitsWith: .success) { [kind = kind as String, root = root as String] in
                CrashPoint.choose(.temporaryFileWritten) {
                    guard let names = try? Files.names(inDirectory: root),
                        let name = names.first(where: { $0.hasPrefix("side.tmp-") })
                    else { exit(3) }
                    try? Files.rename("\(root)/\(name)", to: "\(root)/away")
                    if kind == "link" {
                        try? FileManager.default.createSymbolicLink(
                            atPath: "\(root)/\(name)", withDestinationPath: "\(root)/away")
                    } else {
                        try? Data("forged".utf8).write(to: URL(fileURLWithPath: "\(root)/\(name)"))
                    }
                }
                let error = #expect(throws: SystemError.self) {
                    try AtomicFile.write(Array("new".utf8), to: root + "/side", likeFile: nil)
                }
                guard error?.errorNumber == ESTALE else { exit(4) }
            }
            #expect(try Files.contents(of: target, limitBytes: 10) == Array("old".utf8))
        }
    #endif

    @Test("an existing file is left alone by the making of an empty one")
    func createEmpty() throws {
        let path = folder.file("lock")
        try AtomicFile.createEmpty(at: path, likeFile: nil)
        let first = try Files.identity(path)
        try AtomicFile.createEmpty(at: path, likeFile: nil)
        #expect(try Files.identity(path) == first)
        #expect(try folder.names() == ["lock"])
    }

    @Test("what a dead writer left is removed by the next one, what a living one has is not")
    func leftovers() throws {
        let dead = "side.tmp-2147483646-0123abcd"
        let living = "side.tmp-\(getpid())-0123abcd"
        let others = ["other.tmp-2147483646-0123abcd", "side.tmp-x-0123abcd", "side.tmp-1-xyz", "side.tmp-notes"]
        for name in [dead, living] + others {
            try Data().write(to: URL(fileURLWithPath: folder.file(name)))
            let age = Date(timeIntervalSinceNow: -120)
            try FileManager.default.setAttributes([.modificationDate: age], ofItemAtPath: folder.file(name))
        }
        try AtomicFile.write([1], to: folder.file("side"), likeFile: nil)
        #expect(try folder.names() == (others + ["side", living]).sorted())
    }

    @Test("a temporary file is abandoned when it is old, or when its writer is gone for a while")
    func abandonment() {
        #expect(!LeftoverFiles.isAbandoned(age: .seconds(59), isWriterAlive: false))
        #expect(LeftoverFiles.isAbandoned(age: .seconds(61), isWriterAlive: false))
        #expect(!LeftoverFiles.isAbandoned(age: .seconds(599), isWriterAlive: true))
        #expect(LeftoverFiles.isAbandoned(age: .seconds(601), isWriterAlive: true))
        let name = LeftoverFiles.newName(for: "/x/side")
        #expect(LeftoverFiles.writer(ofName: Files.name(of: name), base: "side") == getpid())
    }
}
