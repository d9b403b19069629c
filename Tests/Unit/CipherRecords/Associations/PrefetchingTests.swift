import CipherDatabase
import Foundation
import Testing

@testable import CipherRecords

@Suite("Rows that are fetched with those of a request")
struct PrefetchingTests {
    private typealias Author = Library.Author
    private typealias Award = Library.Award
    private typealias Book = Library.Book
    private typealias Copy = Library.Copy
    private typealias Country = Library.Country
    private typealias Person = Library.Person
    private typealias Shelf = Library.Shelf

    private func ids(_ row: Row, _ key: String) -> [Int] {
        (row.prefetchedRows[key] ?? []).map { $0["id"] as Int }
    }

    private func texts<T>(_ request: QueryInterfaceRequest<T>, isOne: Bool = false) throws -> [String] {
        try Library.queue().read { db in
            try Library.traced(db) {
                if isOne { _ = try Row.fetchOne(db, request) } else { _ = try Row.fetchAll(db, request) }
            }
        }
    }

    // MARK: SQL

    @Test("rows behind joined tables are found by the columns of the request")
    func behindJoins() throws {
        let second =
            #"SELECT "award".*, "book"."id" AS "grdb_id" FROM "award" JOIN "book" ON ("book"."id" = "award"."bookId") "#
            + #"AND ("book"."title" <> ?) AND ("book"."id" IN (?, ?)) WHERE "award"."name" <> ? ORDER BY "award"."id""#
        let book = Award.book.filter { $0.title != "x" }.including(
            all: Book.awards.filter(Column("name") != "y").orderByPrimaryKey())
        for request in [Award.including(optional: book), Award.joining(optional: book)] {
            try #expect(texts(request).last == second)
        }
        let country = Author.country.including(all: Country.authors.orderByPrimaryKey())
        let far =
            #"SELECT "author1".*, "author2"."id" AS "grdb_id" FROM "author" "author1" "#
            + #"JOIN "country" ON "country"."code" = "author1"."countryCode" JOIN "author" "author2" "#
            + #"ON ("author2"."countryCode" = "country"."code") AND ("author2"."id" IN (?, ?)) ORDER BY "author1"."id""#
        try #expect(texts(Book.joining(optional: Book.author.joining(optional: country))).last == far)
        let through = Book.hasOne(Country.self, through: Book.author, using: Author.country)
            .including(all: Country.authors.orderByPrimaryKey())
        for request in [Book.including(optional: through), Book.joining(optional: through)] {
            try #expect(texts(request).last == far)
        }
    }

    @Test("tables on the way to fetched rows are one, where they have one key")
    func sharedPivots() throws {
        let early = Author.hasMany(
            Award.self, through: Author.books.filter { $0.year < 1920 }, using: Book.awards, key: "earlyAwards")
        let late = Author.hasMany(
            Award.self, through: Author.books.filter { $0.year >= 1920 }, using: Book.awards, key: "lateAwards")
        let conditions = #"("book"."year" < ?) AND ("book"."year" >= ?) AND ("book"."authorId" IN (?, ?, ?))"#
        let shared = try texts(Author.including(all: early).including(all: late))
        #expect(shared.count == 3 && shared[1...].allSatisfy { $0.contains(conditions) })
        let own = Author.hasMany(
            Award.self, through: Author.books.filter { $0.year >= 1920 }.forKey("lateBooks"), using: Book.awards,
            key: "lateAwards")
        let separate = try texts(Author.including(all: early).including(all: own))
        #expect(separate.count == 3 && !separate[1...].contains { $0.contains(conditions) })
        // The table itself is fetched as well, by a query of its own.
        try #expect(texts(Author.including(all: Author.awards).including(all: Author.books)).count == 3)
    }

    @Test("a table that is joined on the way is joined by the query of the rows too")
    func joinedPivots() throws {
        let awards = Author.hasMany(
            Award.self, through: Author.books.including(required: Book.author.filter { $0.name != "x" }),
            using: Book.awards)
        try #expect(
            texts(Author.including(all: awards).orderByPrimaryKey()).last
                == #"SELECT "award".*, "book"."authorId" AS "grdb_authorId" FROM "award" "#
                + #"JOIN "book" ON ("book"."id" = "award"."bookId") AND ("book"."authorId" IN (?, ?, ?)) "#
                + #"JOIN "author" ON ("author"."id" = "book"."authorId") AND ("author"."name" <> ?)"#)
    }

