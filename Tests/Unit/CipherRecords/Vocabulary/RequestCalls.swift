import CipherDatabase
import CipherRecords
import CipherSchema

extension Calls {
    private typealias Berth = Fleet.Berth
    private typealias Harbour = Fleet.Harbour
    private typealias Ship = Fleet.Ship
    private typealias ShipName = Fleet.ShipName
    private typealias Voyage = Fleet.Voyage

    /// Section 4: requests.
    static func requests(_ call: inout Calls) {
        sources(&call)
        selections(&call)
        filters(&call)
        groupsAndOrders(&call)
        fetches(&call)
        batchDeletions(&call)
        batchUpdates(&call)
        extensionPoints(&call)
        whenConnected(&call)
        statics(&call)
        literals(&call)
        interpolations(&call)
        commonTables(&call)
    }

    private static func sources(_ call: inout Calls) {
        call("all()") { db in try Ship.all().fetchCount(db) == 4 }
        call("none()") { db in
            try Ship.none().fetchAll(db).isEmpty && Ship.all().none().isEmpty(db)
        }
        call("Table(_:)") { db in
            try Table("ship").fetchAll(db).first?["name"] == "Ahti" && Table<Ship>("ship").fetchOne(db)?.id == 1
        }
        call("limit(_:offset:)") { db in
            try Ship.order(\.id).limit(2, offset: 1).fetchAll(db).map(\.id) == [2, 3]
                && Ship.limit(1).fetchAll(db).count == 1
        }
        call("distinct()") { db in try Ship.all().select(\.harbourCode).distinct().fetchCount(db) == 3 }
        call("aliased(_:)") { db in
            let alias = TableAlias<Ship>(name: "s")
            return try Fleet.sql(db, Ship.all().aliased(alias)) == #"SELECT "s".* FROM "ship" "s""#
        }
        call("with(_:)") { db in
            let big = CommonTableExpression(named: "big", request: Ship.filter { $0.tons > 150 })
            return try big.all().with(big).fetchCount(db) == 2
        }
        call("asRequest(of:)") { db in try Ship.all().asRequest(of: ShipName.self).fetchAll(db).count == 4 }
    }

    private static func selections(_ call: inout Calls) {
        call("select(_:)") { db in
            let columns: [any SQLSelectable] = [Column("id")]
            return try Row.fetchOne(db, Ship.all().select(Column("id"), Column("name")))?.count == 2
                && Row.fetchOne(db, Ship.all().select(columns))?.count == 1
                && Row.fetchOne(db, Ship.all().select { $0.id })?.count == 1
                && Row.fetchOne(db, Ship.all().select { [$0.id, $0.name] })?.count == 2
        }
        call("select(_:as:)") { db in
            try Ship.all().select(\.name, as: String.self).fetchSet(db).count == 4
                && Ship.all().select(Column("id"), as: Int.self).fetchAll(db).count == 4
                && Ship.all().select([Column("id")], as: Int.self).fetchAll(db).count == 4
                && Ship.all().select({ [max($0.tons)] }, as: Int.self).fetchOne(db) == 300
        }
        call("select(sql:arguments:)") { db in
            try Row.fetchOne(db, Ship.all().select(sql: "tons + ?", arguments: [1]).order(\.id))?[0] == 101
        }
        call("select(sql:arguments:as:)") { db in
            try Ship.order(\.id).select(sql: "tons + ?", arguments: [1], as: Int.self).fetchOne(db) == 101
        }
        call("select(literal:)") { db in
            try Row.fetchOne(db, Ship.order(\.id).select(literal: "tons + \(1)"))?[0] == 101
        }
        call("select(literal:as:)") { db in
            try Ship.order(\.id).select(literal: "tons + \(1)", as: Int.self).fetchOne(db) == 101
        }
        call("selectID()") { db in try Voyage.all().selectID().fetchAll(db).count == 3 }
        call("selectPrimaryKey(as:)") { db in
            try Ship.all().selectPrimaryKey(as: Int64.self).fetchSet(db) == [1, 2, 3, 4]
        }
        call("annotated(with:)") { db in
            let more: [any SQLSelectable] = [Column("rowid").forKey("r")]
            return try Row.fetchOne(db, Ship.all().annotated(with: (Column("tons") + 1).forKey("more")))?.count == 6
                && Row.fetchOne(db, Ship.all().annotated(with: more))?.count == 6
                && Row.fetchOne(db, Ship.all().annotated { [$0.tons.forKey("t"), $0.name.forKey("n")] })?.count == 7
        }
        call(".allColumns .allColumns(excluding:) .rowID") { db in
            let all: [any SQLSelectable] = [.allColumns, .rowID]
            let some: [any SQLSelectable] = [.allColumns(excluding: ["tons"])]
            return try Row.fetchOne(db, Ship.select(all))?.count == 6 && Row.fetchOne(db, Ship.select(some))?.count == 4
        }
    }

