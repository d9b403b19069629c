import CipherDatabase

/// Finds the rows of a table by the values of some columns, as an index or a foreign key compares them. Inside a transaction
/// that does not change the rows.
final class RowSearch {
    let table: TrackedTable
    let columns: [Int]
    let comparison: KeyComparison
    private let db: Database
    /// Selects rows that may be equal to one parameter for each column.
    private let condition: String
    /// Whether the rows of all values that are wanted are found by reading the table once: no index finds those of one.
    private let readsWholeTable: Bool
    private var known: [KeyComparison.Form: [DeltaRecord]] = [:]

    /// Searches by the values of an index.
    init(_ table: TrackedTable, _ key: TrackedTable.UniqueKey, columns: [Int], in db: Database) {
        (self.table, self.columns, self.db) = (table, columns, db)
        comparison = KeyComparison(ofIndex: key)
        readsWholeTable = false
        condition = columns.indices.map { Self.isEqual(table, columns, $0, key.parts[$0].collation) }
            .joinedAsExpression(by: " AND ")
    }

    /// Searches for exact values; what it finds may be equal as numbers only.
    init(_ table: TrackedTable, exactly columns: [Int], in db: Database) {
        (self.table, self.columns, self.db) = (table, columns, db)
        comparison = KeyComparison(columns.map { _ in KeyComparison.Part(collation: "BINARY") })
        readsWholeTable = false
        condition = columns.indices.map { Self.isEqual(table, columns, $0, "BINARY") }.joinedAsExpression(by: " AND ")
    }

    /// Searches for the row that a foreign key refers to.
    init(parentOf reference: Reference, in db: Database) {
        (table, columns, comparison) = (reference.parent, reference.parentColumns, reference.comparison)
        (self.db, readsWholeTable) = (db, false)
        condition = reference.parentColumns.indices.map { index in
            Self.isEqual(reference.parent, reference.parentColumns, index, reference.comparison.parts[index].collation)
        }.joinedAsExpression(by: " AND ")
    }

    /// Searches for rows that refer to one.
    init(childrenOf reference: Reference, in db: Database) throws {
        let (child, columns) = (reference.child, reference.key.columns)
        (table, self.columns, comparison, self.db) = (child, columns, reference.comparison, db)
        var conditions: [String] = []
        var isIndexed = try child.hasIndex(beginningWith: columns[0], reference.comparison.parts[0].collation, in: db)
        for (index, part) in reference.comparison.parts.enumerated() {
            let equal = Self.isEqual(child, columns, index, part.collation)
            let column = child.quoted(columns[index])
            switch (child.columns[columns[index]].affinity, part.affinity) {
            case (let own, let other) where own == other: conditions.append(equal)
            // Texts may be numbers there, and numbers texts.
            case (.none, .numeric), (.none, .real):
                conditions.append("(\(equal) OR (\(column) >= '' AND \(column) < x''))")
            case (.none, .text): conditions.append("(\(equal) OR \(column) < '')")
            case (_, .none): conditions.append(equal)
            default:
                isIndexed = false
                conditions.append("\(column) IS NOT NULL")
            }
        }
        condition = conditions.joinedAsExpression(by: " AND ")
        readsWholeTable = !isIndexed
    }

    private static func isEqual(_ table: TrackedTable, _ columns: [Int], _ index: Int, _ collation: String) -> String {
        "\(table.quoted(columns[index])) = ?\(index + 1) COLLATE \(collation.quotedDatabaseIdentifier)"
    }

    /// The values of a row; nil where one is NULL.
    func values(_ row: DeltaRecord) -> [ArraySlice<UInt8>]? {
        let cells = row.cells
        let values = columns.map { cells[$0] }
        return values.contains { $0.first == Cell.null } ? nil : values
    }

    func form(_ row: DeltaRecord) throws -> KeyComparison.Form? {
        try values(row).flatMap { try comparison.form($0, in: db) }
    }

    func isEqual(_ row: DeltaRecord, to cells: [ArraySlice<UInt8>]) throws -> Bool {
        if comparison.isDecidedByForm { return true }
        return try values(row).map { try comparison.areEqual($0, cells, in: db) } ?? false
    }

    // MARK: Rows of the table

    /// Says which values are going to be asked for, so that the table is read once for all of them.
    func prepare(_ wanted: some Sequence<KeyComparison.Form>) throws {
        guard readsWholeTable else { return }
        let unknown = Set(wanted).subtracting(known.keys)
        if unknown.isEmpty { return }
        for form in unknown { known[form] = [] }
        let isNotNull = columns.map { "\(table.quoted($0)) IS NOT NULL" }.joinedAsExpression(by: " AND ")
        let statement = try db.cachedStatement(
            sql: "SELECT \(table.columnList) FROM \(table.qualifiedName) WHERE \(isNotNull)")
        try statement.forEachRecord { row in
            if let form = try form(row), unknown.contains(form) { known[form, default: []].append(row) }
        }
    }

    /// The rows of the table that have values of this form. They are equal to it where ``isEqual(_:to:)`` says so.
    func rows(_ form: KeyComparison.Form, _ cells: [ArraySlice<UInt8>]) throws -> [DeltaRecord] {
        if let found = known[form] { return found }
        if readsWholeTable {
            try prepare(CollectionOfOne(form))
            return known[form] ?? []
        }
        let statement = try db.cachedStatement(
            sql: "SELECT \(table.columnList) FROM \(table.qualifiedName) WHERE \(condition.isEmpty ? "1" : condition)")
        try statement.setExactArguments(cells.compactMap { Cell.value(of: $0).exact })
        let found = try statement.records().filter { try self.form($0) == form }
        // Those of texts under a collation of the program have one form.
        if !columns.isEmpty && comparison.isDecidedByForm { known[form] = found }
        return found
    }
}

extension TrackedTable {
    /// Whether rows are found by the value of a column without reading all of them.
    fileprivate func hasIndex(beginningWith column: Int, _ collation: String, in db: Database) throws -> Bool {
        if rowsOfKeys != nil && table.keyColumns[0] == column { return true }
        return try Row.fetchAll(
            db,
            sql: """
                SELECT x.name, x.coll FROM pragma_index_list(?1, 'main') AS i, pragma_index_xinfo(i.name, 'main') AS x
                WHERE NOT i.partial AND x.key AND x.seqno = 0
                """,
            arguments: [name]
        ).contains { row in
            guard let indexed = row[0] as String? else { return false }
            return DeltaTable.areSame(indexed, table.columns[column])
                && (row[1] as String).uppercased() == collation
        }
    }
}
