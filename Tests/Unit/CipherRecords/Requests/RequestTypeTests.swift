import CipherDatabase
import Testing

@testable import CipherRecords

@Suite("Requests are read as the types that they are asked for")
struct RequestTypeTests {
    private struct Reading: Codable, Hashable, FetchableRecord, PersistableRecord, Identifiable {
        var id: Int64
        var name: String?
        enum Columns: String, ColumnExpression {
            case id, name
        }
    }

    private func queue() throws -> DatabaseQueue {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE reading (id INTEGER PRIMARY KEY, name TEXT)")
            try db.execute(sql: "INSERT INTO reading VALUES (1, 'Ann'), (2, NULL)")
        }
        return queue
    }

    @Test("a selection is read as the type that the context has")
    func inference() throws {
        let name = Column("name")
        let requests: [QueryInterfaceRequest<String>] = [
            Reading.select(name), Reading.select { $0.name }, Reading.select([name]), Reading.select(sql: "name"),
            Reading.select(literal: "name"), Reading.all().select(name), Reading.all().select { $0.name },
            Reading.all().select([name]), Reading.all().select(sql: "name"), Reading.all().select(literal: "name"),
            Table<Reading>("reading").select(name), Table<Reading>("reading").select { $0.name },
            Table("reading").select([name]), Table("reading").select(sql: "name"),
        ]
        let found = try queue().read { db throws in try requests.map { try $0.limit(1).fetchOne(db) } }
        #expect(found == requests.map { _ in "Ann" })
        // Without a context they are requests of records.
        func records(_ requests: QueryInterfaceRequest<Reading>...) -> Int { requests.count }
        let plain = [
            Reading.select(name), Reading.select([name]), Reading.select(sql: "name"), Reading.all().select(name),
        ]
        let (record, row) = (plain[0], Table("reading").select(name))
        #expect(records(record) == 1)
        #expect(type(of: row) == QueryInterfaceRequest<Row>.self)
    }

    @Test("tables of records, rows, values and optional values")
    func tables() throws {
        try queue().read { db throws in
            #expect(try Table<Reading>("reading").fetchOne(db) == Reading(id: 1, name: "Ann"))
            #expect(try Table<Reading>("reading").fetchSet(db).count == 2)
            #expect(try Table("reading").fetchAll(db)[0] == ["id": 1, "name": "Ann"])
            #expect(try Table<Int64>("reading").fetchAll(db) == [1, 2])
            #expect(try Table<Int64?>("reading").fetchSet(db) == [1, 2])
            let names = Table<String?>("reading").select(Column("name"), as: String?.self)
            #expect(try names.fetchAll(db) == ["Ann", nil])
            #expect(try Table<Reading>("reading").selectID().fetchAll(db) == [1, 2])
            #expect(try Table("reading").selectPrimaryKey(as: Int.self).fetchSet(db) == [1, 2])
            #expect(try Table("reading").select(Column("id")).fetchOne(db) == 1)
        }
    }

    @Test("requests of one's own, erased, adapted, and as subqueries")
    func ownRequests() throws {
        struct Names: FetchRequest {
            typealias RowDecoder = String
            func makePreparedRequest(_ db: Database, forSingleResult singleResult: Bool) throws -> PreparedRequest {
                let statement = try db.makeStatement(sql: "SELECT name FROM reading WHERE name IS NOT NULL")
                return PreparedRequest(statement: statement, adapter: nil)
            }
        }
        try queue().read { db throws in
            #expect(try Names().fetchAll(db) == ["Ann"])
            #expect(try Names().fetchCount(db) == 1)
            #expect(try AnyFetchRequest(Names()).fetchOne(db) == "Ann")
            let adapted = Reading.all().asRequest(of: Row.self).adapted { _ in ColumnMapping(["title": "name"]) }
            #expect(try adapted.fetchOne(db) == ["title": "Ann"])
            #expect(try adapted.fetchCount(db) == 2)
            let request: SQLRequest<Int64> = "SELECT MAX(id) FROM reading"
            #expect(try Reading.filter { $0.id == request }.fetchOne(db)?.id == 2)
            func first(_ query: some SQLSubqueryable) throws -> Int? {
                try Int.fetchOne(db, SQLRequest<Int>("SELECT (\(query))"))
            }
            #expect(try first(Reading.select(max(Column("id")))) == 2)
            #expect(try first(request) == 2)
        }
    }

    @Test("values that refer to a column are expressions of one's own")
    func ownExpressions() throws {
        struct Doubled: SQLSpecificExpressible {
            let column: Column
            var sqlExpression: SQLExpression { (column * 2).sqlExpression }
        }
        func year(_ date: some SQLSpecificExpressible) -> SQLExpression { SQL("STRFTIME('%Y', \(date))").sqlExpression }
        try queue().read { db throws in
            #expect(try Reading.select(Doubled(column: Column("id")), as: Int.self).fetchAll(db) == [2, 4])
            #expect(try Reading.filter(Doubled(column: Column("id")) > 3).fetchCount(db) == 1)
            let request = Reading.select(year("2026-02-03".databaseValue), as: Int.self)
            #expect(try request.fetchOne(db) == 2026)
        }
    }

    @Test("a request that has no type of its own is read as any; requests and associations name their table")
    func untyped() throws {
        let request = SQLRequest<Void>(sql: "SELECT name, id FROM reading", adapter: SuffixRowAdapter(fromIndex: 1))
        try queue().read { db throws in
            #expect(try Int.fetchAll(db, request) == [1, 2])
            #expect(try Int.fetchCursor(db, request).next() == 1)
            #expect(try Row.fetchOne(db, request) == ["id": 1])
            #expect(try DatabaseValue.fetchSet(db, request) == [1, 2])
        }
        struct Sensor: TableRecord {
            static let readings = hasMany(Reading.self)
            static let first = hasOne(Reading.self, key: "first", using: ForeignKey(["sensorId"]))
        }
        #expect(
            Reading.all().filter(key: 1).databaseTableName == "reading" && Table("x").all().databaseTableName == "x")
        #expect(Sensor.readings.databaseTableName == "reading" && Sensor.first.databaseTableName == "reading")
        #expect(Sensor.including(optional: Sensor.first).databaseTableName == "sensor")
    }

}
