import CipherDatabase

/// Tracking tables that have rows.
extension Work {
    /// Tracks a table, unless its columns are tracked already and its rows are shown. The rules of the repository stay.
    func trackIfChanged(_ name: String) throws {
        if let known = catalog.local(name), let definition = known.local {
            let places = Set(known.columnsOfPlaces.indices.filter { known.columnsOfPlaces[$0] != nil })
            let isComplete = places.union(definition.keyColumns).count == definition.columns.count
            if try isComplete && !hasWaitedForTable(known.n) && isShownByDefinition(known.n, definition.name) { return }
        }
        let isNew = catalog.local(name) == nil
        try track(withPresentRules(name))
        guard isNew, let table = catalog.local(name) else { return }
        try db.execute(sql: "UPDATE \(EngineTables.table) SET adopting = adopting | 1 WHERE n = \(table.n)")
    }

    /// Whether rows wait for the table of the program: it was gone, and is there again.
    private func hasWaitedForTable(_ table: Int64) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM \(EngineTables.aside) WHERE tbl = ? AND reason = ?)"
        let reason = ExactValue.integer(HiddenReason.unknownTable.rawValue)
        return try db.cachedStatement(sql: sql).first([.integer(table), reason]) { $0.integer(0) != 0 } ?? false
    }

    /// Whether the definition of a table and its indexes is the one by which its rows were shown.
    private func isShownByDefinition(_ table: Int64, _ name: String) throws -> Bool {
        try db.cachedStatement(sql: "SELECT definition FROM \(EngineTables.table) WHERE n = ?")
            .first([.integer(table)]) { $0.optionalText(0) } == .some(definitionText(of: name))
    }

    /// A table with the counters and the rule of deletions that commits have given to it.
    private func withPresentRules(_ name: String) -> TrackedTable {
        var table = TrackedTable(name)
        guard let known = catalog.local(name) ?? catalog.tables.values.first(where: { $0.name == Name(name) }) else {
            return table
        }
        table.deletionsWin = known.deletionsWin
        for column in known.columns.values where column.isCounter {
            table.counters.insert(column.place.flatMap { known.local?.columns[$0].name } ?? column.id.name.text)
        }
        return table
    }

    /// The bit of `adopting` for rows of a store that has joined its repository again without its former commits.
    static let oldRows = 8

    /// Makes a commit of rows that a table had before it was tracked.
    ///
    /// - Parameter last: The key before them; nil from the beginning. The next slice begins after it.
    /// - Returns: Whether there may be more.
    func adopt(after last: inout RowKey?) throws -> Bool {
        try showTrackedTables()
        let found = try db.cachedStatement(
            sql: "SELECT n, adopting FROM \(EngineTables.table) WHERE adopting & 1 LIMIT 1"
        )
        .first([]) { ($0.integer(0), $0.integer(1)) }
        guard let (number, adopting) = found, let table = catalog.tables[number]?.local else { return false }
        let limit = settings.sliceRows > 0 ? min(settings.sliceRows, SlicePace.foundRows) : Int(Int32.max)
        let rows = try self.rows(of: table, after: last, limit: limit)
        var changes: [ProgramChange] = []
        for row in rows {
            let key = table.key(of: row)
            if key.values.contains(where: \.isNull) { throw EngineError(.nullKey, table.name) }
            // After a kill some of them are adopted.
            if try !isStored(RowPlace(table: number, key: key)) {
                changes.append(ProgramChange(table: table.name, old: nil, new: row))
            }
        }
        isOld = adopting & Int64(Self.oldRows) != 0
        defer { isOld = false }
        _ = try record(changes, meta: "{}", isRecorded: true)
        last = rows.last.map(table.key)
        if rows.isEmpty {
            try db.execute(
                sql: "UPDATE \(EngineTables.table) SET adopting = adopting & ~(1 | \(Self.oldRows)) WHERE n = \(number)"
            )
        }
        return true
    }

    /// Whether the base has anything of a key. It reads no more than that.
    func isStored(_ place: RowPlace) throws -> Bool {
        if try base.stored.plainRows(catalog.table(place.table)).stamps(of: place.key) != nil { return true }
        for name in [EngineTables.aside, EngineTables.dead, EngineTables.grave]
        where try base.stored.has(name, place.table) {
            let sql = "SELECT EXISTS (SELECT 1 FROM \(name) WHERE tbl = ? AND key = ?)"
            let found = try db.cachedStatement(sql: sql)
                .first([.integer(place.table), ExactValue(place.key.stored)]) { $0.integer(0) != 0 }
            if found == true { return true }
        }
        return false
    }

    func rows(of table: TableDefinition, after last: RowKey?, limit: Int) throws -> [[CellValue]] {
        let keys = table.keyColumns.map(table.quoted)
        let places = keys.indices.map { "?\($0 + 1)" }.joined(separator: ", ")
        let condition = last == nil ? "" : "WHERE (\(keys.joined(separator: ", "))) > (\(places))"
        let statement = try db.makeStatement(
            sql: """
                SELECT \(table.columnList) FROM \(table.qualifiedName) \(condition)
                ORDER BY \(keys.joined(separator: ", ")) LIMIT \(limit)
                """)
        var rows: [[CellValue]] = []
        try statement.forEach((last?.values ?? []).map(\.exact)) { row in
            rows.append(table.columns.indices.map { row.value($0) })
        }
        return rows
    }
}
