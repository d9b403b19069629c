// Reading many rows without making Swift values: for copies and digests of whole tables.

/// A stored value in SQLite's memory, valid until the statement advances.
package enum LentValue {
    case null
    case integer(Int64)
    case real(Double)
    /// UTF-8, whatever the encoding of the database.
    case text(UnsafeRawBufferPointer)
    case blob(UnsafeRawBufferPointer)
}

/// The current row of a statement, valid until the statement advances.
package struct LentRow {
    fileprivate let handle: StatementHandle

    /// The value of a column, counted from 0.
    package subscript(index: Int) -> LentValue {
        let column = CInt(index)
        return switch handle.storageClass(at: column) {
        case .null: .null
        case .integer: .integer(handle.int64(at: column))
        case .real: .real(handle.double(at: column))
        case .text: .text(handle.utf8(at: column))
        case .blob: .blob(handle.bytes(at: column))
        }
    }
}

extension Statement {
    /// Runs the statement and lends each of its rows.
    ///
    /// - Throws: ``DatabaseError``, or the error of `body`, which ends the run.
    package func forEachLentRow(_ body: (LentRow) throws -> Void) throws {
        var steps = try StatementSteps(self, arguments: nil)
        defer { steps.abandon() }
        let row = LentRow(handle: handle)
        while try steps.advance() { try body(row) }
    }

    /// Runs this statement once for each row of `source`, a statement of any connection, with the row's values as its
    /// parameters in order. Values are copied as they are stored: type, bytes and precision.
    ///
    /// - Parameter progress: Called after each row; an error ends the copy.
    /// - Returns: How many rows there were.
    /// - Throws: ``DatabaseError``, or the error of `progress`.
    @discardableResult
    package func insertRows(of source: Statement, progress: () throws -> Void = {}) throws -> Int {
        guard source.columnCount == parameterCount else {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: "\(source.columnCount) columns for \(parameterCount) parameters", sql: sql)
        }
        var count = 0
        try source.forEachLentRow { row in
            _ = handle.reset()
            try bindElsewhere {
                for column in 0..<CInt(parameterCount) {
                    let code = handle.bind(column: column, of: row.handle, at: column + 1)
                    if code != ResultCode.SQLITE_OK.rawValue { throw failure(code) }
                }
            }
            try execute()
            count += 1
            try progress()
        }
        return count
    }
}
