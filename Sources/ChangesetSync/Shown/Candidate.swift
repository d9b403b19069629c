import CipherDatabase

/// A row of the base on its way into the program's table: with local columns and local defaults.
struct Candidate {
    let place: RowPlace
    /// Its age: of rows that compete the older is shown.
    let born: LocalStamp
    var values: [CellValue]
    /// Whether it has several incarnations, or cells of columns that are not here.
    let isComposed: Bool
    /// Whether the table would store other values.
    let isConverted: Bool
}

extension Candidate {
    /// - Returns: nil if the key has no living row, or the program has no place for it.
    init?(_ place: RowPlace, _ state: KeyState, _ table: BaseTable, _ index: CommitIndex) throws {
        guard let definition = table.local, let row = try state.merged(index) else { return nil }
        let key = place.key.values
        guard key.count == definition.keyColumns.count else { return nil }
        var values = definition.columns.map(\.defaultValue)
        for (column, value) in zip(definition.keyColumns, key) { values[column] = value }
        var isComposed = state.rows.count > 1
        for (n, cell) in row.cells {
            if let column = table.columns[n], let place = column.place, !column.isCounter {
                values[place] = cell.value
            } else {
                isComposed = true
            }
        }
        for case let column? in table.columnsOfPlaces where column.isCounter {
            if let place = column.place { values[place] = .integer(row.total(of: column.n)) }
        }
        let isConverted = zip(definition.columns, values).contains { $0.affinity.converts($1) }
        self.init(place: place, born: row.born, values: values, isComposed: isComposed, isConverted: isConverted)
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
