/// A value to be bound as it is: a text may be bytes that are not UTF-8.
package enum ExactValue {
    case null
    case integer(Int64)
    case real(Double)
    case text(ArraySlice<UInt8>)
    case blob(ArraySlice<UInt8>)
}

extension Statement {
    /// Sets all arguments, which SQLite copies.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_MISUSE` for another number of values, `.SQLITE_TOOBIG` for one that is
    ///   longer than SQLite takes.
    package func setExactArguments(_ values: [ExactValue]) throws {
        database.requireAccess()
        guard values.count == parameterCount else {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE, message: "wrong number of statement arguments: \(values.count)", sql: sql)
        }
        reset()
        try bindElsewhere {
            for (index, value) in values.enumerated() {
                let code = bind(value, at: CInt(index + 1))
                if code != ResultCode.SQLITE_OK.rawValue { throw failure(code) }
            }
        }
    }

    /// Sets all arguments and runs the statement to its end.
    package func execute(exact values: [ExactValue]) throws {
        try setExactArguments(values)
        try execute()
    }

    private func bind(_ value: ExactValue, at index: CInt) -> CInt {
        switch value {
        case .null: handle.bindNull(at: index)
        case .integer(let value): handle.bind(value, at: index)
        case .real(let value): handle.bind(value, at: index)
        case .text(let bytes): bytes.withUnsafeBufferPointer { handle.bind(utf8: $0, at: index) }
        case .blob(let bytes): bytes.withUnsafeBytes { handle.bind($0, at: index) }
        }
    }
}