    @Test("rows by keys of several columns are found by the request itself, unless it might find others")
    func compositeKeys() throws {
        let shelf = Shelf.filter(Column("room") == "a").order(Column("row").desc)
        let columns = #""shelfRoom" AS "grdb_shelfRoom", "shelfRow" AS "grdb_shelfRow""#
        try #expect(
            texts(shelf.including(all: Shelf.copies.filter(Column("id") > 0))).last
                == #"WITH "grdb_base" AS (SELECT "room", "row" FROM "shelf" WHERE "room" = ?) SELECT *, \#(columns) "#
                + #"FROM "copy" WHERE ("id" > ?) AND (("shelfRoom", "shelfRow") IN "grdb_base")"#)
        try #expect(
            texts(shelf.limit(2).including(all: Shelf.copies)).last
                == #"SELECT *, \#(columns) FROM "copy" WHERE ("shelfRoom", "shelfRow") IN (VALUES (?, ?), (?, ?))"#)
        try #expect(
            texts(shelf.including(all: Shelf.copies), isOne: true).last
                == #"SELECT *, \#(columns) FROM "copy" WHERE ("shelfRoom" = ?) AND ("shelfRow" = ?)"#)
        // A request within a request.
        let siblings = Copy.hasMany(Copy.self, through: Copy.shelf, using: Shelf.copies, key: "siblings")
        let request = Shelf.including(all: Shelf.copies.including(all: siblings)).orderByPrimaryKey()
        try #expect(
            texts(request).last
                == #"WITH "grdb_base" AS (WITH "grdb_base" AS (SELECT "room", "row" FROM "shelf") "#
                + #"SELECT "shelfRoom", "shelfRow" FROM "copy" WHERE ("shelfRoom", "shelfRow") IN "grdb_base") "#
                + #"SELECT "copy".*, "shelf"."room" AS "grdb_room", "shelf"."row" AS "grdb_row" FROM "copy" "#
                + #"JOIN "shelf" ON ("shelf"."room" = "copy"."shelfRoom") AND ("shelf"."row" = "copy"."shelfRow") "#
                + #"AND (("shelf"."room", "shelf"."row") IN "grdb_base")"#)
        try Library.queue().read { db in
            let rows = try Row.fetchAll(db, request)
            let ids = rows.map { row in row.prefetchedRows["copies"]?.map { self.ids($0, "siblings") } }
            #expect(ids == [[[1, 2], [1, 2]], [], [[3]]])
            let one = try Row.fetchOne(db, request)
            #expect(one.map { self.ids($0, "copies") } == [1, 2])
        }
    }

