/// The triggers that record the changes of a table: a pure function of what is known of the table.
///
/// They call no function but built-in ones, so every program that writes the table records. `sqlite_compileoption_get`
/// gives NULL for a negative number; connections of this library return the ``HistoryStamp`` of the transaction there.
///
/// In a commit of a repository the triggers of its tables do nothing: the same function returns another value then.
struct HistoryTriggers {
    /// The bit of the mask that stands for a column; the last one stands for all further columns too.
    static let lastBit = 62
    /// The argument for which connections of this library return a stamp.
    static let stampArgument: Int64 = -770_215_402
    static let stamp = "sqlite_compileoption_get(\(stampArgument))"
    /// The argument for which connections of this library return a value while a commit writes the history.
    static let pauseArgument = stampArgument - 1
    static let isNoCommit = "sqlite_compileoption_get(\(pauseArgument)) IS NULL"

    let id: Int64
    let facts: TableFacts
    let definition: RecordedTable.Definition

    /// The triggers by their names, in the order in which they are made, as what follows `CREATE TRIGGER`.
    var all: [(name: String, definition: String)] {
        var triggers = [("update", update), ("rekey", rekey), ("delete", delete), ("insert", insert)]
        let (lookups, ofUpdates) = (lookups, kept.isEmpty && facts.hasCascade ? [keyLookup] : [])
        let displacing = lookups + ofUpdates
        if !displacing.isEmpty { triggers.insert(("displace", beforeUpdate(displacing)), at: 0) }
        if !lookups.isEmpty { triggers.insert(("replace", beforeInsert(lookups)), at: 0) }
        return triggers.map { name, sql in
            let name = RecordedTable.triggerPrefix(id) + name
            return (name, "\"\(name)\" \(sql)")
        }
    }

    private var table: String { facts.name.quotedDatabaseIdentifier }
    private var key: [String] { facts.key.map(\.quotedDatabaseIdentifier) }
    private var kept: [String] { definition.kept.map(\.quotedDatabaseIdentifier) }

    // MARK: The row itself

    private var insert: String { "AFTER INSERT ON \(table)\(when()) BEGIN \(record(.inserted, "NEW")); END" }

    private var update: String {
        let mask = definition.notesColumns ? changedColumns : nil
        return "AFTER UPDATE ON \(table)\(when(keyIsSame("OLD.", "NEW."))) BEGIN "
            + "\(record(.updated, "NEW", columns: mask)); END"
    }

    /// A change of the key is a deletion and an insertion.
    private var rekey: String {
        // By name: SQLite compares the names that a statement sets with this list, and those of the rowid have several.
        var names = facts.key
        if facts.isRowID { names += RowIDName.all }
        let unique = names.enumerated().filter { index, name in
            !names[..<index].contains { $0.lowercasedASCII == name.lowercasedASCII }
        }
        let list = unique.map(\.element.quotedDatabaseIdentifier).joined(separator: ", ")
        return "AFTER UPDATE OF \(list) ON \(table)\(when("NOT (\(keyIsSame("OLD.", "NEW.")))")) BEGIN "
            + "\(recordDeletion()); \(record(.inserted, "NEW")); END"
    }

    private var delete: String { "AFTER DELETE ON \(table)\(when()) BEGIN \(recordDeletion()); END" }

    /// A deletion counts only if no row has the key now: an action of a foreign key, or a trigger of the program, may
    /// have given it to another row before this trigger runs, and has recorded that.
    private func recordDeletion() -> String {
        let (deleted, perhaps) = (kind(.deleted), kind(.perhapsDeleted))
        let exists = "EXISTS (SELECT 1 FROM \(table) WHERE \(keyMatches("OLD.")))"
        return record("CASE WHEN \(exists) THEN \(perhaps) ELSE \(deleted) END", "OLD", keepsValues: true)
    }

    // MARK: Rows that a REPLACE removes

    // It fires no trigger for them, unless recursive_triggers is on. So the rows that it would remove are looked up and
    // recorded before; most statements do not replace, and so most of these rows stay.

    private struct Lookup {
        let condition: String
        /// The columns on which it depends; nil for all.
        let columns: Set<String>?
        /// Whether it finds the row with the key of the new one.
        var isOfKey = false
    }

    private var lookups: [Lookup] {
        var lookups = facts.uniqueIndexes.map { Lookup(condition: condition($0), columns: $0.columns) }
        if !facts.isRowID, let rowID = facts.rowIDName {
            lookups.append(
                Lookup(condition: "\(table).\(rowID) = NEW.\(rowID)", columns: Set(RowIDName.all)))
        }
        // A row with the same key is replaced by the new one, and is recorded only for its values.
        if !kept.isEmpty { lookups.append(keyLookup) }
        return lookups
    }

    /// The row with the key of the new one. An update that gives a row this key records its insertion, unless a cascade of
    /// the row that it replaces deletes it.
    private var keyLookup: Lookup { Lookup(condition: keyMatches("NEW."), columns: keyNames, isOfKey: true) }

    var lookupConditions: [String] { lookups.map(\.condition) }

    private var keyNames: Set<String> { Set(facts.key + (facts.isRowID ? RowIDName.all : [])) }

