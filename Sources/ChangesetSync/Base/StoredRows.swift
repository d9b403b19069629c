import CipherDatabase

/// Reads and writes what the tables of the engine have of one key. Inside a transaction.
final class StoredRows {
    let db: Database
    let index: CommitIndex
    let catalog: Catalog
    private var plainRows: [Int64: PlainRows] = [:]
    /// Whether a table of the engine has rows of a table of the program, by its name and the number.
    private var fills: [String: [Int64: Bool]] = [:]
    private var vectors: [Int64: LocalVector] = [:]
    private var columnsWithUnknown: Set<Int64> = []
    /// Keys between which nothing was stored when the transaction began, for each table.
    private var empty: [Int64: (first: RowKey, last: RowKey)] = [:]
    /// The time that new tombstones get.
    var now: HybridTime = HybridTime(rawValue: 0)

    init(_ db: Database, _ index: CommitIndex, _ catalog: Catalog) {
        (self.db, self.index, self.catalog) = (db, index, catalog)
    }

    func plainRows(_ table: BaseTable) -> PlainRows {
        if let known = plainRows[table.n] { return known }
        let rows = PlainRows(table.n, isRowID: table.local?.isRowID ?? false, db)
        plainRows[table.n] = rows
        return rows
    }

    func flush() throws { for rows in plainRows.values { try rows.flush() } }

    /// Whether a table of the engine has any row of a table.
    func has(_ name: String, _ table: Int64) throws -> Bool {
        if let known = fills[name]?[table] { return known }
        let names = [EngineTables.aside, EngineTables.dead, EngineTables.grave, EngineTables.sum]
        try Self.fillQuery(db).forEach([.integer(table)]) { row in
            for (column, name) in names.enumerated() where fills[name]?[table] == nil {
                fills[name, default: [:]][table] = row.integer(column) != 0
            }
        }
        return fills[name]?[table] ?? false
    }

    private static func fillQuery(_ db: Database) throws -> Statement {
        try db.cachedStatement(
            sql: """
                SELECT EXISTS (SELECT 1 FROM \(EngineTables.aside) WHERE tbl = ?1),
                    EXISTS (SELECT 1 FROM \(EngineTables.dead) WHERE tbl = ?1),
                    EXISTS (SELECT 1 FROM \(EngineTables.grave) WHERE tbl = ?1),
                    EXISTS (SELECT 1 FROM \(EngineTables.sum) WHERE tbl = ?1)
                """)
    }

    private func note(_ name: String, _ table: Int64) { fills[name, default: [:]][table] = true }

    // MARK: Reading

    /// Finds out for many keys at once whether the tables have anything of them: a bulk insertion asks for its runs.
    ///
    /// - Returns: Whether nothing is stored of them.
    @discardableResult
    func lookAhead(_ table: Int64, from first: RowKey, to last: RowKey) throws -> Bool {
        let base = try catalog.table(table)
        guard try base.local == nil || plainRows(base).isEmpty(from: first, to: last) else { return false }
        for name in [EngineTables.aside, EngineTables.dead, EngineTables.grave] where try has(name, table) {
            let sql = "SELECT EXISTS (SELECT 1 FROM \(name) WHERE tbl = ? AND key BETWEEN ? AND ?)"
            let arguments = [ExactValue.integer(table), ExactValue(first.stored), ExactValue(last.stored)]
            if try db.cachedStatement(sql: sql).first(arguments, { $0.integer(0) != 0 }) ?? true { return false }
        }
        empty[table] = (first, last)
        return true
    }

    /// Rows were stored between the keys.
    func forgetLookAhead(_ table: Int64) { empty[table] = nil }

    /// The state of a key in the base.
    ///
    /// - Parameter present: The row of the program's table with this key, as it was before the transaction.
    func state(of place: RowPlace, present: () throws -> [CellValue]?) throws -> (state: KeyState, isAside: Bool) {
        var state = KeyState()
        if let (first, last) = empty[place.table], !(place.key < first), !(last < place.key) { return (state, false) }
        let arguments = [ExactValue.integer(place.table), ExactValue(place.key.stored)]
        if try has(EngineTables.aside, place.table) {
            try db.cachedStatement(sql: "SELECT incarnation, row FROM \(EngineTables.aside) WHERE tbl = ? AND key = ?")
                .forEach(arguments) { state.rows[$0.integer(0)] = try BaseRow($0.bytes(1)) }
        }
        let isAside = !state.rows.isEmpty
        if !isAside, let row = try plainRow(place, present) { state.rows[row.incarnation] = row.row }
        if try has(EngineTables.dead, place.table) {
            try db.cachedStatement(
                sql: "SELECT incarnation, known, detail FROM \(EngineTables.dead) WHERE tbl = ? AND key = ?"
            ).forEach(arguments) { row in
                state.dead[row.integer(0)] = try Tombstone(known: self.vector(row.integer(1)), detail: row.bytes(2))
            }
        }
        if try has(EngineTables.grave, place.table) {
            try db.cachedStatement(
                sql: "SELECT incarnation, own, row FROM \(EngineTables.grave) WHERE tbl = ? AND key = ?"
            )
            .forEach(arguments) { row in
                let body = row.isNull(2) ? nil : try BaseRow(row.bytes(2))
                state.graves[row.integer(0)] = KeyState.Grave(row: body, isOwn: row.integer(1) != 0)
            }
        }
        return (state, isAside)
    }