    @Test("where the request has all rows of a table, all rows that refer to it are read at once")
    func wholeTables() throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        try DatabaseQueue(configuration: configuration).write { db in
            try db.execute(
                sql: Library.sql + """
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
                        INSERT INTO author SELECT i * 7, 'name', NULL FROM n;
                    INSERT INTO book SELECT NULL, 'title', id % 50, id FROM author WHERE id % 5 <> 0 ORDER BY id % 11;
                    INSERT INTO book VALUES (10000, 'lost', 1, 3), (10001, 'anonymous', 1, NULL);
                    """)
            let books = Author.books.filter { $0.year > 10 }.order { $0.id.desc }
            for (request, condition) in [
                (Author.all(), #""authorId" IS NOT NULL"#), (Author.limit(101), #""authorId" IN "#),
                (Author.filter { $0.id > 0 }, #""authorId" IN "#), (Author.limit(100), #""authorId" IN "#),
            ] {
                var rows: [Row] = []
                let texts = try Library.traced(db) {
                    rows = try Row.fetchAll(db, request.orderByPrimaryKey().including(all: books))
                }
                #expect(texts.count == 2 && texts[1].contains(condition))
                for row in rows {
                    let expected = try Int.fetchAll(
                        db, sql: "SELECT id FROM book WHERE authorId = ? AND year > 10 ORDER BY id DESC",
                        arguments: [row["id"] as Int])
                    #expect(ids(row, "books") == expected)
                }
            }
        }
    }

    // MARK: Rows

    @Test("where several rows are joined to one, each has its own rows")
    func joinedToMany() throws {
        try Library.queue().read { db in
            let rows = try Row.fetchAll(
                db,
                Author.including(required: Author.books.order { $0.id }.including(all: Book.awards))
                    .orderByPrimaryKey())
            #expect(rows.map { ids($0, "awards") } == [[1], [2, 3], []])
            #expect(rows[1].scopes["book"]?.prefetchedRows["awards"]?.count == 2)
        }
    }

    @Test("rows print how many rows they have of each association, and compare them")
    func description() throws {
        try Library.queue().read { db in
            let books = try #require(try Row.fetchOne(db, Author.filter(key: 2).including(all: Author.books)))
            #expect(
                books.debugDescription
                    == """
                    ▿ [id:2 name:"Joyce" countryCode:"IE"]
                      + books: 2 rows
                    """)
            let request = Award.filter(key: 1).including(required: Award.book.including(all: Book.awards))
            let award = try #require(try Row.fetchOne(db, request))
            #expect(
                award.debugDescription
                    == """
                    ▿ [id:1 name:"Goncourt" bookId:1]
                      unadapted: [id:1 name:"Goncourt" bookId:1 id:1 title:"Swann" year:1913 authorId:1]
                      - book: [id:1 title:"Swann" year:1913 authorId:1]
                        + awards: 1 row
                      + awards: 1 row
                    """)
            let (plain, again) = (try Row.fetchOne(db, Author.filter(key: 2)), try Row.fetchOne(db, request))
            let empty = try Row.fetchOne(db, Author.filter(key: 2).including(all: Author.books.none()))
            #expect(books.unscoped == plain && books != plain && books != empty && empty != plain)
            #expect(again == award && books.copy() == books)
            #expect(plain?.prefetchedRows.isEmpty == true && empty?.prefetchedRows.isEmpty == false)
            #expect(empty?.prefetchedRows["books"] == [] && plain?.prefetchedRows["books"] == nil)
            let country = try Row.fetchOne(
                db,
                Author.including(all: Author.hasMany(Book.self, through: Author.country, using: Country.books)))
            #expect(country?.prefetchedRows.keys == ["books"] && country?.scopes.isEmpty == true)
        }
    }

    @Test("columns are compared as SQLite compares them, by their affinity and collation")
    func comparison() throws {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE parent (id INTEGER PRIMARY KEY, code TEXT, mixed);
                    INSERT INTO parent VALUES (1, 'abc', 1), (2, 'ABC', '1'), (3, 'é', 1.0), (4, 'e\u{301}', x'31');
                    CREATE TABLE child (
                        id INTEGER PRIMARY KEY, textId TEXT, realId REAL, code TEXT COLLATE NOCASE,
                        plain TEXT, mixed, mixedText TEXT);
                    INSERT INTO child VALUES
                        (1, '1', 1, 'Abc', 'abc', 1, '1'), (2, '2', 2, 'abc', 'é', '1', '1.0'),
                        (3, '01', 3.5, 'x', 'e\u{301}', 1.0, NULL), (4, NULL, NULL, NULL, NULL, x'31', '01');
                    CREATE VIEW shown AS SELECT * FROM child;
                    """)
            for (left, right) in [
                ("id", "textId"), ("id", "realId"), ("code", "code"), ("code", "plain"), ("mixed", "mixed"),
                ("mixed", "textId"), ("mixed", "mixedText"), ("code", "id"),
            ] {
                for table in ["child", "shown"] {
                    let children = Table("parent").hasMany(
                        Table(table), key: "children", using: ForeignKey([right], to: [left])
                    ).order(Column("id"))
                    let rows = try Table("parent").including(all: children).order(Column("id")).fetchAll(db)
                    for row in rows {
                        let expected = try Int.fetchAll(
                            db,
                            sql: "SELECT c.id FROM parent JOIN \(table) c ON c.\(right) = parent.\(left) "
                                + "WHERE parent.id = ? ORDER BY c.id", arguments: [row["id"] as Int])
                        let found = ids(row, "children")
                        #expect(found == expected, "\(left) \(right) \(row)")
                    }
                    // Columns of two tables without a type are compared as they are.
                    if left == "mixed" { continue }
                    let both = Table("parent").hasMany(
                        Table(table), key: "children", using: ForeignKey([right, "mixed"], to: [left, "mixed"])
                    ).order(Column("id"))
                    for row in try Table("parent").including(all: both).order(Column("id")).fetchAll(db) {
                        let expected = try Int.fetchAll(
                            db,
                            sql: "SELECT c.id FROM parent JOIN \(table) c ON c.\(right) = parent.\(left) "
                                + "AND c.mixed = parent.mixed WHERE parent.id = ? ORDER BY c.id",
                            arguments: [row["id"] as Int])
                        let found = ids(row, "children")
                        #expect(found == expected, "\(left) \(right) and mixed, \(row)")
                    }
                }
            }
        }
    }

    @Test("more rows than SQLite takes parameters")
    func manyRows() throws {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE parent (id INTEGER PRIMARY KEY, a INTEGER, b TEXT);
                    CREATE TABLE child (id INTEGER PRIMARY KEY, parentId INTEGER REFERENCES parent(id), a INTEGER, b TEXT);
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
                        INSERT INTO parent SELECT i, i, 'b' FROM n;
                    INSERT INTO child SELECT NULL, id, a, b FROM parent WHERE id % 10 = 0 ORDER BY id DESC;
                    CREATE INDEX child_a ON child(a);
                    """)
            let parents = Table("parent")
            let byID = parents.hasMany(Table("child"))
            let byBoth = parents.hasMany(Table("child"), key: "pairs", using: ForeignKey(["a", "b"], to: ["a", "b"]))
            for request in [parents.all(), parents.limit(39_999)] {
                let rows = try request.including(all: byID).including(all: byBoth).order(Column("id")).fetchAll(db)
                let areRight = rows.allSatisfy { row in
                    let id = row["id"] as Int
                    let expected = id % 10 == 0 ? [id] : []
                    return row.prefetchedRows["children"]?.map { $0["parentId"] as Int } == expected
                        && row.prefetchedRows["pairs"]?.map { $0["a"] as Int } == expected
                }
                #expect(rows.count >= 39_999 && areRight)
            }
        }
    }

    // MARK: Other statements

    @Test("a deep tree of joins is an error of SQLite, and a deep tree of fetched rows is none")
    func deepTrees() throws {
        var parent = Person.parent
        var children = Person.children
        for _ in 0..<70 { (parent, children) = (Person.parent.including(optional: parent), children) }
        for _ in 0..<5 { children = Person.children.including(all: children) }
        let (joined, fetched) = (Person.including(optional: parent), Person.including(all: children))
        try Library.queue().read { db in
            let error = #expect(throws: DatabaseError.self) { try Row.fetchAll(db, joined) }
            #expect(error?.message?.contains("64 tables") == true)
            let rows = try Row.fetchAll(db, fetched.orderByPrimaryKey())
            #expect(ids(rows[0], "children") == [2, 3])
        }
    }
}

