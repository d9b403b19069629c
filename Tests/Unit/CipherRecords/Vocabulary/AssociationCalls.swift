import CipherDatabase
import CipherRecords
import CipherSchema

extension Calls {
    private typealias Captain = Fleet.Captain
    private typealias Harbour = Fleet.Harbour
    private typealias Ship = Fleet.Ship
    private typealias Voyage = Fleet.Voyage

    /// Section 6: associations.
    static func associations(_ call: inout Calls) {
        definitions(&call)
        throughOthers(&call)
        joins(&call)
        rows(&call)
        associationAggregates(&call)
    }

    private static func definitions(_ call: inout Calls) {
        call("belongsTo(_:)") { db in
            struct Mate: TableRecord {
                static let databaseTableName = "captain"
                static let ship = belongsTo(Ship.self)
            }
            return try Mate.joining(required: Mate.ship).fetchCount(db) == 2
        }
        call("belongsTo(_:key:using:)") { db in
            let port = Ship.belongsTo(Harbour.self, key: "port", using: ForeignKey(["harbourCode"]))
            return try Ship.including(required: port).asRequest(of: Row.self).fetchOne(db)?.scopes["port"] != nil
        }
        call("hasMany(_:)") { db in
            let ships = Harbour.hasMany(Ship.self)
            return try Harbour.joining(required: ships).fetchCount(db) == 3
        }
        call("hasMany(_:key:using:)") { db in
            let fleet = Harbour.hasMany(Ship.self, key: "fleet", using: ForeignKey(["harbourCode"]))
            return try Harbour.including(all: fleet).asRequest(of: Row.self).fetchOne(db)?.prefetchedRows["fleet"]?
                .count == 2
        }
        call("hasOne(_:)") { db in
            let captain = Ship.hasOne(Captain.self)
            return try Ship.joining(required: captain).fetchCount(db) == 2
        }
        call("hasOne(_:key:using:)") { db in
            let master = Ship.hasOne(Captain.self, key: "master", using: ForeignKey(["shipId"]))
            return try Ship.joining(required: master).fetchCount(db) == 2
        }
    }

    private static func throughOthers(_ call: inout Calls) {
        call("hasMany(_:through:using:key:)") { db in
            let trips = Harbour.hasMany(Voyage.self, through: Harbour.ships, using: Ship.voyages, key: "trips")
            return try Harbour.including(all: trips).asRequest(of: Row.self).fetchOne(db)?.prefetchedRows["trips"]?
                .count == 2
        }
        call("hasOne(_:through:using:key:)") { db in
            let home = Captain.hasOne(Harbour.self, through: Captain.ship, using: Ship.harbour, key: "home")
            return try Captain.including(required: home).asRequest(of: Row.self).fetchOne(db)?.scopesTree["home"]?[
                "code"]
                == "B"
        }
        call("hasMany(Table(_:))") { db in
            let ships = Harbour.hasMany(Table("ship"))
            return try Harbour.joining(required: ships).fetchCount(db) == 3
        }
        call("ForeignKey(_:to:)") { db in
            let keys = [ForeignKey(["harbourCode"], to: ["code"]), ForeignKey([Column("harbourCode")])]
            return try keys.allSatisfy { key in
                let harbour = Ship.belongsTo(Harbour.self, using: key)
                return try Ship.joining(required: harbour).fetchCount(db) == 3
            }
        }
        call("association.forKey(_:)") { db in
            let association = Ship.harbour.forKey("home")
            return try Row.fetchOne(db, Ship.including(required: association))?.scopes["home"] != nil
        }
        call("Inflections.default") { _ in
            Inflections.default.pluralize("player") == "players" && Inflections.default.singularize("feet") == "foot"
        }
    }

    private struct Trip: Decodable, FetchableRecord {
        var voyage: Voyage
        var ship: Ship
        var harbour: Harbour?
    }

    private static func joins(_ call: inout Calls) {
        call("request(for:)") { db in
            let harbour = try Harbour.find(db, key: "B")
            return try harbour.request(for: Harbour.ships).fetchCount(db) == 2
                && harbour.request(for: Harbour.voyages).filter { $0.miles > 600 }.fetchCount(db) == 1
        }
        call("including(required:)") { db in
            let request = Voyage.including(required: Voyage.ship.including(optional: Ship.harbour))
            return try request.asRequest(of: Trip.self).fetchAll(db).map(\.harbour?.code) == ["B", "B", "C"]
        }
        call("including(optional:)") { db in
            try Row.fetchAll(db, Ship.including(optional: Ship.harbour)).count == 4
        }
        call("including(all:)") { db in
            try Row.fetchAll(db, Harbour.including(all: Harbour.ships.including(all: Ship.voyages))).count == 3
        }
        call("joining(required:)") { db in
            try Ship.joining(required: Ship.harbour.filter { $0.founded > 1100 }).fetchAll(db).map(\.id) == [3]
        }
        call("joining(optional:)") { db in
            try Ship.joining(optional: Ship.harbour.order { $0.founded.desc }).fetchAll(db).first?.id == 3
        }
        call("annotated(withRequired:)") { db in
            let rows = try Row.fetchAll(
                db, Ship.annotated(withRequired: Ship.captain.select(Column("name").forKey("by"))))
            return rows.map { $0["by"] as String } == ["Ann", "Cyd"]
        }
        call("annotated(withOptional:)") { db in
            let rows = try Row.fetchAll(
                db, Ship.annotated(withOptional: Ship.captain.select(Column("name").forKey("by"))))
            return rows.map { $0["by"] as String? } == ["Ann", nil, "Cyd", nil]
        }
    }

