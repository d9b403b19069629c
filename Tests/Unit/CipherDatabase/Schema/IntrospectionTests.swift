import CipherDatabase
import CipherSchema
import Foundation
import TestKit
import Testing

@Suite struct IntrospectionTests {
    let queue = DatabaseQueue()

    init() throws {
        try queue.write { db throws in
            try db.execute(
                sql: """
                    CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT 'nobody');
                    CREATE TABLE book (
                        isbn TEXT PRIMARY KEY, authorId INTEGER REFERENCES author, title TEXT UNIQUE,
                        length INT DEFAULT (1 + 1), twice AS (length * 2));
                    CREATE INDEX by_title ON book (title, length);
                    CREATE INDEX by_expression ON book (length + 1);
                    CREATE TABLE loan (
                        "who" TEXT, book TEXT, day DATE, PRIMARY KEY (book, "who"),
                        FOREIGN KEY (book, "who") REFERENCES shelf (b, w)) WITHOUT ROWID;
                    CREATE TABLE "odd "" ; -- name" (a);
                    CREATE VIEW titles AS SELECT title FROM book;
                    CREATE TRIGGER nosy AFTER INSERT ON author BEGIN SELECT 1; END;
                    """)
        }
    }

    @Test("tables, views and triggers are found by name in any case, each only as what it is")
    func existence() throws {
        try queue.read { db throws in
            #expect(try db.tableExists("BOOK") && db.viewExists("Titles") && db.triggerExists("NOSY"))
            #expect(try !db.tableExists("titles") && !db.viewExists("book") && !db.triggerExists("book"))
            #expect(try !db.tableExists("") && !db.tableExists("book;") && !db.tableExists("sqlite_schema"))
            #expect(try db.tableExists("odd \" ; -- name"))
            #expect(try db.tableExists("book", in: "MAIN"))
            #expect(databaseError { try db.tableExists("book", in: "nowhere") }?.message == "no such schema: nowhere")
        }
    }

    @Test("names of internal tables are told by their prefix")
    func internalNames() {
        #expect(Database.isSQLiteInternalTable("sqlite_sequence") && Database.isSQLiteInternalTable("pragma_x"))
        #expect(Database.isGRDBInternalTable("grdb_migrations"))
        #expect(!Database.isGRDBInternalTable("player") && !Database.isSQLiteInternalTable("player"))
    }

    @Test("columns come with type, default value, NOT NULL and place in the key; generated ones too")
    func columns() throws {
        try queue.read { db throws in
            let columns = try db.columns(in: "Book")
            #expect(columns.map(\.name) == ["isbn", "authorId", "title", "length", "twice"])
            #expect(columns.map { $0.type.uppercased() } == ["TEXT", "INTEGER", "TEXT", "INT", ""])
            #expect(columns.map(\.primaryKeyIndex) == [1, 0, 0, 0, 0])
            #expect(columns.map(\.defaultValueSQL) == [nil, nil, nil, "1 + 1", nil])
            let author = try db.columns(in: "author", in: "main")
            #expect(author.map(\.isNotNull) == [false, true])
            #expect(author.map(\.defaultValueSQL) == [nil, "'nobody'"])
            #expect(try db.columns(in: "titles").map(\.name) == ["title"])
            #expect(try db.columns(in: "odd \" ; -- name").map(\.name) == ["a"])
        }
    }

    @Test("a primary key is the rowid under a name, hidden, or columns in the order of the key")
    func primaryKeys() throws {
        try queue.read { db throws in
            let author = try db.primaryKey("AUTHOR")
            #expect(author.columns == ["id"] && author.rowIDColumn == "id" && author.isRowID)
            let book = try db.primaryKey("book")
            #expect(book.columns == ["isbn"] && book.rowIDColumn == nil && !book.isRowID)
            let loan = try db.primaryKey("loan")
            #expect(loan.columns == ["book", "who"] && loan.rowIDColumn == nil && !loan.isRowID)
            let odd = try db.primaryKey("odd \" ; -- name")
            #expect(odd.columns == ["rowid"] && odd.rowIDColumn == nil && odd.isRowID)
        }
    }

    @Test("an INTEGER key of a table without rowids is no rowid")
    func integerKeyWithoutRowID() throws {
        try queue.write { db throws in
            try db.execute(sql: "CREATE TABLE t (a INTEGER PRIMARY KEY) WITHOUT ROWID")
            let key = try db.primaryKey("t")
            #expect(key.columns == ["a"] && key.rowIDColumn == nil && !key.isRowID)
            #expect(try !db.table("t", hasUniqueKey: ["rowid"]))
        }
    }

    @Test("indexes come with columns and origin; those on expressions are left out")
    func indexes() throws {
        try queue.read { db throws in
            let indexes = try db.indexes(on: "book").sorted { $0.origin.rawValue < $1.origin.rawValue }
            #expect(indexes.map(\.columns) == [["title", "length"], ["isbn"], ["title"]])
            #expect(indexes.map(\.origin) == [.createIndex, .primaryKeyConstraint, .uniqueConstraint])
            #expect(indexes.map(\.isUnique) == [false, true, true])
            #expect(indexes[0].name == "by_title")
            #expect(try db.indexes(on: "author").isEmpty)
        }
    }

