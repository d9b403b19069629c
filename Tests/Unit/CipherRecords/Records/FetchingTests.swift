import CipherDatabase
import CipherSchema
import Foundation
import Testing

@testable import CipherRecords

@Suite("Requests are fetched")
struct FetchingTests {
    private struct Fan: FetchableRecord, TableRecord, Hashable {
        static let databaseTableName = "player"
        var id: Int64
        var name: String

        init(row: Row) {
            id = row["id"]
            name = row["name"]
        }
    }

    /// A record whose selection has a value of the program.
    private struct Ranked: Codable, FetchableRecord, MutablePersistableRecord, Equatable {
        static let databaseTableName = "player"
        static var databaseSelection: [any SQLSelectable] {
            [.allColumns, (Column("score") + 1).forKey("next")]
        }
        var id: Int64?
        var name: String
        var score: Int
        var next: Int?

        func encode(to container: inout PersistenceContainer) {
            container["id"] = id
            container["name"] = name
            container["score"] = score
        }
    }

    private func read<T>(_ body: (Database) throws -> T) throws -> T {
        let queue = try Schema.queue()
        return try queue.write { db in
            for (name, score) in [("Ann", 10), ("Bob", 20), ("Carl", 30)] {
                try db.execute(sql: "INSERT INTO player (name, score) VALUES (?, ?)", arguments: [name, score])
            }
            return try body(db)
        }
    }

    @Test("by a key, where the selection of the records has values too")
    func selectionWithValues() throws {
        try read { db in
            try #expect(Ranked.fetchOne(db, key: 2)?.next == 21)
            try #expect(Ranked.find(db, key: 3).next == 31)
            try #expect(Ranked.fetchAll(db, keys: [1, 2]).map(\.next) == [11, 21])
            try #expect(Ranked.filter(key: 1).fetchOne(db)?.next == 11)
            let ranked = Ranked(name: "Dora", score: 40)
            try #expect(ranked.insertAndFetch(db).next == 41)
        }
    }