    private static func rows(_ call: inout Calls) {
        call("row[\"harbour\"] as Harbour") { db in
            let row = try Row.fetchOne(db, Ship.including(required: Ship.harbour))
            let harbour: Harbour? = row.map { row in row["harbour"] as Harbour }
            return harbour?.code == "B"
        }
        call("row[\"ships\"] as [Ship]") { db in
            let row = try Row.fetchOne(db, Harbour.including(all: Harbour.ships))
            let ships: [Ship] = row.map { row in row["ships"] as [Ship] } ?? []
            let set: Set<Ship> = row.map { row in row["ships"] as Set<Ship> } ?? []
            return ships.count == 2 && set.count == 2
        }
        call("decode(_:forKey:)") { db in
            let row = try Row.fetchOne(db, Ship.including(required: Ship.harbour))
            return try row?.decode(Harbour.self, forKey: "harbour").code == "B"
        }
        call("decodeIfPresent(_:forKey:)") { db in
            let rows = try Row.fetchAll(db, Ship.including(optional: Ship.harbour))
            return try rows[3].decodeIfPresent(Harbour.self, forKey: "harbour") == nil
        }
        call("scopes") { db in
            try Row.fetchOne(db, Ship.including(required: Ship.harbour))?.scopes["harbour"]?["code"] == "B"
        }
        call("scopesTree") { db in
            let request = Voyage.including(required: Voyage.ship.including(required: Ship.harbour))
            return try Row.fetchOne(db, request)?.scopesTree["harbour"]?["code"] == "B"
        }
        call("prefetchedRows") { db in
            try Row.fetchOne(db, Harbour.including(all: Harbour.ships))?.prefetchedRows["ships"]?.count == 2
        }
        call("unscoped") { db in
            try Row.fetchOne(db, Ship.including(required: Ship.harbour))?.unscoped.count == 5
        }
        call("unadapted") { db in
            try Row.fetchOne(db, Ship.including(required: Ship.harbour))?.unadapted.count == 8
        }
        call("splittingRowAdapters(columnCounts:)") { db in
            let adapters = splittingRowAdapters(columnCounts: [1, 2])
            let adapter = ScopeAdapter(["first": adapters[0], "second": adapters[1]])
            let row = try Row.fetchOne(db, sql: "SELECT 1 AS a, 2 AS b, 3 AS c", adapter: adapter)
            return row?.scopes["second"]?["c"] == 3
        }
    }

    private struct Summary: Decodable, FetchableRecord {
        var ship: Ship
        var voyageCount: Int
        var maxVoyageMiles: Double?
    }

    private static func associationAggregates(_ call: inout Calls) {
        call("annotated(with: association.count)") { db in
            let association = Ship.voyages
            let request = Ship.annotated(with: association.count, association.max(Column("miles")))
            let all = try request.asRequest(of: Summary.self).fetchAll(db)
            return all.map(\.voyageCount) == [2, 0, 1, 0] && all[0].maxVoyageMiles == 700.5
        }
        call("having(association.isEmpty)") { db in
            let association = Ship.voyages
            return try Ship.having(association.isEmpty).fetchCount(db) == 2
                && Ship.having(association.isEmpty == false).fetchCount(db) == 2
                && Ship.having(association.count > 1 && association.min(Column("miles")) > 1).fetchCount(db) == 1
        }
        call("association.max(_:) min(_:) average(_:) sum(_:) total(_:)") { db in
            let association = Ship.voyages
            let request = Ship.annotated(
                with: association.max(Column("miles")), association.min { $0.miles }, association.average(\.miles),
                association.sum(Column("miles")), association.total(Column("miles")))
            return try Row.fetchOne(db, request)?.columnNames.suffix(5)
                == ["maxVoyageMiles", "minVoyageMiles", "averageVoyageMiles", "voyageMilesSum", "voyageMilesSum"]
        }
        call("aggregate.forKey(_:)") { db in
            let aggregate = Ship.voyages.count
            return try Row.fetchOne(db, Ship.annotated(with: aggregate.forKey("trips")))?["trips"] == 2
        }
        call("aggregate ??") { db in
            let aggregate = Ship.voyages.sum(Column("miles")) ?? 0
            return try Row.fetchOne(db, Ship.annotated(with: aggregate).filter(id: 2))?["voyageMilesSum"] == 0
        }
        call("abs(_:) length(_:) cast(_:as:)") { db in
            let (count, name) = (Ship.voyages.count, Ship.voyages.max(Column("miles")))
            let aggregates = [abs(count), length(name), cast(count, as: .text)]
            return try Row.fetchOne(db, Ship.annotated(with: aggregates))?.count == 8
        }
    }
}
