import CipherDatabase

/// The rows that a commit under way has touched, on one connection: each as it was before, by exact key.
///
/// Triggers report each row before it changes; the first report of a key counts. Nothing is undone where a savepoint is
/// rolled back: at the end each key is compared with the row as it is then, so a report too many does no harm.
final class Capture {
    /// The function that the triggers call: without arguments, whether a commit is under way; else the number of the
    /// table, the kind of report, the first column that follows, and the values.
    static let function = EngineTables.prefix + "capture"
    /// The most values of one call.
    static let valuesOfCall = Database.mostFunctionArguments - 3

    enum Report: Int64 {
        /// A whole row, as it is before the change.
        case row = 1
        /// The key of a row that did not exist before.
        case key = 2
    }

    /// One table of the commit under way.
    final class Touched {
        let table: BaseTable
        let definition: TableDefinition
        var former = FormerRows()
        /// A row with a NULL in its key has no identity; it cannot be committed.
        var hasNullKey = false
        /// A row of which not all columns have come yet, and where each cell begins.
        fileprivate var partial: [UInt8] = []
        fileprivate var starts: [Int] = []

        init(_ table: BaseTable, _ definition: TableDefinition) { (self.table, self.definition) = (table, definition) }
    }

    private(set) var isActive = false
    private(set) var touched: [Int64: Touched] = [:]
    private var last: Touched?

    func begin(_ catalog: Catalog) {
        end()
        for table in catalog.tables.values {
            if let definition = table.local { touched[table.n] = Touched(table, definition) }
        }
        isActive = true
    }

    func end() {
        isActive = false
        (touched, last) = ([:], nil)
    }

    /// The name of a table of the commit under way, however it is written.
    func table(named name: String) -> String? {
        touched.values.first { $0.definition.name.lowercased() == name.lowercased() }?.definition.name
    }

    // MARK: Called by triggers

    func take(_ arguments: LentArguments) throws -> Int64? {
        guard isActive, arguments.count > 0 else { return isActive ? 1 : 0 }
        guard case .integer(let n) = arguments[0], let table = table(n), case .integer(let kind) = arguments[1],
            let report = Report(rawValue: kind), case .integer(let start) = arguments[2]
        else { throw EngineError(.damagedStore) }
        switch report {
        case .row: takeRow(table, from: start, arguments)
        case .key: takeKey(table, arguments)
        }
        return nil
    }

    private func table(_ n: Int64) -> Touched? {
        if let last, last.table.n == n { return last }
        last = touched[n]
        return last
    }

    private func takeRow(_ touched: Touched, from start: Int64, _ arguments: LentArguments) {
        if start == 0 {
            touched.partial.removeAll(keepingCapacity: true)
            touched.starts.removeAll(keepingCapacity: true)
        }
        for place in 3..<arguments.count {
            touched.starts.append(touched.partial.count)
            touched.partial.append(cell: arguments[place])
        }
        guard touched.starts.count == touched.definition.columns.count else { return }
        let columns = touched.definition.keyColumns
        var key: [UInt8] = []
        for column in columns {
            let end = column + 1 < touched.starts.count ? touched.starts[column + 1] : touched.partial.count
            let cell = touched.partial[touched.starts[column]..<end]
            if cell.first == UInt8(SerialType.null) {
                touched.hasNullKey = true
                return
            }
            key += cell
        }
        touched.former.note(RowKey(Cells(valid: key[...], count: columns.count)), touched.partial)
    }

    private func takeKey(_ touched: Touched, _ arguments: LentArguments) {
        if arguments.count == 4, case .integer(let number) = arguments[3] {
            return touched.former.noteInserted(number)
        }
        var key: [UInt8] = []
        for place in 3..<arguments.count {
            if case .null = arguments[place] {
                touched.hasNullKey = true
                return
            }
            key.append(cell: arguments[place])
        }
        touched.former.note(RowKey(Cells(valid: key[...], count: arguments.count - 3)), nil)
    }
}

extension [UInt8] {
    /// Appends a value that is still in SQLite's memory.
    mutating func append(cell value: LentValue) {
        switch value {
        case .null: append(UInt8(SerialType.null))
        case .integer(let number): append(integerCell: number)
        case .real(let number): append(cell: CellValue.real(number))
        case .text(let content):
            append(varint: SerialType.firstBytes + 1 + 2 * UInt64(content.count))
            append(contentsOf: content)
        case .blob(let content):
            append(varint: SerialType.firstBytes + 2 * UInt64(content.count))
            append(contentsOf: content)
        }
    }
}