    private func plainRow(
        _ place: RowPlace, _ present: () throws -> [CellValue]?
    ) throws -> (incarnation: Int64, row: BaseRow)? {
        let table = try catalog.table(place.table)
        guard table.local != nil, let stamps = try plainRows(table).stamps(of: place.key) else { return nil }
        guard let values = try present() else { throw EngineError(.damagedStore) }
        var row = BaseRow(born: stamps.born)
        let counters = try has(EngineTables.sum, place.table) ? counters(of: place) : Counters()
        row.sums = counters.sums
        func add(_ n: Int64, _ stamp: LocalStamp) {
            guard let column = table.columns[n] else { return }
            guard let index = column.place else {
                row.unknown[n] = stamp
                return
            }
            row.cells[n] = BaseRow.BaseCell(stamp: stamp, value: counters.cells[n] ?? values[index])
        }
        for n in try catalog.columns(ofShape: stamps.shape) { add(n, stamps.insertion) }
        for (n, stamp) in stamps.others { add(n, stamp) }
        return (stamps.incarnation, row)
    }

    /// The stored counters of a plain row.
    struct Counters {
        var sums: [Int64: [BaseRow.Source: BaseRow.Sum]] = [:]
        /// The values that the columns had before they became counters.
        var cells: [Int64: CellValue] = [:]
    }

    /// No commit has this number: the record is the cell of the column.
    private static let cellOrigin: Int64 = 0

    func counters(of place: RowPlace) throws -> Counters {
        var found = Counters()
        try db.cachedStatement(
            sql: "SELECT col, origin, branch, last, total FROM \(EngineTables.sum) WHERE tbl = ? AND key = ?"
        ).forEach([.integer(place.table), ExactValue(place.key.stored)]) { row in
            if row.integer(1) == Self.cellOrigin {
                found.cells[row.integer(0)] = .integer(row.integer(4))
                return
            }
            let source = BaseRow.Source(origin: row.integer(1), branch: row.integer(2))
            found.sums[row.integer(0), default: [:]][source] = BaseRow.Sum(last: row.integer(3), total: row.integer(4))
        }
        return found
    }

