import CSQLCipher
import CipherDatabase
import Foundation

extension SeededGenerator {
    mutating func pick<Element>(_ elements: [Element]) -> Element { elements[Int(next() % UInt64(elements.count))] }
    mutating func chance(_ percent: UInt64) -> Bool { next() % 100 < percent }
}

/// A table of a random schema.
struct RandomTable {
    let name: String
    let key: [String]
    let columns: [String]
    let hasRowID: Bool
    /// Columns that an UPSERT can name.
    var conflictTargets: [String]
}

/// Random schemas and statements over few values, so that they conflict often.
struct RandomEdits {
    var numbers: SeededGenerator
    private(set) var tables: [RandomTable] = []
    private(set) var schema: [String] = []

    init(seed: UInt64) {
        numbers = SeededGenerator(seed: seed)
        for index in 0..<3 { addTable("t\(index)") }
        for _ in 0..<2 where numbers.chance(50) { addTrigger() }
    }

    private mutating func addTable(_ name: String) {
        let kinds: [(definition: String, key: [String], options: String)] = [
            ("k INTEGER PRIMARY KEY, m", ["k"], ""), ("k INTEGER PRIMARY KEY AUTOINCREMENT, m", ["k"], ""),
            ("k TEXT COLLATE NOCASE PRIMARY KEY, m", ["k"], ""), ("k PRIMARY KEY, m", ["k"], ""),
            ("k, m, PRIMARY KEY (m, k)", ["m", "k"], ""), ("k, m, PRIMARY KEY (k, m)", ["k", "m"], " WITHOUT ROWID"),
            ("k TEXT COLLATE NOCASE NOT NULL PRIMARY KEY, m", ["k"], " WITHOUT ROWID"),
            ("k INT, m TEXT", ["rowid"], ""), ("k INTEGER PRIMARY KEY DESC, m", ["k"], ""),
        ]
        let kind = numbers.pick(kinds)
        var columns = "a, b INT NOT NULL DEFAULT 2, c TEXT"
        if numbers.chance(20) { columns += ", g AS (a || 'x')" }
        if numbers.chance(20) { columns = columns.replacing("a,", with: "a UNIQUE ON CONFLICT REPLACE,") }
        var targets = kind.key == ["rowid"] ? [] : [kind.key.joined(separator: ", ")]
        if let parent = tables.last, numbers.chance(60) {
            let column = parent.key.count == 1 && parent.key != ["rowid"] ? parent.key[0] : nil
            let action = numbers.pick(["CASCADE", "SET NULL", "SET DEFAULT"])
            if let column {
                columns += ", p DEFAULT 1 REFERENCES \(parent.name)(\(column)) ON DELETE \(action) ON UPDATE CASCADE"
            }
        } else if kind.key == ["k"], numbers.chance(40) {
            columns += ", p REFERENCES \(name)(k) ON DELETE CASCADE ON UPDATE CASCADE"
        }
        let parts = kind.definition.components(separatedBy: ", PRIMARY KEY (")
        let key = parts.count > 1 ? ", PRIMARY KEY (" + parts[1] : ""
        schema.append("CREATE TABLE \(name) (\(parts[0]), \(columns)\(key))\(kind.options)")
        if numbers.chance(40) {
            schema.append("CREATE UNIQUE INDEX \(name)_a ON \(name) (a, m)")
            targets.append("a, m")
        }
        if numbers.chance(30) { schema.append("CREATE UNIQUE INDEX \(name)_b ON \(name) (b) WHERE b > 2") }
        if numbers.chance(30) { schema.append("CREATE UNIQUE INDEX \(name)_c ON \(name) (lower(c) DESC, b)") }
        if numbers.chance(20) && columns.contains("g AS") {
            schema.append("CREATE UNIQUE INDEX \(name)_g ON \(name) (g)")
        }
        let names = ["k", "m", "a", "b", "c"] + (columns.contains(", p ") ? ["p"] : [])
        tables.append(
            RandomTable(
                name: name, key: kind.key, columns: names, hasRowID: kind.options.isEmpty, conflictTargets: targets))
    }

