import CipherDatabase
import CipherRecords
import Foundation

extension Calls {
    private typealias Harbour = Fleet.Harbour
    private typealias Ship = Fleet.Ship

    private static let tons = Column("tons")
    private static let name = Column("name")

    /// Whether a condition becomes this SQL, and the tables accept it.
    private static func becomes(_ db: Database, _ sql: String, _ expression: SQLExpression) throws -> Bool {
        let request = Ship.filter(expression)
        _ = try request.fetchAll(db)
        return try Fleet.sql(db, request) == #"SELECT * FROM "ship" WHERE "# + sql
    }

    /// Section 4: expressions.
    static func expressions(_ call: inout Calls) {
        comparisons(&call)
        arithmetic(&call)
        sets(&call)
        texts(&call)
        names(inResults: &call)
        aggregates(&call)
        functions(&call)
        swiftFunctions(&call)
        aliases(&call)
        json(expressions: &call)
        json(functions: &call)
        json(changes: &call)
    }

    private static func comparisons(_ call: inout Calls) {
        call("==") { db in
            try becomes(db, #""tons" = ?"#, tons == 5) && becomes(db, #""name" IS NULL"#, name == nil)
                && becomes(db, #""name" IS NULL"#, name == String?.none)
        }
        call("!=") { db in
            try becomes(db, #""tons" <> ?"#, tons != 5) && becomes(db, #""name" IS NOT NULL"#, name != nil)
        }
        call("column == true") { db in
            let column = tons
            return try Ship.filter(column == true).isEmpty(db) && Ship.filter((column > 5) == true).fetchCount(db) == 3
        }
        call("=== !==") { db in
            try becomes(db, #""tons" IS ?"#, tons === 5) && becomes(db, #""tons" IS NOT ?"#, tons !== 5)
        }
        call("< <= > >=") { db in
            try becomes(db, #""tons" < ?"#, tons < 5) && becomes(db, #""tons" <= ?"#, tons <= 5)
                && becomes(db, #""tons" > ?"#, tons > 5) && becomes(db, #""tons" >= ?"#, tons >= 5)
        }
        call("&& || !") { db in
            try becomes(db, #"("tons" > ?) AND ("tons" < ?)"#, tons > 1 && tons < 9)
                && becomes(db, #"("tons" > ?) OR ("tons" < ?)"#, tons > 1 || tons < 9)
                && becomes(db, #"NOT ("tons" > ?)"#, !(tons > 1)) && becomes(db, #""tons" <> ?"#, !(tons == 1))
        }
    }

    private static func arithmetic(_ call: inout Calls) {
        call("+ - * /") { db in
            try becomes(db, #""tons" + ?"#, tons + 1) && becomes(db, #""tons" - ?"#, tons - 1)
                && becomes(db, #""tons" * ?"#, tons * 2) && becomes(db, #""tons" / ?"#, tons / 2)
                && becomes(db, #"-"tons""#, -tons)
        }
        call("& | ~ << >>") { db in
            try becomes(db, #""tons" & ?"#, tons & 1) && becomes(db, #""tons" | ?"#, tons | 1)
                && becomes(db, #"~"tons""#, ~tons) && becomes(db, #""tons" << ?"#, tons << 1)
                && becomes(db, #""tons" >> ?"#, tons >> 1)
        }
        call("5.databaseValue") { db in try becomes(db, "? > ?", 5.databaseValue > 3) }
        call("joined(operator:)") { db in
            try becomes(db, #"("tons" > ?) AND ("tons" < ?)"#, [tons > 1, tons < 9].joined(operator: .and))
        }
        call(".add .multiply .and .or .concat .bitwiseAnd .bitwiseOr") { db in
            let all: [SQLExpression.AssociativeBinaryOperator] = [
                .add, .multiply, .and, .or, .concat, .bitwiseAnd, .bitwiseOr,
            ]
            return try all.allSatisfy { try !Fleet.sql(db, Ship.filter([tons, name].joined(operator: $0))).isEmpty }
        }
        call("??") { db in try Ship.filter((Column("nickname") ?? "none") == "none").fetchCount(db) == 3 }
    }

    private static func sets(_ call: inout Calls) {
        call("[1, 2].contains(_:)") { db in
            try Ship.filter([1, 2].contains(Column("id"))).fetchCount(db) == 2
                && becomes(db, #""id" IN (?, ?)"#, [1, 2].contains(Column("id")))
        }
        call("(0...9).contains(_:)") { db in try becomes(db, #""tons" BETWEEN ? AND ?"#, (0...9).contains(tons)) }
        call("(0..<9).contains(_:)") { db in
            try becomes(db, #"("tons" >= ?) AND ("tons" < ?)"#, (0..<9).contains(tons))
        }
        call("request.contains(_:)") { db in
            let request = Harbour.filter { $0.founded > 1100 }.select { $0.code }
            return try Ship.filter(request.contains(Column("harbourCode"))).fetchCount(db) == 1
        }
        call("request.exists()") { db in
            let request = Harbour.filter { $0.founded > 1100 }
            return try Ship.filter(request.exists()).fetchCount(db) == 4
        }
        call("column == request") { db in
            let (column, request) = (tons, Ship.select { max($0.tons) })
            return try Ship.filter(column == request).fetchOne(db)?.id == 3
        }
        call("Case()") { db in
            let size = Case().when(tons > 150, then: "big").otherwise("small")
            return try Ship.filter(size == "big").fetchCount(db) == 2
        }
    }

    private static func texts(_ call: inout Calls) {
        call("like(_:escape:)") { db in
            try Ship.filter(name.like("%o%")).fetchCount(db) == 2
                && Ship.filter(name.like("%\\_%", escape: "\\")).fetchCount(db) == 0
        }
        call("collating(_:)") { db in
            try Ship.filter(name.collating(.nocase) == "AHTI").fetchCount(db) == 1
                && Ship.order(name.collating(.localizedStandardCompare)).fetchAll(db).last?.id == 4
        }
        call(
            ".unicodeCompare .caseInsensitiveCompare .localizedCaseInsensitiveCompare .localizedCompare "
                + ".localizedStandardCompare"
        ) { db in
            let all: [DatabaseCollation] = [
                .unicodeCompare, .caseInsensitiveCompare, .localizedCaseInsensitiveCompare, .localizedCompare,
                .localizedStandardCompare,
            ]
            return try all.allSatisfy { try Ship.order(name.collating($0)).fetchAll(db).count == 4 }
        }
        call(".asc .desc .ascNullsLast .descNullsFirst") { db in
            let column = Column("nickname")
            let all = [column.asc, column.desc, column.ascNullsLast, column.descNullsFirst]
            return try all.map { try Ship.order($0).fetchOne(db)?.nickname } == [nil, "Bee", "Bee", nil]
        }
    }

    private static func names(inResults call: inout Calls) {
        call("forKey(_:)") { db in
            try Row.fetchOne(db, Ship.select((tons + 1).forKey("more"), name.forKey(Fleet.Berth.Key.number)))?
                .columnNames
                == ["more", "number"]
        }
        call("detached") { db in
            let request = Ship.annotated(with: (tons * 2).forKey("twice")).order(Column("twice").detached)
            return try request.fetchOne(db)?.id == 4
        }
    }

    private static func aggregates(_ call: inout Calls) {
        call("average(_:filter:)") { db in
            try Ship.select(average(tons), as: Double.self).fetchOne(db) == 151.25
                && Ship.select(average(tons, filter: tons > 150), as: Double.self).fetchOne(db) == 250
        }
        call("max(_:filter:)") { db in try Ship.select(max(tons, filter: tons < 300), as: Int.self).fetchOne(db) == 200
        }
        call("min(_:filter:)") { db in try Ship.select(min(tons, filter: tons > 5), as: Int.self).fetchOne(db) == 100 }
        call("sum(_:filter:)") { db in try Ship.select(sum(tons, filter: tons > 5), as: Int.self).fetchOne(db) == 600 }
        call("total(_:filter:)") { db in
            try Ship.select(total(tons, filter: tons > 5), as: Double.self).fetchOne(db) == 600
        }
        call("count(_:)") { db in try Ship.select(count(Column("nickname")), as: Int.self).fetchOne(db) == 1 }
        call("count(distinct:)") { db in
            try Ship.select(count(distinct: Column("harbourCode")), as: Int.self).fetchOne(db) == 2
        }
    }

    private static func functions(_ call: inout Calls) {
        call("abs(_:)") { db in try Ship.filter(abs(tons - 300) < 150).fetchCount(db) == 2 }
        call("length(_:)") { db in try Ship.filter(length(name) == 3).fetchCount(db) == 1 }
        call("cast(_:as:)") { db in try Ship.filter(cast(tons, as: .text) == "5").fetchCount(db) == 1 }
        call("coalesce(_:)") { db in
            try Ship.order(\.id).select(coalesce([Column("nickname"), name]), as: String.self).fetchAll(db)
                == ["Ahti", "Bee", "Cog", "dory"]
        }
        call("dateTime(_:_:)") { db in
            try Ship.select(dateTime("2020-01-31".databaseValue, .startOfMonth, .day(1)), as: String.self).fetchOne(db)
                == "2020-01-02 00:00:00"
        }
        call("julianDay(_:_:)") { db in
            try Ship.select(julianDay("2000-01-01 12:00".databaseValue, .day(1)), as: Double.self).fetchOne(db)
                == 2451546
        }
        call("SQLDateModifier") { _ in
            let all: [SQLDateModifier] = [
                .day(1), .hour(1), .minute(1), .second(1), .month(1), .year(1), .startOfMonth, .startOfYear,
                .startOfDay,
                .weekday(1), .unixEpoch, .localTime, .utc,
            ]
            return all.count == 13
        }
    }

    private static func swiftFunctions(_ call: inout Calls) {
        call(".lowercased .uppercased .capitalized") { db in
            let all = [name.lowercased, name.uppercased, name.capitalized]
            return try all.map { try Ship.filter(id: 4).select($0, as: String.self).fetchOne(db) }
                == ["dory", "DORY", "Dory"]
        }
        call(".localizedLowercased .localizedUppercased .localizedCapitalized") { db in
            let all = [name.localizedLowercased, name.localizedUppercased, name.localizedCapitalized]
            return try all.map { try Ship.filter(id: 4).select($0, as: String.self).fetchOne(db) }
                == ["dory", "DORY", "Dory"]
        }
        call("DatabaseFunction") { db in
            let twice = DatabaseFunction("twice", argumentCount: 1, pure: true) { values in
                Int.fromDatabaseValue(values[0]).map { $0 * 2 }
            }
            db.add(function: twice)
            return try Ship.filter(twice(tons) == 10).fetchOne(db)?.id == 4
        }
    }

    private static func aliases(_ call: inout Calls) {
        call("TableAlias()") { db in
            let alias = TableAlias<Harbour>()
            let request = Ship.joining(required: Ship.harbour.aliased(alias))
            return try request.filter(alias[Column("founded")] > 1100).fetchCount(db) == 1
                && request.filter(alias["founded"] > 1100).fetchCount(db) == 1
        }
        call("TableAlias(name:)") { db in
            let alias = TableAlias(name: "h")
            return try Ship.joining(required: Ship.harbour.aliased(alias)).filter(sql: "h.founded > 1100").fetchCount(
                db) == 1
        }
        call("alias.name") { db in
            let alias = TableAlias<Ship>()
            return try Ship.aliased(alias).filter(alias.name == "Cog").fetchCount(db) == 1
        }
        call("alias.exists") { db in
            let alias = TableAlias<Harbour>()
            return try Ship.joining(optional: Ship.harbour.aliased(alias)).filter(!alias.exists).fetchAll(db).map(\.id)
                == [4]
        }
    }

    private static func json(expressions call: inout Calls) {
        call("JSONColumn") { db in
            let request = Ship.select(JSONColumn("nickname")["$.a"])
            return try Fleet.sql(db, request) == #"SELECT "nickname" ->> ? FROM "ship""#
        }
        call("asJSON") { db in
            let text = #"{"a": 5}"#.databaseValue
            return try Ship.select(text.asJSON["$.a"], as: Int.self).fetchOne(db) == 5
        }
        call("jsonExtract(atPath:)") { db in
            let text = #"{"a": 5}"#.databaseValue
            return try Ship.select(text.asJSON.jsonExtract(atPath: "$.a"), as: Int.self).fetchOne(db) == 5
        }
        call("jsonRepresentation(atPath:)") { db in
            let text = #"{"a": "b"}"#.databaseValue
            return try Ship.select(text.asJSON.jsonRepresentation(atPath: "$.a"), as: String.self).fetchOne(db)
                == #""b""#
        }
    }

    private static let object = #"{"a":[1,2]}"#.databaseValue

    /// The text of an expression that is selected.
    private static func text(_ db: Database, _ expression: SQLExpression) throws -> String? {
        try Ship.limit(1).select(expression, as: String.self).fetchOne(db)
    }

    private static func json(functions call: inout Calls) {
        call("Database.json(_:)") { db in try text(db, Database.json(#" {"a": 1}"#.databaseValue)) == #"{"a":1}"# }
        call("Database.jsonArray(_:)") { db in try text(db, Database.jsonArray([1, 2])) == "[1,2]" }
        call("Database.jsonObject(_:)") { db in
            try text(db, Database.jsonObject([(key: "a", value: 1), (key: "b", value: 2)])) == #"{"a":1,"b":2}"#
        }
        call("Database.jsonExtract(_:atPath:)") { db in
            try text(db, Database.jsonExtract(object, atPath: "$.a[1]")) == "2"
        }
        call("Database.jsonExtract(_:atPaths:)") { db in
            try text(db, Database.jsonExtract(object, atPaths: ["$.a[0]", "$.a[1]"])) == "[1,2]"
        }
        call("Database.jsonArrayLength(_:)") { db in try text(db, Database.jsonArrayLength("[1, 2]")) == "2" }
        call("Database.jsonArrayLength(_:atPath:)") { db in
            try text(db, Database.jsonArrayLength(object, atPath: "$.a")) == "2"
        }
        call("Database.jsonType(_:)") { db in try text(db, Database.jsonType(object)) == "object" }
        call("Database.jsonType(_:atPath:)") { db in
            try text(db, Database.jsonType(object, atPath: "$.a")) == "array"
        }
        call("Database.jsonIsValid(_:)") { db in try text(db, Database.jsonIsValid("{")) == "0" }
        call("Database.jsonErrorPosition(_:)") { db in try text(db, Database.jsonErrorPosition(object)) == "0" }
        call("Database.jsonQuote(_:)") { db in try text(db, Database.jsonQuote("a")) == #""a""# }
        call("Database.jsonGroupArray(_:filter:)") { db in
            try Ship.select(Database.jsonGroupArray(Column("id"), filter: Column("id") < 2), as: String.self).fetchOne(
                db)
                == "[1]"
        }
        call("Database.jsonGroupObject(key:value:filter:)") { db in
            let filter = Column("id") < 2
            let expression = Database.jsonGroupObject(key: Column("name"), value: Column("id"), filter: filter)
            return try Ship.select(expression, as: String.self).fetchOne(db) == #"{"Ahti":1}"#
        }
    }

    private static func json(changes call: inout Calls) {
        call("Database.jsonInsert(_:_:)") { db in
            try text(db, Database.jsonInsert(object, [(key: "$.b", value: 3)])) == #"{"a":[1,2],"b":3}"#
        }
        call("Database.jsonReplace(_:_:)") { db in
            try text(db, Database.jsonReplace(object, [(key: "$.a", value: 3)])) == #"{"a":3}"#
        }
        call("Database.jsonSet(_:_:)") { db in
            try text(db, Database.jsonSet(object, [(key: "$.a", value: 3)])) == #"{"a":3}"#
        }
        call("Database.jsonPatch(_:with:)") { db in
            try text(db, Database.jsonPatch(object, with: #"{"a":3}"#.databaseValue)) == #"{"a":3}"#
        }
        call("Database.jsonRemove(_:atPath:)") { db in try text(db, Database.jsonRemove(object, atPath: "$.a")) == "{}"
        }
        call("Database.jsonRemove(_:atPaths:)") { db in
            try text(db, Database.jsonRemove(object, atPaths: ["$.a"])) == "{}"
        }
        call("jsonExtract(atPaths:)") { db in
            try text(db, object.jsonExtract(atPaths: ["$.a[0]"])) == "1"
        }
    }
}
