import CipherDatabase
import CipherSchema
import Foundation
import Synchronization
import Testing

@testable import CipherRecords

@Suite("Full-text tables as records, and their damage")
struct FullTextSearchTests {
    /// A row of a full-text table, found by its rowid.
    private struct Article: FetchableRecord, MutablePersistableRecord, Equatable {
        static var databaseSelection: [any SQLSelectable] { [.allColumns, .rowID] }
        var id: Int64?
        var title: String
        var body: String

        init(id: Int64? = nil, title: String, body: String) {
            (self.id, self.title, self.body) = (id, title, body)
        }

        init(row: Row) throws {
            id = row["rowid"]
            title = row["title"]
            body = row["body"]
        }

        func encode(to container: inout PersistenceContainer) throws {
            container[.rowID] = id
            container["title"] = title
            container["body"] = body
        }

        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    /// The statements of a connection, with the values of their parameters.
    private final class Trace: Sendable {
        private let texts = Mutex<[String]>([])
        var all: [String] { texts.withLock { $0 } }
        var last: String? { all.last { !$0.hasPrefix("--") } }
        func start(_ db: Database) {
            db.trace { [self] event in
                guard case .statement(let statement) = event else { return }
                texts.withLock { $0.append(statement.expandedSQL) }
            }
        }
    }

    private static let articles = [
        Article(title: "Foxes", body: "The quick brown fox jumps over the lazy dog, and a fox is no dog."),
        Article(title: "Dogs", body: "A lazy dog sleeps. Foxes do not."),
        Article(title: "A fox", body: "Nothing else."),
    ]

    private func create<Module: VirtualTableModule>(_ module: Module, _ db: Database) throws
    where Module.TableDefinition: AnyObject {
        try db.create(virtualTable: "article", using: module) { t in
            if let t = t as? FTS5TableDefinition {
                t.tokenizer = .porter()
                t.column("title")
                t.column("body")
            } else if let t = t as? FTS4TableDefinition {
                t.column("title")
                t.column("body")
            } else if let t = t as? FTS3TableDefinition {
                t.column("title")
                t.column("body")
            }
        }
        for article in Self.articles { _ = try article.inserted(db) }
    }

    @Test("records of FTS5 tables are written, found and counted by their rowid")
    func recordsOfFTS5() throws { try records(FTS5(), FTS5Pattern(matchingAllTokensIn: "quick lazy")) }

    @Test("records of FTS3 tables are written, found and counted by their rowid")
    func recordsOfFTS3() throws { try records(FTS3(), FTS3Pattern(matchingAllTokensIn: "quick lazy")) }

    @Test("records of FTS4 tables are written, found and counted by their rowid")
    func recordsOfFTS4() throws { try records(FTS4(), FTS3Pattern(matchingAllTokensIn: "quick lazy")) }

    private func records<Module: VirtualTableModule>(_ module: Module, _ pattern: (any FullTextPattern)?) throws
    where Module.TableDefinition: AnyObject {
        try DatabaseQueue().write { db in
            try create(module, db)
            let trace = Trace()
            trace.start(db)
            var article = try #require(try Article.matching(pattern).fetchOne(db))
            #expect(trace.all.contains(#"SELECT *, "rowid" FROM "article" WHERE "article" MATCH 'quick lazy' LIMIT 1"#))
            #expect(article.id == 1 && article.title == "Foxes")
            try #expect(Article.matching(pattern).fetchCount(db) == 1)
            #expect(trace.all.contains(#"SELECT COUNT(*) FROM "article" WHERE "article" MATCH 'quick lazy'"#))
            let none: (any FullTextPattern)? = nil
            try #expect(Article.matching(none).fetchAll(db).isEmpty)
            try #expect(Article.filter(Column("body").match(FTS3Pattern(matchingPhrase: "quick"))).fetchCount(db) == 1)
            try #expect(Article.filter(Column("title").match(FTS3Pattern(matchingPhrase: "quick"))).fetchCount(db) == 0)
            try #expect(
                Article.filter(Column("article").match(FTS3Pattern(matchingPhrase: "quick"))).fetchCount(db) == 1)

            article.body = "slow"
            try article.update(db)
            #expect(trace.all.contains(#"UPDATE "article" SET "title"='Foxes', "body"='slow' WHERE "rowid"=1"#))
            try #expect(Article.matching(pattern).fetchCount(db) == 0)
            try #expect(Article.fetchOne(db, key: 1) == article)
            try #expect(article.delete(db) && Article.fetchCount(db) == 2)
            try #expect(Article.filter(Column.rowID == 3).deleteAll(db) == 1)
        }
    }

