import CipherDatabase
import CipherRecords
import Foundation
import Synchronization
import Testing

@Suite("Records are decoded from rows")
struct DecodingTests {
    // MARK: Plans

    /// Counts the plans of a record type: each plan asks once how the columns of a type of keys are named.
    private protocol Counted: FetchableRecord {
        static var plans: Counter { get }
    }

    private final class Counter: Sendable {
        private let count = Atomic(0)
        func add() { count.add(1, ordering: .relaxed) }
        func reset() { count.store(0, ordering: .relaxed) }
        var value: Int { count.load(ordering: .relaxed) }
    }

    private struct Leaf: Codable, TableRecord, Counted, Hashable {
        static let plans = Counter()
        static var databaseColumnDecodingStrategy: DatabaseColumnDecodingStrategy {
            plans.add()
            return .useDefaultKeys
        }
        static let tree = belongsTo(Tree.self)
        var id: Int
        var treeId: Int
        var color: String?
    }

    private struct Tree: Codable, TableRecord, Counted, Hashable {
        static let plans = Counter()
        static var databaseColumnDecodingStrategy: DatabaseColumnDecodingStrategy {
            plans.add()
            return .useDefaultKeys
        }
        static let leaves = hasMany(Leaf.self)
        var id: Int
        var name: String
    }

    private struct TreeInfo: Decodable, FetchableRecord {
        var tree: Tree
        var leaves: [Leaf]
    }

    private struct LeafInfo: Decodable, FetchableRecord {
        var leaf: Leaf
        var tree: Tree
    }

    private static let leafCount = 1000

