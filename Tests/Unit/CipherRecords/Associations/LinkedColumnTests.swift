import CipherDatabase
import CipherRecords
import CipherSchema
import Foundation
import Testing

/// Associations between columns of different types and collations: the rows are those of the join in SQL.
///
/// Story: rows were fetched by a list of values, which have no type. SQL compares the columns, by the types of both.
@Suite("Associations find the rows that a join in SQL finds")
struct LinkedColumnTests {
    private struct Parent: TableRecord, EncodableRecord {
        static let children = hasMany(Child.self, key: "children", using: ForeignKey(["r"], to: ["k"]))
        static let pairs = hasMany(Child.self, key: "pairs", using: ForeignKey(["r", "s"], to: ["k", "l"]))
        static let toys = hasMany(Toy.self, through: children, using: Child.toys, key: "toys")
        let values: [DatabaseValue]
        func encode(to container: inout PersistenceContainer) {
            for (column, value) in zip(["id", "k", "l"], values) { container[column] = value }
        }
    }

    private struct Child: TableRecord, EncodableRecord {
        static let parent = belongsTo(Parent.self, key: "parent", using: ForeignKey(["r"], to: ["k"]))
        static let owners = hasMany(Parent.self, key: "owners", using: ForeignKey(["k"], to: ["r"]))
        static let toys = hasMany(Toy.self, key: "toys", using: ForeignKey(["u"], to: ["t"]))
        let values: [DatabaseValue]
        func encode(to container: inout PersistenceContainer) {
            for (column, value) in zip(["id", "r", "s", "t"], values) { container[column] = value }
        }
    }

    private struct Toy: TableRecord {}

    private static let types = [
        "INTEGER", "REAL", "NUMERIC", "TEXT", "TEXT COLLATE NOCASE", "TEXT COLLATE RTRIM", "BLOB", "", "ANY",
        "BLOB COLLATE NOCASE", "TEXT COLLATE first",
    ]

    private static let values: [DatabaseValue] = {
        let integers: [Int64] = [0, 1, 2, 9_007_199_254_740_993]
        let doubles: [Double] = [1, 1.5, 9_007_199_254_740_992, .infinity]
        let texts: [String] = [
            "1", "01", "1.0", " 1", "1.5", "a", "A", "a ", "ab", "é", "É", "", "9007199254740993", "1e0", "0x1", "1a",
        ]
        let blobs: [String] = ["1", "a", ""]
        var values: [DatabaseValue] = [.null, .null]
        for integer in integers { values.append(integer.databaseValue) }
        for double in doubles { values.append(double.databaseValue) }
        for text in texts { values.append(text.databaseValue) }
        for blob in blobs { values.append(Data(blob.utf8).databaseValue) }
        return values
    }()

    /// Whether a column stores another number: a record with the value is refused.
    private static func isRounded(_ value: DatabaseValue, by type: String) -> Bool {
        let rounded: [DatabaseValue] =
            type == "REAL"
            ? [Int64(9_007_199_254_740_993).databaseValue, "9007199254740993".databaseValue]
            : type.hasPrefix("TEXT")
                ? [Double(9_007_199_254_740_992).databaseValue, Double.infinity.databaseValue] : []
        return rounded.contains(value)
    }

    /// Compares by the first letter alone.
    private static let first = DatabaseCollation("first") { left, right in
        let (left, right) = (left.utf8.first ?? 0, right.utf8.first ?? 0)
        return left == right ? .orderedSame : left < right ? .orderedAscending : .orderedDescending
    }

    /// The rows that the program gave, which the columns may store in another form.
    private struct World {
        var parents: [[DatabaseValue]] = []
        var children: [[DatabaseValue]] = []
        let types: [String]

        init(_ random: inout SeededGenerator) {
            func type() -> String { LinkedColumnTests.types.randomElement(using: &random) ?? "" }
            let types = (0..<6).map { _ in type() }
            func value(_ column: Int) -> DatabaseValue {
                let value = LinkedColumnTests.values.randomElement(using: &random) ?? .null
                return LinkedColumnTests.isRounded(value, by: types[column]) ? .null : value
            }
            self.types = types
            parents = (1...12).map { [$0.databaseValue, value(0), value(1)] }
            children = (1...30).map { [$0.databaseValue, value(2), value(3), value(4)] }
        }

