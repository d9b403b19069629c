import CipherStore
import Foundation
import TestKit
import Testing

/// Rollback journals that somebody has put beside a store.
@Suite struct PlantedJournalTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private var victim: String { folder.path("thesis.txt") }

    /// A journal that SQLite plays back: the database had so many pages, and a further file belongs to the transaction.
    private func journal(pages: UInt32, naming file: String? = nil, content: (UInt32, Data)? = nil) -> Data {
        var bytes = Data([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7])
        for number in [content == nil ? 0 : 1, 12345, pages, 512, 4096] as [UInt32] { bytes += bigEndian(number) }
        bytes += Data(count: 512 - bytes.count)
        if let (number, page) = content {
            bytes += bigEndian(number) + page
            var sum: UInt32 = 12345
            for offset in stride(from: page.count - 200, to: 0, by: -200) { sum &+= UInt32(page[offset]) }
            bytes += bigEndian(sum)
        }
        guard let file else { return bytes }
        let name = Data(file.utf8)
        var sum: UInt32 = 0
        for byte in name { sum &+= UInt32(bitPattern: Int32(Int8(bitPattern: byte))) }
        bytes += bigEndian(UInt32(0x4000_0000 / 4096 + 1)) + name + bigEndian(UInt32(name.count)) + bigEndian(sum)
        return bytes + Data([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7])
    }

    private func bigEndian(_ value: UInt32) -> Data { withUnsafeBytes(of: value.bigEndian) { Data($0) } }

    private func make() throws {
        try Opening.sharedStore.open(path, .raw(7)) { store in
            try store.write { db in
                try db.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(60000))")
            }
        }
        try Data("precious".utf8).write(to: URL(fileURLWithPath: victim))
    }

    private func plant(_ bytes: Data) throws { try bytes.write(to: URL(fileURLWithPath: path + "-journal")) }

    private func count(_ store: any DatabaseReader) throws -> Int? {
        try store.read { try Int.fetchOne($0, sql: "SELECT sum(length(a)) FROM t") }
    }

    // Story: another user of a shared folder planted a journal that names a file of the caller: the next command that
    // writes removed that file. One that says that the database had one page cut the store off to that.
    @Test("a store in WAL mode is read and written without it, and no other file is touched", arguments: [1, 16, 4096])
    func planted(_ pages: Int) throws {
        try make()
        let planted = journal(pages: UInt32(pages), naming: victim)
        try plant(planted)
        let reader = try #require(try SharedStore.openReadOnly(at: path, unlockedBy: TestKey.raw(7).source))
        #expect(try count(reader) == 60000)
        try reader.close()
        try Opening.sharedStore.open(path, .raw(7)) { store in
            #expect(try count(store) == 60000)
            try store.write { try $0.execute(sql: "INSERT INTO t VALUES (zeroblob(1000))") }
            #expect(try count(store) == 61000)
        }
        #expect(try count(SharedStore.open(at: path, unlockedBy: TestKey.raw(7).source)) == 61000)
        #expect(FileManager.default.contents(atPath: victim) == Data("precious".utf8))
        #expect(FileManager.default.contents(atPath: path + "-journal") == planted)
    }

    @Test("a page in it does not replace that of the store")
    func pages() throws {
        try make()
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        let count = UInt32(whole.count / 4096)
        try plant(journal(pages: count, content: (3, Data(repeating: 0, count: 4096))))
        let sum = try Opening.sharedStore.open(path, .raw(7)) { try self.count($0) }
        #expect(sum == 60000)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == whole)
    }

    /// Leaves the store as a program does that sets the rollback mode and is killed in a transaction.
    private func makeInRollbackMode() throws {
        try make()
        var configuration = Configuration()
        configuration.journalMode = .default
        configuration.prepareDatabase { db in
            try db.useRawKey(Data(repeating: 7, count: 32))
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
        }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.inDatabase { _ = try String.fetchAll($0, sql: "PRAGMA journal_mode = DELETE") }
        try queue.close()
    }

    @Test("in rollback mode a journal is played back in a folder that only the user may write, and else refused")
    func rollbackMode() throws {
        try makeInRollbackMode()
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        let pages = UInt32(whole.count / 4096)
        var changed = whole
        changed.replaceSubrange(2 * 4096..<3 * 4096, with: Data(count: 4096))
        try changed.write(to: URL(fileURLWithPath: path))
        let rest = journal(pages: pages, content: (3, whole.subdata(in: 2 * 4096..<3 * 4096)))
        try plant(rest)
        try FileManager.default.setAttributes([.posixPermissions: 0o770], ofItemAtPath: folder.url.path)
        let error = #expect(throws: StoreError.self) { try Opening.sharedStore.open(path, .raw(7)) { try count($0) } }
        #expect(error?.code == .journalUntrusted)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == changed)
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: folder.url.path)
        let sum = try Opening.sharedStore.open(path, .raw(7)) { try count($0) }
        #expect(sum == 60000)
        #expect(!FileManager.default.fileExists(atPath: path + "-journal"))
    }

    @Test("in rollback mode a journal that names a further file is refused everywhere")
    func furtherFile() throws {
        try makeInRollbackMode()
        try plant(journal(pages: 4, naming: victim))
        let error = #expect(throws: StoreError.self) { try Opening.sharedStore.open(path, .raw(7)) { try count($0) } }
        #expect(error?.code == .journalUntrusted)
        #expect(FileManager.default.contents(atPath: victim) == Data("precious".utf8))
    }
}
