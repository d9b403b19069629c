import CipherDatabase
import CipherRecords
import CipherSchema
import Foundation

extension Calls {
    private typealias Berth = Fleet.Berth
    private typealias Captain = Fleet.Captain
    private typealias Harbour = Fleet.Harbour
    private typealias Ship = Fleet.Ship
    private typealias ShipName = Fleet.ShipName

    private struct HTTPRequest: TableRecord {}
    private struct Plain: TableRecord {}

    /// Section 1: names from types and schema.
    static func names(_ call: inout Calls) {
        call("databaseTableName") { _ in
            HTTPRequest.databaseTableName == "httpRequest" && ShipName.databaseTableName == "ship"
        }
        call("tableExists(_:)") { db in try db.tableExists("ship") && !db.tableExists("boat") }
        call("viewExists(_:)") { db in try db.viewExists("bigShip") }
        call("triggerExists(_:)") { db in try !db.triggerExists("ship") }
        call("columns(in:)") { db in try db.columns(in: "captain").map(\.name) == ["id", "shipId", "name"] }
        call("db.primaryKey(_:)") { db in
            try db.primaryKey("ship").columns == ["id"] && db.primaryKey("ship").isRowID
                && db.primaryKey("ship").rowIDColumn == "id" && db.primaryKey("berth").columns.count == 2
        }
        call("indexes(on:)") { db in try db.indexes(on: "ship").first?.columns == ["name"] }
        call("foreignKeys(on:)") { db in try db.foreignKeys(on: "ship").first?.destinationTable == "harbour" }
        call("table(_:hasUniqueKey:)") { db in try db.table("ship", hasUniqueKey: ["name"]) }
        call("foreignKeyViolations()") { db in try db.foreignKeyViolations().next() == nil }
        call("checkForeignKeys()") { db in
            try db.checkForeignKeys()
            return true
        }
        call("schemaVersion()") { db in try db.schemaVersion() > 0 }
        call("clearSchemaCache()") { db in
            db.clearSchemaCache()
            return try db.primaryKey("ship").columns == ["id"]
        }
    }

    /// Section 2: records.
    static func records(_ call: inout Calls) {
        protocols(&call)
        columns(&call)
        fetching(&call)
        keys(&call)
        inserting(&call)
        updating(&call)
        updatingAndFetching(&call)
        saving(&call)
        changes(&call)
        callbacks(&call)
    }

    private struct Raw: FetchableRecord, PersistableRecord {
        static let databaseTableName = "harbour"
        enum Columns {
            static let code = Column("code")
        }
        var code: String
        init(code: String) { self.code = code }
        init(row: Row) throws { code = row["code"] }
        func encode(to container: inout PersistenceContainer) throws {
            container[Column("code")] = code
            container["name"] = "name of \(code)"
            container["founded"] = Int?.none
        }
    }

    private static func protocols(_ call: inout Calls) {
        call("TableRecord") { db in
            func count(_ type: (some TableRecord).Type) throws -> Int { try type.fetchCount(db) }
            return try count(Ship.self) == 4
        }
        call("FetchableRecord.init(row:)") { db in
            func fetch<T: FetchableRecord>(_ row: Row) throws -> T { try T.init(row: row) }
            let raw: Raw = try fetch(["code": "X"])
            return raw.code == "X"
        }
        call("EncodableRecord.encode(to:)") { _ in
            func fill(_ record: some EncodableRecord) throws -> PersistenceContainer {
                var container = PersistenceContainer()
                try record.encode(to: &container)
                return container
            }
            return try fill(Raw(code: "X"))["name"] == "name of X"
        }
        call("MutablePersistableRecord") { db in
            func insert(_ record: some MutablePersistableRecord) throws {
                var record = record
                try record.insert(db)
            }
            try insert(Fleet.ship())
            return true
        }
        call("PersistableRecord") { db in
            func insert(_ record: some PersistableRecord) throws { try record.insert(db) }
            try insert(Raw(code: "X"))
            return try Harbour.fetchOne(db, key: "X")?.founded == nil
        }
        call("PersistenceContainer") { _ in
            var container = PersistenceContainer()
            container["Name"] = "Ann"
            container[Column("age")] = 3
            return container["name"] == "Ann" && container[Column("AGE")] == 3
        }
    }

