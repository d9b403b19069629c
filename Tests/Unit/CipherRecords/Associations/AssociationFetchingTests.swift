import CipherDatabase
import CipherSchema
import Testing

@testable import CipherRecords

@Suite("Records with those of their associations")
struct AssociationFetchingTests {
    private typealias Author = Library.Author
    private typealias Award = Library.Award
    private typealias Book = Library.Book
    private typealias Country = Library.Country

    private func read(_ body: (Database) throws -> Void) throws { try Library.queue().read(body) }

    private struct BookInfo: Codable, FetchableRecord, Equatable {
        var book: Book
        var author: Author?
        var country: Country?
    }

    private struct AuthorInfo: Decodable, FetchableRecord {
        var author: Author
        var books: [Book]
        var awards: Set<Award>?
        var bookCount: Int?
    }

    @Test("joined rows are scopes, and nested records")
    func scopes() throws {
        try read { db in
            let request = Book.including(optional: Book.author.including(optional: Author.country)).orderByPrimaryKey()
            let infos = try BookInfo.fetchAll(db, request)
            #expect(infos.map(\.book.title) == ["Swann", "Ulysses", "Dubliners", "Anonymous"])
            #expect(infos.map(\.author?.name) == ["Proust", "Joyce", "Joyce", nil])
            #expect(infos.map(\.country?.name) == ["France", "Ireland", "Ireland", nil])
            let row = try #require(try Row.fetchOne(db, request))
            #expect(row.scopes["author"]?.scopes["country"]?["name"] == "France")
            let (author, country): (Author, Country) = (row["author"], row["country"])
            #expect(author.name == "Proust" && country.code == "FR")
            let rows = try Row.fetchAll(db, request)
            let absent: Author? = rows[3]["author"]
            #expect(absent == nil)
            #expect(throws: RowDecodingError.self) { try rows[3].decode(Author.self, forKey: "author") }
            #expect(throws: RowDecodingError.self) { try rows[0].decode(Author.self, forKey: "nobody") }
            try #expect(rows[0].decodeIfPresent(Author.self, forKey: "author")?.id == 1)
            try #expect(request.asRequest(of: BookInfo.self).fetchOne(db)?.author?.name == "Proust")
        }
    }

    @Test("columns of an annotation are columns of the row, beside included scopes")
    func annotations() throws {
        try read { db in
            let request = Book.including(optional: Book.author)
                .annotated(withOptional: Book.country.select(Column("name").forKey("countryName")))
                .order(Column("id"))
            let rows = try Row.fetchAll(db, request)
            #expect(rows[0]["countryName"] == "France" && rows[3]["countryName"] == nil)
            #expect(rows[0].columnNames == ["id", "title", "year", "authorId", "countryName"])
            #expect(rows[0].scopes["author"]?["name"] == "Proust")
        }
    }

    // The DISTINCT was left out: the limit counted an author once for each book, and others were changed.
    @Test("the rows that a distinct request with a limit changes are those that it fetches")
    func distinctLimit() throws {
        try Library.queue().write { db in
            let writers = Author.joining(required: Author.books).distinct().order(Column("id").desc)
            for request in [writers.limit(1), writers.limit(1, offset: 1), writers.limit(5)] {
                let fetched = try request.fetchAll(db).map(\.id)
                let changed = try request.updateAndFetchAll(db, [Column("countryCode").set(to: nil)])
                #expect(changed.map(\.id).sorted() == fetched.sorted())
                #expect(try request.updateAll(db, [Column("countryCode").set(to: "FR")]) == fetched.count)
            }
            let perBook = Author.including(required: Author.books).distinct().limit(1)
            #expect(throws: DatabaseError.self) { try perBook.deleteAll(db) }
            #expect(throws: DatabaseError.self) { try writers.select(Column("name")).limit(1).deleteAll(db) }
            #expect(try writers.select(Column("name"), Column("id")).limit(1, offset: 1).fetchCount(db) == 1)
            #expect(try Author.fetchCount(db) == 3)
        }
    }

