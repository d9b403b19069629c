import CSQLCipher

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
            } else if !store(column: column, at: place, in: block) {
                return false
            }
            place += StoredValue.byteCount
        }
        return true
    }

    @inline(never)
    private func store(column: CInt, at place: UnsafeMutableRawPointer, in block: RowBlock) -> Bool {
        switch storageClass(at: column) {
        case .null: block.storeNull(at: place)
        case .integer: block.store(int64(at: column), at: place)
        case .real: block.store(double(at: column), at: place)
        case .text: block.store(text: utf8(at: column), at: place)
        case .blob: block.store(blob: bytes(at: column), at: place)
        }
    }
}