    private static func columns(_ call: inout Calls) {
        call("databaseSelection") { db in
            try Fleet.sql(db, ShipName.all()) == #"SELECT "id", "name" FROM "ship""#
                && Plain.databaseSelection.count == 1
        }
        call("databaseComponents") { _ in Ship.databaseComponents.tons.name == "tons" }
        call("Columns") { _ in
            typealias Columns = Ship.Columns
            return Columns.id.name == "id" && Harbour.Columns.code.name == "code"
        }
        call("Column(_:)") { _ in Column("tons").name == "tons" && Column(Berth.Key.number).name == "number" }
        call("ColumnExpression") { db in
            enum Names: String, ColumnExpression { case tons }
            return try Ship.filter(Names.tons > 100).fetchCount(db) == 2
        }
        call("\\.tons.desc") { db in try Ship.order(\.tons.desc).fetchOne(db)?.id == 3 }
        call("{ $0.tons }") { db in try Ship.order { $0.tons }.fetchOne(db)?.id == 4 }
        call("{ [$0.tons, $0.name] }") { db in try Ship.order { [$0.tons, $0.name] }.fetchOne(db)?.id == 4 }
    }

    private static func fetching(_ call: inout Calls) {
        call("fetchAll(_:)") { db in try Ship.fetchAll(db).count == 4 && Ship.all().fetchAll(db).count == 4 }
        call("fetchOne(_:)") { db in try Ship.fetchOne(db) != nil && Ship.none().fetchOne(db) == nil }
        call("fetchSet(_:)") { db in try Ship.fetchSet(db).count == 4 && Ship.all().fetchSet(db).count == 4 }
        call("fetchCursor(_:)") { db in
            try Ship.fetchCursor(db).next() != nil && Ship.none().fetchCursor(db).next() == nil
        }
        call("fetchAll(_:sql:arguments:adapter:)") { db in
            let sql = "SELECT 0, * FROM ship WHERE tons > ?"
            return try Ship.fetchAll(db, sql: sql, arguments: [150], adapter: SuffixRowAdapter(fromIndex: 1)).count == 2
        }
        call("fetchOne(_:sql:arguments:adapter:)") { db in
            try Ship.fetchOne(db, sql: "SELECT * FROM ship WHERE id = ?", arguments: [2], adapter: nil)?.name == "Brig"
        }
        call("fetchSet(_:sql:arguments:adapter:)") { db in
            try Ship.fetchSet(db, sql: "SELECT * FROM ship WHERE id = ?", arguments: [2], adapter: nil).count == 1
        }
        call("fetchCursor(_:sql:arguments:adapter:)") { db in
            try Ship.fetchCursor(db, sql: "SELECT * FROM ship WHERE id = ?", arguments: [2], adapter: nil).next()?.id
                == 2
        }
        call("Int.fetchOne(_:_:)") { db in try Int.fetchOne(db, Ship.select { max($0.tons) }) == 300 }
        call("Row.fetchAll(_:_:)") { db in try Row.fetchAll(db, Ship.all()).count == 4 }
        call("ShipName.fetchAll(_:_:)") { db in try ShipName.fetchAll(db, Ship.order(\.id)).first?.name == "Ahti" }
        call("fetchAll(_:arguments:adapter:)") { db in
            let statement = try db.makeStatement(sql: "SELECT * FROM ship WHERE tons > ?")
            return try Ship.fetchAll(statement, arguments: [150], adapter: nil).count == 2
        }
        call("fetchOne(_:arguments:adapter:)") { db in
            let statement = try db.makeStatement(sql: "SELECT * FROM ship WHERE tons > ?")
            return try Ship.fetchOne(statement, arguments: [250], adapter: nil)?.id == 3
        }
        call("fetchSet(_:arguments:adapter:)") { db in
            let statement = try db.makeStatement(sql: "SELECT * FROM ship WHERE tons > ?")
            return try Ship.fetchSet(statement, arguments: [150], adapter: nil).count == 2
        }
        call("fetchCursor(_:arguments:adapter:)") { db in
            let statement = try db.makeStatement(sql: "SELECT * FROM ship WHERE tons > ?")
            return try Ship.fetchCursor(statement, arguments: [250], adapter: nil).next()?.id == 3
        }
        call("row[column]") { db in
            let column = Column("name")
            return try Row.fetchOne(db, Ship.order(\.id)).map { row in row[column] as String } == "Ahti"
        }
        call("row.copy()") { db in
            let row = try Row.fetchCursor(db, Ship.order(\.id)).next()
            return row?.copy()["name"] == "Ahti"
        }
    }