/// Random rows of five tables, compared with what Swift finds in them.
@Suite("Rows that are fetched with those of a request, by random")
struct RandomPrefetchingTests {
    struct Team: TableRecord, Hashable {
        static let players = hasMany(Player.self, using: ForeignKey(["teamId"]))
        static let locals = hasMany(
            Player.self, key: "locals", using: ForeignKey(["city", "code"], to: ["city", "code"]))
        var id: Int
        var city: String?
        var code: Int?
    }

    struct Player: TableRecord, Hashable {
        static let mentor = belongsTo(Player.self, key: "mentor", using: ForeignKey(["mentorId"]))
        static let pupils = hasMany(Player.self, key: "pupils", using: ForeignKey(["mentorId"]))
        static let badges = hasMany(Badge.self)
        static let stays = hasMany(Stay.self)
        static let clubs = hasMany(Club.self, through: stays, using: Stay.club)
        var id: Int
        var teamId: Int?
        var city: String?
        var code: Int?
        var mentorId: Int?
    }

    struct Badge: TableRecord, Hashable {
        var id: Int
        var playerId: Int?
    }

    struct Stay: TableRecord, Hashable {
        static let club = belongsTo(Club.self)
        var playerId: Int?
        var clubId: Int?
    }

    struct Club: TableRecord, Hashable {
        var id: Int
    }

    private struct World {
        var teams: [Team] = []
        var players: [Player] = []
        var badges: [Badge] = []
        var stays: [Stay] = []
        var clubs: [Club] = []

