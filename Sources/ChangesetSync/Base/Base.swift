import CipherDatabase

/// The base in the work of one transaction: the keys that were touched, as they were and as they are.
final class Base {
    /// A key in work.
    private struct Work {
        var state: KeyState
        let former: KeyState
        let wasAside: Bool
        /// The row of the program's table when the transaction began, and as it is; nil if not read yet.
        var formerRow: [CellValue]??
        var presentRow: [CellValue]??
    }

    let db: Database
    let index: CommitIndex
    let catalog: Catalog
    let stored: StoredRows
    private var works: [RowPlace: Work] = [:]
    private var tablesInWork: Set<Int64> = []
    /// The keys whose rows may be shown otherwise, in the order in which they were touched.
    private var dirty: [RowPlace] = []
    private var isDirty: Set<RowPlace> = []
    /// The rows of the program's tables before a transaction of the program.
    private var rowsBeforeProgram: [RowPlace: [CellValue]?] = [:]
    private var rowsAfterProgram: [RowPlace: [CellValue]?] = [:]
    /// The rows of the program's tables that this transaction has changed, as they were before it. The change history has
    /// no entries of them yet.
    private(set) var unrecordedRows: [RowPlace: [CellValue]?] = [:]

    /// Rows of the program's tables that could not be deleted.
    private var stale: [RowPlace: [CellValue]] = [:]

    /// The statements that read rows, by table.
    private var selections: [Int64: Statement] = [:]

    init(_ db: Database, _ index: CommitIndex, _ catalog: Catalog) {
        (self.db, self.index, self.catalog) = (db, index, catalog)
        stored = StoredRows(db, index, catalog)
    }

    /// Says what the program changed. It takes the place of rows that were read before: those that were written outside of
    /// commits are recorded first, in the same transaction.
    ///
    /// - Parameter isRecorded: Whether the change history has it already.
    func noteProgram(_ place: RowPlace, from old: [CellValue]?, to new: [CellValue]?, isRecorded: Bool) {
        rowsBeforeProgram.updateValue(old, forKey: place)
        rowsAfterProgram.updateValue(new, forKey: place)
        if !isRecorded { unrecordedRows.updateValue(old, forKey: place) }
        works[place]?.formerRow = .some(old)
        works[place]?.presentRow = .some(new)
    }

    /// Whether the program has written the row in this transaction: its foreign keys have acted.
    func isWrittenByProgram(_ place: RowPlace) -> Bool { rowsAfterProgram.index(forKey: place) != nil }

    /// Gives a row in the place of that in the program's table, which somebody has written.
    func noteForeign(_ place: RowPlace, _ row: [CellValue]) { rowsBeforeProgram.updateValue(row, forKey: place) }

    /// Says that the program's table may have a row that the base lacks.
    func noteStale(_ place: RowPlace, _ row: [CellValue]) { stale[place] = row }

    // MARK: States

    func state(_ place: RowPlace) throws -> KeyState { try work(place).state }
    func wasAside(_ place: RowPlace) throws -> Bool { try work(place).wasAside }

    private func work(_ place: RowPlace) throws -> Work {
        if let known = works[place] { return known }
        var row: [CellValue]??
        let (state, isAside) = try stored.state(of: place) {
            let found = try rowsBeforeProgram[place] ?? tableRow(place)
            row = .some(found)
            return found
        }
        // Each row of a tracked table is in the base, unless it could not be deleted.
        if row == nil, state.rows.isEmpty { row = .some(stale[place]) }
        var work = Work(state: state, former: state, wasAside: isAside, formerRow: row, presentRow: row)
        if let after = rowsAfterProgram[place] {
            work.formerRow = .some(rowsBeforeProgram[place] ?? nil)
            work.presentRow = .some(after)
        }
        works[place] = work
        tablesInWork.insert(place.table)
        return work
    }

    func modify<T>(_ place: RowPlace, _ body: (inout KeyState) throws -> T) throws -> T {
        _ = try work(place)
        if isDirty.insert(place).inserted { dirty.append(place) }
        guard let index = works.index(forKey: place) else { throw EngineError(.damagedStore) }
        return try body(&works.values[index].state)
    }

    /// The keys that were touched since the last call.
    func takeDirty() -> [RowPlace] {
        defer { (dirty, isDirty) = ([], []) }
        return dirty
    }

    /// Whether a key of the table is in work.
    func isInWork(_ table: Int64) -> Bool { tablesInWork.contains(table) }

    /// Whether the key is in work.
    func isTouched(_ place: RowPlace) -> Bool { works[place] != nil }

    func touch(_ place: RowPlace) { if isDirty.insert(place).inserted { dirty.append(place) } }

    // MARK: Rows of the program

    /// The row of the program's table when the transaction began.
    func formerRow(_ place: RowPlace) throws -> [CellValue]? {
        if let known = try work(place).formerRow { return known }
        return try presentRow(place)
    }

    /// The row of the program's table as it is.
    func presentRow(_ place: RowPlace) throws -> [CellValue]? {
        if let known = try work(place).presentRow { return known }
        let row = try tableRow(place)
        works[place]?.presentRow = .some(row)
        if case .none = works[place]?.formerRow { works[place]?.formerRow = .some(row) }
        return row
    }

    func setPresentRow(_ place: RowPlace, _ row: [CellValue]?) throws {
        let former = try formerRow(place)
        if unrecordedRows.index(forKey: place) == nil {
            unrecordedRows.updateValue(works[place]?.presentRow ?? former, forKey: place)
        }
        works[place]?.presentRow = .some(row)
    }

    /// The row of the program's table with exactly this key, read from the table.
    func tableRow(_ place: RowPlace) throws -> [CellValue]? {
        guard let table = try catalog.table(place.table).local else { return nil }
        let values = place.key.values
        guard values.count == table.keyColumns.count, !table.isRowID || place.key.rowID != nil else { return nil }
        let statement = try selections[place.table] ?? selection(table)
        selections[place.table] = statement
        let row = try statement.first(values.map(\.exact)) { row in
            table.columns.indices.map { row.value($0) }
        }
        guard let row, table.key(of: row) == place.key else { return nil }
        return row
    }

    private func selection(_ table: TableDefinition) throws -> Statement {
        try db.cachedStatement(
            sql: "SELECT \(table.columnList) FROM \(table.qualifiedName) WHERE \(table.keyCondition())")
    }

    // MARK: Storing

    /// Stores a key whose shown row is decided.
    func store(_ place: RowPlace, _ form: StoredRows.Form) throws {
        let work = try work(place)
        try stored.store(place, work.state, was: work.former, form, wasAside: work.wasAside)
        let isAside = if case .aside = form { !work.state.rows.isEmpty } else { false }
        works[place] = Work(
            state: work.state, former: work.state, wasAside: isAside, formerRow: work.presentRow,
            presentRow: work.presentRow)
    }
}