    private mutating func addTrigger() {
        let (table, other) = (numbers.pick(tables), numbers.pick(tables))
        let event = numbers.pick(["INSERT", "UPDATE", "DELETE"])
        let row = event == "DELETE" ? "OLD" : "NEW"
        let action = numbers.pick([
            "DELETE FROM \(other.name) WHERE k = \(row).k", "UPDATE \(other.name) SET a = a WHERE m = \(row).m",
            "INSERT OR IGNORE INTO \(other.name) (k, m, a) VALUES (\(row).k, \(row).m, 9)",
            "UPDATE OR IGNORE \(other.name) SET k = k + 1 WHERE k = \(row).k",
        ])
        schema.append("CREATE TRIGGER x\(schema.count) AFTER \(event) ON \(table.name) BEGIN \(action); END")
    }

    // MARK: Statements

    private mutating func value() -> String {
        numbers.pick(["0", "1", "2", "3", "4", "5", "1.0", "2.5", "'a'", "'A'", "'b'", "'B'", "x'61'", "NULL", "'3'"])
    }

    private mutating func condition(_ table: RandomTable) -> String {
        numbers.chance(15) ? "1" : "\(numbers.pick(table.columns)) = \(value())"
    }

    private mutating func settings(_ table: RandomTable) -> String {
        var columns = (0..<2).map { _ in numbers.pick(table.columns) }
        if table.hasRowID && numbers.chance(15) { columns = ["rowid"] }
        return Set(columns).sorted().map { "\($0) = \(numbers.chance(20) ? "k" : value())" }.joined(separator: ", ")
    }

    mutating func statement() -> String {
        let table = numbers.pick(tables)
        let resolution = numbers.pick(["", "", "OR REPLACE ", "OR REPLACE ", "OR IGNORE ", "OR FAIL ", "OR ABORT "])
        switch numbers.next() % 10 {
        case 0...4:
            var columns = table.columns.filter { _ in numbers.chance(75) }
            if columns.isEmpty { columns = ["a"] }
            if table.hasRowID && numbers.chance(10) { columns.append("rowid") }
            let rows = (0...(numbers.next() % 3)).map { _ in
                "(" + columns.map { _ in value() }.joined(separator: ", ") + ")"
            }
            let target = table.conflictTargets.isEmpty || !resolution.isEmpty ? "" : numbers.pick(table.conflictTargets)
            let upsert =
                target.isEmpty || numbers.chance(50)
                ? "" : " ON CONFLICT (\(target)) DO UPDATE SET \(settings(table))"
            return "INSERT \(resolution)INTO \(table.name) (\(columns.joined(separator: ", "))) "
                + "VALUES \(rows.joined(separator: ", "))\(upsert)"
        case 5...7: return "UPDATE \(resolution)\(table.name) SET \(settings(table)) WHERE \(condition(table))"
        default: return "DELETE FROM \(table.name) WHERE \(condition(table))"
        }
    }

    /// Statements of one or several transactions, with savepoints.
    mutating func batch() -> [String] {
        var statements: [String] = []
        let isExplicit = numbers.chance(60)
        if isExplicit { statements.append("BEGIN IMMEDIATE") }
        for _ in 0...(numbers.next() % 4) {
            if isExplicit && numbers.chance(25) {
                statements += ["SAVEPOINT s", statement(), statement()]
                statements += numbers.chance(60) ? ["ROLLBACK TO s", statement(), "RELEASE s"] : ["RELEASE s"]
            } else {
                statements.append(statement())
            }
        }
        if isExplicit { statements.append(numbers.chance(80) ? "COMMIT" : "ROLLBACK") }
        return statements
    }
}

/// A connection that does not know of the library, as a stock shell has it.
final class StockConnection {
    let pointer: OpaquePointer?

    init(_ path: String) {
        var pointer: OpaquePointer?
        sqlite3_open(path, &pointer)
        self.pointer = pointer
    }

    deinit { sqlite3_close(pointer) }

    @discardableResult
    func execute(_ sql: String) -> CInt { sqlite3_exec(pointer, sql, nil, nil, nil) }
}