        init(_ random: inout SeededGenerator) {
            func some<T>(_ values: ClosedRange<T>) -> T? where T: FixedWidthInteger {
                Int.random(in: 0..<5, using: &random) == 0 ? nil : T.random(in: values, using: &random)
            }
            let cities = ["a", "A", "é", "e\u{301}", "1"]
            let count = Int.random(in: 1...9, using: &random)
            teams = (1...count).map { Team(id: $0 * 3, city: cities.randomElement(using: &random), code: some(1...2)) }
            players = (1...Int.random(in: 1...20, using: &random)).map { id in
                Player(
                    id: id, teamId: some(1...count).map { $0 * 3 }, city: cities.randomElement(using: &random),
                    code: some(1...2), mentorId: some(1...20))
            }
            badges = (1...20).map { Badge(id: $0, playerId: some(1...20)) }
            clubs = (1...5).map { Club(id: $0) }
            // The same pair may be there twice.
            stays = (1...30).map { _ in Stay(playerId: some(1...20), clubId: some(1...5)) }
        }

        func insert(_ db: Database) throws {
            try db.execute(
                sql: """
                    CREATE TABLE team (id INTEGER PRIMARY KEY, city TEXT, code INTEGER);
                    CREATE TABLE player (
                        id INTEGER PRIMARY KEY, teamId INTEGER, city TEXT, code INTEGER, mentorId INTEGER);
                    CREATE TABLE badge (id INTEGER PRIMARY KEY, playerId INTEGER REFERENCES player(id));
                    CREATE TABLE club (id INTEGER PRIMARY KEY);
                    CREATE TABLE stay (
                        playerId INTEGER REFERENCES player(id), clubId INTEGER REFERENCES club(id));
                    PRAGMA foreign_keys = OFF;
                    """)
            for row in teams {
                try db.execute(sql: "INSERT INTO team VALUES (?, ?, ?)", arguments: [row.id, row.city, row.code])
            }
            for row in players {
                try db.execute(
                    sql: "INSERT INTO player VALUES (?, ?, ?, ?, ?)",
                    arguments: [row.id, row.teamId, row.city, row.code, row.mentorId])
            }
            for row in badges {
                try db.execute(sql: "INSERT INTO badge VALUES (?, ?)", arguments: [row.id, row.playerId])
            }
            for row in clubs { try db.execute(sql: "INSERT INTO club VALUES (?)", arguments: [row.id]) }
            for row in stays {
                try db.execute(sql: "INSERT INTO stay VALUES (?, ?)", arguments: [row.playerId, row.clubId])
            }
        }

        func pupils(of id: Int?) -> [Player] { id == nil ? [] : players.filter { $0.mentorId == id } }
        func badges(of id: Int?) -> [Int] { id == nil ? [] : badges.filter { $0.playerId == id }.map(\.id) }
        func clubs(of id: Int) -> [Int] {
            stays.filter { $0.playerId == id }.compactMap(\.clubId).sorted()
        }
        func isLocal(_ player: Player, _ team: Team) -> Bool {
            guard let city = player.city, let wanted = team.city, let code = player.code else { return false }
            return Array(city.utf8) == Array(wanted.utf8) && code == team.code
        }
    }