    private func forest<T>(_ body: (Database) throws -> T) throws -> T {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE tree (id INTEGER PRIMARY KEY, name TEXT);
                    CREATE TABLE leaf (
                        id INTEGER PRIMARY KEY, treeId INTEGER NOT NULL REFERENCES tree(id), color TEXT);
                    INSERT INTO tree VALUES (0, 'oak'), (1, 'elm'), (2, 'ash');
                    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.leafCount - 1))
                        INSERT INTO leaf SELECT i, i % 3, CASE WHEN i % 2 THEN 'green' END FROM n;
                    """)
            return try body(db)
        }
    }

    // One test, because tests run at the same time and these counters belong to their types.
    @Test("nested, joined, prefetched and kept rows find the columns of a record type once")
    func plans() throws {
        try forest { db in
            func made(_ body: () throws -> Void) rethrows -> [Int] {
                Leaf.plans.reset()
                Tree.plans.reset()
                try body()
                return [Leaf.plans.value, Tree.plans.value]
            }

            var infos: [TreeInfo] = []
            let prefetching = try made {
                let request = Tree.including(all: Tree.leaves.orderByPrimaryKey()).orderByPrimaryKey()
                infos = try TreeInfo.fetchAll(db, request)
            }
            #expect(prefetching == [1, 1])
            #expect(infos.map(\.leaves.count) == [334, 333, 333])
            #expect(infos[2].leaves[1] == Leaf(id: 5, treeId: 2, color: "green"))

            var leaves: [LeafInfo] = []
            let joining = try made {
                leaves = try LeafInfo.fetchAll(db, Leaf.including(required: Leaf.tree).orderByPrimaryKey())
            }
            #expect(joining == [1, 1])
            #expect(leaves.count == Self.leafCount && leaves[4].tree.name == "elm" && leaves[4].leaf.id == 4)

            var rows: [Row] = []
            let keeping = try made {
                rows = try Row.fetchAll(db, Leaf.including(required: Leaf.tree))
                for row in rows { _ = try LeafInfo(row: row) }
            }
            #expect(keeping == [1, 1])

            let alternating = try made {
                let cursor = try Row.fetchCursor(db, sql: "SELECT id, treeId, 'x' AS name FROM leaf")
                while let row = try cursor.next() { _ = try (Leaf(row: row), Tree(row: row)) }
            }
            #expect(alternating == [1, 1])
        }
    }

    private struct Twig: Codable, Counted, Equatable {
        static let plans = Counter()
        static var databaseColumnDecodingStrategy: DatabaseColumnDecodingStrategy {
            plans.add()
            return .useDefaultKeys
        }
        var id: Int
        var color: String?
    }

    // Safe because: kept rows are only read.
    private struct KeptRows: @unchecked Sendable { let rows: [Row] }

    @Test("kept rows of one result are decoded on several threads, with a plan for each at most")
    func threads() throws {
        let sql = "SELECT color, id FROM leaf ORDER BY id"
        let kept = try forest { db in KeptRows(rows: try Row.fetchAll(db, sql: sql)) }
        let threads = 8
        let failures = Counter()
        DispatchQueue.concurrentPerform(iterations: threads) { _ in
            for (index, row) in kept.rows.enumerated() {
                let twig = try? Twig(row: row)
                if twig != Twig(id: index, color: index % 2 == 1 ? "green" : nil) { failures.add() }
            }
        }
        #expect(failures.value == 0)
        #expect((1...threads).contains(Twig.plans.value))
    }

    // MARK: Statements of SQL text

    private struct Word: Decodable, FetchableRecord, Hashable { var word: String }

    /// A record that runs its own query again while it is read.
    private final class Nested: FetchableRecord {
        // Safe because: set and read in one access.
        nonisolated(unsafe) static var db: Database?
        static let sql = "SELECT ? AS depth UNION ALL SELECT ?"
        let depths: [Int]
        init(row: Row) throws {
            let depth: Int = row["depth"]
            let inner = try Self.db.map { db in
                depth > 2 ? [] : try Nested.fetchAll(db, sql: Self.sql, arguments: [depth + 1, depth + 1])
            }
            depths = [depth] + (inner ?? []).flatMap(\.depths)
        }
    }

    @Test("fetches of SQL text keep their compiled statement, but not while it has rows")
    func cachedStatements() throws {
        try DatabaseQueue().read { db in
            let sql = "SELECT 'a' AS word WHERE ? UNION ALL SELECT 'b'"
            let statement = try db.statement(forFetching: sql)
            try #expect(Word.fetchAll(db, sql: sql, arguments: [true]).map(\.word) == ["a", "b"])
            #expect(statement.arguments == [true])
            try #expect(Word.fetchOne(db, sql: sql, arguments: [false])?.word == "b")
            #expect(statement.arguments == [false])
            try #expect(Word.fetchSet(db, sql: sql, arguments: [1]) == [Word(word: "a"), Word(word: "b")])
            #expect(statement.arguments == [1])
            #expect(try db.statement(forFetching: sql) === statement)
            // An error in the middle leaves it free.
            #expect(throws: RowDecodingError.self) {
                try Word.fetchAll(db, sql: "SELECT 'a' AS word UNION ALL SELECT NULL UNION ALL SELECT 'c'")
            }
            // The statement of a cursor is its own.
            let cursor = try Word.fetchCursor(db, sql: sql, arguments: [true])
            try #expect(cursor.next()?.word == "a")
            try #expect(Word.fetchAll(db, sql: sql, arguments: [true]).count == 2)
            try #expect(cursor.next()?.word == "b" && cursor.next() == nil)

            Nested.db = db
            defer { Nested.db = nil }
            let nested = try Nested.fetchAll(db, sql: Nested.sql, arguments: [1, 2])
            #expect(nested.map(\.depths) == [[1, 2, 3, 3, 2, 3, 3], [2, 3, 3]])
            let outer = try Nested.fetchOne(db, sql: Nested.sql, arguments: [2, 9])
            #expect(outer?.depths == [2, 3, 3])
        }
    }

    // MARK: Errors

    private enum Mood: String, Codable { case calm, angry }
    private struct Address: Codable {
        var lines: [Line]
        var notes: [String: Int]?
        struct Line: Codable { var number: Int8 }
    }
    private struct Person: Codable, FetchableRecord, TableRecord {
        var name: String
        var age: Int8
        var height: Double
        var born: Date
        var mood: Mood
        var address: Address
    }

    private static let healthy: [String: String] = [
        "name": "'Ann'", "age": "7", "height": "1.5", "born": "'2000-01-01'", "mood": "'calm'",
        "address": #"'{"lines":[]}'"#,
    ]
    private static let columns = ["name", "age", "height", "born", "mood", "address"]

    private func people(_ changes: [String: String], publicArguments: Bool = false) throws -> RowDecodingError {
        var configuration = Configuration()
        configuration.publicStatementArguments = publicArguments
        let values = Self.healthy.merging(changes) { $1 }
        return try DatabaseQueue(configuration: configuration).write { db in
            try db.execute(
                sql: """
                    CREATE TABLE person (
                        name VARCHAR(9), age INTEGER, height DOUBLE, born DATETIME, mood TEXT, address JSON);
                    INSERT INTO person VALUES (\(Self.columns.compactMap { values[$0] }.joined(separator: ", ")));
                    """)
            let error = try #require(#expect(throws: RowDecodingError.self) { try Person.fetchAll(db) })
            // A kept row gives the same, but for what only the statement knows.
            let row = try #require(try Row.fetchOne(db, sql: "SELECT * FROM person"))
            let kept = try #require(#expect(throws: RowDecodingError.self) { try Person(row: row) })
            #expect(kept.columnName == error.columnName && kept.columnIndex == error.columnIndex)
            #expect(kept.tableName == error.tableName && kept.typeName == error.typeName)
            #expect(kept.storageClass == error.storageClass && kept.jsonPath == error.jsonPath)
            #expect(kept.declaredType == nil && kept.rowIndex == nil && kept.value == nil)
            return error
        }
    }

    @Test(
        "a value that does not fit is named by table, column, types and position, and is not shown",
        arguments: [
            ("name", "NULL", "String", "VARCHAR(9)", StorageClass.null),
            ("age", "'4711 secret'", "Int8", "INTEGER", .text),
            ("age", "4711", "Int8", "INTEGER", .integer),
            ("age", "NULL", "Int8", "INTEGER", .null),
            ("height", "'4711 secret'", "Double", "DOUBLE", .text),
            ("height", "x'4711'", "Double", "DOUBLE", .blob),
            ("born", "'secret 4711'", "Date", "DATETIME", .text),
            ("mood", "'secret 4711'", "Mood", "TEXT", .text),
            ("mood", "4711", "Mood", "TEXT", .text),
            ("address", "'secret 4711'", "Address", "JSON", .text),
            ("address", #"'{"lines":[{"number":4711}]}'"#, "Address", "JSON", .text),
            ("address", "NULL", "Address", "JSON", .null),
        ])
    func misfits(column: String, stored: String, type: String, declared: String, found: StorageClass) throws {
        let error = try people([column: stored])
        #expect(error.tableName == "person" && error.columnName == column && error.rowIndex == 0)
        #expect(error.columnIndex == Self.columns.firstIndex(of: column))
        #expect(error.typeName == type && error.declaredType == declared && error.storageClass == found)
        #expect(error.value == nil)
        for part in ["\"person\"", "\"\(column)\"", type, declared] { #expect(error.description.contains(part)) }
        for secret in ["4711", "secret"] {
            #expect(!error.description.contains(secret) && !String(reflecting: error).contains(secret))
        }
        // With public arguments the value is there.
        let open = try people([column: stored], publicArguments: true)
        #expect(open.value?.storageClass == found)
        #expect(open.description.contains("4711") == stored.contains("4711") || found == .blob)
    }

    @Test("the place in a JSON text is named by the keys that the program has, not by those of the data")
    func jsonPaths() throws {
        func path(_ json: String) throws -> String? { try people(["address": "'\(json)'"]).jsonPath }
        #expect(try path("secret")?.isEmpty == true)
        #expect(try path(#"{"lines":[{"number":1},{"number":"secret"}]}"#) == "lines[1].number")
        #expect(try path(#"{"lines":[],"notes":{"secret":"x"}}"#) == "notes.*")
        #expect(try path("{}") == "lines")
    }

    @Test("a missing column is named, whatever the type of its property")
    func missingColumns() throws {
        try DatabaseQueue().read { db in
            func missing(_ column: String) throws -> RowDecodingError {
                let others = Self.columns.filter { $0 != column }
                let selected = others.map { "\(Self.healthy[$0] ?? "") AS \($0)" }.joined(separator: ", ")
                return try #require(
                    #expect(throws: RowDecodingError.self) { try Person.fetchAll(db, sql: "SELECT \(selected)") })
            }
            for column in ["name", "age", "height", "born", "mood"] {
                let error = try missing(column)
                #expect(error.columnName == column && error.columnIndex == nil && error.storageClass == nil)
                #expect(error.tableName == "person" && error.rowIndex == 0)
                #expect(error.description.contains("which the row does not have"))
            }
        }
    }

    // MARK: Parts of rows

    private struct Point: Codable, FetchableRecord, Equatable {
        var x: Int
        var y: Int
    }
    private struct Wrapper: Decodable, FetchableRecord, Equatable {
        var point: Point
        init(from decoder: any Decoder) throws { point = try decoder.singleValueContainer().decode(Point.self) }
    }
    private struct Corners: Decodable, FetchableRecord {
        var first: Point
        var second: Point
    }
    private struct Cloud: Decodable, FetchableRecord {
        var points: [Point]
    }
    private final class Ring: Decodable, FetchableRecord {
        var next: Ring
    }
    private struct Ends: Decodable, FetchableRecord {
        enum CodingKeys: CodingKey { case end, note }
        enum PointKeys: CodingKey { case x }
        var x: Int
        var note: Int
        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            x = try container.nestedContainer(keyedBy: PointKeys.self, forKey: .end).decode(Int.self, forKey: .x)
            note = try container.nestedContainer(keyedBy: PointKeys.self, forKey: .note).decode(Int.self, forKey: .x)
            #expect(Set(container.allKeys) == [.end, .note] && container.contains(.end))
        }
    }

    @Test("a record within a record: wrapped, by a scope, from JSON, or missing")
    func parts() throws {
        let row: Row = ["x": 1, "y": 2]
        try #expect(Wrapper(row: row).point == Point(x: 1, y: 2))
        try #expect(FetchableRecordDecoder().decode(Point.self, from: row) == Point(x: 1, y: 2))
        // The first key without a column takes the row; there is none for the second.
        #expect(throws: DecodingError.self) { try Corners(row: row) }
        #expect(throws: DecodingError.self) { try Cloud(row: row) }
        #expect(throws: DecodingError.self) { try Ring(row: row) }
        try DatabaseQueue().read { db in
            let adapter = ScopeAdapter(["end": RangeRowAdapter(0..<1), "second": RangeRowAdapter(0..<2)])
            let sql = #"SELECT 3 AS x, 4 AS y, '{"x":5}' AS note"#
            let ends = try #require(try Ends.fetchOne(db, sql: sql, adapter: adapter))
            #expect(ends.x == 3 && ends.note == 5)
            let corners = try #require(try Corners.fetchOne(db, sql: sql, adapter: adapter))
            #expect(corners.first == corners.second && corners.first == Point(x: 3, y: 4))
        }
    }

    /// Reads NULL as a value.
    private enum Answer: String, Codable, DatabaseValueConvertible {
        case yes, none
        var databaseValue: DatabaseValue { self == .none ? .null : rawValue.databaseValue }
        static func fromDatabaseValue(_ value: DatabaseValue) -> Answer? {
            value.isNull ? Answer.none : String.fromDatabaseValue(value).flatMap { Answer(rawValue: $0) }
        }
    }
    private struct Reply: Codable, FetchableRecord, Equatable {
        var first: Answer
        var second: Answer?
    }

    @Test("a type that has a value for NULL is asked for it, in optional properties too")
    func valuesOfNull() throws {
        let reply = try Reply(row: ["first": nil, "second": nil])
        #expect(reply == Reply(first: Answer.none, second: Answer.none))
        let missing = try Reply(row: ["first": "yes"])
        #expect(missing.first == .yes && missing.second == nil)
    }

    private struct Informed: Codable, FetchableRecord {
        static let key = CodingUserInfoKey(rawValue: "k")
        // Safe because: one test uses it.
        nonisolated(unsafe) static var info = "a"
        static var databaseDecodingUserInfo: [CodingUserInfoKey: Any] {
            Dictionary(uniqueKeysWithValues: key.map { [($0, info)] } ?? [])
        }
        struct Inner: Codable {
            var info: String?
            init(from decoder: any Decoder) throws {
                _ = try decoder.container(keyedBy: Keys.self)
                info = Informed.key.flatMap { decoder.userInfo[$0] as? String }
            }
            enum Keys: CodingKey { case x }
        }
        var info: String?
        var inner: Inner
        enum CodingKeys: CodingKey { case inner }
        init(from decoder: any Decoder) throws {
            info = Self.key.flatMap { decoder.userInfo[$0] as? String }
            inner = try decoder.container(keyedBy: CodingKeys.self).decode(Inner.self, forKey: .inner)
        }
    }

    @Test("records and their JSON see the user info of the moment")
    func userInfo() throws {
        let row: Row = ["inner": "{}"]
        let first = try Informed(row: row)
        Informed.info = "b"
        let second = try Informed(row: row)
        #expect(first.info == "a" && first.inner.info == "a" && second.info == "b" && second.inner.info == "b")
    }

    private struct Places: Decodable, FetchableRecord {
        struct Scoped: Decodable {
            var path: [String]
            init(from decoder: any Decoder) throws {
                path = try decoder.container(keyedBy: ColumnName.self).codingPath.map(\.stringValue)
            }
        }
        struct Single: Decodable {
            var path: [String]
            init(from decoder: any Decoder) throws { path = decoder.codingPath.map(\.stringValue) }
        }
        var end: Scoped
        var note: Single
        var whole: Scoped
    }
    private enum ColumnName: CodingKey { case x }

    @Test("decoders know the keys that led to them")
    func codingPaths() throws {
        try DatabaseQueue().read { db in
            let adapter = ScopeAdapter(["end": RangeRowAdapter(0..<1)])
            let places = try #require(try Places.fetchOne(db, sql: "SELECT 1 AS x, 2 AS note", adapter: adapter))
            #expect(places.end.path == ["end"] && places.note.path == ["note"] && places.whole.path == ["whole"])
        }
    }

    @Test("a second record that only the row itself could stand for is not found, by the names of both")
    func twoRecordsWithoutScope() throws {
        let error = #expect(throws: DecodingError.self) { try Corners(row: ["x": 1, "y": 2]) }
        guard case .keyNotFound(let key, let context) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(key.stringValue == "second" && context.debugDescription == "No such key: first or second")
    }

    // MARK: Columns of rows

    private enum Columns: String, ColumnExpression { case name, score, missing }

    @Test("rows are read by columns of requests")
    func columnsOfRows() throws {
        let row: Row = ["name": "Ann", "score": 7, "none": nil]
        let name: String = row[Column("name")]
        let score: Int = row[Columns.score]
        let missing: Int? = row[Columns.missing]
        let number: Decimal = row[Columns.score]
        #expect(name == "Ann" && score == 7 && missing == nil && number == 7)
        #expect(row[Columns.name] as? String == "Ann" && row[Column("none")] == nil)
        #expect(row.hasColumn(Columns.name) && !row.hasColumn(Columns.missing))
        try #expect(row.decode(Int.self, forColumn: Columns.score) == 7)
        try #expect(row.decodeIfPresent(Int.self, forColumn: Column("none")) == nil)
        #expect(throws: RowDecodingError.self) { try row.decode(Int.self, forColumn: Columns.missing) }
        let first: String? = row.coalesce([Column("none"), Column("name")])
        let second: Int? = row.coalesce([Columns.missing, Column("score")] as [any ColumnExpression])
        #expect(first == "Ann" && second == 7)
        let bytes = row.withUnsafeData(at: Columns.name) { $0?.count }
        #expect(bytes == 3 && row.dataNoCopy(Columns.missing) == nil)
    }
}
