import CipherDatabase
import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

@testable import StoreTools

/// Tables that another person has put into a database: those of a sync repository, full-text indexes that SQLite must not
/// use, files of another place under names of the store.
@Suite("Tables and files of another person in the tools") struct CraftedTableTests {
    private let fixture = ToolFixture()

    private static let repository = """
        CREATE TABLE t (a); INSERT INTO t VALUES (1);
        CREATE TABLE cipherstore_repository_state (secret); INSERT INTO cipherstore_repository_state VALUES ('signing key');
        CREATE INDEX cipherstore_repository_i ON cipherstore_repository_state (secret);
        CREATE TRIGGER cipherstore_repository_x AFTER INSERT ON t BEGIN DELETE FROM t; END;
        """
    /// A segment that names 536,870,912 tombstone pages: 16 bytes, computed in 32 bits.
    private static let index = """
        CREATE VIRTUAL TABLE f USING fts5(a); INSERT INTO f (rowid, a) VALUES (4000, 'hello world');
        UPDATE f_data SET block = x'00000000ff0000010101010001010101010182808080000002' WHERE id = 10;
        """

    private func write(_ sql: String, to writer: any DatabaseWriter) throws {
        try writer.write { db in
            db.mayChangeStoreTables = true
            defer { db.mayChangeStoreTables = false }
            try db.writingOwnRows { try db.execute(sql: sql) }
        }
    }

    private func plainQueue(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    private func makePlain(_ sql: String) throws {
        let queue = try plainQueue(fixture.plain)
        try write(sql, to: queue)
        try queue.close()
    }

    private func names(in reader: any DatabaseReader) throws -> [String] {
        try reader.read {
            try String.fetchAll(
                $0, sql: "SELECT name FROM sqlite_schema WHERE name LIKE 'cipherstore_repository%' OR name = 't'")
        }
    }

    // Story: after an import, a first `sync init` and `sync run` sent every row to the remote of the file's author.
    @Test("an import, an export and a salvage leave a sync repository out, and say so")
    func repository() throws {
        try makePlain(Self.repository)
        let imported = try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run()
        #expect(imported.notices.filter { $0.contains("sync repository") }.count == 1, "\(imported.notices)")
        let store = try fixture.openStore()
        #expect(try names(in: store) == ["t"])
        try write(
            "CREATE TABLE cipherstore_repository_state (secret); INSERT INTO cipherstore_repository_state VALUES ('key')",
            to: store)
        try store.close()
        let (back, saved) = (fixture.path("back.db"), fixture.path("saved.db"))
        let exported = try StoreExport(of: fixture.store, toInsecurePlaintext: back, unlockedBy: fixture.source).run()
        #expect(exported.notices.filter { $0.contains("sync repository") }.count == 1, "\(exported.notices)")
        let plain = try plainQueue(back)
        #expect(try names(in: plain) == ["t"])
        try plain.close()
        let salvaged = try StoreSalvage(of: fixture.store, to: saved, unlockedBy: fixture.source).run()
        #expect(salvaged.notices.filter { $0.contains("sync repository") }.count == 1, "\(salvaged.notices)")
        let other = try SharedStore.open(at: saved, unlockedBy: fixture.source)
        #expect(try names(in: other) == ["t"])
        try other.close()
    }

    @Test("a file with a sync repository is not adopted, because its pages are kept")
    func adoptedRepository() throws {
        try fixture.makeStandard()
        let pool = try fixture.openStandard()
        try write(Self.repository, to: pool)
        try pool.close()
        let before = FolderSnapshot(of: fixture.folder)
        let error = #expect(throws: ToolError.self) {
            try StoreAdoption(fixture.store, unlockedBy: fixture.source).run()
        }
        #expect(error?.code == .notAdoptable)
        // SQLite counts a change of page 1 where the mode of the journal was changed and set back.
        #expect(fixture.changes(since: before).filter { $0 != "app.db" }.isEmpty)
        let left = try fixture.openStandard()
        #expect(try names(in: left).contains("t"))
        try left.close()
    }