    @Test("all rows of an association are fetched by one query")
    func prefetched() throws {
        try read { db in
            let request = Author.including(all: Author.books.order { $0.year }).orderByPrimaryKey()
            var rows: [Row] = []
            let texts = try Library.traced(db) { rows = try Row.fetchAll(db, request) }
            #expect(
                texts == [
                    #"SELECT * FROM "author" ORDER BY "id""#,
                    #"SELECT *, "authorId" AS "grdb_authorId" FROM "book" WHERE "authorId" IN (?, ?, ?) ORDER BY "year""#,
                ])
            #expect(
                rows.map { $0.prefetchedRows["books"]?.map { $0["title"] as String } }
                    == [["Swann"], ["Dubliners", "Ulysses"], []])
            #expect(rows[0].prefetchedRows.keys == ["books"])
            let (list, set): ([Book], Set<Book>) = (rows[1]["books"], rows[1]["books"])
            #expect(list.map(\.id) == [3, 2] && set == Set(list))
            #expect(throws: RowDecodingError.self) { try rows[0].decode([Book].self, forKey: "awards") }
            let infos = try request.asRequest(of: AuthorInfo.self).fetchAll(db)
            #expect(infos.map { $0.books.map(\.title) } == [["Swann"], ["Dubliners", "Ulysses"], []])
            #expect(infos.map(\.author.name) == ["Proust", "Joyce", "Homer"])
            try #expect(AuthorInfo.fetchOne(db, request.filter(key: 2))?.books.count == 2)
            try #expect(Library.traced(db) { _ = try Row.fetchAll(db, request.none()) }.count == 1)
            #expect(throws: DatabaseError.self) { _ = try AuthorInfo.fetchCursor(db, request) }
            #expect(throws: DatabaseError.self) { _ = try Row.fetchCursor(db, request) }
        }
    }

    @Test("common table expressions of one name are one where they are equal, and an error where they differ")
    func commonTablesOfOneName() throws {
        func after(_ year: Int) -> CommonTableExpression<Void> {
            CommonTableExpression(named: "recent", request: Book.filter(Column("year") > year))
        }
        try read { db in
            let isRecent = SQL("id IN (SELECT id FROM recent)").sqlExpression
            for (year, count) in [(1900, 1), (1920, nil), (1900, 1), (1800, nil)] {
                let author = Book.author.with(after(1900)).filter(Column("name") == "Proust")
                let request = Book.with(after(year)).filter(literal: "book.\(isRecent)").joining(required: author)
                if let count {
                    try #expect(request.fetchCount(db) == count)
                } else {
                    #expect(throws: DatabaseError.self) { try request.fetchCount(db) }
                }
            }
            let other = CommonTableExpression<Void>(named: "RECENT", request: Author.all())
            #expect(throws: DatabaseError.self) {
                try Book.with(after(1900)).joining(required: Book.author.with(other)).fetchCount(db)
            }
        }
    }

    @Test("common table expressions that are joined read each other, in any order")
    func commonTablesThatReadEachOther() throws {
        try read { db in
            let old = CommonTableExpression<Row>(named: "old", sql: "SELECT id, authorId FROM book WHERE year < 1920")
            let names = CommonTableExpression<Row>(
                named: "writer", sql: "SELECT author.id, name FROM author JOIN old ON old.authorId = author.id")
            let toNames = old.association(to: names) { $0["authorId"] == $1["id"] }
            let toOld = names.association(to: old) { $0["id"] == $1["authorId"] }
            for request in [old.all().with(old).with(names), old.all().with(names).with(old)] {
                let rows = try Row.fetchAll(db, request.including(required: toNames).order(Column("id")))
                #expect(rows.map { $0.scopes["writer"]?["name"] as String? } == ["Proust", "Joyce"])
            }
            for request in [names.all().with(old).with(names), names.all().with(names).with(old)] {
                let rows = try Row.fetchAll(db, request.including(required: toOld).order(Column("id")))
                #expect(rows.map { $0.scopes["old"]?["id"] as Int? } == [1, 3])
            }
            // An inner query has tables of its own, and may hide those around it.
            let inner = CommonTableExpression<Row>(named: "old", sql: "SELECT 3 AS other, 2 AS authorId")
            let authors = Author.all().with(inner).joining(
                required: Author.association(to: inner) { $0["id"] == $1["authorId"] })
            let ids = authors.selectPrimaryKey(as: Int.self)
            let outer = Book.with(old).with(names).filter(ids.contains(Column("authorId")))
                .including(required: Book.association(to: names) { $0["authorId"] == $1["id"] })
            let rows = try Row.fetchAll(db, outer.order(Column("id")))
            #expect(rows.map { $0.scopes["writer"]?["name"] as String? } == ["Joyce", "Joyce"])
        }
    }

    // Its columns were asked for with the text of all siblings, one of which needs these columns.
    @Test("a common table expression that needs the columns of another one does not make that one circular")
    func columnsOfSiblings() throws {
        try read { db in
            let base = CommonTableExpression<Row>(named: "base", request: Book.select(Column("id"), Column("authorId")))
            let full = CommonTableExpression<Row>(
                named: "full",
                request: Author.select(Column("id").forKey("writer")).including(
                    required: Author.association(to: base) { $0["id"] == $1["authorId"] }
                ).withStableOrder())
            let toBase = Book.association(to: base) { $0["id"] == $1["id"] }
            let toFull = Book.association(to: full) { $0["authorId"] == $1["writer"] && $0["id"] == $1["id"] }
            for request in [Book.with(base).with(full), Book.with(full).with(base)] {
                let rows = try Row.fetchAll(
                    db, request.including(required: toBase).including(required: toFull).order(Column("id")))
                #expect(!rows.isEmpty)
                #expect(rows.allSatisfy { $0.scopes["base"]?["id"] as Int? == $0["id"] })
                #expect(rows.allSatisfy { $0.scopes["full"]?["writer"] as Int? == $0["authorId"] })
            }
            // One that needs its own columns still is.
            let circular = CommonTableExpression<Row>(
                named: "own",
                request: Author.including(
                    required: Author.association(to: CommonTableExpression<Row>(named: "own", sql: "")) {
                        $0["id"] == $1["id"]
                    }
                ).withStableOrder())
            let toCircular = Book.association(to: circular) { $0["id"] == $1["id"] }
            #expect(throws: DatabaseError.self) {
                try Row.fetchAll(db, Book.with(circular).including(required: toCircular))
            }
        }
    }

    @Test("an observation of the row that a record belongs to is not notified of others")
    func regionOfBelongsTo() throws {
        try read { db in
            let book = try #require(try Book.fetchOne(db, key: 1))
            func region<T>(_ request: QueryInterfaceRequest<T>) throws -> String {
                try request.databaseRegion(db).description
            }
            let one = "author(countryCode,id,name)[1]"
            try #expect(region(book.request(for: Book.author)) == one)
            try #expect(region(book.request(for: Book.author.filter(Column("name") == "x"))) == one)
            let orphan = try #require(try Book.fetchOne(db, key: 4))
            try #expect(region(orphan.request(for: Book.author)) == "empty")
            // Columns that are no rowid pin nothing, and neither does a table that is read twice.
            let author = try #require(try Author.fetchOne(db, key: 1))
            try #expect(region(author.request(for: Author.books)) == "book(authorId,id,title,year)")
            try #expect(region(author.request(for: Author.country)) == "country(code,name)")
            let child = try #require(try Library.Person.fetchOne(db, key: 2))
            let both = child.request(for: Library.Person.parent.including(optional: Library.Person.parent))
            try #expect(region(both) == "person(id,name,parentId)")
        }
    }

    @Test("a dump has the rows that a request includes")
    func dump() throws {
        try read { db in
            let stream = DumpedText()
            try db.dumpRequest(
                Author.including(all: Author.books.including(all: Book.awards.orderByPrimaryKey()).orderByPrimaryKey())
                    .orderByPrimaryKey(), to: stream)
            #expect(
                stream.text == """
                    1|Proust|FR
                    2|Joyce|IE
                    3|Homer|

                    books
                    1|Swann|1913|1
                    2|Ulysses|1922|2
                    3|Dubliners|1914|2

                    books.awards
                    1|Goncourt|1
                    2|Best|2
                    3|Longest|2

                    """)
            let one = DumpedText()
            try db.dumpRequest(AnyFetchRequest(Author.filter(key: 3).including(all: Author.books)), to: one)
            #expect(one.text == "3|Homer|\n\nbooks\n")
            let none = DumpedText()
            try db.dumpRequest(Author.none().including(all: Author.books), to: none)
            #expect(none.text == "\nbooks\n" || none.text.isEmpty)
        }
    }

    @Test("the same request finds its compiled statements again")
    func statementsAreKept() throws {
        try read { db in
            func fetch() throws {
                _ = try Row.fetchAll(db, Author.including(all: Author.awards).annotated(with: Author.books.count))
            }
            try fetch()
            let before = try db.records().statistics
            for _ in 0..<10 { try fetch() }
            let after = try db.records().statistics
            #expect(after.generated == before.generated && after.found == before.found + 20)
        }
    }

    @Test("rows through another association, and several associations at once")
    func through() throws {
        try read { db in
            var infos: [AuthorInfo] = []
            let request = Author.including(all: Author.books).including(all: Author.awards)
                .annotated(with: Author.books.count).orderByPrimaryKey()
            let texts = try Library.traced(db) { infos = try request.asRequest(of: AuthorInfo.self).fetchAll(db) }
            #expect(
                texts.last == #"SELECT "award".*, "book"."authorId" AS "grdb_authorId" FROM "award" JOIN "book" "#
                    + #"ON ("book"."id" = "award"."bookId") AND ("book"."authorId" IN (?, ?, ?))"#)
            #expect(infos.map { Set(($0.awards ?? []).map(\.name)) } == [["Goncourt"], ["Best", "Longest"], []])
            #expect(infos.map(\.bookCount) == [1, 2, 0])
            let siblings = try Row.fetchAll(db, Book.including(all: Book.siblings).orderByPrimaryKey())
            #expect(siblings.map { ($0["siblings"] as [Book]).map(\.id) } == [[1], [2, 3], [2, 3], []])
        }
    }

    @Test("prefetched rows have prefetched and joined rows of their own, and stand behind joined ones")
    func nested() throws {
        struct BookWithAwards: Decodable {
            var book: Book
            var awards: [Award]
        }
        struct Nested: Decodable, FetchableRecord {
            var country: Country
            var authors: [Inner]
            struct Inner: Decodable {
                var author: Author
                var profile: Library.Profile?
                var books: [BookWithAwards]
            }
        }
        struct Behind: Decodable, FetchableRecord {
            var award: Award
            var book: Outer
            struct Outer: Decodable {
                var title: String
                var awards: [Award]
            }
        }
        try read { db in
            let request = Country.including(
                all: Country.authors.including(optional: Author.profile)
                    .including(all: Author.books.including(all: Book.awards).orderByPrimaryKey())
            ).order(Column("code"))
            let countries = try request.asRequest(of: Nested.self).fetchAll(db)
            #expect(countries.map { $0.authors.map(\.author.name) } == [["Proust"], ["Joyce"]])
            #expect(countries.map { $0.authors.first?.profile?.bio } == ["ate cakes", nil])
            #expect(countries[1].authors[0].books.map { $0.awards.map(\.name) } == [["Best", "Longest"], []])
            let behind = try Behind.fetchAll(
                db, Award.including(required: Award.book.including(all: Book.awards)).orderByPrimaryKey())
            #expect(behind.map { $0.book.awards.map(\.id) } == [[1], [2, 3], [2, 3]])
        }
    }

    @Test("keys of two columns")
    func compositeKeys() throws {
        try read { db in
            var rows: [Row] = []
            let texts = try Library.traced(db) {
                rows = try Row.fetchAll(db, Library.Shelf.including(all: Library.Shelf.copies).orderByPrimaryKey())
            }
            #expect(rows.map { ($0["copies"] as [Library.Copy]).map(\.id) } == [[1, 2], [], [3]])
            #expect(
                texts.last
                    == #"WITH "grdb_base" AS (SELECT "room", "row" FROM "shelf") "#
                    + #"SELECT *, "shelfRoom" AS "grdb_shelfRoom", "shelfRow" AS "grdb_shelfRow" FROM "copy" "#
                    + #"WHERE ("shelfRoom", "shelfRow") IN "grdb_base""#)
        }
    }

    @Test("a missing link column, an ambiguous key and a record without the column are errors")
    func mistakes() throws {
        try read { db in
            #expect(throws: DatabaseError.self) {
                try Row.fetchAll(db, Author.select(Column("name")).including(all: Author.books))
            }
            #expect(throws: DatabaseError.self) {
                try Row.fetchAll(
                    db,
                    Author.including(all: Author.books.forKey("x"))
                        .including(all: Author.hasMany(Library.Profile.self, key: "x")))
            }
            struct Partial: Encodable, TableRecord, EncodableRecord {
                static let databaseTableName = "book"
                static let author = belongsTo(Author.self)
                var id = 1
            }
            #expect(throws: DatabaseError.self) { try Partial().request(for: Partial.author).fetchAll(db) }
        }
    }

    @Test("a common table expression is joined with its columns")
    func commonTables() throws {
        try read { db in
            let best = CommonTableExpression(named: "best", sql: "SELECT 2 AS id, 'first' AS place")
            let association = Author.association(to: best) { author, best in author["id"] == best["id"] }
            let rows = try Row.fetchAll(db, Author.with(best).including(optional: association).orderByPrimaryKey())
            #expect(rows.map { $0.scopes["best"]?["place"] as String? } == [nil, "first", nil])
        }
    }

    @Test("thousands of parents, and blobs for keys")
    func many() throws {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE shelf (room TEXT, row INTEGER, PRIMARY KEY (room, row));
                    CREATE TABLE copy (id INTEGER PRIMARY KEY, shelfRoom TEXT, shelfRow INTEGER,
                        FOREIGN KEY (shelfRoom, shelfRow) REFERENCES shelf(room, row));
                    CREATE TABLE owner (id BLOB PRIMARY KEY);
                    CREATE TABLE thing (id INTEGER PRIMARY KEY, ownerId BLOB REFERENCES owner(id));
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
                        INSERT INTO shelf SELECT 'r', i FROM n;
                    INSERT INTO copy SELECT NULL, 'r', row FROM shelf;
                    INSERT INTO owner SELECT CAST(row AS BLOB) FROM shelf;
                    INSERT INTO thing SELECT NULL, id FROM owner;
                    """)
            let shelves = try Row.fetchAll(db, Library.Shelf.including(all: Library.Shelf.copies))
            #expect(shelves.count == 1200)
            #expect(shelves.allSatisfy { ($0["copies"] as [Library.Copy]).map(\.shelfRow) == [$0["row"]] })
            let things = Table("owner").hasMany(Table("thing"))
            let owners = try Table("owner").including(all: things).fetchAll(db)
            #expect(
                owners.allSatisfy { $0.prefetchedRows["things"]?.map { $0["ownerId"] as DatabaseValue } == [$0["id"]] })
        }
    }

    @Test("random rows: prefetched rows and aggregates are those that Swift finds", arguments: 0..<20)
    func random(seed: UInt64) throws {
        var random = SeededGenerator(state: seed)
        let authors = (1...Int64.random(in: 1...12, using: &random)).map {
            Author(id: $0, name: "n\($0)", countryCode: nil)
        }
        let books = (1...Int64.random(in: 1...40, using: &random)).map { id in
            Book(
                id: id, title: "t", year: Int.random(in: 1...9, using: &random),
                authorId: Bool.random(using: &random) ? authors.randomElement(using: &random)?.id : nil)
        }
        let least = Int.random(in: 1...9, using: &random)
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(sql: Library.sql)
            for author in authors { try author.insert(db) }
            for book in books { try book.insert(db) }
            let association = Author.books.filter { $0.year >= least }.order { [$0.year, $0.id] }
            let rows = try Row.fetchAll(
                db,
                Author.including(all: association)
                    .annotated(with: association.count, association.max { $0.year }, association.isEmpty)
                    .orderByPrimaryKey())
            #expect(rows.count == authors.count)
            for (row, author) in zip(rows, authors) {
                let expected = books.filter { $0.authorId == author.id && $0.year >= least }
                    .sorted { ($0.year, $0.id) < ($1.year, $1.id) }
                #expect((row["books"] as [Book]) == expected, "seed \(seed)")
                #expect(row["bookCount"] == expected.count, "seed \(seed)")
                #expect(row["maxBookYear"] == expected.map(\.year).max(), "seed \(seed)")
                #expect(row["hasNoBook"] == expected.isEmpty, "seed \(seed)")
            }
        }
    }

    // MARK: Views

    private struct Recent: Codable, Equatable, FetchableRecord, PersistableRecord {
        static let key = ForeignKey(["authorId"])
        static let author = belongsTo(Author.self, using: key)
        var id: Int64
        var title: String
        var authorId: Int64?
    }

    private struct RecentInfo: Decodable, FetchableRecord {
        var recent: Recent
        var author: Author
    }

    // A view declares no foreign keys, and SQLite knows none of its own.
    @Test("a view stands on the side of an association that has the foreign key")
    func views() throws {
        try Library.queue().write { db throws in
            try db.execute(sql: "CREATE VIEW recent AS SELECT id, title, authorId FROM book WHERE year > 1913")
            let infos = try Recent.including(required: Recent.author).order(Column("title")).asRequest(
                of: RecentInfo.self
            )
            .fetchAll(db)
            #expect(infos.map(\.recent.title) == ["Dubliners", "Ulysses"])
            #expect(infos.map(\.author.name) == ["Joyce", "Joyce"])
            let recents = Author.hasMany(Recent.self, using: Recent.key)
            let rows = try Author.including(all: recents.order(Column("id"))).orderByPrimaryKey()
                .asRequest(of: Row.self).fetchAll(db)
            #expect(rows.map { $0.prefetchedRows["recents"]?.map { $0["id"] as Int } } == [[], [2, 3], []])
            #expect(try Author.joining(required: recents).distinct().fetchAll(db).map(\.name) == ["Joyce"])
            let one = try #require(try Recent.fetchOne(db))
            #expect(try one.request(for: Recent.author).fetchOne(db)?.name == "Joyce")
            #expect(try Author(id: 2, name: "").request(for: recents).fetchCount(db) == 2)
            let unsaid = #expect(throws: DatabaseError.self) {
                try Recent.including(required: Recent.belongsTo(Author.self)).fetchCount(db)
            }
            #expect(unsaid?.message?.hasPrefix("no foreign key leads from table recent to table author") == true)
            let keyless = #expect(throws: DatabaseError.self) {
                try Book.joining(required: Book.belongsTo(Recent.self, using: ForeignKey(["id"]))).fetchCount(db)
            }
            #expect(keyless?.message?.hasPrefix("view recent has no primary key") == true)
            let missing = #expect(throws: DatabaseError.self) {
                try Table("ghost").joining(required: Table("ghost").belongsTo(Author.self)).fetchCount(db)
            }
            #expect(missing?.message == "no such table: ghost")
        }
    }
}

/// The output of a dump.
private final class DumpedText: TextOutputStream {
    private(set) var text = ""
    func write(_ string: String) { text += string }
}
