import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import TestKit
import Testing

/// Another member of the group of a shared folder gives the name of the database to a file of his while a new file takes
/// owner, group and mode from it.
@Suite(.enabled(if: geteuid() == 0, "needs root")) struct BorrowedAttributesTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    private func mode(_ name: String) throws -> UInt32 { try #require(try Files.ownStatus(of: name)).permissions }

    /// Puts a copy of the database with another mode and owner in its place.
    private func exchange() throws {
        #expect(rename(path, path + "-kept") == 0)
        try FileManager.default.copyItem(atPath: path + "-kept", toPath: path)
        #expect(chmod(path, 0o666) == 0 && chown(path, 61_001, 61_001) == 0)
    }

    // Story: a change of keys gave the sidecar the owner and mode of the planted file, and every user could read it.
    @Test("a sidecar does not take owner and mode of a file that has the name of the open database for a moment")
    func sidecar() throws {
        #expect(chmod(folder.url.path, 0o2770) == 0)
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        defer { try? store.close() }
        try store.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        let files = SidecarFiles(databasePath: path)
        let before = try Files.contents(of: files.mainPath, limitBytes: 1 << 16)
        try exchange()
        #expect(throws: (any Error).self) {
            try store.keys.add(.rawKey([UInt8](repeating: 7, count: 32)), label: "second")
        }
        for copy in SidecarCopy.allCases {
            let status = try #require(try Files.ownStatus(of: files.path(of: copy)))
            #expect(status.owner == 0 && status.permissions == 0o600, "\(copy): \(status)")
        }
        #expect(try Files.contents(of: files.mainPath, limitBytes: 1 << 16) == before)
        #expect(rename(path + "-kept", path) == 0)
        try store.keys.add(.rawKey([UInt8](repeating: 7, count: 32)), label: "second")
        #expect(try mode(files.mainPath) == 0o600)
    }

    @Test(
        "no new file may be written by every user; one of another user in a shared folder lends no right to read either"
    )
    func others() throws {
        for (folderMode, owner, model, expected) in [
            (0o755, 0, 0o666, 0o664), (0o755, 0, 0o644, 0o644), (0o1777, 0, 0o646, 0o644), (0o2775, 0, 0o644, 0o644),
            (0o2770, 61_001, 0o666, 0o660), (0o2775, 61_001, 0o644, 0o640),
        ] as [(mode_t, uid_t, mode_t, UInt32)] {
            #expect(chmod(folder.url.path, folderMode) == 0)
            try Data().write(to: URL(fileURLWithPath: path))
            #expect(chmod(path, model) == 0 && chown(path, owner, 0) == 0)
            try AtomicFile.write([1], to: folder.path("new"), likeFile: path)
            #expect(try mode(folder.path("new")) == expected, "\(String(folderMode, radix: 8)) \(owner)")
        }
    }

    // Story: the folder was opened as any file, and the opening of a pipe waited for its other end.
    @Test("a pipe in the place of a folder is not waited for when that is synced")
    func pipe() async throws {
        let path = folder.path("pipe")
        #expect(mkfifo(path, 0o600) == 0)
        await #expect(processExitsWith: .exitCode(3)) { [path = path as String] in
            alarm(5)
            do {
                try Files.synchronize(directory: path)
            } catch { exit(3) }
        }
    }
}

/// Files of another user with names of the store's own, in a folder with the sticky bit: only their owner can remove them.
@Suite(.enabled(if: geteuid() == 0, "needs root")) struct StrangersFileTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    /// A store in a folder of mode 1777, one of whose files is replaced by a copy that belongs to another user.
    private func plant(_ ending: String) throws {
        #expect(chmod(folder.url.path, 0o1777) == 0)
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        try store.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        try store.keys.add(.rawKey([UInt8](repeating: 7, count: 32)), label: "second")
        try store.close()
        if (try? Files.kind(path + ending)) == nil { try Data().write(to: URL(fileURLWithPath: path + ending)) }
        #expect(chown(path + ending, 61_001, 61_001) == 0 && chmod(path + ending, 0o666) == 0)
    }

    // Story: its owner could hold the locks of the store for ever, and the error named a process of another user.
    @Test("a lock file of a user who may not write the database is refused, with its owner")
    func lockFile() throws {
        try plant("-lock")
        for isReader in [false, true] {
            let error = #expect(throws: (any Error).self) {
                if isReader {
                    _ = try SharedStore.openReadOnly(at: path, unlockedBy: TestKeys.source("raw"))
                } else {
                    try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
                }
            }
            #expect("\(error as Any)".contains("-lock") && "\(error as Any)".contains("user 61001"), "\(error as Any)")
        }
        #expect(chown(path, 61_001, 61_001) == 0)
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
    }

    @Test("a key log of a user who may not write the database is neither read nor continued")
    func keyLog() throws {
        try plant("-keylog")
        let log = KeyLog(databasePath: path)
        let before = try Files.contents(of: log.path, limitBytes: 1 << 16)
        let error = #expect(throws: SystemError.self) { try log.verify() }
        #expect(error?.description.contains("user 61001") == true, "\(error as Any)")
        let note = log.note(.keyRevealed)
        #expect(note?.contains("user 61001") == true, "\(note as Any)")
        #expect(try Files.contents(of: log.path, limitBytes: 1 << 16) == before)
        // Changes of keys work without it.
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        try store.keys.add(.rawKey([UInt8](repeating: 8, count: 32)), label: "third")
        try store.close()
    }

    @Test("a file of notifications of a user who may not write the database is refused, and the store works without")
    func notifications() throws {
        try plant("-notify")
        let error = #expect(throws: SystemError.self) { try CrossProcessNotification.post(name: "n", in: path) }
        #expect(error?.description.contains("user 61001") == true, "\(error as Any)")
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
        try store.close()
    }

    // Story: a restoration made the store and its sidecar readable for the user who had put a file of noise there.
    @Test(
        "a restoration takes owner and mode of the file that it replaces only if that has the key",
        arguments: [true, false])
    func restoration(isStore: Bool) throws {
        #expect(chmod(folder.url.path, 0o2770) == 0)
        let source = TestKeys.source("raw")
        let store = try SharedStore.open(at: path, unlockedBy: source)
        try store.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        _ = try store.backup(toFolder: folder.path("copy"))
        try store.close()
        if !isStore {
            #expect(unlink(path) == 0)
            try Data((0..<8192).map { _ in UInt8.random(in: 0...255) }).write(to: URL(fileURLWithPath: path))
        }
        #expect(chmod(path, 0o660) == 0 && chown(path, 61_001, 61_001) == 0)
        let report = try SharedStore.restore(
            from: folder.path("copy"), to: path, unlockedBy: source, replacing: true, replacingAnyFile: true)
        let files = SidecarFiles(databasePath: path)
        for name in [path, files.mainPath] {
            let status = try #require(try Files.ownStatus(of: name))
            #expect(status.owner == (isStore ? 61_001 : 0), "\(name)")
            #expect(status.permissions == (isStore ? 0o660 : 0o600), "\(name)")
        }
        #expect(report.notices.contains { $0.contains("were not taken over") } == !isStore, "\(report.notices)")
    }
}
