import CipherDatabase
import CipherSchema
import Testing

@testable import CipherRecords

@Suite("Full-text search")
struct FullTextTests {
    private struct Message: Codable, Hashable, FetchableRecord, MutablePersistableRecord {
        static let index = hasOne(Table("message_ft"), key: "index", using: ForeignKey(["rowid"], to: ["id"]))
        var id: Int64?
        var text: String
        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    private struct Document: TableRecord {}

    /// The definition of a table that a block creates.
    private func definition<Module: VirtualTableModule>(
        _ module: Module, _ body: @escaping (Module.TableDefinition) throws -> Void
    ) throws -> String? {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT, \"order\" TEXT)")
            try db.create(virtualTable: "doc", using: module, body)
            return try String.fetchOne(db, sql: "SELECT sql FROM sqlite_master WHERE name = 'doc'")
        }
    }

    private func fts5(_ body: @escaping (FTS5TableDefinition) throws -> Void) throws -> String? {
        try definition(FTS5(), body)
    }

    @Test("definitions of FTS5 tables")
    func fts5Definitions() throws {
        let start = #"CREATE VIRTUAL TABLE "doc" USING fts5("#
        try #expect(fts5 { $0.column("a") } == start + "a)")
        try #expect(
            fts5 { t in
                t.column("a")
                t.column("b").notIndexed()
                t.prefixes = [4, 2]
                t.columnSize = 0
                t.detail = "column"
            } == start + "a, b UNINDEXED, prefix='2 4', columnSize=0, detail=column)")
        try #expect(
            fts5 { t in
                t.column("order")
                t.column("a b\"c")
                t.content = ""
            } == start + #"order, "a b""c", content='')"#)
        try #expect(
            fts5 { t in
                t.tokenizer = .porter(wrapping: .unicode61(diacritics: .keep, tokenCharacters: ["-", "'"]))
                t.column("a")
            } == start
                + "a, tokenize='''porter'' ''unicode61'' ''remove_diacritics'' ''0'' ''tokenchars'' ''''''-''')")
        try #expect(
            fts5 { t in
                t.tokenizer = .ascii(separators: ["x"])
                t.column("a")
            } == start + "a, tokenize='''ascii'' ''separators'' ''x''')")
        try #expect(
            fts5 { t in
                t.synchronize(withTable: "book")
                t.column("title")
            } == start + "title, content='book', content_rowid='id')")
    }

    @Test("definitions of FTS4 and FTS3 tables", .enabled(if: FullTextTests.hasFTS3))
    func fts4Definitions() throws {
        try #expect(
            definition(FTS4()) { t in
                t.tokenizer = .unicode61(diacritics: .remove, separators: ["x"])
                t.column("a")
                t.column("b").notIndexed()
                t.column("l").asLanguageId()
                t.content = ""
                t.matchinfo = "fts3"
                t.prefixes = [4, 2]
            }
                == #"CREATE VIRTUAL TABLE "doc" USING fts4(a, b, notindexed=b, languageid="l", "#
                + #"tokenize=unicode61 "remove_diacritics=2" "separators=x", "#
                + #"content="", matchinfo="fts3", prefix="2,4")"#)
        try #expect(
            definition(FTS3()) { t in
                t.tokenizer = .porter
                t.column("a")
            } == #"CREATE VIRTUAL TABLE "doc" USING fts3(a, tokenize=porter)"#)
        try #expect(FTS3.tokenize("Größe 12 a'b") == ["größe", "12", "a", "b"])
        try #expect(FTS3.tokenize("running dogs", withTokenizer: .porter) == ["run", "dog"])
        try #expect(FTS3.tokenize("Éa-b", withTokenizer: .unicode61(tokenCharacters: ["-"])) == ["ea-b"])
        _ = try FTS3Pattern(rawPattern: "a OR b*")
        #expect(throws: DatabaseError.self) { try FTS3Pattern(rawPattern: "\"a") }
    }

    private static let hasFTS3 = (try? DatabaseQueue().write { try $0.create(virtualTable: "t", using: FTS3()) }) != nil

    @Test("a synchronized index follows its table, and its triggers can be dropped")
    func synchronization() throws {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE message (id INTEGER PRIMARY KEY, text TEXT)")
            var first = Message(id: nil, text: "the quick fox")
            try first.insert(db)
            try db.create(virtualTable: "message_ft", using: FTS5()) { t in
                t.synchronize(withTable: "message")
                t.column("text")
            }
            func found(_ word: String) throws -> [Int64] {
                let index = Message.index.matching(FTS5Pattern(matchingAllTokensIn: word))
                return try Message.joining(required: index).orderByPrimaryKey().fetchAll(db).compactMap(\.id)
            }
            var second = Message(id: nil, text: "a lazy dog")
            try second.insert(db)
            try #expect(found("quick") == [1] && found("dog") == [2])
            try first.updateChanges(db) { $0.text = "the slow dog" }
            try #expect(found("quick") == [] && found("dog") == [1, 2])
            try second.delete(db)
            try #expect(found("dog") == [1])
            try db.drop(table: "message_ft")
            #expect(throws: DatabaseError.self) { try first.delete(db) }
            try db.dropFTS5SynchronizationTriggers(forTable: "message_ft")
            try first.delete(db)
        }
    }

    @Test("a synchronized FTS4 index follows its table", .enabled(if: FullTextTests.hasFTS3))
    func synchronizationOfFTS4() throws {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE message (id INTEGER PRIMARY KEY, text TEXT)")
            try db.execute(sql: "INSERT INTO message VALUES (1, 'old words')")
            try db.create(virtualTable: "document", using: FTS4()) { t in
                t.synchronize(withTable: "message")
                t.column("text")
            }
            func found(_ word: String) throws -> Int {
                try Document.matching(FTS3Pattern(matchingAnyTokenIn: word)).fetchCount(db)
            }
            try #expect(found("words") == 1)
            try db.execute(sql: "UPDATE message SET text = 'new'; INSERT INTO message VALUES (2, 'new too')")
            try #expect(found("words") == 0 && found("new") == 2)
            try db.execute(sql: "DELETE FROM message WHERE id = 1")
            try #expect(found("new") == 1)
            try db.dropFTS4SynchronizationTriggers(forTable: "document")
            try db.execute(sql: "INSERT INTO message VALUES (3, 'new')")
            try #expect(found("new") == 1)
        }
    }

    @Test("patterns of a user's words")
    func patterns() {
        #expect(FTS5Pattern(matchingAnyTokenIn: "Foo, bar!")?.rawPattern == "foo OR bar")
        #expect(FTS5Pattern(matchingAllTokensIn: "Foo \"bar")?.rawPattern == "foo bar")
        #expect(FTS5Pattern(matchingAllPrefixesIn: "fo ba")?.rawPattern == "fo* ba*")
        #expect(FTS5Pattern(matchingPhrase: "foo-bar")?.rawPattern == "\"foo bar\"")
        #expect(FTS5Pattern(matchingPrefixPhrase: "foo bar")?.rawPattern == "^\"foo bar\"")
        #expect(FTS3Pattern(matchingAnyTokenIn: "a OR NEAR")?.rawPattern == "a OR or OR near")
        #expect(FTS3Pattern(matchingAllPrefixesIn: "Été")?.rawPattern == "Été*")
        #expect(FTS3Pattern(matchingPhrase: " ") == nil)
        for text in ["", " ", "\"'*^-+()", "?"] {
            #expect(FTS5Pattern(matchingAnyTokenIn: text) == nil && FTS5Pattern(matchingAllPrefixesIn: text) == nil)
            #expect(FTS5Pattern(matchingPhrase: text) == nil && FTS3Pattern(matchingAllTokensIn: text) == nil)
        }
    }

    @Test("patterns in the language of FTS5 are checked, with the columns of their table")
    func rawPatterns() throws {
        try DatabaseQueue().write { db in
            try db.create(virtualTable: "document", using: FTS5()) { t in
                t.column("title")
                t.column("body")
            }
            try db.execute(sql: "INSERT INTO document VALUES ('fox', 'dog'), ('dog', 'cat fox')")
            let pattern = try db.makeFTS5Pattern(rawPattern: "title:fox", forTable: "document")
            try #expect(Document.matching(pattern).fetchCount(db) == 1)
            #expect(throws: DatabaseError.self) {
                try db.makeFTS5Pattern(rawPattern: "other:fox", forTable: "document")
            }
            #expect(throws: DatabaseError.self) { try db.makeFTS5Pattern(rawPattern: "AND", forTable: "document") }
            try #expect(Document.filter(Column("body").match(FTS5Pattern(matchingPhrase: "fox"))).fetchCount(db) == 1)
            let ranked = Document.matching(FTS5Pattern(matchingAnyTokenIn: "fox")).order(Column.rank)
            try #expect(Row.fetchAll(db, ranked).map { $0["title"] as String } == ["fox", "dog"])
            let alias = TableAlias<Document>(name: "d")
            try #expect(Document.aliased(alias).matching(pattern).fetchCount(db) == 1)
        }
    }

    @Test("a virtual table that exists is left as it is, and a failed one leaves nothing")
    func creation() throws {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE key (a TEXT PRIMARY KEY) WITHOUT ROWID")
            #expect(throws: DatabaseError.self) {
                try db.create(virtualTable: "document", using: FTS5()) { t in
                    t.synchronize(withTable: "key")
                    t.column("a")
                }
            }
            try #expect(!db.tableExists("document"))
            try db.create(virtualTable: "document", using: FTS5()) { $0.column("a") }
            try db.create(virtualTable: "document", options: .ifNotExists, using: FTS5()) { $0.column("b") }
            try #expect(db.columns(in: "document").map(\.name).first == "a")
            try db.create(virtualTable: "other", using: "fts5(x)")
            try #expect(db.tableExists("other"))
        }
    }
}
