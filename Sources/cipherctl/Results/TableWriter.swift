import CipherStore

/// Rows as an aligned table: numbers to the right, all else to the left; NULL is written so.
///
/// It keeps all rows until the end, because the widest decides.
struct TableWriter: ResultWriter {
    private var columns: [String] = []
    private var rows: [[String]] = []
    private var isNumeric: [Bool] = []

    mutating func begin(_ columns: [String], to output: Output) throws {
        // Control characters would break the table, or steer the terminal.
        self.columns = columns.map { $0.withoutControls() }
        isNumeric = columns.map { _ in true }
    }

    mutating func add(_ row: [DatabaseValue], to output: Output) throws {
        for (index, value) in row.enumerated() where !value.isNumberOrNull { isNumeric[index] = false }
        rows.append(row.map { $0.shownText?.withoutControls() ?? "NULL" })
    }

    mutating func end(to output: Output) throws {
        let widths = columns.indices.map { index in
            rows.reduce(columns[index].count) { max($0, $1[index].count) }
        }
        try output.line(line(columns, widths))
        try output.line(widths.map { String(repeating: "-", count: $0) }.joined(separator: "  "))
        for row in rows { try output.line(line(row, widths)) }
    }

    private func line(_ cells: [String], _ widths: [Int]) -> String {
        var text = ""
        for (index, cell) in cells.enumerated() {
            let padding = String(repeating: " ", count: max(0, widths[index] - cell.count))
            if index > 0 { text += "  " }
            // Blanks at the end of a line help nobody.
            text += isNumeric[index] ? padding + cell : cell + (index == cells.count - 1 ? "" : padding)
        }
        return text
    }
}

extension DatabaseValue {
    fileprivate var isNumberOrNull: Bool {
        switch storage {
        case .null, .int64, .double: true
        case .string, .blob: false
        }
    }
}
