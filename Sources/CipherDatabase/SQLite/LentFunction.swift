import CSQLCipher

/// The arguments of one call of a function, in SQLite's memory: valid during the call.
package struct LentArguments {
    fileprivate let values: UnsafeBufferPointer<OpaquePointer?>

    package var count: Int { values.count }

    /// The value as it is stored: storage class, bytes, precision.
    package subscript(index: Int) -> LentValue {
        guard let value = values[index] else { return .null }
        switch sqlite3_value_type(value) {
        case SQLITE_INTEGER: return .integer(sqlite3_value_int64(value))
        case SQLITE_FLOAT: return .real(sqlite3_value_double(value))
        case SQLITE_TEXT:
            // The length is read afterwards: the conversion to UTF-8 determines it.
            let text = sqlite3_value_text(value)
            return .text(
                UnsafeRawBufferPointer(start: text, count: text == nil ? 0 : Int(sqlite3_value_bytes(value))))
        case SQLITE_BLOB:
            let start = sqlite3_value_blob(value)
            return .blob(
                UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : Int(sqlite3_value_bytes(value))))
        default: return .null
        }
    }
}

private final class LentDefinition {
    let body: (LentArguments) throws -> Int64?
    init(_ body: @escaping (LentArguments) throws -> Int64?) { self.body = body }
}

extension Database {
    /// The most arguments that a function takes in every supported version of SQLite.
    /// - SeeAlso: <https://www.sqlite.org/limits.html#max_function_arg>
    package static let mostFunctionArguments = 127

    /// Adds a function of any number of arguments to this connection, for triggers of the library's own. It must not
    /// retain the connection.
    ///
    /// - Parameter body: Gets the arguments without a copy; returns nil for NULL. An error makes the statement fail.
    package func addLentFunction(_ name: String, _ body: @escaping (LentArguments) throws -> Int64?) throws {
        requireAccess()
        if isClosed { throw closedError }
        let definition = Unmanaged<AnyObject>.passRetained(LentDefinition(body)).toOpaque()
        // SQLite releases the definition even where it refuses the function.
        let code = sqlite3_create_function_v2(
            handle.pointer, name, -1, SQLITE_UTF8 | SQLITE_INNOCUOUS, definition, callLent, nil, nil
        ) { definition in
            if let definition { Unmanaged<AnyObject>.fromOpaque(definition).release() }
        }
        try check(ResultCode(rawValue: code))
    }
}

private func callLent(context: OpaquePointer?, count: CInt, values: UnsafeMutablePointer<OpaquePointer?>?) {
    guard let context = context.map(FunctionContext.init), let definition = context.definition(as: LentDefinition.self)
    else { return }
    do {
        let arguments = LentArguments(values: UnsafeBufferPointer(start: values, count: Int(count)))
        if let result = try definition.body(arguments) {
            sqlite3_result_int64(context.pointer, result)
        } else {
            sqlite3_result_null(context.pointer)
        }
    } catch {
        context.setError(error)
    }
}