    private static func keys(_ call: inout Calls) {
        call("fetchOne(_:key:)") { db in
            try Ship.fetchOne(db, key: 1)?.name == "Ahti" && Ship.fetchOne(db, key: ["name": "Cog"])?.id == 3
                && Ship.fetchOne(db, key: Int?.none) == nil
        }
        call("fetchAll(_:keys:)") { db in
            try Ship.fetchAll(db, keys: [1, 9]).count == 1
                && Berth.fetchAll(db, keys: [["harbourCode": "B", "number": 1]]).count == 1
        }
        call("fetchSet(_:keys:)") { db in try Ship.fetchSet(db, keys: [1, 2]).count == 2 }
        call("fetchCursor(_:keys:)") { db in try Ship.fetchCursor(db, keys: [3]).next()?.name == "Cog" }
        call("find(_:key:)") { db in
            try Ship.find(db, key: 1).name == "Ahti" && Ship.find(db, key: ["name": "Cog"]).id == 3
        }
        call("fetchOne(_:id:)") { db in try Ship.fetchOne(db, id: 2)?.name == "Brig" }
        call("fetchAll(_:ids:)") { db in try Ship.fetchAll(db, ids: [1, 2]).count == 2 }
        call("fetchSet(_:ids:)") { db in try Ship.fetchSet(db, ids: [1, 2]).count == 2 }
        call("fetchCursor(_:ids:)") { db in try Ship.fetchCursor(db, ids: [2]).next()?.id == 2 }
        call("find(_:id:)") { db in try Ship.find(db, id: 2).name == "Brig" }
        call("RecordError.recordNotFound") { db in
            do {
                _ = try Ship.find(db, id: 99)
                return false
            } catch RecordError.recordNotFound(databaseTableName: let table, key: let key) {
                return table == "ship" && key == ["id": 99.databaseValue]
            }
        }
        call("exists(_:key:)") { db in
            try Ship.exists(db, key: 1) && !Berth.exists(db, key: ["harbourCode": "D", "number": 1])
        }
        call("exists(_:id:)") { db in try Ship.exists(db, id: 1) && !Ship.exists(db, id: 99) }
        call("fetchCount(_:)") { db in try Ship.fetchCount(db) == 4 && Ship.filter { $0.tons > 150 }.fetchCount(db) == 2
        }
        call("deleteAll(_:)") { db in try Fleet.Voyage.deleteAll(db) == 3 }
        call("deleteAll(_:keys:)") { db in
            try Captain.deleteAll(db, keys: [1, 2]) == 2
                && Berth.deleteAll(db, keys: [["harbourCode": "B", "number": 1]]) == 1
        }
        call("deleteAll(_:ids:)") { db in try Fleet.Voyage.deleteAll(db, ids: [1, 3]) == 2 }
        call("deleteOne(_:key:)") { db in
            try Captain.deleteOne(db, key: 1) && !Captain.deleteOne(db, key: ["id": 1])
        }
        call("deleteOne(_:id:)") { db in try Fleet.Voyage.deleteOne(db, id: 1) && !Fleet.Voyage.deleteOne(db, id: 1) }
    }

