import CipherDatabase
import CipherRecords
import Testing

@Suite("Records of tables that declare no key")
struct RowIDRecordTests {
    /// A record of a full-text table, which has its rowid as its identifier.
    private struct Page: MutablePersistableRecord, FetchableRecord {
        static let databaseTableName = "pages"
        static var databaseSelection: [any SQLSelectable] { [AllColumns(), Column.rowID] }
        var id: Int64?
        var title: String
        var text: String

        init(title: String, text: String) { (self.title, self.text) = (title, text) }

        init(row: Row) throws {
            id = row[.rowID]
            title = row["title"]
            text = row["text"]
        }

        func encode(to container: inout PersistenceContainer) {
            container[.rowID] = id
            container["title"] = title
            container["text"] = text
        }

        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    @Test("a record of a full-text table is stored, looked for and found by its rowid")
    func fullText() throws {
        try DatabaseQueue().write { db in
            try db.create(virtualTable: "pages", using: FTS5()) { t in
                t.column("title")
                t.column("text")
            }
            var pages = [Page(title: "Whales", text: "the white one"), Page(title: "Ships", text: "wood and tar")]
            for index in pages.indices { try pages[index].insert(db) }
            #expect(pages.map(\.id) == [1, 2])
            let pattern = FTS5Pattern(matchingAllTokensIn: "White")
            let found = try Page.matching(pattern).fetchAll(db)
            #expect(found.map(\.id) == [1] && found.first?.title == "Whales")
            try #expect(Page.filter(Column("pages").match(pattern)).fetchCount(db) == 1)
            try #expect(Page.filter(Column("title").match(pattern)).fetchCount(db) == 0)
            try #expect(Page.filter(Column("pages").match(nil)).fetchCount(db) == 0)
            pages[1].text = "white sails"
            try pages[1].update(db)
            try #expect(Page.matching(pattern).order(Column.rowID).fetchAll(db).map(\.id) == [1, 2])
            try #expect(pages[0].delete(db) && Page.matching(pattern).fetchAll(db).map(\.id) == [2])
            try #expect(Page.fetchOne(db, key: 2)?.text == "white sails")
        }
    }

    @Test("a record without its rowid has no row to update or delete")
    func withoutRowID() throws {
        struct Line: Codable, PersistableRecord { var text: String }
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE line (text)")
            let line = Line(text: "a")
            try line.insert(db)
            #expect(throws: RecordError.recordNotFound(databaseTableName: "line", key: ["rowid": .null])) {
                try line.update(db)
            }
            try #expect(line.delete(db) == false && line.exists(db) == false && Line.fetchCount(db) == 1)
            try line.save(db)
            try #expect(Line.fetchCount(db) == 2)
        }
    }
}
