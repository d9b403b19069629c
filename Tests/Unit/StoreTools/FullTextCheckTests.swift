import CipherStore
import Foundation
import TestKit
import Testing

@testable import StoreTools

/// The tools compare full-text indexes with their texts.
///
/// The story: an index had the words of other rows, searches ended as SQLITE_CORRUPT, and `verify` said sound.
@Suite("Full-text indexes in the tools")
struct FullTextCheckTests {
    private let fixture = ToolFixture()

    private static let tables = """
        CREATE TABLE d (id INTEGER PRIMARY KEY, k TEXT UNIQUE, body TEXT);
        INSERT INTO d VALUES (1, 'a', 'zarquon'), (2, 'b', 'plain words');
        CREATE TABLE loose (body TEXT);
        INSERT INTO loose VALUES ('one'), ('two');
        """
    /// Indexes of every kind, with the words of their texts.
    private static let indexes = """
        CREATE VIRTUAL TABLE five USING fts5(body, content='d', content_rowid='id', prefix='2 3');
        INSERT INTO five(five) VALUES('rebuild');
        CREATE VIRTUAL TABLE hidden USING fts5(body, content=loose, detail=column, columnsize=0);
        INSERT INTO hidden(hidden) VALUES('rebuild');
        CREATE VIRTUAL TABLE "own five" USING fts5(x, y UNINDEXED, tokenize='porter unicode61');
        INSERT INTO "own five" VALUES ('running dogs', 1), ('sleeping cats', 2);
        CREATE VIRTUAL TABLE bare USING fts5(x, content='');
        INSERT INTO bare(rowid, x) VALUES (7, 'bare words');
        CREATE VIRTUAL TABLE four USING fts4(body, content="d", prefix="2,3");
        INSERT INTO four(four) VALUES('rebuild');
        CREATE VIRTUAL TABLE ownfour USING fts4(x, y, notindexed=y, languageid="l");
        INSERT INTO ownfour(x, y, l) VALUES ('running dogs', 'a', 0), ('chats', 'b', 1);
        CREATE VIRTUAL TABLE three USING fts3(x); INSERT INTO three VALUES ('three words');
        """

    /// - Parameter damage: SQL that writes tables of the indexes, as another program can.
    private func makeStore(_ sql: String, damage: String = "") throws {
        let store = try fixture.openStore()
        try store.writeWithoutTransaction { db in
            try db.execute(sql: sql)
            db.mayChangeStoreTables = true
            defer { db.mayChangeStoreTables = false }
            try db.execute(sql: damage)
        }
        try store.checkpoint(.truncate)
        try store.close()
    }

    private func verify() throws -> StoreVerification.Report {
        try StoreVerification(fixture.store, unlockedBy: fixture.source).run()
    }

