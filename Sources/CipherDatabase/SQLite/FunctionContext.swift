import CSQLCipher
import Foundation

/// One call of an SQL function, which receives its result or its error.
/// - SeeAlso: <https://www.sqlite.org/c3ref/context.html>
struct FunctionContext {
    let pointer: OpaquePointer

    /// The object that was registered with the function.
    func definition<Definition: AnyObject>(as type: Definition.Type) -> Definition? {
        sqlite3_user_data(pointer).map { Unmanaged<Definition>.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: Results

    /// - Throws: ``DatabaseError`` `.SQLITE_MISMATCH` for a value that could not be encoded.
    func setResult(_ value: DatabaseValue) throws {
        if value.isUnencodable { throw DatabaseError.unencodable(sql: nil) }
        switch value.storage {
        case .null: sqlite3_result_null(pointer)
        case .int64(let value): sqlite3_result_int64(pointer, value)
        case .double(let value): sqlite3_result_double(pointer, value)
        case .string(let value): setResult(value)
        case .blob(let value): value.withUnsafeBytes { setResult($0) }
        }
    }

    private func setResult(_ text: String) {
        var text = text
        text.withUTF8 { utf8 in
            let count = UInt64(utf8.count)
            // An empty buffer has no address, and SQLite takes a null pointer for NULL.
            guard let base = utf8.baseAddress else {
                return sqlite3_result_text64(pointer, "", 0, Self.transient, UInt8(SQLITE_UTF8))
            }
            base.withMemoryRebound(to: CChar.self, capacity: utf8.count) {
                sqlite3_result_text64(pointer, $0, count, Self.transient, UInt8(SQLITE_UTF8))
            }
        }
    }

    private func setResult(_ bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress, !bytes.isEmpty else {
            sqlite3_result_zeroblob(pointer, 0)
            return
        }
        sqlite3_result_blob64(pointer, base, UInt64(bytes.count), Self.transient)
    }

    private static var transient: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }

    // MARK: Errors

    /// Makes the statement fail with an error: a ``DatabaseError`` keeps its code, others get `SQLITE_ERROR`.
    func setError(_ error: any Error) {
        guard let error = error as? DatabaseError else { return setError("\(error)", code: .SQLITE_ERROR) }
        let code = error.extendedResultCode
        // These codes mean success, and SQLite would continue a call that failed.
        let isSuccess = [.SQLITE_OK, .SQLITE_ROW, .SQLITE_DONE].contains(code.primaryResultCode)
        setError(error.message ?? "\(error)", code: isSuccess ? .SQLITE_ERROR : code)
    }

    private func setError(_ message: String, code: ResultCode) {
        sqlite3_result_error(pointer, message, -1)
        sqlite3_result_error_code(pointer, code.rawValue)
    }

    func setOutOfMemory() { sqlite3_result_error_nomem(pointer) }

    // MARK: Aggregates

    /// The memory in which SQLite keeps one pointer for an aggregate under way; empty before its first row.
    var aggregateState: UnsafeMutablePointer<UnsafeMutableRawPointer?>? {
        sqlite3_aggregate_context(pointer, CInt(MemoryLayout<UnsafeMutableRawPointer?>.size))?
            .assumingMemoryBound(to: UnsafeMutableRawPointer?.self)
    }
}

extension DatabaseValue {
    /// The arguments of a function call.
    static func arguments(_ count: CInt, _ values: UnsafeMutablePointer<OpaquePointer?>?) -> [DatabaseValue] {
        UnsafeBufferPointer(start: values, count: Int(count)).map { $0.map(DatabaseValue.init(sqliteValue:)) ?? .null }
    }

    private init(sqliteValue value: OpaquePointer) {
        switch sqlite3_value_type(value) {
        case SQLITE_INTEGER: self.init(.int64(sqlite3_value_int64(value)))
        case SQLITE_FLOAT: self.init(.double(sqlite3_value_double(value)))
        case SQLITE_TEXT:
            // The length is read afterwards: the conversion to UTF-8 determines it.
            let text = sqlite3_value_text(value)
            let bytes = UnsafeBufferPointer(start: text, count: text == nil ? 0 : Int(sqlite3_value_bytes(value)))
            self.init(.string(String(decoding: bytes, as: UTF8.self)))
        case SQLITE_BLOB:
            let start = sqlite3_value_blob(value)
            let count = start == nil ? 0 : Int(sqlite3_value_bytes(value))
            self.init(.blob(Data(UnsafeRawBufferPointer(start: start, count: count))))
        default: self.init(.null)
        }
    }
}
