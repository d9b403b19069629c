import CSQLCipher

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

    /// Binds a column of another statement's current row as it is stored, to a parameter counted from 1.
    func bind(column: CInt, of source: StatementHandle, at index: CInt) -> CInt {
        sqlite3_bind_value(pointer, index, sqlite3_column_value(source.pointer, column))
    }
}
