import CipherDatabase
import CipherRecords
import Testing

/// Table aliases in SQL text with a query of its own.
@Suite struct AliasLiteralTests {
    private struct Author: Codable, FetchableRecord, PersistableRecord {
        var id: Int
        var name: String
        enum Columns {
            static let id = Column("id")
        }
    }

    private func withTables(_ body: (Database) throws -> Void) throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        try DatabaseQueue(configuration: configuration).write { db in
            try db.execute(
                sql: """
                    CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT);
                    CREATE TABLE book (id INTEGER PRIMARY KEY, authorId INTEGER);
                    INSERT INTO author VALUES (1, 'a'), (2, 'b'), (3, 'c');
                    INSERT INTO book VALUES (1, 1), (2, 2), (4, 1);
                    """)
            try body(db)
        }
    }

    private let author = TableAlias<Author>()

    // Story: a column of an alias without a name was written without its table, and was then the inner query's own: other
    // rows were deleted.
    @Test("a column of an alias is that of its table, also where the query has a column of the same name")
    func correlated() throws {
        let author = author
        let without = Author.aliased(author).filter(
            SQL("NOT EXISTS (SELECT 1 FROM book WHERE authorId = \(author[Column("id")]))"))
        let counted = Author.aliased(author).order(Column("id")).select(
            SQL("(SELECT count(*) FROM book WHERE authorId = \(author[Column("id")]))"), as: Int.self)
        try withTables { (db: Database) throws -> Void in
            #expect(try without.fetchAll(db).map(\.id) == [3])
            #expect(try counted.fetchAll(db) == [2, 1, 0])
            #expect(
                try Author.aliased(author).updateAll(
                    db,
                    Column("name").set(to: SQL("(SELECT count(*) FROM book WHERE authorId = \(author[Column("id")]))")))
                    == 3)
            #expect(try String.fetchAll(db, sql: "SELECT name FROM author ORDER BY id") == ["2", "1", "0"])
            #expect(try without.deleteAll(db) == 1)
            #expect(try Int.fetchAll(db, sql: "SELECT id FROM author") == [1, 2])
        }
    }
}
