import CipherDatabase
import Testing

@testable import CipherRecords

/// Orders that are always the same, and whether a joined row is there: for tables of all keys, views and queries.
@Suite("Stable orders, and rows that are there")
struct StableOrderTests {
    private struct Seat: TableRecord {
        static let views = hasMany(Table("view"), key: "views", using: ForeignKey(["row"], to: ["row"]))
        static let view = hasOne(Table("view"), key: "view", using: ForeignKey(["row"], to: ["row"]))
        static let guest = hasOne(Guest.self, using: ForeignKey(["row", "number"]))
        static let guests = hasMany(Guest.self, using: ForeignKey(["row", "number"]))
    }
    private struct Guest: TableRecord {}
    private struct Pair: TableRecord {}
    private struct Bare: TableRecord {}

    private func read(source: (any DatabaseSchemaSource)? = nil, _ body: (Database) throws -> Void) throws {
        var configuration = Configuration()
        configuration.schemaSource = source
        try DatabaseQueue(configuration: configuration).write { db in
            try db.execute(
                sql: """
                    CREATE TABLE seat (row TEXT, number INTEGER, PRIMARY KEY (row, number));
                    CREATE TABLE guest (name TEXT PRIMARY KEY, row TEXT, number INTEGER);
                    CREATE TABLE pair (a TEXT, b TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID;
                    CREATE TABLE bare (x);
                    CREATE VIEW view AS SELECT row, name FROM guest;
                    INSERT INTO seat VALUES ('B', 1), ('A', 2), ('A', 1);
                    INSERT INTO guest VALUES ('Zoe', 'A', 1), ('Ann', 'A', 1), ('Bob', 'B', 1);
                    """)
            try body(db)
        }
    }

    private func order<T>(_ db: Database, _ request: QueryInterfaceRequest<T>) throws -> String {
        let sql = try request.makePreparedRequest(db).statement.sql
        return sql.range(of: " ORDER BY ").map { String(sql[$0.upperBound...]) } ?? ""
    }

    @Test("rows have the order of the primary key, not of the rowid, which VACUUM may change")
    func keys() throws {
        try read { db in
            try #expect(order(db, Seat.all().withStableOrder()) == #""row", "number""#)
            try #expect(order(db, Seat.order(Column("number").desc).withStableOrder()) == #""number" DESC, "row""#)
            try #expect(order(db, Seat.order(Column("NUMBER")).withStableOrder()) == #""NUMBER", "row""#)
            try #expect(order(db, Seat.orderByPrimaryKey().withStableOrder()) == #""row", "number""#)
            try #expect(order(db, Pair.all().withStableOrder().reversed()) == #""a" DESC, "b" DESC"#)
            try #expect(order(db, Bare.all().withStableOrder()) == #""rowid""#)
            let rows = try Row.fetchAll(db, Seat.all().withStableOrder())
            #expect(rows.map { "\($0["row"] as String)\($0["number"] as Int)" } == ["A1", "A2", "B1"])
        }
    }

    @Test("joined tables are a part of the order")
    func joinedTables() throws {
        try read { db in
            let request = Seat.including(required: Seat.guest).withStableOrder()
            try #expect(order(db, request) == #""seat"."row", "seat"."number", "guest"."name""#)
            let names = try Row.fetchAll(db, request).map { $0.scopes["guest"]?["name"] as String? }
            #expect(names == ["Ann", "Zoe", "Bob"])
            try #expect(
                order(db, request.reversed()) == #""seat"."row" DESC, "seat"."number" DESC, "guest"."name" DESC"#)
            let view = Seat.including(optional: Seat.view).withStableOrder()
            try #expect(order(db, view) == #""seat"."row", "seat"."number", "view"."row", "view"."name""#)
            let ordered = Seat.including(required: Seat.guest.order(Column("name").desc)).withStableOrder()
            try #expect(order(db, ordered) == #""seat"."row", "seat"."number", "guest"."name" DESC"#)
        }
    }

