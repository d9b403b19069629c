import CSQLCipher
import Testing

/// A program that opens a store with SQLCipher alone: without this library, its functions and its repository.
final class StockProgram {
    private var pointer: OpaquePointer?

    /// - Parameter path: A store of ``Device``.
    init(_ path: String) {
        sqlite3_open(path, &pointer)
        execute("PRAGMA key = \"x'\(String(repeating: "07", count: 32))'\"")
        execute("PRAGMA busy_timeout = 20000")
    }

    deinit { sqlite3_close(pointer) }

    func execute(_ sql: String, sourceLocation: SourceLocation = #_sourceLocation) {
        let code = sqlite3_exec(pointer, sql, nil, nil, nil)
        let message = String(cString: sqlite3_errmsg(pointer))
        #expect(code == SQLITE_OK, "\(sql): \(message)", sourceLocation: sourceLocation)
    }
}
