import TestKit

/// Random tables with keys of every kind, unique indexes, foreign keys and triggers, and random statements on them.
struct RandomSchema {
    private struct Table {
        let name: String
        let keys: [String]
        let keyType: String
    }

    private(set) var sql: [String] = []
    private var tables: [Table] = []
    var names: [String] { tables.map(\.name) }

    init(_ numbers: inout RandomNumbers) {
        for index in 0..<Int.random(in: 1...3, using: &numbers) { addTable("t\(index)", &numbers) }
        if Bool.random(using: &numbers) { addTriggers(&numbers) }
    }

    private mutating func addTable(_ name: String, _ numbers: inout RandomNumbers) {
        let kinds = [
            ("k INTEGER PRIMARY KEY NOT NULL", ["k"], "integer", false),
            ("k TEXT NOT NULL PRIMARY KEY", ["k"], "text", true),
            ("k TEXT NOT NULL COLLATE NOCASE PRIMARY KEY", ["k"], "text", true),
            ("k NOT NULL PRIMARY KEY", ["k"], "any", true), ("k REAL NOT NULL PRIMARY KEY", ["k"], "real", true),
            ("k BLOB NOT NULL PRIMARY KEY", ["k"], "any", true),
            ("k INT NOT NULL PRIMARY KEY", ["k"], "any", true),
            ("k TEXT NOT NULL COLLATE RTRIM PRIMARY KEY", ["k"], "text", true),
            ("k INT NOT NULL, j TEXT NOT NULL, PRIMARY KEY (j, k)", ["k", "j"], "any", true),
        ]
        let (definition, keys, type, canBeWithoutRowID) = kinds.randomElement(using: &numbers)!
        var parts = definition.contains("PRIMARY KEY (") ? ["k INT NOT NULL", "j TEXT NOT NULL"] : [definition]
        parts += ["u \(Bool.random(using: &numbers) ? "UNIQUE" : "")", "v", "w REAL NOT NULL DEFAULT 7"]
        var constraints: [String] = []
        if keys.count == 1, Bool.random(using: &numbers) {
            let action = ["CASCADE", "SET NULL", "NO ACTION"].randomElement(using: &numbers)!
            parts.append("p REFERENCES \(name)(k) ON DELETE \(action) ON UPDATE CASCADE")
        } else if let other = tables.last(where: { $0.keys.count == 1 }) {
            parts.append("p REFERENCES \(other.name)(k) ON DELETE CASCADE ON UPDATE SET NULL")
        } else {
            parts.append("p")
        }
        if keys.count == 2 { constraints.append("PRIMARY KEY (j, k)") }
        if Bool.random(using: &numbers) { parts.append("g GENERATED ALWAYS AS (v || 'g') VIRTUAL") }
        let withoutRowID = canBeWithoutRowID && Bool.random(using: &numbers)
        sql.append(
            "CREATE TABLE \(name) (\((parts + constraints).joined(separator: ", ")))\(withoutRowID ? " WITHOUT ROWID" : "")"
        )
        if Int.random(in: 0..<3, using: &numbers) == 0 {
            sql.append("CREATE UNIQUE INDEX \(name)_part ON \(name) (v) WHERE typeof(v) = 'integer'")
        }
        if Int.random(in: 0..<4, using: &numbers) == 0 {
            sql.append("CREATE UNIQUE INDEX \(name)_expr ON \(name) (lower(v), w)")
        }
        tables.append(Table(name: name, keys: keys, keyType: type))
    }

