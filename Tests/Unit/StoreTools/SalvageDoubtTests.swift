import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StorePlatform
import StoreSharing
import TestKit
import Testing

@testable import StoreTools

/// The findings of a salvage that are uncertain, or that it cannot create again.
@Suite("What a salvage is not certain of")
struct SalvageDoubtTests {
    private let fixture = ToolFixture()

    private var salvaged: String { fixture.path("out.db") }

    private func salvage(_ path: String? = nil) throws -> StoreSalvage.Report {
        try StoreSalvage(of: path ?? fixture.store, to: salvaged, unlockedBy: fixture.source).run()
    }

    private func pages(_ path: String) throws -> AuthenticPages {
        let files = SidecarFiles(databasePath: path)
        let key = try #require(try files.choose(files.read(), unlock: try UnlockedKey(fixture.source).unlock)).pageKey
        return try AuthenticPages(path: path, file: RawFile(path), key: key)
    }

    // MARK: Secrets

    // Story: tables WITHOUT ROWID of a sync repository, one with secrets, became rows of an unknown table.
    @Test("nothing of a sync repository is salvaged, although a page of its table is lost", arguments: [false, true])
    func repository(hasLoss: Bool) throws {
        let store = try fixture.openStore()
        let page = try store.write { db in
            try db.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
            db.mayChangeStoreTables = true
            defer { db.mayChangeStoreTables = false }
            try db.execute(
                sql: """
                    CREATE TABLE cipherstore_repository_epoch (n INTEGER PRIMARY KEY, secret TEXT) WITHOUT ROWID;
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
                    INSERT INTO cipherstore_repository_epoch SELECT i, hex(randomblob(100)) FROM n
                    """)
            return try Int.fetchOne(
                db, sql: "SELECT rootpage FROM sqlite_schema WHERE name = 'cipherstore_repository_epoch'")
        }
        try store.close()
        if hasLoss { try fixture.damage(page: #require(page)) }
        let report = try salvage()
        #expect(report.rowCount == 1 && (hasLoss || !report.hasLosses), "\(report)")
        let new = try SharedStore.open(at: salvaged, unlockedBy: fixture.source)
        defer { try? new.close() }
        let names = try new.read { try String.fetchAll($0, sql: "SELECT name FROM sqlite_schema WHERE type = 'table'") }
        #expect(
            names.filter { !Database.isStoreInternalObject($0) } == ["t"] && !names.contains { $0.contains("epoch") })
    }

    // MARK: Commits that cannot be read

    @Test("the commits behind a frame with a damaged salt are read", arguments: [false, true])
    func lostCommits(isDamaged: Bool) throws {
        // Story: the salt of a frame was damaged; the rows of the commits after it were missed, and it was complete.
        let store = try fixture.openStore()
        try store.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY)") }
        for _ in 0..<6 { try store.write { try $0.execute(sql: "INSERT INTO t DEFAULT VALUES") } }
        let path = fixture.path("copy.db")
        for ending in ["", "-sidecar", "-sidecar.bak", "-wal"] {
            try FileManager.default.copyItem(atPath: fixture.store + ending, toPath: path + ending)
        }
        try store.close()
        if isDamaged {
            var log = Array(try Data(contentsOf: URL(fileURLWithPath: path + "-wal")))
            let frames = (log.count - 32) / 4120
            log[32 + (frames - 3) * 4120 + 8] ^= 1
            try Data(log).write(to: URL(fileURLWithPath: path + "-wal"))
        }
        let report = try salvage(path)
        // The page of the frame is whole, and its header is known from the checksum.
        #expect(!report.hasLosses && report.lostCommits == nil && report.rowCount == 6, "\(report)")
        #expect((report.passedDamage != nil) == isDamaged)
    }

    // MARK: Rows of two moments

    /// A page of a row, whose frame in the WAL is damaged.
    enum Part: String, CaseIterable, Sendable { case beginning, middle }