    @Test("as records, rows, values, cursors and sets")
    func types() throws {
        try read { db in
            let request = Fan.order(Column("id").desc)
            try #expect(request.fetchAll(db).map(\.name) == ["Carl", "Bob", "Ann"])
            try #expect(request.fetchOne(db)?.name == "Carl")
            try #expect(request.fetchSet(db).count == 3)
            try #expect(Array(request.fetchCursor(db).map(\.id)) == [3, 2, 1])
            try #expect(Row.fetchAll(db, request).map { $0["name"] as String } == ["Carl", "Bob", "Ann"])
            try #expect(Row.fetchOne(db, request)?["score"] == 30)
            try #expect(Int64.fetchAll(db, request) == [3, 2, 1])
            try #expect(Fan.select(Column("name"), as: String.self).fetchSet(db) == ["Ann", "Bob", "Carl"])
            try #expect(Fan.select(max(Column("score")), as: Int.self).fetchOne(db) == 30)
            try #expect(Fan.fetchAll(db).count == 3 && Fan.fetchCount(db) == 3)
            try #expect(
                Fan.fetchAll(db, sql: "SELECT * FROM player WHERE id = ?", arguments: [2]).map(\.name) == ["Bob"])
            let sql: SQLRequest<Fan> = "SELECT * FROM player WHERE name = \("Ann")"
            try #expect(sql.fetchAll(db).map(\.id) == [1])
            try #expect(Fan.fetchOne(db, sql)?.id == 1)
            try #expect(AnyFetchRequest(request).fetchAll(db).count == 3)
            try #expect(request.asRequest(of: Row.self).fetchAll(db).count == 3)
            try #expect(request.fetchCount(db) == 3 && !request.isEmpty(db))
            try #expect(Fan.none().isEmpty(db))
            try #expect(Table("player").all().fetchAll(db).count == 3)
            try #expect(Table<Fan>("player").filter(Column("id") > 1).fetchAll(db).count == 2)
            let statement = try db.makeStatement(sql: "SELECT * FROM player WHERE id > ?")
            try #expect(Fan.fetchAll(statement, arguments: [1]).count == 2)
        }
    }

    @Test("SQL in Swift runs with tables, columns and requests in it")
    func literals() throws {
        try read { db in
            let best = Player.select(max(Column("score")))
            let names = try String.fetchAll(
                db, SQLRequest<String>("SELECT \(Column("name")) FROM \(Player.self) WHERE score = (\(best))"))
            #expect(names == ["Carl"])
            try db.execute(literal: "UPDATE \(Player.self) SET \(Column("score")) = \(1) WHERE \(Column("id") == 3)")
            try #expect(Int.fetchOne(db, sql: "SELECT score FROM player WHERE id = 3") == 1)
            let (sql, arguments) = try SQL("SELECT \(Column("a") + 1), \(5)").build(db)
            #expect(sql == #"SELECT "a" + ?, ?"# && arguments == [1, 5])
            try db.create(view: "fan", as: Player.filter { $0.score > 15 }.select(Column("name")))
            try #expect(String.fetchAll(db, sql: "SELECT name FROM fan") == ["Bob"])
        }
    }

    @Test("fetches of one statement with few and many records return each of them, in arrays of a fitting size")
    func arraysOfOtherSizes() throws {
        try read { db in
            let statement = try db.makeStatement(
                sql: """
                    WITH RECURSIVE n(i) AS (SELECT 1 WHERE ?1 > 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                    SELECT i AS id, 'name ' || i AS name FROM n
                    """)
            for count in [0, 1, 5000, 5000, 5100, 700, 1, 5000, 0, 3, 40, 5000] {
                let records = try Fan.fetchAll(statement, arguments: [count])
                #expect(records.map(\.id) == (0..<count).map { Int64($0) + 1 })
                #expect(records.last?.name == (count == 0 ? nil : "name \(count)"))
                // The result of the fetch before does not make a small result keep much memory.
                #expect(records.capacity <= max(16, count * 8 + count))
            }
            // An error in the middle.
            struct Odd: FetchableRecord {
                init(row: Row) throws { if row["id"] == 3 { throw CancellationError() } }
            }
            #expect(throws: CancellationError.self) { try Odd.fetchAll(statement, arguments: [5]) }
            try #expect(Fan.fetchAll(statement, arguments: [2]).count == 2)
        }
    }

    @Test("10,000 requests with other values are generated and compiled once")
    func shapes() throws {
        try read { db in
            let before = try db.records().statistics
            for number in 0..<10_000 {
                let request = Fan.filter { _ in Column("score") > number && Column("name") != "n\(number)" }
                    .order(Column("id")).limit(2, offset: number % 3)
                _ = try request.fetchOne(db)
            }
            let after = try db.records().statistics
            #expect(after.generated - before.generated == 1)
            #expect(after.found - before.found == 9_999)
        }
    }

    @Test("values find their parameters wherever they stand")
    func order() throws {
        try read { db in
            func names(_ low: Int, _ high: Int, _ offset: Int) throws -> [String] {
                let cte = CommonTableExpression<Row>(
                    named: "c", sql: "SELECT * FROM player WHERE score >= ?", arguments: [low])
                return try cte.all().with(cte).filter(Column("score") < high).order(Column("score") * 1)
                    .limit(9, offset: offset).select(Column("name"), as: String.self).fetchAll(db)
            }
            try #expect(names(10, 30, 0) == ["Ann", "Bob"])
            try #expect(names(20, 40, 0) == ["Bob", "Carl"])
            try #expect(names(10, 40, 2) == ["Carl"])
        }
    }

    @Test("a request that runs while its cursor is open has a statement of its own")
    func nested() throws {
        try read { db in
            let request = Fan.order(Column("id"))
            let cursor = try request.fetchCursor(db)
            var pairs = 0
            while try cursor.next() != nil { pairs += try request.fetchAll(db).count }
            #expect(pairs == 9)
        }
    }

    @Test("a changed schema is noticed")
    func schemaChanges() throws {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: "CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO player VALUES (7, 'Ann')")
            try #expect(Fan.fetchOne(db, key: 7)?.name == "Ann")
            try #expect(Fan.filter(key: 7).fetchCount(db) == 1)
            try db.execute(
                sql: """
                    DROP TABLE player; CREATE TABLE player (id INTEGER, name TEXT, key TEXT PRIMARY KEY);
                    INSERT INTO player VALUES (8, 'Bob', 'k')
                    """)
            try #expect(Fan.fetchOne(db, key: 7) == nil)
            try #expect(Fan.fetchOne(db, key: "k")?.name == "Bob")
            try #expect(Fan.filter(key: "k").fetchCount(db) == 1)
        }
    }

    @Test("mistakes are errors that name what to do")
    func mistakes() throws {
        try read { db in
            func message(_ body: () throws -> Void) throws -> String {
                let error = try #require(#expect(throws: DatabaseError.self) { try body() })
                return error.message ?? ""
            }
            try #expect(message { _ = try Citizenship.filter(key: 1).fetchCount(db) }.contains("has 2 columns"))
            #expect(
                try message { _ = try Player.filter(key: ["name": "Ann"]).fetchCount(db) }
                    == "table player has no unique key on name: make a unique index on these columns, or use filter(_:)"
            )
            try #expect(message { _ = try Row.fetchAll(db, Player.select([])) }.contains("selects nothing"))
            #expect(
                try message { _ = try Row.fetchAll(db, Player.order(sql: "id").reversed()) }
                    .contains("cannot be reversed"))
            #expect(
                try message { _ = try Row.fetchAll(db, Player.order(SQL("id"), Column("id")).reversed()) }
                    .contains("cannot be reversed"))
            #expect(
                try message { _ = try Player.filter(TableAlias<Player>()["id"] == 1).fetchCount(db) }
                    .contains("apply aliased(_:)"))
            #expect(
                try message { try Player.all().group(Column("name")).deleteAll(db) }.contains("each group is one row"))
            try #expect(message { _ = try Player.all().having(Column("id") > 1).fetchCount(db) }.contains("group(_:)"))
            try #expect(message { _ = try Table("nothing").all().fetchCount(db) } == "no such table: nothing")
            #expect(
                try message { _ = try Player.filter(sql: "id = ?").fetchCount(db) }.contains("wrong number"))
            #expect(
                try message { _ = try Player.filter(sql: "id = :a", arguments: ["b": 1]).fetchCount(db) }
                    .contains("do not fit"))
        }
    }

    @Test("names of tables follow from types")
    func tableNames() {
        #expect(TableNames.tableName(of: "Player") == "player")
        #expect(TableNames.tableName(of: "PostalAddress") == "postalAddress")
        #expect(TableNames.tableName(of: "HTTPRequest") == "httpRequest")
        #expect(TableNames.tableName(of: "TOEFL") == "toefl")
        #expect(TableNames.tableName(of: "Box<Player>") == "box")
        #expect(TableNames.tableName(of: "player") == "player")
        #expect(TableNames.tableName(of: "A") == "a")
        #expect(TableNames.tableName(of: "HTTP2Request") == "httP2Request")
        #expect(Player.databaseTableName == "player")
    }
}
