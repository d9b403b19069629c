import CipherDatabase
import CipherRecords
import CipherSchema
import Foundation
import Testing

// Code that was written for GRDB asks for its protocols in generic functions. Each request, value and column conforms to
// all of those that it conforms to there.

private typealias Ship = Fleet.Ship
private typealias Harbour = Fleet.Harbour

@Suite("Requests, columns and values in the generic functions of a program")
struct GenericContextTests {
    private func names(_ db: Database, _ request: some FetchRequest<Ship>) throws -> [String] {
        try request.fetchAll(db).map(\.name).sorted()
    }

    private func isAmong<Request: FetchRequest>(_ column: Column, _ request: Request) -> QueryInterfaceRequest<Ship> {
        Ship.filter(request.contains(column))
    }

    /// A request of a program, which only knows how to make its statement.
    private struct OldHarbours: FetchRequest {
        typealias RowDecoder = String
        var before: Int

        func makePreparedRequest(_ db: Database, forSingleResult singleResult: Bool) throws -> PreparedRequest {
            let statement = try db.makeStatement(sql: "SELECT code FROM harbour WHERE founded < :year ;")
            try statement.setArguments(["year": before])
            return PreparedRequest(statement: statement)
        }
    }

    @Test("every request is a subquery")
    func subqueries() throws {
        try Fleet.queue().write { db throws in
            let (column, old) = (Column("harbourCode"), OldHarbours(before: 1100))
            let literal: SQLRequest<String> = "SELECT code FROM harbour WHERE founded < \(1100)"
            let requests: [AnyFetchRequest<String>] = [
                AnyFetchRequest(old), AnyFetchRequest(literal),
                AnyFetchRequest(Harbour.filter { $0.founded < 1100 }.select({ $0.code }, as: String.self)),
                AnyFetchRequest(Harbour.filter { $0.founded < 1100 }.select { $0.code }).asRequest(of: String.self),
            ]
            for request in requests {
                #expect(try names(db, isAmong(column, request)) == ["Ahti", "Brig"])
                #expect(try names(db, Ship.filter(request.exists() && column == request)) == ["Ahti", "Brig"])
                #expect(try String.fetchAll(db, request) == ["B"] && request.fetchCount(db) == 1)
                let sql: SQL = "SELECT name FROM ship WHERE harbourCode IN (\(request)) AND tons < \(150)"
                #expect(try String.fetchAll(db, SQLRequest<String>(literal: sql)) == ["Ahti"])
            }
            #expect(try names(db, isAmong(column, old)) == ["Ahti", "Brig"])
            #expect(try names(db, isAmong(column, old.adapted { _ in SuffixRowAdapter(fromIndex: 0) })).count == 2)
            #expect(try names(db, Ship.filter(!old.contains(column))) == ["Cog"])
            let cte = CommonTableExpression<Row>(named: "old", request: old)
            #expect(try cte.all().with(cte).select(Column("code"), as: String.self).fetchAll(db) == ["B"])
        }
    }

    @Test("a view of any request")
    func view() throws {
        try Fleet.queue().write { db throws in
            try db.create(view: "old", as: SQLRequest<Row>("SELECT code FROM harbour WHERE founded < \(1100)"))
            #expect(try String.fetchAll(db, sql: "SELECT * FROM old") == ["B"])
        }
    }

    private struct Heavy: SQLSpecificExpressible, RawRepresentable {
        var rawValue: SQLExpression
    }

    @Test("types with raw values, and optionals, stand where their values do")
    func rawValues() throws {
        try Fleet.queue().read { db throws in
            let heavy = Heavy(rawValue: Column("tons") > 250)
            #expect(try names(db, Ship.filter(heavy)) == ["Cog"])
            let (some, none): (Column?, Column?) = (Column("name"), nil)
            #expect(try String.fetchAll(db, Ship.select(some).order(some)) == ["Ahti", "Brig", "Cog", "dory"])
            #expect(try Row.fetchAll(db, Ship.select(none)).allSatisfy { $0.hasNull(atIndex: 0) })
            let (expression, selection): ((any SQLExpressible)?, (any SQLSelectable)?) = (nil, Column("name"))
            let sql: SQL = "SELECT \(expression) IS NULL, \(selection) FROM ship ORDER BY id"
            let row = try #require(try Row.fetchOne(db, SQLRequest<Row>(literal: sql)))
            #expect(row[0] == true && row[1] == "Ahti")
            let record: any TableRecord = Fleet.ship()
            #expect(try Int.fetchOne(db, SQLRequest<Int>("SELECT COUNT(*) FROM \(tableOf: record)")) == 4)
        }
    }

    private static func key<Record: TableRecord>(of type: Record.Type) -> @Sendable () -> String {
        { Record.databaseTableName }
    }

