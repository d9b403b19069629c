import CipherDatabase

/// The temporary triggers that report the rows of one table to the ``Capture``: a pure function of its definition.
struct CaptureTriggers {
    /// The number of the table.
    let n: Int64
    let table: TableDefinition
    /// The conditions of rows that a `REPLACE` may remove; empty where SQLite fires delete triggers for it.
    let replacements: [String]

    static let prefix = EngineTables.prefix + "capture_"

    /// For triggers that look for rows. The others need no condition: the function returns at once outside of a commit, and
    /// one call takes less than two.
    private var when: String { "WHEN \(Capture.function)()" }
    private var key: [Int] { table.keyColumns }

    /// Names and definitions.
    var all: [(name: String, sql: String)] {
        var triggers = [
            ("update", "BEFORE UPDATE ON \(table.qualifiedName) \(when) BEGIN \(beforeUpdate) END"),
            ("delete", "BEFORE DELETE ON \(table.qualifiedName) BEGIN \(row("OLD")); END"),
            ("insert", "AFTER INSERT ON \(table.qualifiedName) BEGIN \(newKey); END"),
        ]
        if key.contains(where: { table.columns[$0].defaultValue != .null }) {
            // A key that is set to NULL may become the default instead, which only a trigger after the update sees.
            let condition = "WHEN NOT (\(keyIsSame("NEW", "OLD")))"
            triggers.append(("key", "AFTER UPDATE ON \(table.qualifiedName) \(condition) BEGIN \(newKey); END"))
        }
        if !replacements.isEmpty {
            triggers.append(("replace", "BEFORE INSERT ON \(table.qualifiedName) \(when) BEGIN \(lookups) END"))
        }
        return triggers.map { kind, body in
            let name = Self.prefix + "\(n)_\(kind)"
            return (name, "CREATE TEMP TRIGGER \(name.quotedDatabaseIdentifier) \(body)")
        }
    }

    private var beforeUpdate: String {
        // An action of a self-referencing foreign key runs before triggers that fire after the update. If no row has
        // the new key now, the row that has it later is one of this transaction. A row whose key is equal to the new one
        // but has other bytes may stay, where the update is refused: it is reported as it is.
        let alias = "taken"
        let equal = "\(table.qualifiedName) AS \(alias) WHERE \(keyEquals(alias, "NEW"))"
        let (isMoved, isExact) = ("NOT (\(keyIsSame("NEW", "OLD")))", keyIsSame(alias, "NEW"))
        let moved = "\(newKey) WHERE \(isMoved) AND NOT EXISTS (SELECT 1 FROM \(equal) AND \(isExact));"
        let neighbour = "\(row(alias, from: "\(equal) AND \(isMoved) AND NOT (\(isExact))"));"
        return "\(row("OLD")); \(lookups) \(neighbour) \(moved)"
    }

    /// The rows that a `REPLACE` would remove.
    private var lookups: String {
        let name = table.name.quotedDatabaseIdentifier
        return replacements.map { "\(row(name, from: "\(table.qualifiedName) AS \(name) WHERE \($0)"));" }
            .joined(separator: " ")
    }

    private func call(_ report: Capture.Report, from start: Int, _ values: some Sequence<String>) -> String {
        let arguments = [String(n), String(report.rawValue), String(start)] + values
        return "\(Capture.function)(\(arguments.joined(separator: ", ")))"
    }

    /// Reports a whole row, in as many calls as its columns need, from left to right.
    private func row(_ name: String, from source: String? = nil) -> String {
        let columns = table.columns.indices.map { "\(name).\(table.quoted($0))" }
        let calls = stride(from: 0, to: columns.count, by: Capture.valuesOfCall).map { start in
            call(.row, from: start, columns[start..<min(start + Capture.valuesOfCall, columns.count)])
        }
        return "SELECT \(calls.joined(separator: ", "))" + (source.map { " FROM \($0)" } ?? "")
    }

    private var newKey: String { "SELECT \(call(.key, from: 0, key.map { "NEW.\(table.quoted($0))" }))" }

    /// Whether two rows have equal keys, as the key compares.
    private func keyEquals(_ left: String, _ right: String) -> String {
        zip(key, table.keyComparison.parts).map { column, part in
            let name = table.quoted(column)
            return "\(left).\(name) COLLATE \(part.collation.quotedDatabaseIdentifier) = \(right).\(name)"
        }.joinedAsExpression(by: " AND ")
    }

    /// Whether two rows have the same key: the same bytes in the same storage class, whatever the collation says.
    private func keyIsSame(_ left: String, _ right: String) -> String {
        key.map { column in
            let (left, right) = ("\(left).\(table.quoted(column))", "\(right).\(table.quoted(column))")
            return "\(left) COLLATE BINARY IS \(right) COLLATE BINARY AND typeof(\(left)) = typeof(\(right))"
        }.joinedAsExpression(by: " AND ")
    }
}