    private static func inserting(_ call: inout Calls) {
        call("insert(_:)") { db in
            var ship = Fleet.ship()
            try ship.insert(db)
            try Harbour(code: "E", name: "Elba").insert(db)
            return try ship.id == 5 && Harbour.fetchCount(db) == 4
        }
        call("insert(_:onConflict:)") { db in
            try Harbour(code: "B", name: "Bremen").insert(db, onConflict: .replace)
            return try Harbour.fetchOne(db, key: "B")?.name == "Bremen"
        }
        call("inserted(_:)") { db in try Fleet.ship().inserted(db).id == 5 }
        call("insertAndFetch(_:)") { db in try Fleet.ship().insertAndFetch(db).id == 5 }
        call("insertAndFetch(_:as:)") { db in
            var ship = Fleet.ship()
            return try ship.insertAndFetch(db, as: ShipName.self).name == "Elk" && ship.id == 5
        }
        call("insertAndFetch(_:selection:fetch:)") { db in
            var ship = Fleet.ship()
            return try ship.insertAndFetch(db, selection: [Column("id")], fetch: { try Int.fetchOne($0) }) == 5
        }
        call("insertAndFetch(_:fetch:select:)") { db in
            var ship = Fleet.ship()
            return try ship.insertAndFetch(db, fetch: { try Int.fetchOne($0) }, select: { [$0.tons] }) == 7
        }
        call("InsertionSuccess") { _ in
            let success = InsertionSuccess(rowID: 1, rowIDColumn: "id", persistenceContainer: PersistenceContainer())
            return success.rowID == 1 && success.rowIDColumn == "id"
                && PersistenceSuccess(success).persistenceContainer["id"] == 1
        }
        call(".rollback .abort .fail .ignore .replace") { db in
            let all: [Database.ConflictResolution] = [.rollback, .abort, .fail, .ignore, .replace]
            for policy in all.dropFirst().dropLast(2) {
                guard Fleet.refuses({ try Harbour(code: "B", name: "x").insert(db, onConflict: policy) }) else {
                    return false
                }
            }
            return try Harbour.find(db, key: "B").name == "Bergen"
        }
        call("persistenceConflictPolicy") { db in
            struct Port: Codable, PersistableRecord {
                static let databaseTableName = "harbour"
                static let persistenceConflictPolicy = PersistenceConflictPolicy(insert: .replace, update: .ignore)
                var code: String
                var name: String
            }
            try Port(code: "B", name: "Bremen").insert(db)
            return try Harbour.fetchOne(db, key: "B")?.name == "Bremen"
        }
    }

    private static func updating(_ call: inout Calls) {
        call("update(_:)") { db in
            try Harbour(code: "B", name: "Bremen").update(db)
            return try Harbour.fetchOne(db, key: "B") == Harbour(code: "B", name: "Bremen")
        }
        call("update(_:onConflict:)") { db in
            var ship = try Ship.find(db, id: 1)
            ship.name = "Brig"
            try ship.update(db, onConflict: .replace)
            return try Ship.fetchCount(db) == 3
        }
        call("update(_:columns:)") { db in
            let harbour = Harbour(code: "B", name: "Bremen")
            try harbour.update(db, columns: ["name"])
            try harbour.update(db, columns: [Column("name")])
            try harbour.update(db, columns: [Harbour.Columns.name])
            return try Harbour.fetchOne(db, key: "B")?.founded == 1070
        }
        call("updateChanges(_:from:)") { db in
            let former = try Ship.find(db, id: 1)
            var ship = former
            ship.tons = 101
            return try ship.updateChanges(db, from: former) && !ship.updateChanges(db, from: ship)
        }
        call("updateChanges(_:modify:)") { db in
            var ship = try Ship.find(db, id: 1)
            let changed = try ship.updateChanges(db) { $0.tons = 101 }
            return try changed && !ship.updateChanges(db, modify: { $0.tons = 101 })
        }
    }