    /// Keeps the cell of a plain row whose column becomes a counter: the table shows it with the steps.
    func keepCell(_ place: RowPlace, _ incarnation: Int64, _ column: Int64, _ value: Int64) throws {
        note(EngineTables.sum, place.table)
        try db.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO \(EngineTables.sum) (tbl, key, incarnation, col, origin, branch, last, total)
                VALUES (?, ?, ?, ?, \(Self.cellOrigin), 0, 0, ?)
                """
        ).execute(exact: [
            .integer(place.table), ExactValue(place.key.stored), .integer(incarnation), .integer(column),
            .integer(value),
        ])
    }

    /// The cells of columns that are counters.
    private func counterCells(_ row: BaseRow, _ table: BaseTable) -> [Int64: Int64] {
        guard table.hasCounters else { return [:] }
        var found: [Int64: Int64] = [:]
        for (n, cell) in row.cells where table.columns[n]?.isCounter == true {
            if case .integer(let number) = cell.value { found[n] = number }
        }
        return found
    }

    // MARK: Vectors of tombstones

    private func vector(_ n: Int64) throws -> LocalVector {
        if let known = vectors[n] { return known }
        let bytes = try db.cachedStatement(sql: "SELECT vector FROM \(EngineTables.known) WHERE n = ?")
            .first([.integer(n)]) { $0.bytes(0) }
        guard let bytes else { throw EngineError(.damagedStore) }
        let vector = try LocalVector(bytes, index)
        vectors[n] = vector
        return vector
    }

    private func number(of vector: LocalVector) throws -> Int64 {
        let bytes = ExactValue(vector.bytes)
        let found = try db.cachedStatement(sql: "SELECT n FROM \(EngineTables.known) WHERE vector = ?")
            .first([bytes]) { $0.integer(0) }
        if let found { return found }
        try db.cachedStatement(sql: "INSERT INTO \(EngineTables.known) (vector) VALUES (?)").execute(exact: [bytes])
        return db.lastInsertedRowID
    }

    /// Removes the vectors that no tombstone names.
    func removeUnusedVectors() throws {
        vectors = [:]
        try db.execute(
            sql: "DELETE FROM \(EngineTables.known) WHERE n NOT IN (SELECT known FROM \(EngineTables.dead))")
    }

    // MARK: Writing

    /// How the living rows of a key are stored.
    enum Form: Hashable {
        case plain
        case aside(HiddenReason)
    }

    /// Writes what has changed of a key.
    func store(_ place: RowPlace, _ state: KeyState, was former: KeyState, _ form: Form, wasAside: Bool) throws {
        try storeRows(place, state, was: former, form, wasAside: wasAside)
        for incarnation in Set(state.dead.keys).union(former.dead.keys)
        where state.dead[incarnation] != former.dead[incarnation] {
            try store(place, incarnation, state.dead[incarnation])
        }
        for incarnation in Set(state.graves.keys).union(former.graves.keys)
        where state.graves[incarnation] != former.graves[incarnation] {
            try store(place, incarnation, state.graves[incarnation])
        }
    }

    private func storeRows(
        _ place: RowPlace, _ state: KeyState, was former: KeyState, _ form: Form, wasAside: Bool
    ) throws {
        let table = try catalog.table(place.table)
        let key = [ExactValue.integer(place.table), ExactValue(place.key.stored)]
        let isPlain = form == .plain && !state.rows.isEmpty
        if wasAside, isPlain || !former.rows.keys.allSatisfy({ state.rows[$0] != nil }) {
            try db.cachedStatement(sql: "DELETE FROM \(EngineTables.aside) WHERE tbl = ? AND key = ?").execute(
                exact: key)
        }
        if !wasAside, !former.rows.isEmpty, !isPlain {
            try plainRows(table).remove(place.key)
            if former.rows.values.contains(where: { !$0.sums.isEmpty || !counterCells($0, table).isEmpty }) {
                try removeSums(key)
            }
        }
        guard case .aside(let reason) = form else {
            if let (incarnation, row) = state.rows.first {
                try storePlain(place, table, incarnation, row, was: wasAside ? [:] : former.rows)
            }
            return
        }
        for (incarnation, row) in state.rows {
            note(EngineTables.aside, place.table)
            try noteUnknown(row)
            try db.cachedStatement(
                sql: """
                    INSERT OR REPLACE INTO \(EngineTables.aside) (tbl, key, incarnation, reason, row)
                    VALUES (?, ?, ?, ?, ?)
                    """
            ).execute(exact: key + [.integer(incarnation), .integer(reason.rawValue), ExactValue(row.bytes)])
        }
    }

    private func storePlain(
        _ place: RowPlace, _ table: BaseTable, _ incarnation: Int64, _ row: BaseRow, was rowsBefore: [Int64: BaseRow]
    ) throws {
        let rows = plainRows(table)
        let former = rowsBefore[incarnation]
        if let former, former == row { return }
        let known = try rowsBefore.isEmpty ? nil : rows.stamps(of: place.key)
        var stamps: PlainStamps
        if let known, known.incarnation == incarnation, known.born == row.born {
            stamps = known
            stamps.others = [:]
        } else {
            // An insertion that is not a revival writes with its own stamp.
            let era = row.born.commit == incarnation ? row.born.era : 0
            let insertion = LocalStamp(era: era, commit: incarnation)
            let written = row.cells.filter { $0.value.stamp == insertion }.keys.sorted()
            stamps = PlainStamps(
                incarnation: incarnation, era: era, born: row.born, shape: try catalog.shape(written))
        }
        let shape = Set(try catalog.columns(ofShape: stamps.shape))
        for (column, cell) in row.cells where cell.stamp != stamps.insertion || !shape.contains(column) {
            stamps.others[column] = cell.stamp
        }
        if stamps != known { try rows.set(stamps, of: place.key, isNew: known == nil) }
        let cells = counterCells(row, table)
        let before = rowsBefore.values.first
        if row.sums != before?.sums ?? [:] || cells != before.map({ counterCells($0, table) }) ?? [:]
            || former == nil && !(row.sums.isEmpty && cells.isEmpty)
        {
            try storeSums(place, incarnation, row.sums)
            for (column, value) in cells { try keepCell(place, incarnation, column, value) }
        }
    }

    /// Keeps a row aside that was plain, and whose stamps are removed.
    func setAside(_ place: RowPlace, _ incarnation: Int64, _ row: BaseRow, _ reason: HiddenReason) throws {
        let key = [ExactValue.integer(place.table), ExactValue(place.key.stored)]
        if try has(EngineTables.sum, place.table) { try removeSums(key) }
        note(EngineTables.aside, place.table)
        try noteUnknown(row)
        try db.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO \(EngineTables.aside) (tbl, key, incarnation, reason, row) VALUES (?, ?, ?, ?, ?)
                """
        ).execute(exact: key + [.integer(incarnation), .integer(reason.rawValue), ExactValue(row.bytes)])
    }

    /// Notes the columns of which a row has an unknown value (``UnknownValues``).
    private func noteUnknown(_ row: BaseRow) throws {
        for n in row.unknown.keys where columnsWithUnknown.insert(n).inserted {
            try db.cachedStatement(sql: "UPDATE \(EngineTables.column) SET lost = 1 WHERE n = ? AND lost = 0")
                .execute(exact: [.integer(n)])
        }
    }

    private func removeSums(_ key: [ExactValue]) throws {
        try db.cachedStatement(sql: "DELETE FROM \(EngineTables.sum) WHERE tbl = ? AND key = ?").execute(exact: key)
    }

    private func storeSums(
        _ place: RowPlace, _ incarnation: Int64, _ sums: [Int64: [BaseRow.Source: BaseRow.Sum]]
    ) throws {
        let key = [ExactValue.integer(place.table), ExactValue(place.key.stored)]
        try removeSums(key)
        note(EngineTables.sum, place.table)
        let statement = try db.cachedStatement(
            sql: """
                INSERT INTO \(EngineTables.sum) (tbl, key, incarnation, col, origin, branch, last, total)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """)
        for (column, sums) in sums {
            for (source, sum) in sums {
                try statement.execute(
                    exact: key + [
                        .integer(incarnation), .integer(column), .integer(source.origin), .integer(source.branch),
                        .integer(sum.last), .integer(sum.total),
                    ])
            }
        }
    }

    private func store(_ place: RowPlace, _ incarnation: Int64, _ tombstone: Tombstone?) throws {
        let key = [ExactValue.integer(place.table), ExactValue(place.key.stored), .integer(incarnation)]
        guard let tombstone else {
            return try db.cachedStatement(
                sql: "DELETE FROM \(EngineTables.dead) WHERE tbl = ? AND key = ? AND incarnation = ?"
            ).execute(exact: key)
        }
        note(EngineTables.dead, place.table)
        try db.cachedStatement(
            sql: """
                INSERT INTO \(EngineTables.dead) (tbl, key, incarnation, known, since, detail) VALUES (?, ?, ?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET known = excluded.known, detail = excluded.detail
                """
        ).execute(
            exact: key + [
                .integer(try number(of: tombstone.known)), .integer(Int64(now.rawValue)), ExactValue(tombstone.detail),
            ])
    }

    private func store(_ place: RowPlace, _ incarnation: Int64, _ grave: KeyState.Grave?) throws {
        let key = [ExactValue.integer(place.table), ExactValue(place.key.stored), .integer(incarnation)]
        guard let grave else {
            return try db.cachedStatement(
                sql: "DELETE FROM \(EngineTables.grave) WHERE tbl = ? AND key = ? AND incarnation = ?"
            ).execute(exact: key)
        }
        note(EngineTables.grave, place.table)
        try db.cachedStatement(
            sql: "INSERT OR REPLACE INTO \(EngineTables.grave) (tbl, key, incarnation, own, row) VALUES (?, ?, ?, ?, ?)"
        ).execute(exact: key + [.integer(grave.isOwn ? 1 : 0), grave.row.map { ExactValue($0.bytes) } ?? .null])
    }
}

/// Why a row is not stored plainly, and what of it is shown.
enum HiddenReason: Int64, Sendable, Hashable {
    // Shown.
    /// The row has several incarnations, or cells of columns that are not here.
    case composed = 0
    /// Another row competes with it, or its parent is not shown in a round of ``Rounds``.
    case contested = 1
    /// A value is shown as ON DELETE says, or as the column converts it.
    case altered = 2
    // Hidden.
    case notNull = 10
    case check = 11
    case type = 12
    case unique = 13
    case foreignKey = 14
    /// The program has no such table.
    case unknownTable = 15
    /// The program's table has other key columns.
    case otherKey = 16
    /// An expression of the table fails: it refuses the values, or its function is missing.
    case expression = 17

    package var isHidden: Bool { rawValue >= 10 }
}
