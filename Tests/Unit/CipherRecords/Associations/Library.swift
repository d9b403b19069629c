import CipherDatabase

@testable import CipherRecords

/// Authors and their books: the tables and records of the tests of associations.
enum Library {
    static let tables = [
        SchemaFacts.Table(name: "country", columns: ["code", "name"], key: ["code"], isRowID: false),
        SchemaFacts.Table(
            name: "author", columns: ["id", "name", "countryCode"],
            references: [.init(table: "country", mapping: [("countryCode", "code")])]),
        SchemaFacts.Table(
            name: "book", columns: ["id", "title", "year", "authorId"],
            references: [.init(table: "author", mapping: [("authorId", "id")])]),
        SchemaFacts.Table(
            name: "award", columns: ["id", "name", "bookId"],
            references: [.init(table: "book", mapping: [("bookId", "id")])]),
        SchemaFacts.Table(
            name: "profile", columns: ["id", "bio", "authorId"],
            references: [.init(table: "author", mapping: [("authorId", "id")])]),
        SchemaFacts.Table(
            name: "person", columns: ["id", "name", "parentId"],
            references: [.init(table: "person", mapping: [("parentId", "id")])]),
        SchemaFacts.Table(
            name: "letter", columns: ["id", "senderId", "recipientId"],
            references: [
                .init(table: "person", mapping: [("senderId", "id")]),
                .init(table: "person", mapping: [("recipientId", "id")]),
            ]),
        SchemaFacts.Table(name: "shelf", columns: ["room", "row"], key: ["room", "row"], isRowID: false),
        SchemaFacts.Table(
            name: "copy", columns: ["id", "shelfRoom", "shelfRow"],
            references: [.init(table: "shelf", mapping: [("shelfRoom", "room"), ("shelfRow", "row")])]),
        SchemaFacts.Table(
            name: "loan", columns: ["personId", "bookId"], key: ["personId", "bookId"], isRowID: false, hasRowID: false,
            references: [
                .init(table: "person", mapping: [("personId", "id")]),
                .init(table: "book", mapping: [("bookId", "id")]),
            ]),
    ]

    static let sql = """
        CREATE TABLE country (code TEXT PRIMARY KEY, name TEXT);
        CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT, countryCode TEXT REFERENCES country(code));
        CREATE TABLE book (
            id INTEGER PRIMARY KEY, title TEXT, year INTEGER, authorId INTEGER REFERENCES author(id));
        CREATE TABLE award (id INTEGER PRIMARY KEY, name TEXT, bookId INTEGER REFERENCES book(id));
        CREATE TABLE profile (id INTEGER PRIMARY KEY, bio TEXT, authorId INTEGER UNIQUE REFERENCES author(id));
        CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, parentId INTEGER REFERENCES person(id));
        CREATE TABLE letter (
            id INTEGER PRIMARY KEY, senderId INTEGER REFERENCES person(id),
            recipientId INTEGER REFERENCES person(id));
        CREATE TABLE shelf (room TEXT, row INTEGER, PRIMARY KEY (room, row));
        CREATE TABLE copy (
            id INTEGER PRIMARY KEY, shelfRoom TEXT, shelfRow INTEGER,
            FOREIGN KEY (shelfRoom, shelfRow) REFERENCES shelf(room, row));
        CREATE TABLE loan (
            personId INTEGER REFERENCES person(id), bookId INTEGER REFERENCES book(id),
            PRIMARY KEY (personId, bookId)) WITHOUT ROWID;
        """

    static let rows = """
        INSERT INTO country VALUES ('FR', 'France'), ('IE', 'Ireland');
        INSERT INTO author VALUES (1, 'Proust', 'FR'), (2, 'Joyce', 'IE'), (3, 'Homer', NULL);
        INSERT INTO book VALUES
            (1, 'Swann', 1913, 1), (2, 'Ulysses', 1922, 2), (3, 'Dubliners', 1914, 2), (4, 'Anonymous', 1800, NULL);
        INSERT INTO award VALUES (1, 'Goncourt', 1), (2, 'Best', 2), (3, 'Longest', 2);
        INSERT INTO profile VALUES (1, 'ate cakes', 1);
        INSERT INTO person VALUES (1, 'Ann', NULL), (2, 'Bob', 1), (3, 'Cid', 1), (4, 'Dan', 2);
        INSERT INTO letter VALUES (1, 1, 2), (2, 2, 1);
        INSERT INTO shelf VALUES ('a', 1), ('a', 2), ('b', 1);
        INSERT INTO copy VALUES (1, 'a', 1), (2, 'a', 1), (3, 'b', 1), (4, NULL, 1);
        INSERT INTO loan VALUES (1, 1), (1, 2), (2, 2);
        """

