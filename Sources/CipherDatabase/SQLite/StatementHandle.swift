import CSQLCipher

/// The C functions of a compiled statement, one wrapper each.
///
/// The wrappers are inlinable: a fetch of ten integers from each row must cost ten C calls and nothing else.
/// Column and parameter indexes are SQLite's: columns count from 0, parameters from 1.
/// - SeeAlso: <https://www.sqlite.org/c3ref/stmt.html>
@frozen public struct StatementHandle {
    @usableFromInline let pointer: SQLiteStatement

    @inlinable
    init(_ pointer: SQLiteStatement) { self.pointer = pointer }

    // MARK: Running

    @inlinable
    func step() -> CInt { sqlite3_step(pointer) }
    @inlinable
    func reset() -> CInt { sqlite3_reset(pointer) }
    func finalize() { sqlite3_finalize(pointer) }
    func clearBindings() { sqlite3_clear_bindings(pointer) }
    var isBusy: Bool { sqlite3_stmt_busy(pointer) != 0 }
    var isReadonly: Bool { sqlite3_stmt_readonly(pointer) != 0 }
    /// How often SQLite has recompiled the statement after a change of the schema.
    var recompilationCount: CInt { sqlite3_stmt_status(pointer, SQLITE_STMTSTATUS_REPREPARE, 0) }
    var sql: String { sqlite3_sql(pointer).map { String(cString: $0) } ?? "" }

    /// The SQL text with the values of the parameters; nil when there is no memory for it.
    var expandedSQL: String? {
        guard let text = sqlite3_expanded_sql(pointer) else { return nil }
        defer { sqlite3_free(text) }
        return String(cString: text)
    }

    // MARK: Parameters

    var parameterCount: Int { Int(sqlite3_bind_parameter_count(pointer)) }
    func parameterName(at index: CInt) -> String? {
        sqlite3_bind_parameter_name(pointer, index).map { String(cString: $0) }
    }

    @inlinable
    func bindNull(at index: CInt) -> CInt { sqlite3_bind_null(pointer, index) }
    @inlinable
    func bind(_ value: Int64, at index: CInt) -> CInt { sqlite3_bind_int64(pointer, index, value) }
    @inlinable
    func bind(_ value: Double, at index: CInt) -> CInt { sqlite3_bind_double(pointer, index, value) }

    /// Binds a text; SQLite copies the bytes.
    func bind(_ text: String, at index: CInt) -> CInt {
        var text = text
        return text.withUTF8 { bind(utf8: $0, at: index) }
    }

    /// Binds a text; SQLite copies the bytes.
    func bind(utf8: UnsafeBufferPointer<UInt8>, at index: CInt) -> CInt {
        // An empty buffer has no address, and SQLite takes a null pointer for NULL.
        guard let base = utf8.baseAddress else {
            return sqlite3_bind_text64(pointer, index, "", 0, Self.transient, UInt8(SQLITE_UTF8))
        }
        return base.withMemoryRebound(to: CChar.self, capacity: utf8.count) {
            sqlite3_bind_text64(pointer, index, $0, UInt64(utf8.count), Self.transient, UInt8(SQLITE_UTF8))
        }
    }

    /// Binds a blob; SQLite copies the bytes.
    func bind(_ bytes: UnsafeRawBufferPointer, at index: CInt) -> CInt {
        guard let base = bytes.baseAddress, !bytes.isEmpty else { return sqlite3_bind_zeroblob(pointer, index, 0) }
        return sqlite3_bind_blob64(pointer, index, base, UInt64(bytes.count), Self.transient)
    }