    private static func updatingAndFetching(_ call: inout Calls) {
        call("updateAndFetch(_:)") { db in try Harbour(code: "B", name: "b").updateAndFetch(db).name == "b" }
        call("updateAndFetch(_:as:)") { db in
            try Ship(id: 1, name: "Aya", tons: 9).updateAndFetch(db, as: ShipName.self).name == "Aya"
        }
        call("updateAndFetch(_:selection:fetch:)") { db in
            try Harbour(code: "B", name: "b").updateAndFetch(
                db, selection: [Column("name")], fetch: { try String.fetchOne($0) }) == "b"
        }
        call("updateAndFetch(_:fetch:select:)") { db in
            try Harbour(code: "B", name: "b").updateAndFetch(
                db, fetch: { try String.fetchOne($0) }, select: { [$0.code] }) == "B"
        }
        call("updateChangesAndFetch(_:modify:)") { db in
            var ship = try Ship.find(db, id: 1)
            let fetched = try ship.updateChangesAndFetch(db) { $0.tons = 101 }
            let none = try ship.updateChangesAndFetch(db, modify: { $0.tons = 101 })
            return fetched?.tons == 101 && none == nil
        }
        call("updateChangesAndFetch(_:as:modify:)") { db in
            var ship = try Ship.find(db, id: 1)
            return try ship.updateChangesAndFetch(db, as: ShipName.self, modify: { $0.name = "A" })?.name == "A"
        }
        call("updateChangesAndFetch(_:selection:fetch:modify:)") { db in
            var ship = try Ship.find(db, id: 1)
            return try ship.updateChangesAndFetch(
                db, selection: [Column("name")], fetch: { try String.fetchOne($0) }, modify: { $0.name = "A" }) == "A"
        }
    }

    private static func saving(_ call: inout Calls) {
        call("insertOrIgnore(_:)") { db in
            let isInserted = try Harbour(code: "B", name: "Bremen").insertOrIgnore(db)
            return try !isInserted && Harbour.fetchOne(db, key: "B")?.name == "Bergen"
        }
        call("save(_:)") { db in
            var ship = Fleet.ship()
            try ship.save(db)
            ship.tons = 8
            try ship.save(db)
            return try Ship.find(db, id: 5).tons == 8
        }
        call("saved(_:)") { db in try Fleet.ship().saved(db).id == 5 }
        call("saveAndFetch(_:)") { db in try Fleet.ship().saveAndFetch(db).id == 5 }
        call("saveAndFetch(_:as:)") { db in
            var ship = Fleet.ship(id: 2)
            return try ship.saveAndFetch(db, as: ShipName.self).name == "Elk"
        }
        call("saveAndFetch(_:selection:fetch:)") { db in
            var ship = Fleet.ship(id: 2)
            return try ship.saveAndFetch(db, selection: [Column("id")], fetch: { try Int.fetchOne($0) }) == 2
        }
        call("saveAndFetch(_:fetch:select:)") { db in
            var ship = Fleet.ship(id: 2)
            return try ship.saveAndFetch(db, fetch: { try Int.fetchOne($0) }, select: { [$0.id] }) == 2
        }
        call("upsert(_:)") { db in
            try Harbour(code: "B", name: "Bremen").upsert(db)
            return try Harbour.fetchOne(db, key: "B")?.name == "Bremen"
        }
        call("upsertAndFetch(_:)") { db in try Harbour(code: "B", name: "Bremen").upsertAndFetch(db).name == "Bremen" }
        call("upsertAndFetch(_:onConflict:doUpdate:)") { db in
            var ship = Fleet.ship("Ahti")
            return try ship.upsertAndFetch(
                db, onConflict: ["name"],
                doUpdate: { excluded in
                    [Column("tons") += excluded[Column("tons")], Column("harbourCode").noOverwrite]
                }) == Ship(id: 1, name: "Ahti", tons: 107, nickname: nil, harbourCode: "B")
        }
        call("upsertAndFetch(_:as:onConflict:doUpdate:)") { db in
            var ship = Fleet.ship("Ahti")
            return try ship.upsertAndFetch(db, as: ShipName.self, onConflict: ["name"], doUpdate: { _ in [] }).id == 1
        }
        call("delete(_:)") { db in
            let captain = Captain(id: 1, shipId: 1, name: "Ann")
            return try captain.delete(db) && !captain.delete(db)
        }
        call("exists(_:)") { db in try Captain(id: 1, shipId: 1, name: "Ann").exists(db) && !Fleet.ship().exists(db) }
    }