    static func queue() throws -> DatabaseQueue {
        let queue = DatabaseQueue()
        try queue.write { try $0.execute(sql: sql + rows) }
        return queue
    }

    /// The SQL that a connection runs during a block, without its own housekeeping.
    static func traced(_ db: Database, _ body: () throws -> Void) rethrows -> [String] {
        let log = TraceLog()
        db.trace { log.add($0.description) }
        defer { db.trace(nil) }
        try body()
        return log.texts.filter { text in
            !["--", "PRAGMA", "pragma", "sqlite_schema"].contains { text.contains($0) }
        }
    }

    struct Country: Codable, Hashable, FetchableRecord, PersistableRecord {
        static let authors = hasMany(Author.self)
        static let books = hasMany(Book.self, through: authors, using: Author.books)
        var code: String
        var name: String
    }

    struct Author: Codable, Hashable, FetchableRecord, PersistableRecord {
        enum Columns {
            static let id = Column("id")
            static let name = Column("name")
            static let countryCode = Column("countryCode")
        }
        static let country = belongsTo(Country.self)
        static let books = hasMany(Book.self)
        static let profile = hasOne(Profile.self)
        static let awards = hasMany(Award.self, through: books, using: Book.awards)
        var id: Int64
        var name: String
        var countryCode: String?
    }

    struct Book: Codable, Hashable, FetchableRecord, PersistableRecord {
        enum Columns {
            static let id = Column("id")
            static let title = Column("title")
            static let year = Column("year")
        }
        static let author = belongsTo(Author.self)
        static let awards = hasMany(Award.self)
        static let country = hasOne(Country.self, through: author, using: Author.country)
        static let siblings = hasMany(Book.self, through: author, using: Author.books, key: "siblings")
        var id: Int64
        var title: String
        var year: Int
        var authorId: Int64?
    }

    struct Award: Codable, Hashable, FetchableRecord, PersistableRecord {
        static let book = belongsTo(Book.self)
        static let author = hasOne(Author.self, through: book, using: Book.author)
        var id: Int64
        var name: String
        var bookId: Int64?
    }

    struct Profile: Codable, Hashable, FetchableRecord, PersistableRecord {
        static let author = belongsTo(Author.self)
        var id: Int64
        var bio: String
    }

    struct Person: Codable, Hashable, FetchableRecord, PersistableRecord {
        static let parent = belongsTo(Person.self, key: "parent", using: ForeignKey(["parentId"]))
        static let children = hasMany(Person.self, key: "children", using: ForeignKey(["parentId"]))
        static let loans = hasMany(Loan.self)
        var id: Int64
        var name: String
        var parentId: Int64?
    }

    struct Letter: Codable, Hashable, FetchableRecord, PersistableRecord {
        static let person = belongsTo(Person.self)
        static let sender = belongsTo(Person.self, key: "sender", using: ForeignKey(["senderId"]))
        static let recipient = belongsTo(Person.self, key: "recipient", using: ForeignKey([Column("recipientId")]))
        var id: Int64
    }

    struct Loan: Codable, Hashable, FetchableRecord, PersistableRecord {
        static let person = belongsTo(Person.self)
        var personId: Int64
        var bookId: Int64
    }

    struct Shelf: Codable, Hashable, FetchableRecord, PersistableRecord {
        static let copies = hasMany(Copy.self)
        var room: String
        var row: Int
    }

    struct Copy: Codable, Hashable, FetchableRecord, PersistableRecord {
        static let shelf = belongsTo(Shelf.self)
        var id: Int64
        var shelfRoom: String?
        var shelfRow: Int?
    }
}

/// The texts that a trace reports.
private final class TraceLog {
    private(set) var texts: [String] = []
    func add(_ text: String) { texts.append(text) }
}

/// Random numbers that are the same for the same seed.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