    private func beforeInsert(_ lookups: [Lookup]) -> String {
        let statements = lookups.map { look(up: $0) + ";" }.joined(separator: " ")
        return "BEFORE INSERT ON \(table)\(when()) BEGIN \(statements) END"
    }

    private func beforeUpdate(_ lookups: [Lookup]) -> String {
        var columns: Set<String>? = []
        for lookup in lookups {
            columns = lookup.columns.flatMap { names in columns.map { $0.union(names) } }
        }
        let list = columns.map {
            " OF " + $0.sorted().map(\.quotedDatabaseIdentifier).joined(separator: ", ")
        }
        let other = " AND NOT (\(keyIsSame(table + ".", "OLD.")))"
        let statements = lookups.map { look(up: $0) + other + ";" }.joined(separator: " ")
        return "BEFORE UPDATE\(list ?? "") ON \(table)\(when()) BEGIN \(statements) END"
    }

    private func look(up lookup: Lookup) -> String {
        var values = [String(kind(.perhapsDeleted)), Self.stamp]
        values += (key + kept).map { "\(table).\($0)" }
        var sql = "INSERT INTO \(HistoryTables.history) (\(names(keepsValues: true))) "
        sql += "SELECT \(values.joined(separator: ", ")) FROM \(table) WHERE \(lookup.condition)"
        if kept.isEmpty, !lookup.isOfKey { sql += " AND NOT (\(keyIsSame(table + ".", "NEW.")))" }
        return sql
    }

    /// Whether a row has the values of the new row in an index.
    private func condition(_ index: TableFacts.UniqueIndex) -> String {
        var terms = index.items.map { item in
            let collation = item.collation.quotedDatabaseIdentifier
            if item.isColumn { return "\(table).\(item.sql) COLLATE \(collation) = \(new(item.sql))" }
            return "(\(item.sql)) COLLATE \(collation) = (SELECT \(item.sql) FROM (SELECT \(newRow)))"
        }
        if let condition = index.condition { terms.append("(\(condition))") }
        return terms.joinedAsExpression(by: " AND ")
    }

    private var newRow: String {
        facts.columns.map { column in
            let name = column.name.quotedDatabaseIdentifier
            return "\(new(name)) AS \(name)"
        }.joined(separator: ", ")
    }

    /// The value that a column of the new row will have.
    private func new(_ name: String) -> String {
        let column = facts.columns.first { $0.name.quotedDatabaseIdentifier == name }
        guard let replacement = column?.replacement else { return "NEW.\(name)" }
        return "ifnull(NEW.\(name), (\(replacement)))"
    }

    // MARK: Parts

    /// When a trigger fires: on a condition of its own, and not in a commit.
    private func when(_ condition: String? = nil) -> String {
        let conditions = [definition.pausesInCommits ? Self.isNoCommit : nil, condition].compactMap(\.self)
        return conditions.isEmpty ? "" : " WHEN " + conditions.joined(separator: " AND ")
    }

    private func kind(_ operation: HistoryOperation) -> Int64 { id * 8 + operation.rawValue }

    private func names(columns: Bool = false, keepsValues: Bool = false) -> String {
        var names = ["kind", "origin"]
        if columns { names.append("columns") }
        names += (1...max(1, key.count)).map { "key\($0)" }
        if keepsValues { names += kept.indices.map { "old\($0 + 1)" } }
        return names.joined(separator: ", ")
    }

    private func record(_ operation: HistoryOperation, _ row: String, columns: String? = nil) -> String {
        record(String(kind(operation)), row, columns: columns, keepsValues: false)
    }

    private func record(_ kind: String, _ row: String, columns: String? = nil, keepsValues: Bool) -> String {
        var values = [kind, Self.stamp]
        if let columns { values.append(columns) }
        values += (key + (keepsValues ? kept : [])).map { "\(row).\($0)" }
        return "INSERT INTO \(HistoryTables.history) (\(names(columns: columns != nil, keepsValues: keepsValues))) "
            + "VALUES (\(values.joined(separator: ", ")))"
    }

    /// Whether two rows have the same key: the same bytes in the same storage class, whatever the collation says.
    private func keyIsSame(_ left: String, _ right: String) -> String {
        if facts.isRowID { return "\(left)\(key[0]) = \(right)\(key[0])" }
        return key.map { isSame(left + $0, right + $0) }.joinedAsExpression(by: " AND ")
    }

    /// The same for a search in the table, whose index has the collation of the column.
    private func keyMatches(_ row: String) -> String {
        if facts.isRowID { return "\(table).\(key[0]) = \(row)\(key[0])" }
        let isEqual = key.map { "\(table).\($0) IS \(row)\($0)" }.joinedAsExpression(by: " AND ")
        return "\(isEqual) AND \(keyIsSame(table + ".", row))"
    }

    private func isSame(_ left: String, _ right: String) -> String {
        "\(left) COLLATE BINARY IS \(right) COLLATE BINARY AND typeof(\(left)) = typeof(\(right))"
    }

    private var changedColumns: String {
        var terms = facts.columns.enumerated().map { index, column in
            let name = column.name.quotedDatabaseIdentifier
            return "((NOT (\(isSame("OLD." + name, "NEW." + name)))) << \(min(index, Self.lastBit)))"
        }
        if terms.isEmpty { terms = ["0"] }
        return terms.joinedAsExpression(by: " | ")
    }
}
