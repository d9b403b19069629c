import CipherDatabase
import Testing

@testable import CipherRecords

@Suite("JSON becomes SQL, and is read and written")
struct JSONTests {
    private static let label = Column("label")
    private static let settings = JSONColumn("settings")

    static let sections = [
        RequestSection("values of JSON", values),
        RequestSection("JSON as a part of other JSON", parts),
        RequestSection("functions that build JSON", building),
        RequestSection("functions that change JSON", changing),
        RequestSection("functions that build JSONB", binary),
        RequestSection("JSON of an aliased table", aliases),
    ]

    @Test("each JSON expression becomes its SQL", arguments: sections)
    func check(section: RequestSection) throws { try section.check() }

    private static func select(
        _ table: RequestTable, _ expression: some SQLSpecificExpressible, _ sql: String,
        at location: SourceLocation = #_sourceLocation
    ) {
        table(Device.select(expression), #"SELECT \#(sql) FROM "device""#, at: location)
    }

    private static func values(_ table: RequestTable) {
        select(table, settings, #""settings""#)
        select(table, settings["volume"], #""settings" ->> 'volume'"#)
        select(table, settings["$.screen.size"], #""settings" ->> '$.screen.size'"#)
        select(table, settings[label], #""settings" ->> "label""#)
        select(table, settings.jsonExtract(atPath: "$.volume"), #"JSON_EXTRACT("settings", '$.volume')"#)
        select(table, settings.jsonExtract(atPaths: ["$.a", "$.b"]), #"JSON_EXTRACT("settings", '$.a', '$.b')"#)
        select(table, settings.jsonRepresentation(atPath: "screen"), #""settings" -> 'screen'"#)
        select(table, label.asJSON["a"], #""label" ->> 'a'"#)
        select(table, label.asJSON, #""label""#)
        select(table, abs(settings).asJSON, #"ABS("settings")"#)
        table(
            Device.filter { $0.settings["volume"] > 3 },
            #"SELECT * FROM "device" WHERE ("settings" ->> 'volume') > 3"#)
        table(
            Device.order(settings["volume"].desc), #"SELECT * FROM "device" ORDER BY "settings" ->> 'volume' DESC"#)
        table.one(Device.filter(JSONColumn("id") == 1), #"SELECT * FROM "device" WHERE "id" = 1"#)
        select(table, Database.jsonArrayLength(settings), #"JSON_ARRAY_LENGTH("settings")"#)
        select(table, Database.jsonArrayLength(settings, atPath: "$.tags"), #"JSON_ARRAY_LENGTH("settings", '$.tags')"#)
        select(table, Database.jsonErrorPosition(label), #"JSON_ERROR_POSITION("label")"#)
        select(table, Database.jsonType(settings), #"JSON_TYPE("settings")"#)
        select(table, Database.jsonType(settings, atPath: label), #"JSON_TYPE("settings", "label")"#)
        select(table, Database.jsonIsValid(label), #"JSON_VALID("label")"#)
        select(table, Database.jsonIsValid(label, options: [.json, .jsonb]), #"JSON_VALID("label", 9)"#)
        select(table, Database.jsonExtract("[7]", atPath: "$[0]"), "JSON_EXTRACT('[7]', '$[0]')")
        select(table, Database.jsonExtract(settings, atPaths: ["$.a"]), #"JSON_EXTRACT("settings", '$.a')"#)
    }

    private static func parts(_ table: RequestTable) {
        select(table, Database.jsonArray([settings]), #"JSON_ARRAY(JSONB("settings"))"#)
        select(table, Database.jsonArray([label]), #"JSON_ARRAY("label")"#)
        select(table, Database.jsonArray([label.asJSON]), #"JSON_ARRAY(JSONB("label"))"#)
        select(table, Database.jsonArray([DatabaseValue.null.asJSON]), "JSON_ARRAY(NULL)")
        select(table, Database.jsonArray(["[1]".databaseValue.asJSON]), "JSON_ARRAY(JSONB('[1]'))")
        select(table, Database.jsonArray([settings["a"]]), #"JSON_ARRAY("settings" ->> 'a')"#)
        select(table, Database.jsonArray([settings["a"].asJSON]), #"JSON_ARRAY(JSONB("settings" ->> 'a'))"#)
        select(
            table, Database.jsonArray([settings.jsonExtract(atPath: "a").asJSON]),
            #"JSON_ARRAY(JSONB(JSON_EXTRACT("settings", 'a')))"#)
        select(
            table, Database.jsonArray([settings.jsonRepresentation(atPath: "a").asJSON]),
            #"JSON_ARRAY("settings" -> 'a')"#)
        select(table, Database.jsonArray([Database.json(settings)]), #"JSON_ARRAY(JSON("settings"))"#)
        select(table, Database.jsonArray([Database.json(settings).asJSON]), #"JSON_ARRAY(JSON("settings"))"#)
        select(table, Database.jsonQuote(label), #"JSON_QUOTE("label")"#)
        select(table, Database.jsonQuote(settings), #"JSON_QUOTE(JSONB("settings"))"#)
    }

    private static func building(_ table: RequestTable) {
        select(table, Database.json(" { } "), "JSON(' { } ')")
        select(table, Database.json(settings), #"JSON("settings")"#)
        select(table, Database.jsonArray(1...3), "JSON_ARRAY(1, 2, 3)")
        select(table, Database.jsonArray([1, "two", label]), #"JSON_ARRAY(1, 'two', "label")"#)
        select(table, Database.jsonObject(["a": 1]), "JSON_OBJECT('a', 1)")
        select(table, Database.jsonObject(["b": 2, "a": 1] as [String: Int]), "JSON_OBJECT('a', 1, 'b', 2)")
        select(
            table, Database.jsonObject(["b": settings, "a": label] as [String: any SQLExpressible]),
            #"JSON_OBJECT('a', "label", 'b', JSONB("settings"))"#)
        select(
            table, Database.jsonObject(["b": 1, "a": "x"] as KeyValuePairs), "JSON_OBJECT('b', 1, 'a', 'x')")
        select(
            table, Database.jsonObject([(key: "z", value: label), (key: "y", value: label)]),
            #"JSON_OBJECT('z', "label", 'y', "label")"#)
        select(
            table,
            Database.jsonObject([(key: "z", value: 1), (key: "y", value: label)] as [(String, any SQLExpressible)]),
            #"JSON_OBJECT('z', 1, 'y', "label")"#)
        select(table, Database.jsonObject(["a": Database.jsonArray([1])]), "JSON_OBJECT('a', JSON_ARRAY(1))")
        select(table, Database.jsonGroupArray(label), #"JSON_GROUP_ARRAY("label")"#)
        select(table, Database.jsonGroupArray(settings), #"JSON_GROUP_ARRAY(JSONB("settings"))"#)
        select(
            table, Database.jsonGroupArray(label, filter: label != nil),
            #"JSON_GROUP_ARRAY("label") FILTER (WHERE "label" IS NOT NULL)"#)
        select(
            table, Database.jsonGroupArray(label, orderBy: Column("id").desc, filter: length(label) > 1),
            #"JSON_GROUP_ARRAY("label" ORDER BY "id" DESC) FILTER (WHERE LENGTH("label") > 1)"#)
        select(
            table, Database.jsonGroupObject(key: label, value: settings, filter: label > "m"),
            #"JSON_GROUP_OBJECT("label", JSONB("settings")) FILTER (WHERE "label" > 'm')"#)
    }

    private static func changing(_ table: RequestTable) {
        select(
            table, Database.jsonInsert(settings, ["$.volume": 3]), #"JSON_INSERT("settings", '$.volume', 3)"#)
        select(
            table, Database.jsonReplace(settings, ["$.b": label, "$.a": label]),
            #"JSON_REPLACE("settings", '$.a', "label", '$.b', "label")"#)
        select(
            table, Database.jsonSet(label, ["$.a": settings, "$.b": 2] as [String: any SQLExpressible]),
            #"JSON_SET("label", '$.a', JSONB("settings"), '$.b', 2)"#)
        select(table, Database.jsonPatch(settings, with: label), #"JSON_PATCH("settings", "label")"#)
        select(table, Database.jsonRemove(settings, atPath: "$[2]"), #"JSON_REMOVE("settings", '$[2]')"#)
        select(
            table, Database.jsonRemove(settings, atPaths: ["$[2]", "$[0]"]),
            #"JSON_REMOVE("settings", '$[2]', '$[0]')"#)
        table.update(
            Device.all(),
            [Column("settings").set(to: Database.jsonPatch(settings, with: Database.jsonObject(["a": 1])))],
            #"UPDATE "device" SET "settings" = JSON_PATCH("settings", JSON_OBJECT('a', 1))"#)
    }

    private static func binary(_ table: RequestTable) {
        select(table, Database.jsonb(label), #"JSONB("label")"#)
        select(table, Database.jsonbArray([1, 2]), "JSONB_ARRAY(1, 2)")
        select(table, Database.jsonbArray([settings]), #"JSONB_ARRAY(JSONB("settings"))"#)
        select(table, Database.jsonbObject(["a": label]), #"JSONB_OBJECT('a', "label")"#)
        select(table, Database.jsonbExtract(settings, atPath: "$.a"), #"JSONB_EXTRACT("settings", '$.a')"#)
        select(
            table, Database.jsonbExtract(settings, atPaths: ["$.a", "$.b"]),
            #"JSONB_EXTRACT("settings", '$.a', '$.b')"#)
        select(table, Database.jsonbInsert(settings, ["$.a": 1]), #"JSONB_INSERT("settings", '$.a', 1)"#)
        select(table, Database.jsonbReplace(settings, ["$.a": 1]), #"JSONB_REPLACE("settings", '$.a', 1)"#)
        select(table, Database.jsonbSet(settings, ["$.a": 1]), #"JSONB_SET("settings", '$.a', 1)"#)
        select(table, Database.jsonbPatch(settings, with: "{}"), #"JSONB_PATCH("settings", '{}')"#)
        select(table, Database.jsonbRemove(settings, atPath: "$.a"), #"JSONB_REMOVE("settings", '$.a')"#)
        select(table, Database.jsonbGroupArray(label), #"JSONB_GROUP_ARRAY("label")"#)
        select(
            table, Database.jsonbGroupObject(key: label, value: settings),
            #"JSONB_GROUP_OBJECT("label", JSONB("settings"))"#)
    }

    private static func aliases(_ table: RequestTable) {
        let alias = TableAlias<Device>(name: "d")
        let devices = Device.aliased(alias)
        table(devices.select(alias[settings]), #"SELECT "d"."settings" FROM "device" "d""#)
        table(devices.select(alias[settings]["a"]), #"SELECT "d"."settings" ->> 'a' FROM "device" "d""#)
        table(devices.select(alias[settings["a"]]), #"SELECT "d"."settings" ->> 'a' FROM "device" "d""#)
        table(devices.select(alias[label.asJSON]), #"SELECT "d"."label" FROM "device" "d""#)
        table(
            devices.select(Database.jsonArray([alias[settings], alias[label.asJSON]])),
            #"SELECT JSON_ARRAY(JSONB("d"."settings"), JSONB("d"."label")) FROM "device" "d""#)
        table(
            devices.select(alias[Database.jsonArray([settings, label] as [any SQLExpressible])]),
            #"SELECT JSON_ARRAY(JSONB("d"."settings"), "d"."label") FROM "device" "d""#)
    }

    @Test("JSON in a column is read, filtered, grouped and changed")
    func rows() throws {
        let queue = try Schema.queue()
        try queue.write { db in
            try db.execute(
                sql: """
                    INSERT INTO device (label, settings) VALUES
                        ('phone', '{"volume": 3, "tags": ["a", "b"]}'), ('lamp', '{"volume": 9}')
                    """)
            let (label, settings) = (Self.label, Self.settings)
            let loud = try Device.filter(settings["volume"] > 5).select(label, as: String.self).fetchAll(db)
            #expect(loud == ["lamp"])
            let tags = Device.order(label.desc).select(Database.jsonArrayLength(settings, atPath: "$.tags"))
            #expect(try tags.asRequest(of: Int?.self).fetchAll(db) == [2, nil])
            let all = Device.select(Database.jsonGroupArray(settings, orderBy: label), as: String.self)
            #expect(try all.fetchOne(db) == #"[{"volume":9},{"volume":3,"tags":["a","b"]}]"#)
            let object = Database.jsonObject(["name": label, "settings": settings] as [String: any SQLExpressible])
            let lamp = Device.filter(label == "lamp").select(object, as: String.self)
            #expect(try lamp.fetchOne(db) == #"{"name":"lamp","settings":{"volume":9}}"#)
            try Device.updateAll(db, Column("settings").set(to: Database.jsonSet(settings, ["$.volume": 1])))
            #expect(try Device.select(settings["volume"], as: Int.self).fetchAll(db) == [1, 1])
        }
    }
}