    private mutating func addTriggers(_ numbers: inout RandomNumbers) {
        let (one, other) = (tables.randomElement(using: &numbers)!, tables.randomElement(using: &numbers)!)
        let bodies = [
            "UPDATE \(other.name) SET v = 'by trigger' WHERE u = NEW.u",
            "DELETE FROM \(other.name) WHERE v = NEW.v AND \(other.keys[0]) <> NEW.\(one.keys[0])",
            "UPDATE \(other.name) SET w = w + 1 WHERE v = 1",
        ]
        let events = ["AFTER INSERT", "AFTER UPDATE OF u", "BEFORE INSERT"]
        sql.append(
            "CREATE TRIGGER one \(events.randomElement(using: &numbers)!) ON \(one.name) "
                + "BEGIN \(bodies.randomElement(using: &numbers)!); END")
        sql.append(
            "CREATE TRIGGER two AFTER DELETE ON \(other.name) BEGIN UPDATE \(one.name) SET v = OLD.v WHERE u = OLD.u; END"
        )
    }

    // MARK: Statements

    private static func value(_ numbers: inout RandomNumbers) -> String {
        [
            "1", "2", "3", "1.0", "2.5", "-0.0", "'a'", "'A'", "'b'", "'1'", "'2.0'", "x'61'", "x''", "''", "'é'",
            "CAST(x'ff41' AS TEXT)", "9223372036854775807", "1e300", "NULL",
        ].randomElement(using: &numbers)!
    }

    private static func key(_ numbers: inout RandomNumbers) -> String {
        ["1", "2", "3", "4", "2.0", "2.5", "3.5", "'a'", "'A'", "'a '", "'b'", "'B'", "'3'", "x'61'"].randomElement(
            using: &numbers)!
    }

    func statement(_ numbers: inout RandomNumbers) -> String {
        let table = tables.randomElement(using: &numbers)!
        let columns = table.keys + ["u", "v", "w", "p"]
        let values = columns.map { column in
            table.keys.contains(column) || column == "p" && Bool.random(using: &numbers)
                ? Self.key(&numbers) : Self.value(&numbers)
        }
        let insertion =
            "INTO \(table.name) (\(columns.joined(separator: ", "))) VALUES (\(values.joined(separator: ", ")))"
        let condition = "\(columns.randomElement(using: &numbers)!) = \(Self.key(&numbers))"
        let column = columns.randomElement(using: &numbers)!
        let setting = "\(column) = \(table.keys.contains(column) ? Self.key(&numbers) : Self.value(&numbers))"
        let key = table.keys[0]
        switch Int.random(in: 0..<18, using: &numbers) {
        case 0..<4: return "INSERT \(insertion)"
        case 4..<6: return "INSERT OR REPLACE \(insertion)"
        case 6: return "INSERT OR IGNORE \(insertion)"
        case 7: return "INSERT \(insertion) ON CONFLICT DO UPDATE SET v = excluded.v, u = excluded.u"
        case 8: return "UPDATE OR REPLACE \(table.name) SET \(setting) WHERE \(condition)"
        case 9: return "UPDATE \(table.name) SET \(setting)"
        case 10:
            return "UPDATE OR REPLACE \(table.name) SET \(table.keys[0]) = \(Self.key(&numbers)) WHERE \(condition)"
        case 11: return "DELETE FROM \(table.name) WHERE \(condition)"
        case 12 where Int.random(in: 0..<5, using: &numbers) == 0: return "DELETE FROM \(table.name)"
        case 13:
            let (one, other) = (Self.key(&numbers), Self.key(&numbers))
            return """
                UPDATE OR REPLACE \(table.name) SET \(key) = CASE \(key) WHEN \(one) THEN \(other) \
                WHEN \(other) THEN \(one) ELSE \(key) END
                """
        case 14:
            return """
                INSERT \(insertion) ON CONFLICT (\(table.keys.joined(separator: ", "))) \
                DO UPDATE SET \(key) = \(Self.key(&numbers)), v = 8
                """
        case 15: return "UPDATE OR IGNORE \(table.name) SET \(setting), \(key) = \(Self.key(&numbers))"
        case 16:
            return """
                INSERT OR REPLACE INTO \(table.name) (\(columns.joined(separator: ", "))) \
                SELECT \(columns.map { $0 == "u" ? "w" : $0 }.joined(separator: ", ")) FROM \(table.name)
                """
        default: return "UPDATE \(table.name) SET \(setting) WHERE \(condition)"
        }
    }
}