    @Test("rows of a view have the order of all of its columns")
    func views() throws {
        try read { db in
            let view = Table("view")
            try #expect(order(db, view.all().withStableOrder()) == "1, 2")
            let reversed = view.order(Column("name")).withStableOrder().reversed()
            try #expect(order(db, reversed) == #""name" DESC, 1 DESC, 2 DESC"#)
            try #expect(order(db, view.select(Column("name")).withStableOrder()) == "1")
            let names = try Row.fetchAll(db, view.all().withStableOrder()).map { $0["name"] as String }
            #expect(names == ["Ann", "Zoe", "Bob"])
            let common = CommonTableExpression<Void>(named: "common", sql: "SELECT 2 AS a, 'b' AS b UNION SELECT 1, 1")
            let rows = try Row.fetchAll(db, common.all().with(common).withStableOrder())
            #expect(rows.map { $0["a"] as Int } == [1, 2])
        }
        struct Source: DatabaseSchemaSource {
            func columnsForPrimaryKey(_ db: Database, inView view: DatabaseObjectID) throws -> [String]? { ["name"] }
        }
        try read(source: Source()) { db in
            try #expect(order(db, Table("view").all().withStableOrder()) == #""name""#)
        }
    }

    @Test("distinct rows and groups have the order of what makes them different")
    func distinctRowsAndGroups() throws {
        try read { db in
            let names = Seat.select(Column("row")).distinct().withStableOrder()
            try #expect(order(db, names) == "1" && String.fetchAll(db, names.asRequest(of: String.self)) == ["A", "B"])
            let groups = Seat.select(Column("row"), count(Column("number"))).group(Column("row")).withStableOrder()
            try #expect(order(db, groups) == #""row""#)
        }
    }

    @Test("whether a joined row is there, where it is that of a view, or of a key with NULL")
    func exists() throws {
        struct Source: DatabaseSchemaSource {
            func columnsForPrimaryKey(_ db: Database, inView view: DatabaseObjectID) throws -> [String]? {
                ["absent", "name"]
            }
        }
        for source in [nil, Source()] as [Source?] {
            try read(source: source) { db in
                try db.execute(
                    sql: """
                        DROP VIEW view;
                        CREATE VIEW view AS SELECT NULL AS absent, row, name FROM guest WHERE name <> 'Bob';
                        INSERT INTO guest VALUES ('Cid', 'C', NULL)
                        """)
                let alias = TableAlias<Row>()
                let request = Seat.joining(optional: Seat.view.aliased(alias))
                try #expect(request.filter(!alias.exists).fetchCount(db) == 1)
                try #expect(request.filter(alias.exists).fetchCount(db) == 4)
                // Its join is a condition, and no pair of columns.
                let all = CommonTableExpression<Row>(named: "all", sql: "SELECT absent, row, name FROM view")
                let condition = Seat.association(to: all) { seat, view in seat["row"] == view["row"] }
                let joined = Seat.with(all).joining(optional: condition.aliased(alias))
                try #expect(joined.filter(!alias.exists).fetchCount(db) == 1)
            }
        }
        try read { db in
            try db.execute(sql: "INSERT INTO pair VALUES ('A', 'x')")
            let alias = TableAlias<Pair>()
            let pair = Seat.hasOne(Pair.self, using: ForeignKey(["a"], to: ["row"]))
            let request = Seat.joining(optional: pair.aliased(alias))
            try #expect(request.filter(alias.exists).fetchCount(db) == 2)
            try #expect(request.filter(!alias.exists).fetchCount(db) == 1)
            let sql = try request.filter(!alias.exists).makePreparedRequest(db).statement.sql
            #expect(sql.hasSuffix(#"WHERE ("pair"."a" IS NULL) AND ("pair"."b" IS NULL)"#), "\(sql)")
        }
    }
}
