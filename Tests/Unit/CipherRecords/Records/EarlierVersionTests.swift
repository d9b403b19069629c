import CipherDatabase
import CipherRecords
import CipherSchema
import Foundation
import Testing

/// Programs for GRDB 6 declare strategies as properties, and those for GRDB 5 learn the key of a new row from another
/// callback. Without these requirements such a program compiled, stored dates in another format, and had no keys.
@Suite("The forms that earlier versions of GRDB have")
struct EarlierVersionTests {
    private struct Tide: Codable, Equatable, FetchableRecord, MutablePersistableRecord {
        static let databaseDateEncodingStrategy = DatabaseDateEncodingStrategy.secondsSince1970
        static let databaseDateDecodingStrategy = DatabaseDateDecodingStrategy.custom { value in
            Int.fromDatabaseValue(value).map { Date(timeIntervalSince1970: Double($0)) }
        }
        static let databaseDataEncodingStrategy = DatabaseDataEncodingStrategy.text
        static var databaseDataDecodingStrategy: DatabaseDataDecodingStrategy {
            .custom { String.fromDatabaseValue($0).map { Data($0.utf8) } }
        }
        static let databaseUUIDEncodingStrategy = DatabaseUUIDEncodingStrategy.string
        var id: Int64?
        var station: UUID
        var at: Date
        var note: Data
        mutating func didInsert(with rowID: Int64, for column: String?) { if column == "id" { id = rowID } }
    }

    private struct Buoy: Codable, FetchableRecord, PersistableRecord {
        static let databaseUUIDEncodingStrategy = DatabaseUUIDEncodingStrategy.lowercaseString
        static func databaseUUIDEncodingStrategy(for column: String) -> DatabaseUUIDEncodingStrategy {
            column == "id" ? .uppercaseString : databaseUUIDEncodingStrategy
        }
        var id: UUID
        var station: UUID
    }

    private final class Lamp: Record {
        var id: Int64?
        override init() { super.init() }
        required init(row: Row) throws {
            id = row["id"]
            try super.init(row: row)
        }
        override class var databaseTableName: String { "lamp" }
        override func encode(to container: inout PersistenceContainer) { container["id"] = id }
        override func didInsert(with rowID: Int64, for column: String?) { id = rowID }
    }

    @Test("strategies for all columns, and the key of an inserted row")
    func properties() throws {
        let station = UUID()
        var tide = Tide(id: nil, station: station, at: Date(timeIntervalSince1970: 90), note: Data("low".utf8))
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE tide (id INTEGER PRIMARY KEY, station, at, note)")
            try tide.insert(db)
            #expect(tide.id == 1)
            let row = try Row.fetchOne(db, sql: "SELECT * FROM tide")
            #expect(row == ["id": 1, "station": station.uuidString, "at": 90, "note": "low"])
            #expect(try Tide.fetchOne(db) == tide)
            let next = Tide(id: nil, station: station, at: tide.at, note: tide.note)
            #expect(try next.inserted(db).id == 2)
        }
    }

    @Test("the strategy of a column takes precedence, for keys as well")
    func columnBeforeType() throws {
        let buoy = Buoy(id: UUID(), station: UUID())
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE buoy (id TEXT PRIMARY KEY, station TEXT)")
            try buoy.insert(db)
            let stored = try Row.fetchOne(db, sql: "SELECT * FROM buoy")
            #expect(stored == ["id": buoy.id.uuidString, "station": buoy.station.uuidString.lowercased()])
            #expect(try Buoy.fetchOne(db, key: buoy.id)?.station == buoy.station)
        }
    }

    @Test("the callback of the class Record, and the names of statements and SQL")
    func names() throws {
        try DatabaseQueue().write { db in
            let create: UpdateStatement = try db.makeUpdateStatement(sql: "CREATE TABLE lamp (id INTEGER PRIMARY KEY)")
            try create.execute()
            let lamp = Lamp()
            try lamp.insert(db)
            #expect(lamp.id == 1 && !lamp.hasDatabaseChanges)
            try db.cachedUpdateStatement(sql: "INSERT INTO lamp VALUES (?)").execute(arguments: [7])
            let count: SelectStatement = try db.makeSelectStatement(sql: "SELECT count(*) FROM lamp")
            #expect(try Int.fetchOne(count) == 2)
            #expect(try Int.fetchAll(db.cachedSelectStatement(sql: "SELECT id FROM lamp")) == [1, 7])
            let query: SQLLiteral = "SELECT id FROM lamp WHERE id > \(5)"
            #expect(try Int.fetchAll(db, SQLRequest(literal: query)) == [7])
        }
    }

    @Test("changes with a label, and migrations with the name of their check")
    func changesAndMigrations() throws {
        let queue = DatabaseQueue()
        var migrator = DatabaseMigrator()
        migrator.registerMigrationWithDeferredForeignKeyCheck("tide") { db in
            try db.execute(sql: "CREATE TABLE tide (id INTEGER PRIMARY KEY, station, at, note)")
        }
        try migrator.migrate(queue)
        try queue.write { db in
            var tide = Tide(id: nil, station: UUID(), at: Date(timeIntervalSince1970: 90), note: Data("low".utf8))
            try tide.insert(db)
            #expect(try tide.updateChanges(db, with: { $0.note = Data("high".utf8) }))
            #expect(try !tide.updateChanges(db, with: { _ in }))
            // Without a label both forms fit, and do the same.
            #expect(try tide.updateChanges(db) { $0.at = Date(timeIntervalSince1970: 95) })
            #expect(try String.fetchOne(db, sql: "SELECT note FROM tide WHERE at = 95") == "high")
        }
    }
}
