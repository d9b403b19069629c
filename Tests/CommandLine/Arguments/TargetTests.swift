import Foundation
import TestKit
import Testing

/// Everything that a command makes goes to a path that is free.
@Suite("Targets of commands")
struct TargetTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeBackup()
        try place.makePlain("CREATE TABLE t (a)")
    }

    @Test("a file in the place of a directory is not called missing")
    func fileAsDirectory() throws {
        let outcome = try place.ctl("backup", place.path("s.db"), place.path("s.db/b"))
        #expect(outcome.status == 66 && outcome.errors.contains("is not a directory"), "\(outcome.errors)")
    }

    /// Every path in the folder with its content, without what reading a store touches.
    private func content() throws -> Set<String> {
        Set(try FileManager.default.subpathsOfDirectory(atPath: place.folder.url.path))
    }

    // `create` made a filesystem of a block device into a store; the others of its kind are held here.
    @Test("a device, a pipe, a socket, a folder and links to them are no targets, and stay as they are")
    func kinds() throws {
        let shell = """
            cd '\(place.path(""))' && mkfifo fifo && ln -s fifo to-fifo && ln -s /dev/null to-null && mkdir folder \
            && ln -s folder to-folder && ln -s nowhere to-nothing \
            && { [ "$(id -u)" != 0 ] || { mknod char c 1 3 && mknod block b 7 250; } || true; }
            """
        let made = try CommandRun(URL(fileURLWithPath: "/bin/sh"), ["-c", shell]).finish()
        #expect(made.status == 0, "\(made.errors)")
        var names = ["fifo", "to-fifo", "to-null", "folder", "to-folder"]
        let there = try place.names()
        names += ["char", "block"].filter(there.contains)
        let (store, key) = (place.path("s.db"), ["--raw-key-file", place.key])
        try #require(try place.run(["sync", "init", store, "--all-tables"] + key).status == 0)
        for name in names + ["to-nothing"] {
            let path = place.path(name)
            var commands = [
                ["export", store, path, "--insecure-plaintext"] + key, ["backup", store, path] + key,
                ["key", "reveal", store, "--yes", "--output", path] + key,
                ["key", "recovery", store, "--output", path] + key,
                ["conformance", store, "--report", path] + key, ["conformance", store, "--junit", path] + key,
            ]
            // A link that leads nowhere stands for the file or folder that it names.
            if name != "to-nothing" {
                commands += [
                    ["adopt", path] + key, ["salvage", store, path] + key,
                    ["restore", place.path("b"), path, "--replace", "--yes"] + key,
                ]
                if !name.contains("folder") {
                    commands.append(["sync", "push", store, "--remote", "dir:" + path] + key)
                }
            }
            for command in commands {
                let before = try content()
                let outcome = try place.run(command)
                #expect(outcome.status == 64, "\(command): \(outcome.errors)")
                #expect(try content() == before, "\(command)")
            }
        }
    }

    @Test("the file of a key gets no name of the store's own files")
    func keyOutput() throws {
        for command in [["key", "reveal", "--yes"], ["key", "recovery"]] {
            let outcome = try place.run(
                command + [place.path("s.db"), "--output", place.path("s.db-rotating"), "--raw-key-file", place.key])
            #expect(outcome.status == 64 && outcome.errors.contains("s.db-rotating"), "\(outcome.errors)")
            #expect(!place.exists("s.db-rotating"))
        }
    }

    // A link with the name of a killed export's directory was followed, and its target was emptied.
    @Test("a link in place of a killed command's directory is not followed")
    func plantedLink() throws {
        let victim = place.path("victim")
        try FileManager.default.createDirectory(atPath: victim, withIntermediateDirectories: false)
        try place.write("dear", to: "victim/out.db")
        try place.write("", to: "victim/import.lock")
        for name in ["out.db.exporting-1-deadbeef", "new.db.importing-1-deadbeef", "c.partial-1-deadbeef"] {
            try FileManager.default.createSymbolicLink(atPath: place.path(name), withDestinationPath: victim)
        }
        let key = ["--raw-key-file", place.key]
        for command in [
            ["export", place.path("s.db"), place.path("out.db"), "--insecure-plaintext"],
            ["import", place.path("plain.db"), place.path("new.db")], ["backup", place.path("s.db"), place.path("c")],
        ] {
            let outcome = try place.run(command + key)
            #expect(outcome.status == 0, "\(command): \(outcome.errors)")
            #expect(
                try Set(FileManager.default.contentsOfDirectory(atPath: victim)) == ["out.db", "import.lock"],
                "\(command)")
        }
    }

    /// "lstat ...: File name too long", 74; and files of a store that could not get all of its names.
    @Test(
        "a name that leaves no room for the files beside it is refused before anything is made", arguments: [223, 256])
    func longNames(count: Int) throws {
        let path = place.path(String(repeating: "n", count: count))
        let store = place.path("s.db")
        let before = try FileManager.default.contentsOfDirectory(atPath: place.path("")).sorted()
        let commands = [
            ["create", path], ["import", place.path("plain.db"), path],
            ["export", store, path, "--insecure-plaintext"],
            ["backup", store, path], ["salvage", store, path], ["restore", place.path("b"), path],
        ]
        for command in commands {
            let outcome = try place.run(command + ["--json", "--raw-key-file", place.key])
            #expect(outcome.status == 64, "\(command): \(outcome.errors)")
            #expect(outcome.errorJSON["code"] as? String == "pathTooLong", "\(command): \(outcome.errors)")
        }
        try #expect(FileManager.default.contentsOfDirectory(atPath: place.path("")).sorted() == before)
        guard count > 255 else { return }
        for command in [["verify", path], ["sql", path, "SELECT 1"], ["status", path], ["key", "list", path]] {
            let outcome = try place.run(command + ["--raw-key-file", place.key])
            #expect(outcome.status == 64 && outcome.errors.contains("255 bytes"), "\(command): \(outcome.errors)")
        }
        let report = try place.ctl("conformance", store, "--report", path)
        #expect(report.status == 64, "\(report.errors)")
    }

    /// "open ...: No such file or directory" was all that backup and restore said.
    @Test("a target in a folder that does not exist is refused before anything is made")
    func missingFolder() throws {
        let (path, store) = (place.path("none/x"), place.path("s.db"))
        let commands = [
            ["backup", store, path], ["restore", place.path("b"), path], ["import", place.path("plain.db"), path],
            ["export", store, path, "--insecure-plaintext"], ["salvage", store, path],
        ]
        for command in commands {
            let outcome = try place.run(command + ["--json", "--raw-key-file", place.key])
            #expect(outcome.status == 66, "\(command): \(outcome.errors)")
            #expect(outcome.errorJSON["code"] as? String == "noDirectory", "\(command): \(outcome.errors)")
            #expect(outcome.errors.contains("\(place.path("none"))"), "\(command): \(outcome.errors)")
        }
    }

    // The database was removed: another user had put a folder beside it in which it had a second name, or a link to it.
    @Test(
        "a file at the target is not taken for an interrupted import by a folder that others can have made",
        arguments: ["second name", "link"])
    func plantedPublication(kind: String) throws {
        let manager = FileManager.default
        for name in ["new.db", "new.db.importing-1-deadbeef"] where place.exists(name) { try place.remove(name) }
        try place.write("precious", to: "new.db")
        let folder = place.path("new.db.importing-1-deadbeef")
        try manager.createDirectory(
            atPath: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o2770])
        if kind == "link" {
            try manager.createSymbolicLink(atPath: folder + "/new.db", withDestinationPath: "../new.db")
        } else {
            try manager.linkItem(atPath: place.path("new.db"), toPath: folder + "/new.db")
        }
        for command in [["import", place.path("plain.db")], ["salvage", place.path("s.db")]] {
            let outcome = try place.run(command + [place.path("new.db"), "--raw-key-file", place.key])
            #expect(outcome.status != 0 && outcome.errors.contains("not free"), "\(command): \(outcome.errors)")
            #expect(try place.bytes("new.db") == Array("precious".utf8))
            #expect(manager.fileExists(atPath: folder))
        }
    }

    // A member of the group cannot remove a private directory of another one, but renames it: the next export removed it.
    @Test("a private directory that was renamed to that of a killed command stays")
    func renamedDirectories() throws {
        let manager = FileManager.default
        let cases = [
            ("mine.db.exporting-999999-deadbeef", ["mine.db", "mine.db-sidecar"]),
            ("mine.db.importing-999999-deadbeef", ["mine.db", "mine.db-sidecar"]),
            ("mine.partial-999999-deadbeef", ["store.db", "store.db-sidecar", "manifest.json"]),
        ]
        for (name, files) in cases {
            try manager.createDirectory(
                atPath: place.path(name), withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
            for file in files { try place.write("x", to: name + "/" + file) }
        }
        let key = ["--raw-key-file", place.key]
        for command in [
            ["export", place.path("s.db"), place.path("mine.db"), "--insecure-plaintext"],
            ["backup", place.path("s.db"), place.path("other")],
        ] {
            let outcome = try place.run(command + key)
            #expect(outcome.status == 0, "\(command): \(outcome.errors)")
        }
        try place.remove("mine.db")
        let imported = try place.run(["import", place.path("plain.db"), place.path("mine.db")] + key)
        #expect(imported.status == 0, "\(imported.errors)")
        for (name, files) in cases {
            #expect(
                try Set(manager.contentsOfDirectory(atPath: place.path(name))) == Set(files), "\(name)")
        }
    }

    @Test("a path that is too long is refused with the limit before anything is made", arguments: [510, 480])
    func longPaths(count: Int) throws {
        var deep = place.path("")
        while deep.hasSuffix("/") { deep.removeLast() }
        while deep.utf8.count < count - 150 {
            deep += "/" + String(repeating: "d", count: 50)
            try FileManager.default.createDirectory(atPath: deep, withIntermediateDirectories: false)
        }
        let path = deep + "/" + String(repeating: "f", count: count - deep.utf8.count - 1)
        let store = place.path("s.db")
        var commands = [
            ["import", place.path("plain.db"), path], ["export", store, path, "--insecure-plaintext"],
            ["backup", store, path], ["salvage", store, path],
        ]
        // Those that need no directory of their own.
        if count > 504 { commands += [["create", path], ["restore", place.path("b"), path]] }
        for command in commands {
            let outcome = try place.run(command + ["--json", "--raw-key-file", place.key])
            #expect(outcome.status == 64, "\(command): \(outcome.errors)")
            #expect(outcome.errorJSON["code"] as? String == "pathTooLong", "\(command): \(outcome.errors)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: deep) == [], "\(command)")
        }
    }
}