    private static func changes(_ call: inout Calls) {
        call("recordNotFound(_:key:) recordNotFound(_:id:) recordNotFound(key:) recordNotFound(_:)") { db in
            let errors: [any Error] = [
                Ship.recordNotFound(db, key: 9), Ship.recordNotFound(db, id: 9), Ship.recordNotFound(key: ["id": 9]),
                Fleet.ship(id: 9).recordNotFound(db),
            ]
            return errors.allSatisfy { $0 is RecordError }
        }
        call("databaseEquals(_:)") { _ in
            Fleet.ship().databaseEquals(Fleet.ship()) && !Fleet.ship().databaseEquals(Fleet.ship("x"))
        }
        call("databaseChanges(from:)") { _ in
            try Fleet.ship().databaseChanges(from: Fleet.ship("x")) == ["name": "x".databaseValue]
        }
        call("databaseChanges(modify:)") { _ in
            var ship = Fleet.ship()
            return try ship.databaseChanges(modify: { $0.tons = 8 }) == ["tons": 7.databaseValue]
        }
        call("Record hasDatabaseChanges databaseChanges") { db in
            func isRecord(_ buoy: Record) -> Bool { true }
            let buoy = Buoy()
            try buoy.insert(db)
            let before = buoy.hasDatabaseChanges
            buoy.code = "Y"
            return try isRecord(buoy) && !before && buoy.hasDatabaseChanges
                && buoy.databaseChanges.keys.sorted() == ["code"]
        }
        call("databaseDictionary") { _ in try Fleet.ship().databaseDictionary["tons"] == 7.databaseValue }
    }

    /// A record that is a class, and knows what has changed.
    private final class Buoy: Record {
        var code = "X"
        override class var databaseTableName: String { "harbour" }
        override init() { super.init() }
        required init(row: Row) throws {
            code = row["code"]
            try super.init(row: row)
        }
        override func encode(to container: inout PersistenceContainer) throws {
            container["code"] = code
            container["name"] = "buoy"
        }
    }

    /// Reports its callbacks to a list.
    private final class Boat: PersistableRecord {
        static let databaseTableName = "harbour"
        var code = "X"
        var calls: [String] = []
        func encode(to container: inout PersistenceContainer) throws {
            container["code"] = code
            container["name"] = "boat"
        }
        func willInsert(_ db: Database) throws { calls.append("willInsert") }
        func aroundInsert(_ db: Database, insert: () throws -> InsertionSuccess) throws {
            calls.append("aroundInsert")
            _ = try insert()
        }
        func didInsert(_ inserted: InsertionSuccess) { calls.append("didInsert") }
        func willUpdate(_ db: Database, columns: Set<String>) throws { calls.append("willUpdate") }
        func aroundUpdate(_ db: Database, columns: Set<String>, update: () throws -> PersistenceSuccess) throws {
            calls.append("aroundUpdate")
            _ = try update()
        }
        func didUpdate(_ updated: PersistenceSuccess) { calls.append("didUpdate") }
        func willSave(_ db: Database) throws { calls.append("willSave") }
        func aroundSave(_ db: Database, save: () throws -> PersistenceSuccess) throws {
            calls.append("aroundSave")
            _ = try save()
        }
        func didSave(_ saved: PersistenceSuccess) { calls.append("didSave") }
        func willDelete(_ db: Database) throws { calls.append("willDelete") }
        func aroundDelete(_ db: Database, delete: () throws -> Bool) throws {
            calls.append("aroundDelete")
            _ = try delete()
        }
        func didDelete(deleted: Bool) { calls.append("didDelete") }
    }

    private static func callbacks(_ call: inout Calls) {
        call("willSave aroundSave willInsert aroundInsert didInsert didSave") { db in
            let boat = Boat()
            try boat.insert(db)
            return boat.calls == ["willSave", "aroundSave", "willInsert", "aroundInsert", "didInsert", "didSave"]
        }
        call("willUpdate aroundUpdate didUpdate") { db in
            let boat = Boat()
            try boat.insert(db)
            boat.calls = []
            try boat.update(db)
            return boat.calls == ["willSave", "aroundSave", "willUpdate", "aroundUpdate", "didUpdate", "didSave"]
        }
        call("willDelete aroundDelete didDelete") { db in
            let boat = Boat()
            try boat.delete(db)
            return boat.calls == ["willDelete", "aroundDelete", "didDelete"]
        }
    }
}

extension Fleet.Berth {
    enum Key: String, CodingKey { case number }
}