        func insert(_ db: Database, _ random: inout SeededGenerator) throws {
            try db.execute(
                sql: """
                    CREATE TABLE parent (id INTEGER PRIMARY KEY, k \(types[0]), l \(types[1]));
                    CREATE TABLE child (id INTEGER PRIMARY KEY, r \(types[2]), s \(types[3]), t \(types[4]));
                    CREATE TABLE toy (id INTEGER PRIMARY KEY, u \(types[5]));
                    """)
            if Bool.random(using: &random) {
                try db.execute(sql: "CREATE INDEX i ON child(r); CREATE INDEX j ON toy(u)")
            }
            for row in parents {
                try db.execute(sql: "INSERT INTO parent VALUES (?, ?, ?)", arguments: StatementArguments(row))
            }
            for row in children {
                try db.execute(sql: "INSERT INTO child VALUES (?, ?, ?, ?)", arguments: StatementArguments(row))
            }
            for id in 1...20 {
                let value = LinkedColumnTests.values.randomElement(using: &random)
                try db.execute(sql: "INSERT INTO toy VALUES (?, ?)", arguments: [id, value])
            }
        }
    }

    /// The identifiers of the linked rows of each row, by a join in SQL.
    private func joined(_ origin: String, to table: String, _ joins: String, _ db: Database) throws -> [Int: [Int]] {
        let rows = try Row.fetchAll(db, sql: "SELECT \(origin).id, \(table).id FROM \(origin) \(joins) ORDER BY 1, 2")
        return Dictionary(grouping: rows) { $0[0] as Int }.mapValues { $0.map { $0[1] as Int } }
    }

    private func ids(_ rows: [Row]?) -> [Int] { (rows ?? []).map { $0["id"] as Int }.sorted() }

    @Test("prefetched rows, the requests of one record and joins", arguments: Sample.numbers(below: 120, oneIn: 4))
    func random(seed: UInt64) throws {
        var random = SeededGenerator(state: seed)
        let world = World(&random)
        var configuration = Configuration()
        configuration.prepareDatabase { $0.add(collation: Self.first) }
        try DatabaseQueue(configuration: configuration).write { db in
            try world.insert(db, &random)
            let comment = Comment(rawValue: "seed \(seed): \(world.types)")
            let children = try joined("parent", to: "child", "JOIN child ON child.r = parent.k", db)
            let pairs = try joined("parent", to: "child", "JOIN child ON child.r = parent.k AND child.s = parent.l", db)
            let toys = try joined(
                "parent", to: "toy", "JOIN child ON child.r = parent.k JOIN toy ON toy.u = child.t", db)
            let parents = try joined("child", to: "parent", "JOIN parent ON parent.k = child.r", db)

            let all = Parent.including(all: Parent.children).including(all: Parent.pairs).including(all: Parent.toys)
            for request in [all, all.limit(11), all.filter(Column("id") < 4)] {
                for row in try Row.fetchAll(db, request) {
                    let id = row["id"] as Int
                    #expect(ids(row.prefetchedRows["children"]) == children[id] ?? [], comment)
                    #expect(ids(row.prefetchedRows["pairs"]) == pairs[id] ?? [], comment)
                    #expect(ids(row.prefetchedRows["toys"]) == toys[id] ?? [], comment)
                }
            }
            for values in world.parents {
                let (id, parent) = (Int.fromDatabaseValue(values[0]) ?? 0, Parent(values: values))
                let one = try Row.fetchOne(db, all.filter(key: id))
                #expect(ids(one?.prefetchedRows["children"]) == children[id] ?? [], comment)
                #expect(ids(one?.prefetchedRows["pairs"]) == pairs[id] ?? [], comment)
                #expect(ids(one?.prefetchedRows["toys"]) == toys[id] ?? [], comment)
                #expect(try ids(Row.fetchAll(db, parent.request(for: Parent.children))) == children[id] ?? [], comment)
                #expect(try ids(Row.fetchAll(db, parent.request(for: Parent.pairs))) == pairs[id] ?? [], comment)
                #expect(try ids(Row.fetchAll(db, parent.request(for: Parent.toys))) == toys[id] ?? [], comment)
            }
            for values in world.children {
                let (id, child) = (Int.fromDatabaseValue(values[0]) ?? 0, Child(values: values))
                #expect(try ids(Row.fetchAll(db, child.request(for: Child.parent))) == parents[id] ?? [], comment)
            }
            let owners = try Row.fetchAll(db, Child.including(all: Child.owners))
            #expect(owners.allSatisfy { ids($0.prefetchedRows["owners"]) == parents[$0["id"] as Int] ?? [] }, comment)
            let count = try Parent.joining(required: Parent.children).fetchCount(db)
            #expect(count == children.values.reduce(0) { $0 + $1.count }, comment)
        }
    }
}