    /// Copies a store in use with its WAL, as a power cut would leave it, and damages the frame of a page.
    private func copy(to path: String, damagingFrameOf page: UInt32) throws {
        for ending in ["", "-sidecar", "-sidecar.bak"] {
            try FileManager.default.copyItem(atPath: fixture.store + ending, toPath: path + ending)
        }
        var log = Array(try Data(contentsOf: URL(fileURLWithPath: fixture.store + "-wal")))
        let frame = try #require(
            (0..<(log.count - 32) / 4120).last { log.bigEndian(at: 32 + $0 * 4120) == page }, "page \(page)")
        log[32 + frame * 4120 + 24 + 700] ^= 1
        try Data(log).write(to: URL(fileURLWithPath: path + "-wal"))
    }

    @Test("a row of which one page is older than another is no row of its table, but listed", arguments: Part.allCases)
    func mixedRows(part: Part) throws {
        // Story: an old leaf and the newer continuation of its row made a row that never existed, which was counted as a
        // row like any other.
        let letters = { (letter: String) in "replace(hex(zeroblob(6000)), '0', '\(letter)')" }
        let store = try fixture.openStore()
        try store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE long (id INTEGER PRIMARY KEY, text TEXT);
                    WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 20)
                    INSERT INTO long SELECT i, \(letters("a")) FROM c;
                    CREATE TABLE other (x);
                    """)
        }
        try store.checkpoint(.truncate)
        let before = try pages(fixture.store)
        let leaf = try #require(
            try (2...before.pageCount).first { number in
                let bytes = try before.page(number)?.bytes ?? []
                let page = TreePage(bytes, number: number, usableBytes: before.usableBytes)
                return page?.kind == .tableLeaf && page?.cell(0)?.overflow != nil
            })
        let bytes = try #require(try before.page(leaf)).bytes
        let page = try #require(TreePage(bytes, number: leaf, usableBytes: before.usableBytes))
        let rest = try #require(page.cell(0)?.overflow)
        // Rows of one length are overwritten where they are.
        try store.write { try $0.execute(sql: "UPDATE long SET text = \(letters("b"))") }
        try store.write { try $0.execute(sql: "INSERT INTO other VALUES (1)") }
        let copy = fixture.path("copy.db")
        try self.copy(to: copy, damagingFrameOf: part == .beginning ? leaf : rest)
        try store.close()
        let report = try salvage(copy)
        #expect(report.olderPages.ranges == [(part == .beginning ? leaf : rest)...(part == .beginning ? leaf : rest)])
        let new = try SharedStore.open(at: salvaged, unlockedBy: fixture.source)
        defer { try? new.close() }
        let kinds = "SELECT DISTINCT replace(replace(text, 'aa', ''), 'bb', '') || substr(text, 1, 1) FROM long"
        let mixed = "SELECT count(*) FROM long WHERE text GLOB '*a*' AND text GLOB '*b*'"
        #expect(try new.read { try Int.fetchOne($0, sql: mixed) } == 0)
        #expect(try new.read { try String.fetchAll($0, sql: kinds) } == ["b"])
        let doubtful = part == .beginning ? page.cellCount : 1
        let listed = report.listings.filter { $0.candidates == ["long"] }.reduce(0) { $0 + $1.rowCount }
        let kept = report.tables.first { $0.name == "long" }?.rowCount
        #expect(listed == doubtful && kept == 20 - doubtful, "\(report.listings) \(report.tables)")
        #expect(report.tables.first { $0.name == "other" }?.rowCount == 1 && report.hasLosses)
    }

    // MARK: Virtual tables

    @Test("a virtual table that lost one of its tables is not created, and named; the rest is saved")
    func lostShadowTable() throws {
        // Story: SQLite could not open the full-text table, and so nothing at all was salvaged.
        let store = try fixture.openStore()
        try store.write { db in
            for number in 0..<20 {
                let filler = String(repeating: "x", count: 500 + 130 * number)
                try db.execute(
                    sql: """
                        CREATE VIRTUAL TABLE words\(number) USING fts5(a);
                        INSERT INTO words\(number) VALUES ('word'), ('other word');
                        CREATE TABLE filler\(number) (a /* \(filler) */);
                        INSERT INTO filler\(number) VALUES (1), (2);
                        """)
            }
        }
        try store.checkpoint(.truncate)
        try store.close()
        let found = try #require(try (0..<20).compactMap { try lastPart(of: $0) }.first, "no table is on two pages")
        try fixture.damage(page: Int(found.page))
        let report = try salvage()
        #expect(report.lostSchemaPages == [found.page])
        let named = report.notCreated.filter { $0.contains("table \"words\(found.number)\"") }
        #expect(named.count == 1, "\(report.notCreated)")
        let new = try SharedStore.open(at: salvaged, unlockedBy: fixture.source)
        defer { try? new.close() }
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%'"
        let tables = try new.read { try String.fetchAll($0, sql: sql) }
        #expect(tables.count > 6 && !tables.contains("words\(found.number)"))
        for table in tables {
            let count = "SELECT count(*) FROM \(table) WHERE \(table) MATCH 'word'"
            #expect(try new.read { try Int.fetchOne($0, sql: count) } == 2, "\(table)")
        }
        #expect(report.tables.filter { $0.name.hasPrefix("filler") }.allSatisfy { $0.rowCount == 2 })
        #expect(try StoreVerification(salvaged, unlockedBy: fixture.source).run().isSound)
    }

    @Test("so is one whose settings are lost: it cannot be opened, and its other tables are saved")
    func lostSettings() throws {
        let store = try fixture.openStore()
        try store.write { db in
            try db.execute(
                sql: """
                    CREATE VIRTUAL TABLE words USING fts5(a);
                    INSERT INTO words VALUES ('word');
                    CREATE VIRTUAL TABLE box USING rtree(id, a, b);
                    INSERT INTO box VALUES (1, 2, 3);
                    CREATE VIRTUAL TABLE bare USING fts5(a, content = '', columnsize = 0);
                    INSERT INTO bare (rowid, a) VALUES (1, 'word');
                    """)
        }
        try store.checkpoint(.truncate)
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'words_config'"
        let page = try store.read { try Int.fetchOne($0, sql: sql) }
        try store.close()
        try fixture.damage(page: #require(page))
        let report = try salvage()
        #expect(
            report.notCreated.count == 1 && report.notCreated[0].contains("table \"words\""), "\(report.notCreated)")
        // SQLite's advice, to run "rebuild", cannot be followed.
        #expect(report.notCreated[0].contains("Its rows are in the table \"words_content\""), "\(report.notCreated)")
        let new = try SharedStore.open(at: salvaged, unlockedBy: fixture.source)
        defer { try? new.close() }
        let queries = [
            "SELECT c0 = 'word' FROM words_content", "SELECT count(*) FROM box WHERE a < 3",
            "SELECT rowid FROM bare WHERE bare MATCH 'word'",
        ]
        for query in queries { #expect(try new.read { try Int.fetchOne($0, sql: query) } == 1, "\(query)") }
    }

    /// The page of the schema with the last table of a virtual one, if that itself is on another page.
    private func lastPart(of number: Int) throws -> (number: Int, page: UInt32)? {
        let pages = try pages(fixture.store)
        func page(holding text: String) throws -> UInt32? {
            try (2...pages.pageCount).first { try pages.page($0)?.bytes.firstRange(of: Array(text.utf8)) != nil }
        }
        guard let own = try page(holding: "TABLE words\(number) USING"),
            let last = try page(holding: "'words\(number)_config'"), own != last
        else { return nil }
        return (number, last)
    }
}