    private static func filters(_ call: inout Calls) {
        call("filter(_:)") { db in
            try Ship.all().filter(Column("tons") > 150).fetchCount(db) == 2
                && Ship.all().filter { $0.tons > 150 }.filter { $0.name != "Cog" }.fetchCount(db) == 1
        }
        call("filter(sql:arguments:)") { db in
            try Ship.all().filter(sql: "tons > ?", arguments: [150]).fetchCount(db) == 2
        }
        call("filter(literal:)") { db in try Ship.all().filter(literal: "tons > \(150)").fetchCount(db) == 2 }
        call("filter(id:)") { db in
            try Ship.all().filter(id: 1).fetchOne(db)?.name == "Ahti"
                && Fleet.sql(db, Ship.filter(id: 1)) == #"SELECT * FROM "ship" WHERE "id" = ?"#
        }
        call("filter(ids:)") { db in
            try Ship.all().filter(ids: [1, 2]).fetchCount(db) == 2 && Ship.filter(ids: []).isEmpty(db)
        }
        call("filter(key:)") { db in
            try Ship.all().filter(key: 1).fetchCount(db) == 1 && Ship.filter(key: Int?.none).isEmpty(db)
                && Berth.filter(key: ["harbourCode": "B", "number": 1]).fetchCount(db) == 1
        }
        call("filter(keys:)") { db in
            try Ship.all().filter(keys: [1, 2]).fetchCount(db) == 2
                && Berth.filter(keys: [["harbourCode": "B", "number": 1]]).fetchCount(db) == 1
        }
    }