    @Test("rank, bm25, snippet, highlight, prefixes and column filters of FTS5")
    func searching() throws {
        try DatabaseQueue().write { db in
            try create(FTS5(), db)
            let fox = FTS5Pattern(matchingAllTokensIn: "fox")
            let ranked = Article.matching(fox).order(Column.rank)
            let byRank = try Int64.fetchAll(
                db, sql: "SELECT rowid FROM article WHERE article MATCH 'fox' ORDER BY bm25(article)")
            try #expect(ranked.fetchAll(db).compactMap(\.id) == byRank && byRank.last == 2)
            let weighted = Article.matching(fox).order(SQL(sql: "bm25(article, 0, 10)").sqlExpression)
            try #expect(weighted.fetchAll(db).compactMap(\.id).first == 1)
            let best = try Double.fetchAll(db, Article.matching(fox).select(Column.rank).order(Column.rank))
            #expect(best.count == 3 && best.allSatisfy { $0 < 0 } && best == best.sorted())

            let dogs = Article.matching(FTS5Pattern(matchingAllPrefixesIn: "slee do"))
            try #expect(dogs.fetchAll(db).compactMap(\.id) == [2])
            let shown = dogs.select(
                SQL(sql: "highlight(article, 1, '<b>', '</b>')").sqlExpression.forKey("marked"),
                SQL(sql: "snippet(article, 1, '[', ']', '…', 4)").sqlExpression.forKey("snippet"))
            let row = try #require(try Row.fetchOne(db, shown))
            #expect(row["marked"] == "A lazy <b>dog</b> <b>sleeps</b>. Foxes <b>do</b> not.")
            #expect((row["snippet"] as String).contains("[dog] [sleeps]"))

            let titles = try db.makeFTS5Pattern(rawPattern: "title : fox", forTable: "article")
            try #expect(Article.matching(titles).fetchAll(db).compactMap(\.id) == [1, 3])
            try #expect(Article.filter(Column("title").match(fox)).fetchAll(db).compactMap(\.id) == [1, 3])
            let begins = FTS5Pattern(matchingPrefixPhrase: "a lazy")
            try #expect(Article.matching(begins).fetchAll(db).compactMap(\.id) == [2])
            try #expect(
                Article.filter(fox.map { Column("article").match($0) } ?? false.databaseValue.sqlExpression)
                    .filter(Column("title") == "Dogs").fetchCount(db) == 1)
        }
    }

    // MARK: Definitions

    private struct TokenizeModule: VirtualTableModule {
        final class Definition {
            var tokenizer: String?
            let configuration: VirtualTableConfiguration
            init(_ configuration: VirtualTableConfiguration) { self.configuration = configuration }
        }
        var moduleName = "fts3tokenize"
        var error: DatabaseError?

        func makeTableDefinition(configuration: VirtualTableConfiguration) -> Definition { Definition(configuration) }
        func moduleArguments(for definition: Definition, in db: Database) throws -> [String] {
            [definition.tokenizer].compactMap { $0 }
        }
        func database(_ db: Database, didCreate tableName: String, using definition: Definition) throws {
            if let error { throw error }
        }
    }

    @Test("modules of the program, and the two forms of options")
    func modules() throws {
        try DatabaseQueue().write { db in
            let trace = Trace()
            trace.start(db)
            try db.create(virtualTable: "words", using: TokenizeModule()) { $0.tokenizer = "simple" }
            #expect(trace.all.contains(#"CREATE VIRTUAL TABLE "words" USING fts3tokenize(simple)"#))
            let failing = TokenizeModule(error: DatabaseError(resultCode: ResultCode(rawValue: 123)))
            let error = #expect(throws: DatabaseError.self) { try db.create(virtualTable: "bad", using: failing) }
            #expect(error?.resultCode.rawValue == 123)
            try #expect(db.tableExists("words") && !db.tableExists("bad"))
            try db.create(virtualTable: "words", options: .ifNotExists, using: TokenizeModule()) { t in
                #expect(t.configuration.ifNotExists && !t.configuration.temporary)
            }
            #expect(
                trace.last?.hasPrefix("CREATE VIRTUAL TABLE IF NOT EXISTS \"words\"") == true
                    || trace.all.contains {
                        $0.hasPrefix("CREATE VIRTUAL TABLE IF NOT EXISTS \"words\"")
                    })
            try db.create(virtualTable: "doc", ifNotExists: true, using: FTS5()) { $0.column("a") }
            #expect(trace.all.contains(#"CREATE VIRTUAL TABLE IF NOT EXISTS "doc" USING fts5(a)"#))
            try db.create(virtualTable: "plain", ifNotExists: true, using: "fts4")
            #expect(trace.all.contains(#"CREATE VIRTUAL TABLE IF NOT EXISTS "plain" USING fts4"#))
            try db.create(virtualTable: "here", options: .temporary, using: FTS5()) { $0.column("a") }
            #expect(trace.all.contains(#"CREATE VIRTUAL TABLE temp."here" USING fts5(a)"#))
            try db.create(virtualTable: "there", options: [.temporary, .ifNotExists], using: "fts5(a)")
            #expect(trace.all.contains(#"CREATE VIRTUAL TABLE IF NOT EXISTS temp."there" USING fts5(a)"#))
            try db.create(virtualTable: "four", using: FTS4())
            #expect(trace.all.contains(#"CREATE VIRTUAL TABLE "four" USING fts4"#))
        }
    }

    private func createNotes(_ db: Database) throws -> Trace {
        try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)")
        try db.execute(sql: "INSERT INTO note (text) VALUES ('first')")
        let trace = Trace()
        trace.start(db)
        try createIndex([], db)
        return trace
    }

    private func createIndex(_ options: VirtualTableOptions, column: String = "text", _ db: Database) throws {
        try db.create(virtualTable: "note_ft", options: options, using: FTS5()) { t in
            t.synchronize(withTable: "note")
            t.column(column)
        }
    }

    private func count(_ word: String, in table: String = "note_ft", _ db: Database) throws -> Int {
        try Table(table).matching(FTS5Pattern(matchingPhrase: word)).fetchCount(db)
    }

    @Test("the SQL of a synchronized table")
    func synchronizationSQL() throws {
        try DatabaseQueue().write { db in
            let trace = try createNotes(db)
            #expect(
                trace.all.contains(
                    #"CREATE VIRTUAL TABLE "note_ft" USING fts5(text, content='note', content_rowid='id')"#))
            let update = try #require(
                trace.all.first { $0.hasPrefix(#"CREATE TRIGGER main."__note_ft_au" AFTER UPDATE ON "note" BEGIN"#) })
            #expect(
                update.hasSuffix(
                    """
                        INSERT INTO "note_ft"("note_ft", "rowid", "text") VALUES('delete', old."id", old."text");
                        INSERT INTO "note_ft"("rowid", "text") VALUES (new."id", new."text");
                    END
                    """))
            // A table with a hidden rowid needs no content_rowid.
            try db.execute(sql: "CREATE TABLE loose (text TEXT); INSERT INTO loose VALUES ('one')")
            try db.create(virtualTable: "loose_ft", using: FTS5()) { t in
                t.synchronize(withTable: "loose")
                t.column("text")
            }
            #expect(trace.all.contains(#"CREATE VIRTUAL TABLE "loose_ft" USING fts5(text, content='loose')"#))
            try db.execute(sql: "UPDATE loose SET text = 'two'")
            try #expect(count("two", in: "loose_ft", db) == 1 && count("one", in: "loose_ft", db) == 0)
            try db.execute(sql: "INSERT INTO loose_ft(loose_ft) VALUES('integrity-check')")
        }
    }

    @Test("a synchronized table that exists gets what it lacks")
    func synchronizationOfExistingTable() throws {
        try DatabaseQueue().write { db in
            let trace = try createNotes(db)
            #expect(throws: DatabaseError.self) { try createIndex([], db) }
            let statements = trace.all.count
            try createIndex(.ifNotExists, db)
            #expect(!trace.all.dropFirst(statements).contains { $0.contains("rebuild") }, "it was complete")

            // A migration that makes the content table anew drops the triggers with the old one: they are made again.
            try db.execute(
                sql: "CREATE TABLE new (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO new VALUES (7, 'second');"
                    + "DROP TABLE note; ALTER TABLE new RENAME TO note")
            try #expect(count("second", db) == 1)
            try createIndex(.ifNotExists, db)
            #expect(trace.all.dropFirst(statements).contains { $0.hasPrefix(#"CREATE TRIGGER main."__note_ft_ai""#) })
            try #expect(count("second", db) == 1 && count("first", db) == 0)
            try db.execute(sql: "INSERT INTO note (text) VALUES ('third')")
            try #expect(count("third", db) == 1)

            // A full-text table that was dropped without its triggers.
            try db.drop(table: "note_ft")
            try createIndex(.ifNotExists, db)
            try #expect(count("second", db) == 1 && count("third", db) == 1)

            let missing = #expect(throws: DatabaseError.self) { try createIndex(.ifNotExists, column: "title", db) }
            #expect(missing?.message?.contains("note_ft exists without the column title") == true)
        }
    }

    @Test("a temporary index of a temporary table; content that is set by hand is not synchronized")
    func otherContent() throws {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TEMPORARY TABLE note (id INTEGER PRIMARY KEY, text TEXT)")
            for kind in ["five", "four"] {
                if kind == "five" {
                    try db.create(virtualTable: kind, options: .temporary, using: FTS5()) { t in
                        t.synchronize(withTable: "note")
                        t.column("text")
                    }
                } else {
                    try db.create(virtualTable: kind, options: .temporary, using: FTS4()) { t in
                        t.synchronize(withTable: "note")
                        t.column("text")
                    }
                }
                try db.execute(sql: "INSERT INTO note (text) VALUES ('a word')")
                let found = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM \(kind) WHERE \(kind) MATCH 'word'")
                #expect(found == (kind == "five" ? 1 : 2))
            }
            try #expect(Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_master") == 0)
            try db.create(virtualTable: "by_hand", options: .temporary, using: FTS5()) { t in
                t.synchronize(withTable: "note")
                #expect(t.content == "note")
                t.content = "note"
                t.contentRowID = "id"
                t.column("text")
            }
            try #expect(!db.triggerExists("__by_hand_ai"))
        }
    }

    @Test("the language of a row follows its table")
    func languages() throws {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT, language INTEGER)")
            try db.execute(sql: "INSERT INTO note (text, language) VALUES ('one word', 1)")
            for _ in 0..<2 {
                try db.create(virtualTable: "note_ft", options: .ifNotExists, using: FTS4()) { t in
                    t.synchronize(withTable: "note")
                    t.column("text")
                    t.column("language").asLanguageId()
                }
            }
            try db.execute(sql: "INSERT INTO note (text, language) VALUES ('two word', 2), ('plain word', 0)")
            func found(_ language: Int) throws -> [Int64] {
                try Int64.fetchAll(
                    db, sql: "SELECT docid FROM note_ft WHERE note_ft MATCH 'word' AND language = ?",
                    arguments: [language])
            }
            try #expect(found(0) == [3] && found(1) == [1] && found(2) == [2])
            try db.execute(sql: "UPDATE note SET language = 2")
            try #expect(found(0) == [] && found(1) == [] && found(2) == [1, 2, 3])
            try db.execute(sql: "DELETE FROM note")
            try #expect(found(2) == [])
        }
    }

    @Test("texts are stored by functions of the program")
    func compression() throws {
        let calls = Mutex<Set<String>>([])
        let shorten = DatabaseFunction("shorten", argumentCount: 1, pure: true) { values in
            calls.withLock { _ = $0.insert("shorten") }
            return String.fromDatabaseValue(values[0]).map { String($0.reversed()) }
        }
        let lengthen = DatabaseFunction("lengthen", argumentCount: 1, pure: true) { values in
            calls.withLock { _ = $0.insert("lengthen") }
            return String.fromDatabaseValue(values[0]).map { String($0.reversed()) }
        }
        try DatabaseQueue().write { db in
            db.add(function: shorten)
            db.add(function: lengthen)
            let trace = Trace()
            trace.start(db)
            try db.create(virtualTable: "doc", using: FTS4()) { t in
                t.compress = "shorten"
                t.uncompress = "lengthen"
                t.column("text")
            }
            #expect(
                trace.all.contains(
                    #"CREATE VIRTUAL TABLE "doc" USING fts4(text, compress="shorten", uncompress="lengthen")"#))
            try db.execute(sql: "INSERT INTO doc VALUES ('some words')")
            try #expect(String.fetchOne(db, sql: "SELECT text FROM doc WHERE doc MATCH 'words'") == "some words")
            try #expect(String.fetchOne(db, sql: "SELECT c0text FROM doc_content") == "sdrow emos")
        }
        #expect(calls.withLock { $0 } == ["shorten", "lengthen"])
    }

    // MARK: Damage

    @Test("a damaged index is a typed error, and can be rebuilt")
    func damage() throws {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)")
            for number in 0..<500 {
                try db.execute(sql: "INSERT INTO note (text) VALUES (?)", arguments: ["word\(number) common"])
            }
            try db.create(virtualTable: "five", using: FTS5()) { t in
                t.synchronize(withTable: "note")
                t.column("text")
            }
            try db.create(virtualTable: "four", using: FTS4()) { t in
                t.synchronize(withTable: "note")
                t.column("text")
            }
        }
        // Each in a transaction of its own: an index writes what is new at its end.
        func command(_ command: String, _ table: String) throws {
            try queue.write { try $0.execute(sql: "INSERT INTO \(table)(\(table)) VALUES('\(command)')") }
        }
        func search(_ table: String) throws -> Int? {
            try queue.read { db in
                try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM \(table) WHERE \(table) MATCH 'common'")
            }
        }
        for (table, damage) in [
            ("five", "UPDATE five_data SET block = x'0102030405' WHERE id > 10"),
            ("five", "DELETE FROM five_data WHERE id > 10"),
            ("four", "DELETE FROM four_segdir"),
        ] {
            try command("integrity-check", table)
            try queue.write { try $0.execute(sql: damage) }
            let check = #expect(throws: DatabaseError.self, "\(damage)") { try command("integrity-check", table) }
            #expect(check?.resultCode == .SQLITE_CORRUPT, "\(damage): \(String(describing: check))")
            // A search finds less, or fails with the same code: it does not crash.
            do {
                try #expect(search(table) != 500, "\(damage)")
            } catch {
                #expect((error as? DatabaseError)?.resultCode == .SQLITE_CORRUPT, "\(damage): \(error)")
            }
            try command("rebuild", table)
            try command("integrity-check", table)
            try #expect(search(table) == 500, "\(damage)")
        }
    }
}