    @Test("random rows are prefetched with the rows that refer to them", arguments: 0..<40)
    func random(seed: UInt64) throws {
        var random = SeededGenerator(state: seed)
        let world = World(&random)
        let least = Int.random(in: 0...10, using: &random)
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        try DatabaseQueue(configuration: configuration).write { db in
            try world.insert(db)
            func ids(_ row: Row, _ key: String) -> [Int] { (row.prefetchedRows[key] ?? []).map { $0["id"] as Int } }

            let players = Team.players.filter(Column("id") >= least).orderByPrimaryKey()
            let teams = try Row.fetchAll(
                db,
                Team.including(all: players.including(all: Player.badges.orderByPrimaryKey()))
                    .including(all: Team.locals.order(Column("id").desc)).orderByPrimaryKey())
            for (row, team) in zip(teams, world.teams) {
                let own = world.players.filter { $0.teamId == team.id && $0.id >= least }
                #expect(ids(row, "players") == own.map(\.id), "seed \(seed)")
                let badges = row.prefetchedRows["players"]?.map { ids($0, "badges") }
                #expect(badges == own.map { world.badges(of: $0.id) }, "seed \(seed)")
                let locals = world.players.filter { world.isLocal($0, team) }
                #expect(ids(row, "locals") == locals.reversed().map(\.id), "seed \(seed)")
            }

            let request = Player.including(
                all: Player.pupils.orderByPrimaryKey().including(all: Player.pupils.orderByPrimaryKey())
            ).including(all: Player.clubs.orderByPrimaryKey())
                .including(optional: Player.mentor.including(all: Player.badges.orderByPrimaryKey()))
                .orderByPrimaryKey()
            for (row, player) in zip(try Row.fetchAll(db, request), world.players) {
                let pupils = world.pupils(of: player.id)
                #expect(ids(row, "pupils") == pupils.map(\.id), "seed \(seed)")
                let inner = row.prefetchedRows["pupils"]?.map { ids($0, "pupils") }
                #expect(inner == pupils.map { world.pupils(of: $0.id).map(\.id) }, "seed \(seed)")
                #expect(ids(row, "clubs") == world.clubs(of: player.id), "seed \(seed)")
                let mentor = world.players.first { $0.id == player.mentorId }
                #expect(row.scopes["mentor"].map { ids($0, "badges") } == world.badges(of: mentor?.id), "seed \(seed)")
                let alone = try Row.fetchOne(db, request.filter(key: player.id))
                #expect(alone == row, "seed \(seed)")
            }
            try joined(world, db, seed: seed)
        }
    }

    /// Rows of a joined table with prefetched rows of their own.
    private func joined(_ world: World, _ db: Database, seed: UInt64) throws {
        func ids(_ row: Row, _ key: String) -> [Int] { (row.prefetchedRows[key] ?? []).map { $0["id"] as Int } }
        let pairs = try Row.fetchAll(
            db,
            Team.including(
                required: Team.players.order(Column("id")).including(all: Player.badges.orderByPrimaryKey())
            ).orderByPrimaryKey())
        let expected = world.teams.flatMap { team in world.players.filter { $0.teamId == team.id } }
        #expect(pairs.map { $0.scopes["player"]?["id"] as Int? } == expected.map(\.id), "seed \(seed)")
        #expect(pairs.map { ids($0, "badges") } == expected.map { world.badges(of: $0.id) }, "seed \(seed)")
    }

    // MARK: Values

    private struct Label: Decodable, Equatable {
        let text: String
        init(from decoder: any Decoder) throws { text = try decoder.singleValueContainer().decode(String.self) }
    }
    private struct Titled<Titles: Decodable>: Decodable, FetchableRecord {
        let name: String
        let books: Titles
    }

    private func titled<Titles: Decodable>(_ type: Titles.Type) throws -> [Titles] {
        try Library.queue().read { db in
            let books = Library.Author.books.select(Column("title")).order(Column("title"))
            return try Library.Author.including(all: books).orderByPrimaryKey().asRequest(of: Titled<Titles>.self)
                .fetchAll(db).map(\.books)
        }
    }

    @Test("rows of one column are values")
    func prefetchedValues() throws {
        let titles = try titled([String].self)
        try #expect(
            titles
                == Library.queue().read { db in
                    try Library.Author.orderByPrimaryKey().fetchAll(db).map { author in
                        try String.fetchAll(
                            db, sql: "SELECT title FROM book WHERE authorId = ? ORDER BY title", arguments: [author.id])
                    }
                })
        #expect(titles.contains { $0.count > 1 } && titles.contains([]))
        try #expect(titled(Set<String>.self) == titles.map { Set($0) })
        try #expect(titled([String?].self) == titles)
        try #expect(titled([Label].self).map { $0.map(\.text) } == titles)
        // A generic record asks for the optional type itself.
        try #expect(titled([String]?.self) == titles)
        try #expect(titled(Set<String>?.self) == titles.map { Set($0) })
        try #expect(titled([Label]?.self).map { $0?.map(\.text) } == titles)
        #expect(throws: DecodingError.self) { try titled(String.self) }
        #expect(throws: DecodingError.self) { try titled(String?.self) }
        // More columns are no value.
        try Library.queue().read { db in
            let request = Library.Author.including(all: Library.Author.books).asRequest(of: Titled<[String]>.self)
            #expect(throws: (any Error).self) { try request.fetchAll(db) }
        }
    }
}