    @Test("columns are a unique key when they hold the primary key or those of a unique index")
    func uniqueKeys() throws {
        try queue.read { db throws in
            #expect(try db.table("book", hasUniqueKey: ["ISBN"]) && db.table("book", hasUniqueKey: ["title"]))
            #expect(try db.table("book", hasUniqueKey: ["length", "title"]))
            #expect(try db.table("book", hasUniqueKey: ["rowid"]) && !db.table("book", hasUniqueKey: ["length"]))
            #expect(try db.table("loan", hasUniqueKey: ["who", "book"]) && !db.table("loan", hasUniqueKey: ["who"]))
            #expect(try !db.table("book", hasUniqueKey: []))
        }
    }

    @Test("foreign keys come with their columns; one that names none means the other table's primary key")
    func foreignKeys() throws {
        try queue.write { db throws in
            let book = try #require(db.foreignKeys(on: "book").first)
            #expect(book.destinationTable == "author")
            #expect(book.originColumns == ["authorId"] && book.destinationColumns == ["id"])
            let loan = try #require(db.foreignKeys(on: "loan").first)
            #expect(loan.originColumns == ["book", "who"] && loan.destinationColumns == ["b", "w"])
            #expect(try db.foreignKeys(on: "author").isEmpty)
            try db.execute(sql: "CREATE TABLE lost (a REFERENCES missing)")
            #expect(databaseError { try db.foreignKeys(on: "lost") }?.message == "no such table: missing")
        }
    }

    @Test("a view has no unique key, unless a schema source names one")
    func keysOfViews() throws {
        struct Source: DatabaseSchemaSource {
            func columnsForPrimaryKey(_ db: Database, inView view: DatabaseObjectID) throws -> [String]? {
                view.name == "v" ? ["A"] : nil
            }
        }
        for source in [nil, Source()] as [Source?] {
            var configuration = Configuration()
            configuration.schemaSource = source
            try DatabaseQueue(configuration: configuration).write { db in
                try db.execute(
                    sql: "CREATE TABLE t (a); CREATE VIEW v AS SELECT a, 1 AS b FROM t;"
                        + "CREATE TEMP VIEW w AS SELECT a FROM t")
                #expect(try db.table("v", hasUniqueKey: ["a", "b"]) == (source != nil))
                #expect(try !db.table("v", hasUniqueKey: ["b"]) && !db.table("w", hasUniqueKey: ["a"]))
                #expect(try !db.table("V", hasUniqueKey: ["rowid"]) && !db.table("v", hasUniqueKey: []))
            }
        }
    }

    @Test(
        "a table that does not exist is an error that names it",
        arguments: ["", "missing", "main.book", "book\0", "'; DROP TABLE book; --"])
    func missing(name: String) throws {
        try queue.read { db throws in
            let message = "no such table: \(name)"
            #expect(databaseError { try db.columns(in: name) }?.message == message)
            #expect(databaseError { try db.primaryKey(name) }?.message == message)
            #expect(databaseError { try db.indexes(on: name) }?.message == message)
            #expect(databaseError { try db.foreignKeys(on: name) }?.message == message)
            #expect(databaseError { try db.foreignKeyCheck(of: name) }?.message == message)
            #expect(databaseError { try db.table(name, hasUniqueKey: ["a"]) }?.message == message)
            #expect(databaseError { try db.columns(in: name, in: "x") }?.message == "no such schema: x")
            #expect(try db.tableExists("book"))
        }
    }

    @Test("a temporary table hides the one of its name, and a schema name tells them apart")
    func temporary() throws {
        try queue.write { db throws in
            #expect(try db.columns(in: "author").count == 2)
            try db.execute(sql: "CREATE TEMP TABLE author (x)")
            #expect(try db.columns(in: "author").map(\.name) == ["x"])
            #expect(try db.columns(in: "author", in: "main").count == 2)
            #expect(try db.primaryKey("author").columns == ["rowid"])
            #expect(try db.primaryKey("author", in: "main").columns == ["id"])
            #expect(try db.tableExists("author", in: "temp") && !db.tableExists("book", in: "temp"))
            try db.execute(sql: "DROP TABLE temp.author")
            #expect(try db.columns(in: "author").count == 2)
        }
    }

    @Test("an attached database in memory has a schema of its own")
    func attached() throws {
        try queue.writeWithoutTransaction { db throws in
            try db.execute(sql: "ATTACH ':memory:' AS \"other one\"; CREATE TABLE \"other one\".t (a PRIMARY KEY)")
            #expect(try db.tableExists("t") && db.tableExists("t", in: "OTHER ONE") && !db.tableExists("t", in: "main"))
            #expect(try db.primaryKey("t").columns == ["a"])
            #expect(try db.indexes(on: "t").map(\.columns) == [["a"]])
            try db.execute(sql: "DETACH \"other one\"")
            #expect(try !db.tableExists("t"))
            #expect(databaseError { try db.tableExists("t", in: "other one") } != nil)
        }
    }
}
