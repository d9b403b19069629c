import CipherDatabase
import CipherRecords
import Testing

/// Changes of the rows of a request that has an alias.
@Suite struct AliasedChangeTests {
    private struct Author: Codable, FetchableRecord, PersistableRecord {
        static let books = hasMany(Book.self, using: ForeignKey(["authorId"]))
        var id: Int64
        var name: String
    }

    private struct Book: Codable, FetchableRecord, PersistableRecord {
        var id: Int64
        var authorId: Int64
    }

    /// Without a name, and with one.
    private static let aliasNames: [String?] = [nil, "au", "Author"]

    private func alias(_ name: String?) -> TableAlias<Author> {
        name.map { TableAlias<Author>(name: $0) } ?? TableAlias<Author>()
    }

    private func withTables<T>(_ body: (Database) throws -> T) throws -> T {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT);
                    CREATE TABLE book (id INTEGER PRIMARY KEY, authorId INTEGER);
                    INSERT INTO author VALUES (1, 'a'), (2, 'b'), (3, 'c');
                    INSERT INTO book VALUES (1, 1), (2, 2), (3, 2);
                    """)
            return try body(db)
        }
    }

    private func names(_ db: Database) throws -> [String] {
        try String.fetchAll(db, sql: "SELECT name FROM author ORDER BY id")
    }

    // Story: the statement for a limited request did not know the alias, and said that `aliased(_:)` was missing.
    @Test("an assignment uses the alias, whatever else the request has", arguments: aliasNames)
    func assignments(_ name: String?) throws {
        let alias = alias(name)
        let request = Author.aliased(alias).order(Column("id"))
        let requests = [
            (request, ["x1", "x2", "x3"]), (request.limit(2), ["x1", "x2", "c"]),
            (request.filter(alias[Column("id")] > 1).limit(5), ["a", "x2", "x3"]),
            (request.joining(required: Author.books), ["x1", "x2", "c"]),
            (request.groupByPrimaryKey(), ["x1", "x2", "x3"]), (request.distinct().limit(2), ["x1", "x2", "c"]),
        ]
        for (request, expected) in requests {
            try withTables { (db: Database) throws -> Void in
                try request.updateAll(db, Column("name").set(to: "x".databaseValue.sqlExpression.appended(alias)))
                #expect(try names(db) == expected)
            }
        }
    }

    @Test("a query in an assignment is about the row that is changed", arguments: aliasNames)
    func queries(_ name: String?) throws {
        let alias = alias(name)
        let counted = SQL("(SELECT count(*) FROM book WHERE authorId = \(alias[Column("id")]))")
        for request in [Author.aliased(alias), Author.aliased(alias).order(Column("id")).limit(3)] {
            try withTables { (db: Database) throws -> Void in
                try request.updateAll(db, Column("name").set(to: counted))
                #expect(try names(db) == ["1", "2", "0"])
            }
        }
        let books = Book.filter(Column("authorId") == alias[Column("id")]).select(count(Column("id")))
        for request in [Author.aliased(alias), Author.aliased(alias).order(Column("id")).limit(3)] {
            try withTables { (db: Database) throws -> Void in
                try request.updateAll(db, Column("name").set(to: books))
                #expect(try names(db) == ["1", "2", "0"])
            }
        }
    }

    @Test("the values that a change returns may name the alias", arguments: aliasNames)
    func returned(_ name: String?) throws {
        let alias = alias(name)
        for request in [Author.aliased(alias), Author.aliased(alias).order(Column("id")).limit(3)] {
            try withTables { (db: Database) throws -> Void in
                let updated = try request.updateAndFetchStatement(
                    db, [Column("name").set(to: "y")], selection: [alias[Column("id")], alias[Column("name")]])
                #expect(try Set(Row.fetchAll(updated).map { $0[0] as Int }) == [1, 2, 3])
                let deleted = try request.deleteAndFetchStatement(db, selection: [alias[Column("id")]])
                #expect(try Set(Int.fetchAll(deleted)) == [1, 2, 3])
            }
        }
    }
}

extension SQLExpression {
    /// The expression with an author's number behind it.
    fileprivate func appended<T>(_ alias: TableAlias<T>) -> SQLExpression {
        [self, alias[Column("id")].sqlExpression].joined(operator: .concat)
    }
}
