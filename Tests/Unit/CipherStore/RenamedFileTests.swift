import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

/// Files of the user that begin with zeros, as disk images do, to which another member of a group has given the name of a
/// file beside a store.
@Suite struct RenamedFileTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    /// The zeros at the beginning and the length.
    enum Content: String, CaseIterable, Sendable {
        case header, page, tableOfHolders, twoRegions, image

        var bytes: Data {
            let (zeros, length) =
                switch self {
                case .header: (512, 32_768)
                case .page: (4096, 143_360)
                case .tableOfHolders: (143_360, 143_400)
                case .twoRegions: (65_536, 98_304)
                case .image: (1_000_000, 1_048_576)
                }
            return Data(count: zeros) + Data((zeros..<length).map { UInt8(truncatingIfNeeded: 0x41 + $0 % 23) })
        }
    }

    private func make() throws {
        try Opening.sharedStore.open(path, .raw(7)) { try $0.write { try $0.execute(sql: "CREATE TABLE t (a)") } }
        #expect(chmod(path, 0o660) == 0)
    }

    private func write() throws {
        for opening in [Opening.sharedStore, .pool] {
            try opening.open(path, .raw(7)) { try $0.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") } }
        }
    }

    // Story: the lock file was recognized by the zeros before its table. So a disk image of mode 0600 that got its name lost
    // its beginning, and became readable for the group. One with the name -wal was emptied.
    @Test(
        "one that has other bytes after them is refused, and keeps its content and its mode",
        arguments: ["-lock", "-wal", "-shm"], Content.allCases)
    func refused(_ ending: String, _ content: Content) throws {
        // A table whose first write was cut looks like these.
        if ending == "-lock", [.page, .twoRegions].contains(content) { return }
        try make()
        let name = path + ending
        try? FileManager.default.removeItem(atPath: name)
        try content.bytes.write(to: URL(fileURLWithPath: name))
        #expect(chmod(name, 0o600) == 0)
        let error = #expect(throws: (any Error).self) { try write() }
        let text = "\(error as Any)"
        #expect(text.contains("find out what it is") || text.contains("Find out what it is"), "\(text)")
        #expect(FileManager.default.contents(atPath: name) == content.bytes)
        #expect(try Files.status(of: name)?.permissions == 0o600)
        try FileManager.default.removeItem(atPath: name)
        try write()
    }

    @Test(
        "one with zeros throughout is that of a crash, and is used", arguments: ["-lock", "-wal", "-shm"],
        [8192, 98_304])
    func zeros(_ ending: String, _ length: Int) throws {
        try make()
        try? FileManager.default.removeItem(atPath: path + ending)
        try Data(count: length).write(to: URL(fileURLWithPath: path + ending))
        try write()
    }

    @Test(
        "a WAL whose beginning is lost, and one of holes, are no file of another content", arguments: [4096, 3_000_000])
    func lostBeginning(_ zeros: Int) throws {
        let kept = folder.path("kept")
        try Opening.sharedStore.open(path, .raw(7)) { store in
            try store.write { db in
                try db.execute(sql: "CREATE TABLE t (a)")
                for _ in 0..<100 { try db.execute(sql: "INSERT INTO t VALUES (randomblob(90000))") }
            }
            try FileManager.default.copyItem(atPath: path + "-wal", toPath: kept)
        }
        var log = try Data(contentsOf: URL(fileURLWithPath: kept))
        try #require(log.count > zeros + 100_000)
        log.replaceSubrange(0..<zeros, with: Data(count: zeros))
        try log.write(to: URL(fileURLWithPath: path + "-wal"))
        let error = ending { try Opening.sharedStore.open(path, .raw(7)) { _ in } }
        #expect((error as? StoreError)?.code != .alreadyExists, "\(error as Any)")
        // A file of holes is read at once.
        #expect(truncate(path + "-wal", 0) == 0 && truncate(path + "-wal", 1 << 40) == 0)
        try Opening.sharedStore.open(path, .raw(7)) { _ in }
    }

    private func ending(_ body: () throws -> Void) -> (any Error)? {
        do {
            try body()
            return nil
        } catch {
            return error
        }
    }

    // SQLite writes the header last when it recovers a WAL: a kill before that must not make the store unusable.
    @Test("an index without its header is one if page numbers and hash tables follow")
    func indexWithoutHeader() throws {
        let kept = folder.path("kept")
        try Opening.sharedStore.open(path, .raw(7)) { store in
            try store.write { db in
                try db.execute(sql: "CREATE TABLE t (a)")
                for _ in 0..<300 { try db.execute(sql: "INSERT INTO t VALUES (randomblob(90000))") }
            }
            try FileManager.default.copyItem(atPath: path + "-shm", toPath: kept)
        }
        var index = try Data(contentsOf: URL(fileURLWithPath: kept))
        try #require(index.count > 32_768)
        index.replaceSubrange(0..<96, with: Data(count: 96))
        try index.write(to: URL(fileURLWithPath: path + "-shm"))
        try write()
    }
}
