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

    /// The bytes of all texts and blobs of the row, the texts in UTF-8. Ask after the values were read: counting converts
    /// them.
    package var valueBytes: Int {
        (0..<handle.columnCount).reduce(0) { sum, column in
            switch handle.storageClass(at: column) {
            case .null, .integer, .real: sum
            case .text: sum + handle.utf8(at: column).count
            case .blob: sum + handle.bytes(at: column).count
            }
        }
    }

    /// Whether a column of a database in UTF-16 has a text that SQLite converts to UTF-8 and back without a change; true
    /// for values of other classes. Ask before the value is read: reading converts it.
    package func isExactInUTF8(_ index: Int) -> Bool {
        let column = CInt(index)
        return handle.storageClass(at: column) != .text || TextConversion.isExact(utf16: handle.utf16(at: column))
    }
}

/// The texts that SQLite converts between UTF-8 and UTF-16 without a change.
///
/// Half of a surrogate pair becomes another character together with what follows it, or U+FFFD. So do U+FFFE and U+FFFF,
/// and an odd byte at the end is dropped. https://www.sqlite.org/src/file/src/utf.c
enum TextConversion {
    /// - Parameter text: UTF-16 in the byte order of the processor.
    static func isExact(utf16 text: UnsafeRawBufferPointer) -> Bool {
        guard text.count.isMultiple(of: 2) else { return false }
        var index = 0
        func unit() -> UInt16 {
            defer { index += 2 }
            return text.loadUnaligned(fromByteOffset: index, as: UInt16.self)
        }
        while index < text.count {
            switch unit() {
            case 0xFFFE, 0xFFFF, 0xDC00...0xDFFF: return false
            case 0xD800...0xDBFF: guard index < text.count, (0xDC00...0xDFFF).contains(unit()) else { return false }
            default: continue
            }
        }
        return true
    }
}

extension Database {
    /// Whether the texts of the database are in UTF-16, which is decided when it is created.
    /// https://www.sqlite.org/pragma.html#pragma_encoding
    package func storesTextsInUTF16() throws -> Bool {
        try withoutWatching {
            try String.fetchOne(cachedStatement(sql: "PRAGMA main.encoding")).map { $0 != "UTF-8" } ?? false
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

    /// Runs this statement with the values of a row, as they are stored: type, bytes and precision.
    ///
    /// - Parameter bytes: The columns whose texts are bound as blobs, by ``StoredText/place``.
    fileprivate func execute(with row: LentRow, bytes: [Int]) throws {
        _ = handle.reset()
        try bindElsewhere {
            for column in 0..<CInt(parameterCount) {
                let code =
                    bytes.contains(Int(column))
                    ? handle.bind(row.handle.bytes(at: column), at: column + 1)
                    : handle.bind(column: column, of: row.handle, at: column + 1)
                if code != ResultCode.SQLITE_OK.rawValue { throw failure(code) }
            }
        }
        try execute()
    }
}

/// A text that is stored byte by byte, in the encoding of the database.
package enum StoredText {
    /// A place in SQL for a parameter that is a blob, and whose bytes are those of the text.
    ///
    /// `CAST` takes the bytes of a parameter for UTF-8. The result of `||` is a text in the encoding of the database.
    package static let place = "(? || x'')"
}

extension LentRow {
    /// Whether a text begins with the byte-order mark of UTF-16, in either order.
    ///
    /// SQLite removes the mark from a text in UTF-16 that is bound.
    /// - SeeAlso: <https://www.sqlite.org/c3ref/bind_blob.html>
    fileprivate func hasByteOrderMark(_ column: Int) -> Bool {
        guard handle.storageClass(at: CInt(column)) == .text else { return false }
        let start = handle.bytes(at: CInt(column)).prefix(2)
        return start.elementsEqual([0xFE, 0xFF]) || start.elementsEqual([0xFF, 0xFE])
    }
}

extension Database {
    /// The statements that are kept for rows with byte-order marks.
    private static let markedStatements = 16

    /// Runs a statement once for each row of `source`, a statement of any connection whose database has the same encoding,
    /// with the row's values as its parameters in order. Values are copied as they are stored: type, bytes and precision.
    ///
    /// - Parameters:
    ///   - sql: Makes the statement of the places of its parameters, one for each column.
    ///   - progress: Called after each row; an error ends the copy.
    /// - Returns: How many rows there were.
    /// - Throws: ``DatabaseError``, or the error of `progress`.
    @discardableResult
    package func insertRows(
        of source: Statement, by sql: (_ places: [String]) -> String, progress: (LentRow) throws -> Void = { _ in }
    ) throws -> Int {
        let columns = 0..<source.columnCount
        let plain = try makeStatement(sql: sql(columns.map { _ in "?" }))
        guard plain.parameterCount == columns.count else {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: "\(columns.count) columns for \(plain.parameterCount) parameters", sql: plain.sql)
        }
        let mayHaveMarks = try storesTextsInUTF16()
        var others: [[Int]: Statement] = [:]
        var count = 0
        try source.forEachLentRow { row in
            let marked = mayHaveMarks ? columns.filter(row.hasByteOrderMark) : []
            if marked.isEmpty {
                try plain.execute(with: row, bytes: [])
            } else {
                if others.count >= Self.markedStatements { others = [:] }
                let statement =
                    try others[marked]
                    ?? makeStatement(sql: sql(columns.map { marked.contains($0) ? StoredText.place : "?" }))
                others[marked] = statement
                try statement.execute(with: row, bytes: marked)
            }
            count += 1
            try progress(row)
        }
        return count
    }
}
