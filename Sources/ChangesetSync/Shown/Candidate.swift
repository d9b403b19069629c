import CipherDatabase

/// A row of the base on its way into the program's table: with local columns and local defaults.
struct Candidate {
    let place: RowPlace
    /// Its age: of rows that compete the older is shown.
    let born: LocalStamp
    var values: [CellValue]
    /// Whether it has several incarnations, cells of columns that are not here, or cells with unknown values.
    let isComposed: Bool
    /// Whether the table would store other values.
    let isConverted: Bool
}

extension Candidate {
    /// - Returns: nil if the key has no living row, or the program has no place for it.
    init?(_ place: RowPlace, _ state: KeyState, _ table: BaseTable, _ index: CommitIndex) throws {
        let key = place.key.values
        guard let definition = table.local, key.count == definition.keyColumns.count,
            let row = try BaseRow.merged(Self.rows(of: state, table).sorted { $0.key < $1.key }.map(\.value), index)
        else { return nil }
        var values = definition.columns.map(\.defaultValue)
        for (column, value) in zip(definition.keyColumns, key) { values[column] = value }
        var isComposed = state.rows.count > 1 || !row.unknown.isEmpty
        for (n, cell) in row.cells {
            if let place = table.columns[n]?.place { values[place] = cell.value } else { isComposed = true }
        }
        if row.sums.keys.contains(where: { table.columns[$0]?.place == nil }) { isComposed = true }
        for case let column? in table.columnsOfPlaces where column.isCounter {
            guard let place = column.place else { continue }
            let count = row.count(of: column.n)
            if let count { values[place] = definition.columns[place].affinity.stored(count) }
            // The value of such a cell does not follow from the shown one.
            if let cell = row.cells[column.n] {
                guard case .integer = cell.value, case .integer = values[place] else {
                    isComposed = true
                    continue
                }
            }
        }
        let isConverted = zip(definition.columns, values).contains { $0.affinity.converts($1) }
        self.init(place: place, born: row.born, values: values, isComposed: isComposed, isConverted: isConverted)
    }

    /// The living rows of a key that were written under the columns of the program's key.
    static func rows(of state: KeyState, _ table: BaseTable) -> [Int64: BaseRow] {
        table.columnsOfKey.isEmpty ? state.rows : state.rows.filter { !table.hasOtherKey($0.value) }
    }

    /// Whether a key has a living row that was written under other columns.
    static func hasOtherKey(_ place: RowPlace, _ state: KeyState, _ table: BaseTable) -> Bool {
        guard let definition = table.local, !state.rows.isEmpty else { return false }
        let isOfArity = place.key.values.count == definition.keyColumns.count
        return !isOfArity || state.rows.values.contains(where: table.hasOtherKey)
    }

    /// Orders by age, and by the names of table and key if one commit made both.
    func precedes(_ other: Candidate, _ catalog: Catalog, _ index: CommitIndex) throws -> Bool {
        if born != other.born { return try index.precedes(born, other.born) }
        if place.table != other.place.table {
            return try catalog.table(place.table).name < catalog.table(other.place.table).name
        }
        return place.key < other.place.key
    }
}