    @Test("indexes that have the words of their texts are sound, of every kind, and nothing is changed")
    func sound() throws {
        try makeStore(Self.tables + Self.indexes)
        let before = FolderSnapshot(of: fixture.folder)
        // Others write meanwhile: the check takes no lock.
        let store = try fixture.openStore()
        defer { try? store.close() }
        try store.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN IMMEDIATE; UPDATE d SET k = 'c' WHERE id = 1")
            let report = try verify()
            #expect(report.isSound && report.fullTextFaults == [] && report.unchecked == [], "\(report.unchecked)")
            try db.execute(sql: "ROLLBACK")
        }
        #expect(!fixture.changes(since: before).contains("app.db"))
    }

    @Test("an index of other words is named, with the statement that makes it again")
    func otherWords() throws {
        try makeStore(
            Self.tables + Self.indexes
                + "UPDATE d SET body = 'changed' WHERE id = 1; DELETE FROM loose WHERE body = 'one'")
        let report = try verify()
        #expect(report.isSound && report.integrity == ["ok"], "no row is damaged: \(report.problems)")
        #expect(report.fullTextFaults.map(\.index) == ["five", "four", "hidden"])
        #expect(report.fullTextFaults.filter(\.isDamage).map(\.index) == ["four"] || !report.fullTextFaults[1].isDamage)
        let five = try #require(report.fullTextFaults.first)
        #expect(!five.isDamage && five.what == "the full-text index \"five\": it does not have the words of \"d\"")
        #expect(five.rebuilding == "INSERT INTO \"five\"(\"five\") VALUES('rebuild')")
        #expect(five.remedy("/a b/app.db").contains(#"cipherctl sql '/a b/app.db' --write 'INSERT INTO"#))

        let examination = try StoreExamination(fixture.store, unlockedBy: fixture.source).run()
        let findings = examination.findings.filter { $0.name == "fullTextIndex" }
        #expect(findings.count == 3 && !findings.contains { !$0.needsAttention })
        #expect(!findings.contains { $0.remedy?.contains("rebuild") != true })

        try makeStore(report.fullTextFaults.compactMap(\.rebuilding).joined(separator: ";"))
        try #expect(verify().fullTextFaults == [])
        let well = try StoreExamination(fixture.store, unlockedBy: fixture.source).run()
        #expect(!well.findings.contains { $0.name.hasPrefix("fullText") })
    }

    @Test("an index that contradicts itself is damaged, and no row is")
    func damagedIndexes() throws {
        try makeStore(
            Self.tables + Self.indexes,
            damage: "DELETE FROM five_data WHERE id > 10; UPDATE \"own five_content\" SET c0 = 'other';"
                + "DROP TABLE three_segdir; DELETE FROM bare_data WHERE id > 10; UPDATE ownfour_content SET c0x = 'other'"
        )
        let report = try verify()
        #expect(report.fullTextFaults.map(\.index) == ["bare", "five", "own five", "ownfour", "three"])
        #expect(!report.fullTextFaults.contains { !$0.isDamage })
        let remedies = Dictionary(uniqueKeysWithValues: report.fullTextFaults.map { ($0.index, $0.remedy("app.db")) })
        for name in ["bare", "three"] { #expect(remedies[name]?.contains("create it again") == true) }
        #expect(remedies["own five"]?.contains("VALUES('\\''rebuild'\\'')") == true)
    }

    @Test("an index that cannot be checked is named, and the store is not called damaged for it")
    func uncheckedIndexes() throws {
        try makeStore(Self.tables + #"CREATE VIRTUAL TABLE ghost USING fts4(x, content="")"#)
        let report = try verify()
        #expect(report.isSound && report.fullTextFaults == [])
        #expect(report.unchecked.count == 1, "\(report.unchecked)")
        #expect(report.unchecked.first?.contains("\"ghost\" was not checked") == true)
    }

    /// The settings of a program with a function of its own.
    private static var program: Configuration {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            db.add(function: DatabaseFunction("prog_f", argumentCount: 1, pure: true) { $0[0] })
        }
        return configuration
    }

    // Story: such an index had other words than its texts, and `verify` said sound, with a note "SQL logic error".
    @Test(
        "an index of texts that only the program can compute is not checked, and its function is named",
        arguments: [
            ("CREATE TABLE s (a INTEGER PRIMARY KEY, b TEXT, c AS (prog_f(b)) VIRTUAL)", "s", "fts5"),
            ("CREATE TABLE s (a INTEGER PRIMARY KEY, b TEXT, c AS (prog_f(b)) VIRTUAL)", "s", "fts4"),
            (
                "CREATE TABLE s (a INTEGER PRIMARY KEY, b); CREATE VIEW v AS SELECT a, prog_f(b) AS c FROM s", "v",
                "fts5"
            ),
        ])
    func neededFunction(_ tables: String, _ content: String, _ module: String) throws {
        let store = try SharedStore.open(at: fixture.store, unlockedBy: fixture.source, configuration: Self.program)
        try store.write { db in
            let options = module == "fts5" ? "content=\(content), content_rowid=a" : "content=\"\(content)\""
            try db.execute(
                sql: """
                    \(tables); INSERT INTO s (a, b) VALUES (1, 'x y');
                    CREATE VIRTUAL TABLE ft USING \(module)(c, \(options)); INSERT INTO ft(ft) VALUES('rebuild');
                    UPDATE s SET b = 'other words';
                    """)
        }
        try store.checkpoint(.truncate)
        try store.close()
        let report = try verify()
        #expect(report.isSound && report.needsAttention && report.fullTextFaults == [], "\(report.problems)")
        #expect(report.notChecked == ["full-text index \"ft\", which needs function prog_f"], "\(report.notChecked)")
        let examination = try StoreExamination(fixture.store, unlockedBy: fixture.source).run()
        let finding = examination.findings.first { $0.name == "fullTextUnchecked" }
        #expect(finding?.what.contains("function prog_f") == true, "\(examination.findings)")

        // Story: "quick_check: unable to validate the inverted index" was a notice of the salvage.
        let salvaged = try StoreSalvage(
            of: fixture.store, to: fixture.path("new.db"), unlockedBy: fixture.source
        ).run()
        #expect(!salvaged.notices.contains { $0.contains("quick_check") }, "\(salvaged.notices)")

        var tool = StoreVerification(fixture.store, unlockedBy: fixture.source)
        tool.configuration = Self.program
        let checked = try tool.run()
        #expect(checked.notChecked == [] && checked.fullTextFaults.map(\.index) == ["ft"])
    }

    // It was "not checked", and the store sound: every query of the index fails.
    @Test("an index whose table of texts was dropped needs attention, and nothing is called damaged")
    func missingTexts() throws {
        try makeStore(Self.tables + Self.indexes + "DROP TABLE d")
        let report = try verify()
        #expect(report.isSound && report.needsAttention)
        #expect(report.fullTextFaults.map(\.index).sorted() == ["five", "four"])
        #expect(
            report.fullTextFaults.allSatisfy { $0.what.contains("\"d\"") && $0.remedy("x").contains("create \"d\"") })
    }

    @Test("an index of words that the program chose is no damage, and a backup is checked too")
    func chosenWords() throws {
        try makeStore(
            Self.tables + "CREATE VIRTUAL TABLE five USING fts5(body, content='d', content_rowid='id');"
                + "INSERT INTO five(rowid, body) VALUES (1, 'chosen'), (2, 'words')")
        let report = try verify()
        #expect(report.isSound && report.fullTextFaults.map(\.isDamage) == [false])
        let store = try fixture.openStore()
        _ = try store.backup(toFolder: fixture.path("backup"))
        try store.close()
        let backup = try StoreVerification(fixture.path("backup"), unlockedBy: fixture.source).run()
        #expect(backup.isSound && backup.fullTextFaults.map(\.index) == ["five"])
    }
}
