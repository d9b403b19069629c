import CipherDatabase

/// The values by which rows that are not quiet meet other rows.
///
/// A row is quiet if in no round of ``Rounds`` it was hidden or changed. Quiet rows are found in the program's table; all
/// others, hidden or shown, are found here: by their unique values, and by the values that refer to a parent.
struct Links {
    let db: Database
    let catalog: Catalog
    let references: References

    /// Added to the number of a parent's key: values of children that refer to it.
    private static let children: Int64 = 1_000_000
    /// No unique key has this number.
    private static let unrelated: Int64 = 500_000

    func hasAny() throws -> Bool {
        try db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM \(EngineTables.link))").first([]) {
            $0.integer(0) != 0
        } ?? false
    }

    /// Rows aside of a table with a unique value.
    ///
    /// - Parameter key: The number of the unique key; ``Reference/rowID`` for the row id.
    func rows(of table: Int64, key: Int, _ form: [UInt8]) throws -> [RowPlace] { try rows(table, Int64(key), form) }

    /// Rows aside that refer to a value of a parent.
    func children(of table: Int64, key: Int, _ form: [UInt8]) throws -> [RowPlace] {
        try rows(table, Self.children + Int64(key), form)
    }

    private func rows(_ table: Int64, _ kind: Int64, _ form: [UInt8]) throws -> [RowPlace] {
        var found: [RowPlace] = []
        try db.cachedStatement(sql: "SELECT of, key FROM \(EngineTables.link) WHERE tbl = ? AND kind = ? AND form = ?")
            .forEach([.integer(table), .integer(kind), ExactValue(form)]) { row in
                found.append(RowPlace(table: row.integer(0), key: RowKey(stored: row.bytes(1))))
            }
        return found
    }

    /// Rows aside that meet a row aside by what is stored of it: by values that it had before it changed.
    func rowsMeeting(_ place: RowPlace) throws -> [RowPlace] {
        var stored: [(table: Int64, kind: Int64, form: [UInt8])] = []
        try db.cachedStatement(sql: "SELECT tbl, kind, form FROM \(EngineTables.link) WHERE of = ? AND key = ?")
            .forEach([.integer(place.table), ExactValue(place.key.stored)]) { row in
                stored.append((row.integer(0), row.integer(1), row.bytes(2)))
            }
        return try stored.flatMap { entry in
            if entry.kind >= Self.unrelated { return try rows(entry.table, entry.kind - Self.children, entry.form) }
            return try rows(entry.table, entry.kind, entry.form)
                + rows(entry.table, Self.children + entry.kind, entry.form)
        }
    }

    func remove(_ place: RowPlace) throws {
        try db.cachedStatement(sql: "DELETE FROM \(EngineTables.link) WHERE of = ? AND key = ?")
            .execute(exact: [.integer(place.table), ExactValue(place.key.stored)])
    }

    /// - Parameter variants: The values that the row had in any round.
    func add(_ place: RowPlace, _ variants: [[CellValue]]) throws {
        for values in variants {
            for (key, form) in try uniqueForms(place.table, values) { try add(place.table, Int64(key), form, place) }
            for (reference, form) in try parentForms(place.table, values) {
                try add(reference.parent, Self.children + Int64(reference.target), form, place)
            }
        }
    }

    private func add(_ table: Int64, _ kind: Int64, _ form: [UInt8], _ place: RowPlace) throws {
        try db.cachedStatement(
            sql: "INSERT OR IGNORE INTO \(EngineTables.link) (tbl, kind, form, of, key) VALUES (?, ?, ?, ?, ?)"
        ).execute(exact: [
            .integer(table), .integer(kind), ExactValue(form), .integer(place.table), ExactValue(place.key.stored),
        ])
    }

    // MARK: Forms

    /// The forms of the unique values of a row, also of its row id.
    func uniqueForms(_ table: Int64, _ values: [CellValue]) throws -> [(key: Int, form: [UInt8])] {
        guard let definition = try catalog.table(table).local else { return [] }
        var forms: [(Int, [UInt8])] = []
        if definition.isRowID {
            let key = definition.keyColumns.map { values[$0] }
            if let form = try KeyComparison.rowID.form(key, in: db) { forms.append((Reference.rowID, form)) }
        }
        for (number, key) in definition.uniqueKeys.enumerated() {
            guard let parts = try uniqueValues(key, definition, values) else { continue }
            if let form = try key.comparison.form(parts, in: db) { forms.append((number, form)) }
        }
        return forms
    }

    /// The values that a row has in a unique key; nil if the key is over other rows, or if SQLite cannot compute it: then
    /// the table does not take the row.
    func uniqueValues(
        _ key: TableDefinition.UniqueKey, _ table: TableDefinition, _ values: [CellValue]
    ) throws -> [CellValue]? {
        if key.isPlain { return key.columns.map { values[$0] } }
        let sql = """
            SELECT \(key.terms.map { "(\($0))" }.joined(separator: ", ")) FROM (\(table.givenRow))
            AS \(table.name.quotedDatabaseIdentifier) \(key.condition.map { "WHERE \($0)" } ?? "")
            """
        do {
            return try db.cachedStatement(sql: sql).first(values.map(\.exact)) { row in
                key.terms.indices.map { row.value($0) }
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            return nil
        }
    }

    /// The forms of the values that refer to parents.
    func parentForms(_ table: Int64, _ values: [CellValue]) throws -> [(reference: Reference, form: [UInt8])] {
        try (references.ofChild[table] ?? []).compactMap { reference in
            try self.parentForm(reference, values).map { (reference, $0) }
        }
    }

    func parentForm(_ reference: Reference, _ values: [CellValue]) throws -> [UInt8]? {
        try reference.comparison.form(reference.columns.map { values[$0] }, in: db)
    }
}