    private static func groupsAndOrders(_ call: inout Calls) {
        call("group(_:)") { db in
            try Ship.all().select { [$0.harbourCode] }.group { $0.harbourCode }.fetchCount(db) == 3
                && Ship.all().group(Column("harbourCode"), Column("id")).fetchCount(db) == 4
        }
        call("groupByPrimaryKey()") { db in try Ship.all().groupByPrimaryKey().fetchCount(db) == 4 }
        call("having(_:)") { db in
            try Ship.all().group(\.harbourCode).having { count($0.id) > 1 }.fetchCount(db) == 1
                && Ship.all().group(\.harbourCode).having(sum(Column("tons")) == 300).fetchCount(db) == 2
        }
        call("having(sql:arguments:)") { db in
            try Ship.all().group(\.harbourCode).having(sql: "COUNT(*) > ?", arguments: [1]).fetchCount(db) == 1
        }
        call("having(literal:)") { db in
            try Ship.all().group(\.harbourCode).having(literal: "COUNT(*) > \(1)").fetchCount(db) == 1
        }
        call("order(_:)") { db in
            try Ship.all().order(\.tons.desc).fetchOne(db)?.id == 3
                && Ship.all().order(Column("tons"), Column("id")).fetchOne(db)?.id == 4
                && Ship.all().order { [$0.harbourCode.desc, $0.tons] }.fetchOne(db)?.id == 3
        }
        call("order(sql:arguments:)") { db in
            try Ship.all().order(sql: "abs(tons - ?)", arguments: [199]).fetchOne(db)?.id == 2
        }
        call("order(literal:)") { db in try Ship.all().order(literal: "abs(tons - \(199))").fetchOne(db)?.id == 2 }
        call("orderByPrimaryKey()") { db in
            try Fleet.sql(db, Berth.all().orderByPrimaryKey())
                == #"SELECT * FROM "berth" ORDER BY "harbourCode", "number""#
        }
        call("reversed()") { db in try Ship.order(\.tons).reversed().fetchOne(db)?.id == 3 }
        call("unordered()") { db in try Fleet.sql(db, Ship.order(\.tons).unordered()) == #"SELECT * FROM "ship""# }
        call("withStableOrder()") { db in
            try Fleet.sql(db, Ship.order(\.tons).withStableOrder()) == #"SELECT * FROM "ship" ORDER BY "tons", "id""#
        }
    }

    private static func fetches(_ call: inout Calls) {
        call("request.fetchAll(_:)") { db in
            let request = Ship.filter { $0.tons > 150 }
            return try request.fetchAll(db).count == 2
                && request.select(\.name, as: String.self).fetchAll(db).count == 2
        }
        call("request.fetchOne(_:)") { db in
            let request = Ship.order(\.id)
            return try request.fetchOne(db)?.id == 1
        }
        call("request.fetchSet(_:)") { db in
            let request = Ship.all()
            return try request.fetchSet(db).count == 4
        }
        call("request.fetchCursor(_:)") { db in
            let request = Ship.order(\.id)
            return try request.fetchCursor(db).next()?.id == 1
        }
        call("request.fetchCount(_:)") { db in
            let request = Ship.all().limit(2)
            return try request.fetchCount(db) == 2
        }
        call("isEmpty(_:)") { db in try Ship.none().isEmpty(db) && !Ship.all().isEmpty(db) }
        call("request.fetchOne(_:key:)") { db in
            let request = Table<Ship>("ship")
            return try request.fetchOne(db, key: 1)?.id == 1
        }
    }

    private static func batchDeletions(_ call: inout Calls) {
        call("request.deleteAll(_:)") { db in
            let request = Voyage.filter { $0.miles > 100 }
            return try request.deleteAll(db) == 2
        }
        call("deleteAndFetchAll(_:)") { db in
            try Voyage.filter { $0.miles > 100 }.deleteAndFetchAll(db).map(\.id).sorted() == [1, 2]
        }
        call("deleteAndFetchSet(_:)") { db in try Voyage.filter { $0.miles > 100 }.deleteAndFetchSet(db).count == 2 }
        call("deleteAndFetchCursor(_:)") { db in
            let cursor = try Voyage.filter { $0.miles > 600 }.deleteAndFetchCursor(db)
            return try cursor.next()?.id == 2
        }
        call("deleteAndFetchIds(_:)") { db in try Voyage.filter { $0.miles > 100 }.deleteAndFetchIds(db) == [1, 2] }
        call("deleteAndFetchStatement(_:selection:)") { db in
            let statement = try Voyage.all().deleteAndFetchStatement(db, selection: [Column("id")])
            return try Int.fetchSet(statement) == [1, 2, 3]
        }
        call("deleteAndFetchStatement(_:select:)") { db in
            let statement = try Voyage.all().deleteAndFetchStatement(db, select: { [$0.miles] })
            return try Double.fetchSet(statement) == [500, 700.5, 20]
        }
    }

    private static func batchUpdates(_ call: inout Calls) {
        call("updateAll(_:_:)") { db in
            try Ship.all().updateAll(db, Column("tons") += 1) == 4
                && Ship.all().updateAll(db, [Column("tons") += 1, Column("nickname").set(to: nil)]) == 4
                && Ship.all().updateAll(db) { $0.tons -= 1 } == 4
                && Ship.filter(id: 1).updateAll(db) { [$0.tons -= 1, $0.name.set(to: "A")] } == 1
                && Ship.find(db, id: 1) == Ship(id: 1, name: "A", tons: 100, nickname: nil, harbourCode: "B")
        }
        call("updateAll(_:onConflict:_:)") { db in
            try Ship.filter(id: 1).updateAll(db, onConflict: .ignore, Column("name").set(to: "Cog")) == 0
        }
        call("updateAndFetchAll(_:assignments:)") { db in
            try Ship.filter(id: 1).updateAndFetchAll(db) { [$0.tons += 1] }.map(\.tons) == [101]
                && Ship.filter(id: 1).updateAndFetchAll(db, assignments: { [$0.tons += 1] }).count == 1
        }
        call("updateAndFetchSet(_:assignments:)") { db in
            try Ship.all().updateAndFetchSet(db, assignments: { [$0.tons += 1] }).count == 4
        }
        call("updateAndFetchCursor(_:assignments:)") { db in
            try Ship.filter(id: 1).updateAndFetchCursor(db, assignments: { [$0.tons += 1] }).next()?.tons == 101
        }
        call("updateAndFetchStatement(_:_:selection:)") { db in
            let statement = try Ship.all().updateAndFetchStatement(
                db, [Column("tons") += 1], selection: [Column("tons")])
            return try Int.fetchSet(statement) == [101, 201, 301, 6]
        }
        call("updateAndFetchStatement(_:assignments:select:)") { db in
            let statement = try Ship.filter(id: 1).updateAndFetchStatement(
                db, assignments: { [$0.tons += 1] }, select: { [$0.tons] })
            return try Int.fetchAll(statement) == [101]
        }
        call("set(to:)") { db in try Ship.all().updateAll(db) { $0.nickname.set(to: nil) } == 4 }
        call("+= -= *= /=") { db in
            let all = [Column("tons") += 4, Column("tons") -= 4, Column("tons") *= 4, Column("tons") /= 4]
            return try all.map { try Ship.filter(id: 1).updateAll(db, $0) } == [1, 1, 1, 1]
                && Ship.find(db, id: 1).tons == 100
        }
        call("&= |= <<= >>=") { db in
            let all = [Column("tons") &= 64, Column("tons") |= 1, Column("tons") <<= 2, Column("tons") >>= 1]
            return try all.map { try Ship.filter(id: 1).updateAll(db, $0) } == [1, 1, 1, 1]
                && Ship.find(db, id: 1).tons == 130
        }
    }

    private static func extensionPoints(_ call: inout Calls) {
        call("DerivableRequest") { db in
            func big<R: DerivableRequest<Ship>>(_ request: R) -> R { request.filter { $0.tons > 150 } }
            return try big(Ship.all()).fetchCount(db) == 2
                && Harbour.joining(required: big(Harbour.ships)).fetchCount(db) == 2
        }
        call(
            "SelectionRequest FilteredRequest OrderedRequest AggregatingRequest TableRequest JoinableRequest TypedRequest"
        ) { db in
            func first(_ request: some SelectionRequest) -> some SelectionRequest { request.select(Column("id")) }
            func second<R: FilteredRequest & OrderedRequest>(_ request: R) -> R {
                request.filter(Column("tons") > 1).order(Column("id"))
            }
            func third<R: AggregatingRequest & TableRequest>(_ request: R) -> R { request.groupByPrimaryKey() }
            func fourth<R: JoinableRequest<Ship>>(_ request: R) -> R { request.joining(required: Ship.harbour) }
            func fifth(_ request: some TypedRequest<Ship>) -> Bool { true }
            let request = fourth(third(second(Ship.all())))
            return try request.fetchAll(db).map(\.id) == [1, 2, 3] && fifth(request)
                && first(request) is any SelectionRequest
        }
        call("FetchRequest") { db in
            func count(_ request: some FetchRequest<Ship>) throws -> Int { try request.fetchAll(db).count }
            return try count(Ship.all()) == 4 && count(SQLRequest<Ship>(sql: "SELECT * FROM ship")) == 4
        }
        call("AnyFetchRequest") { db in try AnyFetchRequest(Ship.all()).fetchCount(db) == 4 }
        call("adapted(_:)") { db in
            let request = SQLRequest<Ship>(sql: "SELECT 0, * FROM ship").adapted { _ in SuffixRowAdapter(fromIndex: 1) }
            return try request.fetchAll(db).count == 4
        }
    }

    private static func whenConnected(_ call: inout Calls) {
        call("selectWhenConnected(_:)") { db in
            let request = Ship.all().selectWhenConnected { db in try db.primaryKey("ship").columns.map { Column($0) } }
            return try request.asRequest(of: Int.self).fetchSet(db) == [1, 2, 3, 4]
        }
        call("annotatedWhenConnected(with:)") { db in
            let request = Ship.all().annotatedWhenConnected(with: { _ in [Column("tons").forKey("t")] })
            return try Row.fetchOne(db, request)?.count == 6
        }
        call("filterWhenConnected(_:)") { db in
            let request = Ship.all().filterWhenConnected { db in
                Column("tons") == (try Ship.select { max($0.tons) }.asRequest(of: Int.self).fetchOne(db))
            }
            return try request.fetchOne(db)?.id == 3
        }
        call("groupWhenConnected(_:) havingWhenConnected(_:)") { db in
            let request = Ship.all().groupWhenConnected { _ in [Column("harbourCode")] }
                .havingWhenConnected { _ in count(Column("id")) > 1 }
            return try request.fetchCount(db) == 1
        }
        call("orderWhenConnected(_:)") { db in
            try Ship.all().orderWhenConnected { _ in [Column("tons").desc] }.fetchOne(db)?.id == 3
        }
    }

    private static func statics(_ call: inout Calls) {
        call("Ship.select(_:as:)") { db in try Ship.select(\.name, as: String.self).fetchSet(db).count == 4 }
        call("Ship.selectID()") { db in
            try Voyage.selectID().fetchSet(db) == [1, 2, 3] && Ship.selectID().fetchCount(db) == 4
        }
        call("Ship.selectPrimaryKey(as:)") { db in try Ship.selectPrimaryKey(as: Int64.self).fetchSet(db).count == 4 }
        call("Ship.annotated(with:)") { db in try Row.fetchOne(db, Ship.annotated(with: Column("rowid")))?.count == 6 }
        call("Ship.filter(_:)") { db in try Ship.filter(Column("tons") > 150).fetchCount(db) == 2 }
        call("Ship.order(_:)") { db in try Ship.order(Column("tons").desc).fetchOne(db)?.id == 3 }
        call("Ship.orderByPrimaryKey()") { db in try Ship.orderByPrimaryKey().fetchOne(db)?.id == 1 }
        call("Ship.limit(_:)") { db in try Ship.limit(2).fetchCount(db) == 2 }
        call("Ship.aliased(_:)") { db in try Ship.aliased(TableAlias()).fetchCount(db) == 4 }
        call("Ship.with(_:)") { db in
            let one = CommonTableExpression<Row>(named: "one", sql: "SELECT 1")
            return try Ship.with(one).fetchAll(db).count == 4
        }
        call("Ship.updateAll(_:_:)") { db in
            try Ship.updateAll(db, Column("tons") += 1) == 4 && Ship.updateAll(db) { $0.tons += 1 } == 4
        }
    }

    private static func literals(_ call: inout Calls) {
        call("SQL") { db in
            let name = "Cog"
            let literal: SQL = "name = \(name)"
            return try Ship.filter(literal).fetchCount(db) == 1 && Ship.filter(SQL("tons") > 150).fetchCount(db) == 2
        }
        call("SQL + += append(literal:) joined(separator:)") { db in
            var literal = SQL("tons") + SQL(" > \(1)")
            literal += " AND "
            literal.append(literal: ["a", "b"].map { SQL("name <> \($0)") }.joined(separator: " AND "))
            return try Ship.filter(literal: literal).fetchCount(db) == 4
        }
        call("sqlExpression") { db in try Ship.filter(SQL("tons").sqlExpression == 5).fetchOne(db)?.id == 4 }
        call("build(_:)") { db in
            let (sql, arguments) = try SQL("a = \(1)").build(db)
            return sql == "a = ?" && arguments == [1]
        }
    }

    private static func interpolations(_ call: inout Calls) {
        call("\\(Ship.self)") { db in
            try Int.fetchOne(db, SQLRequest(literal: "SELECT COUNT(*) FROM \(Ship.self)")) == 4
        }
        call("\\(column) \\(expression)") { db in
            let (column, expression) = (Column("tons"), Column("tons") + 1)
            return try Ship.filter(literal: "\(column) > 0 AND \(expression) = 101").fetchCount(db) == 1
        }
        call("\\(CodingKeys.tons)") { db in
            enum CodingKeys: String, CodingKey { case tons }
            return try Ship.filter(literal: "\(CodingKeys.tons) > 150").fetchCount(db) == 2
        }
        call("\\(columnsOf:)") { db in
            let request: SQLRequest<ShipName> = "SELECT \(columnsOf: ShipName.self) FROM ship"
            return try request.fetchAll(db).count == 4
        }
        call("\\(identifier:)") { db in
            try Ship.filter(literal: "\(identifier: "tons") > 150").fetchCount(db) == 2
        }
        call("\\(tableOf:)") { db in
            try Int.fetchOne(db, SQLRequest(literal: "SELECT COUNT(*) FROM \(tableOf: Fleet.ship())")) == 4
        }
        call("\\(request)") { db in
            let request = Ship.select { max($0.tons) }
            return try Ship.filter(literal: "tons = (\(request))").fetchCount(db) == 1
        }
        call("IN \\(ids)") { db in
            let (ids, none): ([Int], [Int]) = ([1, 2], [])
            return try Ship.filter(literal: "id IN \(ids)").fetchCount(db) == 2
                && Ship.filter(literal: "id IN \(none)").isEmpty(db)
        }
        call("SQLRequest(sql:arguments:adapter:cached:)") { db in
            try SQLRequest<Ship>(sql: "SELECT * FROM ship WHERE id = ?", arguments: [1], adapter: nil, cached: true)
                .fetchOne(db)?.name == "Ahti"
        }
        call("SQLRequest(literal:)") { db in
            try SQLRequest<Ship>(literal: "SELECT * FROM ship WHERE id = \(1)").fetchOne(db)?.name == "Ahti"
        }
        call("execute(literal:)") { db in
            try db.execute(literal: "UPDATE \(Ship.self) SET tons = tons + \(1)")
            return db.changesCount == 4
        }
    }

    private static func commonTables(_ call: inout Calls) {
        call("CommonTableExpression(recursive:named:columns:request:)") { db in
            let cte = CommonTableExpression<Ship>(
                recursive: false, named: "big", columns: nil, request: Ship.filter { $0.tons > 150 })
            return try cte.all().with(cte).fetchCount(db) == 2
        }
        call("CommonTableExpression(recursive:named:columns:sql:arguments:)") { db in
            let cte = CommonTableExpression<Int>(
                recursive: true, named: "n", columns: ["x"],
                sql: "VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < ?", arguments: [5])
            return try cte.all().with(cte).fetchAll(db) == [1, 2, 3, 4, 5]
        }
        call("CommonTableExpression(recursive:named:columns:literal:)") { db in
            let cte = CommonTableExpression<Int>(
                recursive: true, named: "n", columns: ["x"],
                literal: "VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < \(3)")
            return try cte.all().with(cte).fetchAll(db) == [1, 2, 3]
        }
        call("cte.contains(_:)") { db in
            let cte = CommonTableExpression<Row>(named: "big", request: Ship.filter { $0.tons > 150 }.select(\.id))
            return try Ship.filter(cte.contains(Column("id"))).with(cte).fetchCount(db) == 2
        }
        call("cte.association(to:on:)") { db in
            let cte = CommonTableExpression<Row>(named: "big", request: Ship.filter { $0.tons > 150 })
            let harbours = cte.association(
                to: Harbour.self, on: { left, right in left["harbourCode"] == right["code"] })
            return try cte.all().with(cte).including(required: harbours).fetchAll(db).count == 2
        }
        call("Ship.association(to:on:)") { db in
            let cte = CommonTableExpression<Row>(named: "big", request: Ship.filter { $0.tons > 150 })
            let big = Ship.association(to: cte, on: { ship, big in ship["id"] == big["id"] })
            return try Ship.with(cte).joining(required: big).fetchCount(db) == 2
        }
        call("\\(definitionFor:)") { db in
            let cte = CommonTableExpression<Int>(named: "two", columns: ["x"], sql: "SELECT 2")
            let request: SQLRequest<Int> = "WITH \(definitionFor: cte) SELECT x FROM two"
            return try request.fetchOne(db) == 2
        }
    }
}