    // Story: SQLite 3.46 used a pointer from the file, in `verify` as in a search (CVE-2025-7709).
    @Test("an FTS5 index whose record names pages that are not there is not imported")
    func importedIndex() throws {
        try makePlain(Self.index)
        let error = #expect(throws: ToolError.self) {
            try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run()
        }
        #expect(error?.code == .notPlain && error?.why.contains("tombstone") == true, "\(error as Any)")
        #expect(fixture.names() == ["plain.db"])
    }

    @Test(
        "such an index of a store is reported by a verification, and left out by a salvage; no file with it is adopted")
    func indexOfStore() throws {
        try fixture.makeStore()
        let store = try fixture.openStore()
        try write(Self.index, to: store)
        try store.close()
        let report = try StoreVerification(fixture.store, unlockedBy: fixture.source).run()
        #expect(report.integrity?.contains { $0.contains("tombstone") } == true, "\(report)")
        let salvaged = try StoreSalvage(of: fixture.store, to: fixture.path("saved.db"), unlockedBy: fixture.source)
            .run()
        #expect(salvaged.notCreated.contains { $0.contains("tombstone") }, "\(salvaged.notCreated)")
        for name in fixture.names() where name.hasPrefix("app.db") {
            try FileManager.default.removeItem(atPath: fixture.path(name))
        }
        try fixture.makeStandard()
        let pool = try fixture.openStandard()
        try write(Self.index, to: pool)
        try pool.close()
        #expect(throws: (any Error).self) { try StoreAdoption(fixture.store, unlockedBy: fixture.source).run() }
        #expect(!FileManager.default.fileExists(atPath: fixture.store + "-sidecar"))
    }

    @Test("a sound index with tombstone pages is sound")
    func records() throws {
        #expect(FullTextStructure.mostTombstonePages([0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1]) == nil)
        let start: [UInt8] = [0, 0, 0, 0, 0xff, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1]
        #expect(FullTextStructure.mostTombstonePages(start + [3, 0, 2]) == 3)
        #expect(FullTextStructure.mostTombstonePages(start + [0x82, 0x80, 0x80, 0x80, 0, 0, 2]) == 0x2000_0000)
        #expect(FullTextStructure.mostTombstonePages(Array(start.prefix(12))) == 0)
        try makePlain(
            "CREATE VIRTUAL TABLE f USING fts5(a); INSERT INTO f VALUES ('one'), ('two'); DELETE FROM f WHERE rowid = 1"
        )
        _ = try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run()
    }

    // Story: sqlite3, called as the hint said, removed a private file that the journal of another user named.
    @Test("no advice is given to open a database whose journal names a further file, or is another user's to write")
    func journal() throws {
        try makePlain("CREATE TABLE t (a)")
        let name = Array("/tmp/precious".utf8)
        let magic: [UInt8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]
        let header = magic + [0, 0, 0, 0, 0, 0, 0x30, 0x39, 0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0x10, 0]
        let sum = UInt32(name.reduce(0) { $0 + Int($1) })
        let page: [UInt8] = [0, 4, 0, 1]
        let named = page + name + [0, 0, 0, UInt8(name.count)] + withUnsafeBytes(of: sum.bigEndian, Array.init) + magic
        let start = header + [UInt8](repeating: 0, count: 512 - header.count)
        let journal = fixture.plain + "-journal"
        for (bytes, mode) in [(start + named, 0o600), (start, 0o666)] {
            try Data(bytes).write(to: URL(fileURLWithPath: journal))
            #expect(chmod(journal, mode_t(mode)) == 0)
            let error = #expect(throws: ToolError.self) {
                try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run()
            }
            #expect(
                error?.code == .plainNeedsRecovery && error?.remedy.contains("Open it once") == false, "\(error as Any)"
            )
            #expect(error?.remedy.contains("Do not open") == true)
        }
    }

    // Story: `doctor` and `status` said to root: chown and chmod of a name that led to a private file of root.
    @Test("no advice is given to change the mode of a link, or of a file with a second name")
    func advice() throws {
        try fixture.makeStore()
        let (sidecar, other) = (fixture.store + "-sidecar", fixture.path("other"))
        let paths = StorePaths(fixture.store)
        #expect(chmod(sidecar, 0o666) == 0)
        #expect(FilePermissions(paths: paths).findings().contains { $0.remedy?.contains("chmod") == true })
        #expect(rename(sidecar, other) == 0 && symlink(other, sidecar) == 0)
        var remedies = FilePermissions(paths: paths).findings().compactMap(\.remedy).filter { $0.contains("-sidecar'") }
        #expect(!remedies.contains { $0.contains("chmod") }, "\(remedies)")
        #expect(unlink(sidecar) == 0 && link(other, sidecar) == 0)
        remedies = FilePermissions(paths: paths).findings().compactMap(\.remedy)
        #expect(!remedies.contains { $0.contains("chmod") && $0.contains("-sidecar") }, "\(remedies)")
    }
}