    @Test("a record's type crosses isolations")
    func metatypes() { #expect(Self.key(of: Ship.self)() == "ship") }

    @Test("aliases: names, types, key paths to all that may be selected, compared or ordered")
    func aliases() throws {
        let anonymous: TableAlias<Void> = TableAlias(name: "s")
        #expect(Set([anonymous, TableAlias(name: "s")]).count == 1 && TableAlias() != TableAlias())
        let ship = TableAlias(name: "vessel", for: Ship.self)
        try Fleet.queue().read { db throws in
            let request = Harbour.joining(required: Harbour.ships.aliased(ship)).filter(ship.tons > 250)
            #expect(try request.fetchAll(db).map(\.code) == ["C"])
            #expect(try Fleet.sql(db, request).contains(#""vessel"."tons" >"#))
            #expect(try Fleet.sql(db, Ship.aliased(ship).order(ship.name.desc)).contains(#""name" DESC"#))
        }
    }

    @Test("storage classes, operators and lists")
    func expressions() throws {
        try Fleet.queue().read { db throws in
            let storage: Database.StorageClass = .text
            #expect(try String.fetchOne(db, Ship.select(cast(Column("tons"), as: storage))) == "100")
            let sum: SQLExpression.AssociativeBinaryOperator = .add
            #expect(Set([sum, .multiply, .add]).count == 2)
            let columns: ArraySlice<any SQLSpecificExpressible> = [Column("nickname"), Column("name")][...]
            #expect(try String.fetchAll(db, Ship.select(coalesce(columns)).orderByPrimaryKey()).first == "Ahti")
            let options: Database.JSONValidationOptions? = nil
            #expect(try Bool.fetchOne(db, Ship.select(Database.jsonIsValid("[1]", options: options))) == true)
        }
    }

    @Test("the columns of a record, one after another; rows, cursors and statements")
    func collections() throws {
        try Fleet.queue().read { db throws in
            let container = try PersistenceContainer(Fleet.ship("Elk", id: 5))
            #expect(container.count == 5 && container.map(\.0) == ["id", "name", "tons", "nickname", "harbourCode"])
            #expect(container[1].1 == "Elk".databaseValue && container.last?.0 == "harbourCode")
            let row = try #require(try Row.fetchOne(db, sql: "SELECT 1 AS a, 2 AS b, 3 AS c"))
            #expect(row.startIndex.distance(to: row.endIndex) == 3 && row[row.startIndex.advanced(by: 2)].0 == "c")
            let cursor = try Int.fetchCursor(db, sql: "SELECT id FROM ship")
            #expect(cursor.databaseRegion.description == cursor.statement.databaseRegion.description)
            #expect(try !cursor.isEmpty && cursor.databaseRegion.description.contains("ship"))
            var ids: Set<Int> = [1, 9]
            #expect(try ids.union(Int.fetchCursor(db, sql: "SELECT id FROM ship")) == [1, 2, 3, 4, 9])
            try ids.formIntersection(Int.fetchCursor(db, sql: "SELECT id FROM ship"))
            #expect(ids == [1])
            let statement = try db.makeStatement(sql: "SELECT id, name AS Name FROM ship")
            #expect(statement.index(ofColumn: "NAME") == 1 && statement.index(ofColumn: "tons") == nil)
            #expect(Set([StatementArguments([1]), [1], ["a": 1]]).count == 2)
            let request = Harbour.including(all: Harbour.ships).orderByPrimaryKey()
            let (first, again) = (try Row.fetchAll(db, request), try Row.fetchAll(db, request))
            #expect(first[0].prefetchedRows == again[0].prefetchedRows)
            #expect(first[0].prefetchedRows != again[1].prefetchedRows)
        }
    }

    @Test("values that read themselves from a statement")
    func statementColumns() throws {
        func all<Value: DatabaseValueConvertible & StatementColumnConvertible>(
            _ type: Value.Type, _ db: Database, _ sql: String
        ) throws -> [Value] { try Value.fetchAll(db, sql: sql) }
        try DatabaseQueue().read { db throws in
            let dates = try all(DatabaseDateComponents.self, db, "SELECT '2026-11-28'")
            #expect(dates.map(\.format) == [.YMD] && dates[0].dateComponents.day == 28)
            let statement = try db.makeStatement(sql: "SELECT NULL, 7")
            let cursor = try Row.fetchCursor(statement)
            _ = try cursor.next()
            #expect(Int.fromStatement(statement.sqliteStatement, atUncheckedIndex: 0) == nil)
            #expect(Int?.fromStatement(statement.sqliteStatement, atUncheckedIndex: 0) == .some(nil))
            #expect(Int.fromStatement(statement.sqliteStatement, atUncheckedIndex: 1) == 7)
        }
    }

    @Test("names of schemas, checkpoints, connections and errors")
    func names() throws {
        #expect(DatabaseSchemaID.main.schemaTableName == "sqlite_master")
        #expect(DatabaseSchemaID.temp.schemaTableName == "sqlite_temp_master")
        #expect(DatabaseObjectID(name: "a", schemaID: .temp) == DatabaseObjectID(schemaID: .temp, name: "a"))
        #expect(Database.CheckpointMode(rawValue: 3) == .truncate)
        let queue = try Fleet.queue()
        try queue.writeWithoutTransaction { db throws in
            let (frames, checkpointed) = try db.checkpoint(.passive)
            #expect(frames == 0 && checkpointed == 0)
            #expect(db.debugDescription == "<Database: \(db)>")
            #expect(FTS5.api(db).pointee.iVersion >= 2)
        }
        #expect(throws: PersistenceError.self) { try queue.read { _ = try Ship.find($0, id: 99) } }
        try queue.read { db throws in
            #expect(try Row.fetchAll(db, sql: "PRAGMA table_xinfo(ship)").count == 5)
            let columns = try ColumnInfo.fetchAll(db, sql: "PRAGMA table_xinfo(ship)")
            #expect(columns.map(\.name) == ["id", "name", "tons", "nickname", "harbourCode"])
            #expect(try ForeignKeyViolation.fetchAll(db, sql: "PRAGMA foreign_key_check").isEmpty)
            let violations: RecordCursor<ForeignKeyViolation> = try db.foreignKeyViolations()
            #expect(try violations.isEmpty && db.foreignKeyViolations(in: "ship", in: "main").isEmpty)
        }
    }

    @Test("asynchronous vacuum and erase; reads of a snapshot within one another")
    func databases() async throws {
        let queue = try Fleet.queue()
        try await queue.vacuum()
        try await queue.erase()
        #expect(try await queue.read { try $0.tableExists("ship") } == false)
    }
}
