import CipherDatabase
import CipherRecords
import CipherSchema
import Foundation
import Testing

private typealias Ship = Fleet.Ship
private typealias Harbour = Fleet.Harbour

/// Differences from GRDB that no other suite shows.
@Suite("The differences that Docs/Migrating-from-GRDB.md states, as to SQL, traces and regions")
struct MigrationGuideTests {
    /// The statements that a block runs, as a trace with values shows them.
    private func trace(_ body: (Database) throws -> Void) throws -> [String] {
        try Fleet.queue().write { db throws in
            var lines: [String] = []
            db.trace { lines.append($0.expandedDescription) }
            defer { db.trace(nil) }
            try body(db)
            return lines
        }
    }

    @Test("requests by keys: LIMIT 1, WHERE 0, and the count of different rows")
    func requests() throws {
        let lines = try trace { db throws in
            let ship = try Ship.find(db, key: 1)
            #expect(try ship.request(for: Ship.harbour).fetchOne(db)?.code == "B")
            #expect(try Ship.filter(id: nil).fetchAll(db).isEmpty)
            #expect(try Ship.all().distinct().fetchCount(db) == 4)
        }
        #expect(lines.contains(#"SELECT * FROM "harbour" WHERE "code" = 'B' LIMIT 1"#))
        #expect(lines.contains(#"SELECT * FROM "ship" WHERE 0"#))
        #expect(lines.contains(#"SELECT COUNT(*) FROM (SELECT DISTINCT * FROM "ship")"#))
    }

    @Test("traces: empty data, and the queries for the schema")
    func traces() throws {
        let lines = try trace { db throws in
            db.clearSchemaCache()
            #expect(try Data.fetchOne(db, sql: "SELECT ?", arguments: [Data()]) == Data())
            _ = try db.columns(in: "ship")
        }
        #expect(lines.contains("SELECT zeroblob(0)"))
        #expect(lines.contains { $0.contains("pragma_table_xinfo('ship', 'main')") })
    }

    @Test("common table expressions of one name: the later one counts in a request, and two in a join are an error")
    func commonTables() throws {
        try Fleet.queue().read { db throws in
            let (one, two) = (
                CommonTableExpression(named: "c", sql: "SELECT 1"), CommonTableExpression(named: "c", sql: "SELECT 2")
            )
            #expect(try Int.fetchOne(db, one.all().with(one).with(two)) == 2)
            let joined = Ship.with(one).joining(required: Ship.harbour.with(two))
            let error = #expect(throws: DatabaseError.self) { try joined.fetchCount(db) }
            #expect(error?.resultCode == .SQLITE_MISUSE)
        }
    }

    @Test("a request knows the tables of its prefetches, and its statement does not")
    func regions() throws {
        try Fleet.queue().read { db throws in
            let request = Harbour.including(all: Harbour.ships)
            #expect(try request.databaseRegion(db).description.contains("ship("))
            let prepared = try request.makePreparedRequest(db, forSingleResult: false)
            #expect(!prepared.statement.databaseRegion.description.contains("ship("))
        }
    }

    @Test("a queue's dumpSQL reads, and keeps the arguments of its own statements")
    func dump() throws {
        let queue = try Fleet.queue()
        let error = #expect(throws: DatabaseError.self) { try queue.dumpSQL("DELETE FROM voyage") }
        #expect(error?.resultCode == .SQLITE_READONLY)
        try queue.write { db throws in
            let statement = try db.makeStatement(sql: "UPDATE ship SET tons = tons + ?")
            try statement.execute(arguments: [1])
            #expect(statement.arguments == [1])
            try statement.execute()
            #expect(try Ship.find(db, key: 1).tons == 102)
        }
    }

    @Test("collations of comparisons, of lists and of orders; nil in SQL text")
    func sql() throws {
        try Fleet.queue().read { db throws in
            let name = Column("name").collating(.nocase)
            #expect(try Fleet.sql(db, Ship.filter(name == "a")).hasSuffix(#"WHERE "name" = ? COLLATE NOCASE"#))
            #expect(
                try Fleet.sql(db, Ship.filter(["a", "b"].contains(name))).hasSuffix(
                    #"WHERE ("name" COLLATE NOCASE) IN (?, ?)"#))
            let none: Int? = nil
            #expect(try ("SELECT \(none)" as SQL).build(db).sql == "SELECT NULL")
        }
    }
}
