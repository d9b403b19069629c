import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StorePlatform
import StoreSharing
import TestKit
import Testing

@testable import StoreTools

/// Salvages of damaged stores, held against an oracle that knows from the intact store on which pages each row was.
@Suite("Salvaging a damaged store")
struct StoreSalvageTests {
    private let fixture = ToolFixture()
    private static let tables = ["note", "pair", "large", "empty", "counted"]

    private static let content = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL, value REAL);
        CREATE TABLE pair (b INTEGER, a TEXT, c BLOB, PRIMARY KEY (a, b)) WITHOUT ROWID;
        CREATE TABLE large (name TEXT UNIQUE, content BLOB);
        CREATE TABLE empty (a, b, c);
        CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, word TEXT COLLATE NOCASE);
        CREATE TABLE gone (a, b);
        CREATE INDEX noteText ON note (text);
        CREATE VIEW short AS SELECT id FROM note WHERE length(text) < 10;
        CREATE TRIGGER watched AFTER INSERT ON counted BEGIN UPDATE counted SET word = upper(word) WHERE id = new.id; END;
        WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 9000)
        INSERT INTO note SELECT i * 3, printf('note %d %s', i, hex(randomblob(40 + i % 50))), i / 2.0 FROM c;
        WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 6000)
        INSERT INTO pair SELECT i, 'key ' || (i % 700), randomblob(60) FROM c;
        WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 150)
        INSERT INTO large SELECT 'large ' || i, randomblob(i * 150) FROM c;
        WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 3000)
        INSERT INTO counted (word) SELECT 'word ' || i FROM c;
        INSERT INTO gone SELECT text, id FROM note WHERE id < 2000;
        DROP TABLE gone;
        PRAGMA user_version = 77;
        """

    /// The store is made once, and copied.
    private static let store = Result {
        let fixture = ToolFixture()
        let store = try fixture.openStore()
        try store.write { try $0.execute(sql: content) }
        try store.checkpoint(.truncate)
        try store.close()
        return try ["", "-sidecar", "-sidecar.bak", "-keylog"].compactMap { ending in
            let path = fixture.store + ending
            guard FileManager.default.fileExists(atPath: path) else { return nil }
            return (ending, try Data(contentsOf: URL(fileURLWithPath: path)))
        } as [(ending: String, bytes: Data)]
    }

    private func makeStore() throws {
        for (ending, bytes) in try Self.store.get() {
            try #require(
                FileManager.default.createFile(
                    atPath: fixture.store + ending, contents: bytes, attributes: [.posixPermissions: 0o600]))
        }
    }

    private var salvaged: String { fixture.path("out.db") }

    private func salvage() throws -> StoreSalvage.Report {
        try StoreSalvage(of: fixture.store, to: salvaged, unlockedBy: fixture.source).run()
    }

    /// The rows of all tables as texts.
    private func rows(_ path: String) throws -> [String: Set<String>] {
        let store = try SharedStore.open(at: path, unlockedBy: fixture.source)
        defer { try? store.close() }
        return try store.read { db in
            try Dictionary(
                uniqueKeysWithValues: Self.tables.map { table in
                    let key = table == "pair" ? "0" : "rowid"
                    let columns = try db.columns(in: table).map { "quote(\($0.name))" }.joined(separator: " || '|' || ")
                    return (
                        table, Set(try String.fetchAll(db, sql: "SELECT \(key) || '|' || \(columns) FROM \(table)"))
                    )
                })
        }
    }

    private func isSound(_ path: String) throws -> Bool {
        try StoreVerification(path, unlockedBy: fixture.source).run().isSound
    }

    private func damage(_ pages: [UInt32]) throws {
        for page in pages { try fixture.damage(page: Int(page)) }
    }

    @Test("a store's own record of its sidecar is no loss")
    func ownTable() throws {
        // Story: a salvage of a sound store said that something is lost, and listed the rows of this table.
        let fixture = ToolFixture()
        try fixture.makeStore()
        let store = try fixture.openStore()
        try store.keys.add(KeySource.rawKey([UInt8](repeating: 7, count: 32)))
        try store.close()
        let report = try StoreSalvage(of: fixture.store, to: fixture.path("saved.db"), unlockedBy: fixture.source).run()
        #expect(!report.hasLosses && report.listings.isEmpty, "\(report.listings)")
        #expect(report.rowCount == ToolFixture.rows)
    }

    @Test("an intact store is salvaged as a whole, with views, triggers, indexes and versions")
    func intact() throws {
        try makeStore()
        let report = try salvage()
        #expect(!report.hasLosses && report.listings.isEmpty)
        #expect(try rows(salvaged) == rows(fixture.store))
        #expect(try isSound(salvaged))
        let store = try SharedStore.open(at: salvaged, unlockedBy: fixture.source)
        defer { try? store.close() }
        try store.read { db in
            #expect(try Int.fetchOne(db, sql: "PRAGMA user_version") == 77)
            #expect(try Int.fetchOne(db, sql: "SELECT seq FROM sqlite_sequence") == 3000)
            let names = try Set(String.fetchAll(db, sql: "SELECT name FROM sqlite_schema"))
            #expect(names.isSuperset(of: ["noteText", "short", "watched"]) && !names.contains("gone"))
        }
    }

    @Test(
        "with one page in a hundred destroyed, every row on intact pages is there",
        arguments: Sweep.sample([1, 2, 3] as [UInt64], oneIn: 3))
    func random(seed: UInt64) throws {
        try makeStore()
        let all = try rows(fixture.store)
        let oracle = try PageOracle(fixture.store, fixture.source)
        #expect(oracle.rowCount == all.values.reduce(0) { $0 + $1.count })
        var generator = Seed(value: seed).numbers(0)
        let hit = Set((2...oracle.pageCount).shuffled(using: &generator).prefix(max(10, Int(oracle.pageCount) / 100)))
        try damage(hit.sorted())
        let report = try salvage()
        #expect(report.lostPages == PageRanges(Array(hit)))
        #expect(try isSound(salvaged))
        let found = try rows(salvaged)
        let listed = report.listings.reduce(0) { $0 + $1.rowCount }
        var kept = 0
        for table in Self.tables {
            // Nothing that was not there, and at least what the oracle counts on intact pages.
            let (before, after) = (all[table] ?? [], found[table] ?? [])
            #expect(after.isSubset(of: before), "\(table)")
            kept += after.count
        }
        #expect(kept + listed >= oracle.intactRows(without: hit), "seed \(seed)")
        #expect(listed == 0, "\(report.listings)")
    }

    @Test("rows below a lost interior page are found by their content, and named as such")
    func interior() throws {
        try makeStore()
        let oracle = try PageOracle(fixture.store, fixture.source)
        let all = try rows(fixture.store)
        let roots = try oracle.roots(of: ["note", "pair"])
        try damage(roots)
        let report = try salvage()
        let note = try #require(report.tables.first { $0.name == "note" })
        #expect(note.lostPages.map(\.page) == [roots[0]] && note.matchedRowCount == note.rowCount)
        let found = try rows(salvaged)
        #expect(found["note"] == all["note"])
        // An interior page of a table WITHOUT ROWID has rows of its own.
        let pairs = found["pair"]?.count ?? 0
        #expect(pairs >= oracle.intactRows(of: "pair", without: Set(roots)))
    }

    @Test("without the schema all rows are listed, by their shape")
    func schema() throws {
        try makeStore()
        try damage([1])
        let oracle = try PageOracle(fixture.store, fixture.source, firstPageIsLost: true)
        let report = try salvage()
        #expect(report.lostSchemaPages == [1] && report.tables.isEmpty && !report.listings.isEmpty)
        // Entries of indexes cannot be told from rows of tables WITHOUT ROWID then.
        #expect(report.rowCount >= oracle.rowCount)
    }

    @Test("a file that was cut at its end, with a lost WAL")
    func cut() throws {
        try makeStore()
        let all = try rows(fixture.store)
        for ending in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: fixture.store + ending) }
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: fixture.store))
        let count = try #require(try Files.byteCount(fixture.store)) / 4096
        try file.truncate(atOffset: UInt64(count / 2 * 4096 + 1000))
        try file.close()
        let report = try salvage()
        #expect(report.lostPages.ranges.last?.upperBound == UInt32(count))
        let found = try rows(salvaged)
        #expect(found["note"]?.count ?? 0 > 1000)
        for table in Self.tables { #expect((found[table] ?? []).isSubset(of: all[table] ?? [])) }
        #expect(try isSound(salvaged))
    }

    // SQLite ends a WAL at its first damaged frame: one changed bit hid every later commit.
    @Test("frames after a damaged one of the WAL are salvaged, and the page of the damaged one is named")
    func damagedLog() throws {
        try makeStore()
        let copy = fixture.path("copy.db")
        let store = try fixture.openStore()
        for step in 0..<5 {
            try store.write { db in
                try db.execute(
                    sql:
                        "UPDATE note SET text = 'step \(step)' WHERE id BETWEEN \(step * 3000) AND \(step * 3000 + 1500)"
                )
            }
        }
        let all = try rows(fixture.store)
        for ending in ["", "-sidecar", "-sidecar.bak"] {
            try FileManager.default.copyItem(atPath: fixture.store + ending, toPath: copy + ending)
        }
        var log = Array(try Data(contentsOf: URL(fileURLWithPath: fixture.store + "-wal")))
        try store.close()
        let frames = (log.count - 32) / 4120
        try #require(frames > 40)
        log[32 + 3 * 4120 + 24 + 700] ^= 1
        try Data(log).write(to: URL(fileURLWithPath: copy + "-wal"))
        let report = try StoreSalvage(of: copy, to: salvaged, unlockedBy: fixture.source).run()
        #expect(report.olderPages.count == 1 && report.lostPages.isEmpty)
        let found = try rows(salvaged)
        let note = found["note"] ?? []
        // All rows but those of the one page are those of the last commit.
        #expect(note.count == all["note"]?.count && note.subtracting(all["note"] ?? []).count < 40)
        #expect(note.contains { $0.contains("step 4") })
    }

    /// The pages of the store that hold a text, in the encoding of the database.
    private func pages(holding text: [UInt8]) throws -> [UInt32] {
        let files = SidecarFiles(databasePath: fixture.store)
        let key = try #require(try files.choose(files.read(), unlock: try UnlockedKey(fixture.source).unlock)).pageKey
        let pages = try AuthenticPages(path: fixture.store, file: RawFile(fixture.store), key: key)
        return try (1...pages.pageCount).filter { number in
            try pages.page(number)?.bytes.firstRange(of: text) != nil
        }
    }

    // Story: SQLite refuses a schema with a trigger whose table it does not have, so nothing at all was salvaged. Every
    // store with a history has triggers.
    @Test("a trigger whose table is lost is not created, and named; the others are")
    func triggerOfLostTable() throws {
        let store = try fixture.openStore()
        try store.write { db in
            try db.execute(sql: "CREATE TABLE keep (a); CREATE VIEW shown AS SELECT * FROM keep")
            for number in 0..<60 {
                try db.execute(sql: "CREATE TABLE filler\(number) (a /* \(String(repeating: "x", count: 300)) */)")
            }
            try db.execute(
                sql: """
                    INSERT INTO filler50 VALUES (1), (2);
                    CREATE TRIGGER lost AFTER INSERT ON keep BEGIN SELECT 1; END;
                    CREATE TRIGGER lostView INSTEAD OF INSERT ON shown BEGIN SELECT 1; END;
                    CREATE TRIGGER kept AFTER INSERT ON filler50 BEGIN SELECT 1; END;
                    """)
        }
        try store.checkpoint(.truncate)
        try store.close()
        let lost = try pages(holding: Array("CREATE TABLE keep".utf8))
        try damage(lost)
        let report = try salvage()
        let named = report.notCreated.filter { $0.contains("trigger \"lost\"") }
        #expect(named.count == 1, "\(report.notCreated)")
        let filler = report.tables.first { $0.name == "filler50" }
        #expect(report.hasLosses && filler?.rowCount == 2)
        #expect(try isSound(salvaged))
        let new = try SharedStore.open(at: salvaged, unlockedBy: fixture.source)
        defer { try? new.close() }
        let names = "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
        let triggers = try new.read { try String.fetchAll($0, sql: names) }
        #expect(triggers == ["kept"])
    }

    /// Makes a store whose database has an encoding.
    private func makeStore(encoding: String, _ sql: String) throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: fixture.plain, configuration: configuration)
        try queue.inDatabase { try $0.execute(sql: "PRAGMA encoding = '\(encoding)'; \(sql)") }
        try queue.close()
        try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run()
    }

    // Story: the header says the encoding. Without it, text in UTF-16 was taken for UTF-8, and what is not ASCII was
    // lost.
    @Test("text keeps its encoding when page 1 is lost", arguments: ["UTF-8", "UTF-16le", "UTF-16be"])
    func encoding(name: String) throws {
        let fillers = (0..<60).map { "CREATE TABLE filler\($0) (a /* \(String(repeating: "x", count: 300)) */);" }
        try makeStore(
            encoding: name,
            """
            CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
            INSERT INTO word VALUES (1, 'Grüße'), (2, '東京'), (3, 'naïve café'), (4, '😀');
            \(fillers.joined())
            """)
        try damage([1])
        let report = try salvage()
        let word = report.tables.first { $0.name == "word" }
        #expect(word?.rowCount == 4, "\(report.tables) \(report.listings)")
        let new = try SharedStore.open(at: salvaged, unlockedBy: fixture.source)
        defer { try? new.close() }
        let texts = try new.read { try String.fetchAll($0, sql: "SELECT text FROM word ORDER BY id") }
        #expect(texts == ["Grüße", "東京", "naïve café", "😀"])
        #expect(try new.read { try String.fetchOne($0, sql: "PRAGMA encoding") } == name)
    }

    @Test("texts that are not valid keep their bytes", arguments: ["UTF-8", "UTF-16le", "UTF-16be"])
    func invalidTexts(encoding: String) throws {
        // Story: each byte that is no UTF-8 became U+FFFD, two keys became one, and the result was called complete.
        // In UTF-16 each lone surrogate did.
        let more = encoding == "UTF-8" ? "fffefeff" : "41d842d8"
        try makeStore(
            encoding: encoding,
            """
            CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT UNIQUE);
            INSERT INTO word VALUES (1, CAST(x'ff00fe00' AS TEXT)), (2, CAST(x'00d84100' AS TEXT)),
                (3, CAST(x'd8000041' AS TEXT)), (4, CAST(x'\(more)' AS TEXT)), (5, ''), (6, 'ok'), (7, x'ff');
            CREATE TABLE pair (text TEXT PRIMARY KEY, number) WITHOUT ROWID;
            INSERT INTO pair SELECT text, id FROM word;
            """)
        let before = try rowsAsHex(fixture.store)
        let report = try salvage()
        #expect(!report.hasLosses, "\(report.listings) \(report.notCreated)")
        #expect(try rowsAsHex(salvaged) == before)
        #expect(before.count == 14)
    }

    private func rowsAsHex(_ path: String) throws -> [String] {
        let store = try SharedStore.open(at: path, unlockedBy: fixture.source)
        defer { try? store.close() }
        return try store.read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT id || typeof(text) || hex(text) FROM word
                    UNION ALL SELECT number || typeof(text) || hex(text) FROM pair ORDER BY 1
                    """)
        }
    }

    @Test("pages of zeros after the last one, and free ones, are no loss; other bytes there are")
    func zeros() throws {
        // Story: one page of zeros, which a filesystem had allocated, was called a lost page.
        let store = try fixture.openStore()
        try store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
                    CREATE TABLE gone (text TEXT);
                    INSERT INTO gone VALUES (hex(zeroblob(20000)));
                    INSERT INTO note VALUES (1, 'kept');
                    """)
        }
        try store.write { try $0.execute(sql: "DROP TABLE gone") }
        try store.checkpoint(.truncate)
        try store.close()
        let files = SidecarFiles(databasePath: fixture.store)
        let key = try #require(try files.choose(files.read(), unlock: try UnlockedKey(fixture.source).unlock)).pageKey
        let free = try FreeList(AuthenticPages(path: fixture.store, file: RawFile(fixture.store), key: key))
        let leaf = try #require(free.leaves.first)
        func salvage(_ name: String) throws -> StoreSalvage.Report {
            try StoreSalvage(of: fixture.store, to: fixture.path(name), unlockedBy: fixture.source).run()
        }
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: fixture.store))
        defer { try? file.close() }
        try file.seek(toOffset: UInt64(leaf - 1) * 4096)
        try file.write(contentsOf: Data(repeating: 0, count: 4096))
        let freed = try salvage("freed.db")
        #expect(!freed.hasLosses && freed.lostPages.isEmpty && freed.rowCount == 1, "\(freed.lostPages)")
        try file.seekToEnd()
        try file.write(contentsOf: Data(repeating: 0, count: 4096))
        let longer = try salvage("longer.db")
        #expect(!longer.hasLosses && longer.lostPages.isEmpty && longer.rowCount == 1, "\(longer.lostPages)")
        try file.write(contentsOf: Data(repeating: 7, count: 4096))
        #expect(try salvage("noise.db").lostPages.count == 1)
    }

    @Test("entries of an index that nothing names are not counted as rows")
    func entriesWithoutSchema() throws {
        // Story: page 1 was lost, and of 400 rows the salvage counted 800.
        try makeStore(
            encoding: "UTF-8",
            """
            CREATE TABLE word (text, number);
            CREATE INDEX word_text ON word (text);
            WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 400)
            INSERT INTO word SELECT 'word ' || i, i FROM c;
            """)
        try damage([1])
        let report = try salvage()
        #expect(report.rowCount == 400, "\(report.listings)")
        #expect(report.listings.filter(\.mayBeEntries).reduce(0) { $0 + $1.rowCount } == 400, "\(report.listings)")
    }

    @Test("a file of less than a page, whose WAL has no commit, is refused", arguments: [1, 20, 100, 4095])
    func shorterThanPage(bytes: Int) throws {
        // Story: the process ended with "Index out of range".
        try makeStore()
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: fixture.store))
        try file.truncate(atOffset: UInt64(bytes))
        try file.close()
        #expect(storeError { try salvage() } == .truncated)
        #expect(!FileManager.default.fileExists(atPath: salvaged))
    }

    @Test("so it does when no entry of the schema is left", arguments: ["UTF-8", "UTF-16le", "UTF-16be"])
    func encodingWithoutSchema(name: String) throws {
        let words = ["日本語の文章", "русский текст", "Ελληνικά", "मानक हिन्दी"]
        let rows = (1...400).map { "('\(words[$0 % 4])', \($0))" }
        try makeStore(
            encoding: name,
            "CREATE TABLE word (text, number); INSERT INTO word VALUES \(rows.joined(separator: ", "))")
        try damage([1])
        let report = try salvage()
        let listing = try #require(report.listings.first { $0.rowCount == 400 }, "\(report.listings)")
        let new = try SharedStore.open(at: salvaged, unlockedBy: fixture.source)
        defer { try? new.close() }
        let found = try new.read { try Set(String.fetchAll($0, sql: "SELECT c0 FROM \(listing.name)")) }
        #expect(found == Set(words))
    }

    @Test("a full-text index that does not fit the salvaged rows comes with the statement that builds it again")
    func fullText() throws {
        let store = try fixture.openStore()
        try store.write { db in
            try db.execute(
                sql: """
                    CREATE VIRTUAL TABLE "full text" USING fts5(a);
                    WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 2000)
                    INSERT INTO "full text" SELECT 'word' || i || ' ' || hex(randomblob(100)) FROM c;
                    """)
        }
        try store.checkpoint(.truncate)
        try store.close()
        let lost = try pages(holding: Array("word777 ".utf8))
        try damage(lost)
        let report = try salvage()
        let statement = #"INSERT INTO "full text" ("full text") VALUES ('rebuild')"#
        let hints = report.notices.filter { $0.contains(statement) }
        #expect(hints.count == 1, "\(report.notices)")
        let before = try StoreVerification(salvaged, unlockedBy: fixture.source).run()
        #expect(before.isSound && before.needsAttention)
        #expect(before.fullTextFaults.map(\.index) == ["full text"])
        let new = try SharedStore.open(at: salvaged, unlockedBy: fixture.source)
        try new.write { try $0.execute(sql: statement) }
        try new.close()
        let after = try StoreVerification(salvaged, unlockedBy: fixture.source).run()
        #expect(after.isSound && !after.needsAttention && after.fullTextFaults.isEmpty)
    }

    @Test("a store that is in use, a target that is there and a file of holes are refused, and nothing is changed")
    func refused() throws {
        try makeStore()
        let store = try fixture.openStore()
        #expect(storeError { try salvage() } == .storeInUse)
        try store.close()
        try Data("mine".utf8).write(to: URL(fileURLWithPath: salvaged))
        #expect(throws: ToolError.self) { try salvage() }
        #expect(try String(contentsOfFile: salvaged, encoding: .utf8) == "mine")
        try FileManager.default.removeItem(atPath: salvaged)
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: fixture.store))
        try file.truncate(atOffset: 1 << 40)
        try file.close()
        do {
            _ = try salvage()
            Issue.record("it was salvaged")
        } catch let error as ToolError {
            #expect(error.code == .sparse)
        }
        #expect(!fixture.names().contains { $0.hasPrefix("out.db") })
    }
}

/// Which pages each row of an intact store needs, found by the pages themselves.
private struct PageOracle {
    let pageCount: UInt32
    private var needs: [(table: String, pages: [UInt32])] = []
    private var rootPages: [String: UInt32] = [:]

    var rowCount: Int { needs.count }

    func intactRows(of table: String? = nil, without lost: Set<UInt32>) -> Int {
        needs.count { row in (table == nil || row.table == table) && lost.isDisjoint(with: row.pages) }
    }

    func roots(of tables: [String]) throws -> [UInt32] { try tables.map { try #require(rootPages[$0]) } }

    /// - Parameter firstPageIsLost: Then all rows of the tree pages are counted, but for those of the schema.
    init(_ path: String, _ source: KeySource, firstPageIsLost: Bool = false) throws {
        let files = SidecarFiles(databasePath: path)
        let key = try #require(try files.choose(files.read(), unlock: try UnlockedKey(source).unlock)).pageKey
        let pages = try AuthenticPages(path: path, file: RawFile(path), key: key)
        pageCount = pages.pageCount
        if firstPageIsLost {
            let free = PageSet(pageCount: pageCount)
            for number in 2...pageCount where !free.contains(number) {
                guard let page = try Self.tree(pages, number), page.kind == .tableLeaf else { continue }
                for _ in 0..<page.cellCount { needs.append(("", [number])) }
            }
            return
        }
        let store = try SharedStore.open(at: path, unlockedBy: source)
        let tables = try store.read { db in
            try Row.fetchAll(db, sql: "SELECT name, rootpage FROM sqlite_schema WHERE type = 'table'")
                .map { ($0[0] as String, UInt32($0[1] as Int64)) }
        }
        try store.close()
        for (name, root) in tables where !name.hasPrefix("sqlite_") && root > 0 {
            rootPages[name] = root
            try add(root, name, pages)
        }
    }

    private static func tree(_ pages: AuthenticPages, _ number: UInt32) throws -> TreePage? {
        let bytes = try #require(try pages.page(number)).bytes
        return TreePage(bytes, number: number, usableBytes: pages.usableBytes)
    }

    private mutating func add(_ number: UInt32, _ table: String, _ pages: AuthenticPages) throws {
        let page = try #require(try Self.tree(pages, number))
        for index in 0..<page.cellCount {
            let cell = try #require(page.cell(index))
            if page.kind != .tableInterior {
                var needed = [number]
                var next = cell.overflow ?? 0
                while next != 0 {
                    needed.append(next)
                    next = try #require(try pages.page(next)).bytes.bigEndian(at: 0)
                }
                needs.append((table, needed))
            }
            if let child = cell.child { try add(child, table, pages) }
        }
        if let last = page.lastChild { try add(last, table, pages) }
    }
}