    private static var transient: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }

    // MARK: Columns of the current row

    @inlinable
    var columnCount: CInt { sqlite3_column_count(pointer) }
    func columnName(at index: CInt) -> String {
        sqlite3_column_name(pointer, index).map { String(cString: $0) } ?? ""
    }

    /// The type that a column of a table was declared with; nil for expressions.
    func declaredType(at index: CInt) -> String? { sqlite3_column_decltype(pointer, index).map { String(cString: $0) } }

    @inlinable
    func isNull(at index: CInt) -> Bool { sqlite3_column_type(pointer, index) == SQLITE_NULL }
    @inlinable
    func int64(at index: CInt) -> Int64 { sqlite3_column_int64(pointer, index) }
    @inlinable
    func double(at index: CInt) -> Double { sqlite3_column_double(pointer, index) }

    /// An integer, or nil for NULL and for numbers outside of Int64. NULL is read as 0 and those as the ends of the
    /// range, so only 0 and the ends need the second call.
    @inlinable
    func int64OrNil(at index: CInt) -> Int64? {
        let value = sqlite3_column_int64(pointer, index)
        return value.magnitude &- 1 < UInt64(Int64.max) - 1 ? value : unusualInt64(value, at: index)
    }

    @usableFromInline
    func unusualInt64(_ value: Int64, at index: CInt) -> Int64? {
        let type = sqlite3_column_type(pointer, index)
        return (value == 0 ? type != SQLITE_NULL : type == SQLITE_INTEGER) ? value : nil
    }

    /// An integer that is stored as one; nil for all else, text that looks like a number among it.
    @inlinable
    package func storedInteger(at index: CInt) -> Int64? {
        let value = sqlite3_column_value(pointer, index)
        return sqlite3_value_type(value) == SQLITE_INTEGER ? sqlite3_value_int64(value) : nil
    }

    /// A number that is stored as one; nil for all else, text that looks like a number among it.
    @inlinable
    package func storedNumber(at index: CInt) -> Double? {
        let value = sqlite3_column_value(pointer, index)
        let type = sqlite3_value_type(value)
        return type == SQLITE_FLOAT || type == SQLITE_INTEGER ? sqlite3_value_double(value) : nil
    }

    /// A floating-point number, or nil for NULL.
    @inlinable
    func doubleOrNil(at index: CInt) -> Double? {
        let value = sqlite3_column_double(pointer, index)
        return value == 0 && isNull(at: index) ? nil : value
    }

    /// A text, or nil for NULL. Bytes that are not UTF-8 become replacement characters, and a NUL does not end it.
    @inlinable
    func stringOrNil(at index: CInt) -> String? {
        guard let text = sqlite3_column_text(pointer, index) else { return nil }
        let count = Int(sqlite3_column_bytes(pointer, index))
        return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
    }

    /// The bytes of a blob or text, valid until the next step; empty for NULL and for empty values.
    @inlinable
    func bytes(at index: CInt) -> UnsafeRawBufferPointer {
        let start = sqlite3_column_blob(pointer, index)
        return UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : Int(sqlite3_column_bytes(pointer, index)))
    }

    /// The storage class of a column.
    @inlinable
    func storageClass(at index: CInt) -> StorageClass {
        switch sqlite3_column_type(pointer, index) {
        case SQLITE_INTEGER: .integer
        case SQLITE_FLOAT: .real
        case SQLITE_TEXT: .text
        case SQLITE_BLOB: .blob
        default: .null
        }
    }
}

/// The five storage classes of SQLite.
/// - SeeAlso: <https://www.sqlite.org/datatype3.html>
public enum StorageClass: Sendable {
    case null
    case integer
    case real
    case text
    case blob
}

// Reading and copying values without making Swift values.
extension StatementHandle {
    /// The bytes of a text in UTF-8, whatever the encoding of the database, valid until the next step or conversion.
    func utf8(at index: CInt) -> UnsafeRawBufferPointer {
        // The length is read afterwards: the conversion determines it.
        guard let start = sqlite3_column_text(pointer, index) else {
            return UnsafeRawBufferPointer(start: nil, count: 0)
        }
        return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(pointer, index)))
    }

    /// The bytes of a text in UTF-16, in the byte order of the processor, valid until the next step or conversion.
    func utf16(at index: CInt) -> UnsafeRawBufferPointer {
        // The length is read afterwards: the conversion determines it.
        guard let start = sqlite3_column_text16(pointer, index) else {
            return UnsafeRawBufferPointer(start: nil, count: 0)
        }
        return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes16(pointer, index)))
    }

    /// Binds a column of another statement's current row as it is stored, to a parameter counted from 1.
    func bind(column: CInt, of source: StatementHandle, at index: CInt) -> CInt {
        sqlite3_bind_value(pointer, index, sqlite3_column_value(source.pointer, column))
    }
}

extension StatementHandle {
    /// Stores the columns of the current row.
    ///
    /// - Parameters:
    ///   - count: The number of columns.
    ///   - place: The memory for the values, with space for as many.
    ///   - block: The block of that memory; it also stores what is too long.
    /// - Returns: Whether there was space for everything.
    @inline(__always)
    func storeColumns(_ count: Int, at place: UnsafeMutableRawPointer, in block: RowBlock) -> Bool {
        var place = place
        for column in 0..<CInt(truncatingIfNeeded: count) {
            // Type and number are read from the value, which takes fewer instructions than calling the statement twice.
            // SQLite allows it on the one thread that uses the connection.
            // https://www.sqlite.org/c3ref/column_blob.html
            let value = sqlite3_column_value(pointer, column)
            // Numbers that most columns hold are handled here, and all else separately, so that this stays short.
            if sqlite3_value_type(value) == SQLITE_INTEGER, let number = Int32(exactly: sqlite3_value_int64(value)) {
                block.store(small: number, at: place)
            } else if !store(value, at: place, in: block) {
                return false
            }
            place += StoredValue.byteCount
        }
        return true
    }

    @inline(never)
    private func store(_ value: OpaquePointer?, at place: UnsafeMutableRawPointer, in block: RowBlock) -> Bool {
        switch sqlite3_value_type(value) {
        case SQLITE_TEXT:
            // The length is read afterwards: the conversion to UTF-8 determines it.
            let start = sqlite3_value_text(value)
            let count = start == nil ? 0 : Int(sqlite3_value_bytes(value))
            return block.store(text: UnsafeRawBufferPointer(start: start, count: count), at: place)
        case SQLITE_INTEGER: return block.store(sqlite3_value_int64(value), at: place)
        case SQLITE_FLOAT: return block.store(sqlite3_value_double(value), at: place)
        case SQLITE_BLOB:
            let start = sqlite3_value_blob(value)
            let count = start == nil ? 0 : Int(sqlite3_value_bytes(value))
            return block.store(blob: UnsafeRawBufferPointer(start: start, count: count), at: place)
        default: return block.storeNull(at: place)
        }
    }
}
