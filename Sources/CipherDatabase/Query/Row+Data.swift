import Foundation

// Bytes of a row without copying them.

extension Row {
    /// Calls `body` with the bytes of a column, counted from 0, without copying them; nil for NULL.
    ///
    /// The bytes are valid only inside `body`. Traps when the column holds a number.
    public func withUnsafeData<Result>(atIndex index: Int, _ body: (Data?) throws -> Result) rethrows -> Result {
        try body(dataNoCopy(atIndex: index))
    }

    /// Calls `body` with the bytes of a column without copying them; nil for NULL and where there is no such column.
    ///
    /// The bytes are valid only inside `body`. Traps when the column holds a number.
    public func withUnsafeData<Result>(named name: String, _ body: (Data?) throws -> Result) rethrows -> Result {
        try body(dataNoCopy(named: name))
    }

    /// The bytes of a column, counted from 0, without copying them; nil for NULL.
    ///
    /// They are valid until the cursor of the row advances: prefer ``withUnsafeData(atIndex:_:)``. Traps when the
    /// column holds a number.
    public func dataNoCopy(atIndex index: Int) -> Data? {
        requireColumn(index)
        guard let statement else { return slowValue(at: index) }
        let column = statementColumn(index)
        switch statement.storageClass(at: column) {
        case .null: return nil
        case .integer, .real: return slowValue(at: index)
        case .text, .blob: break
        }
        let bytes = statement.bytes(at: column)
        guard let start = bytes.baseAddress else { return Data() }
        return Data(
            bytesNoCopy: UnsafeMutableRawPointer(mutating: start), count: bytes.count, deallocator: .none)
    }

    /// The bytes of a column without copying them; nil for NULL and where there is no such column.
    public func dataNoCopy(named name: String) -> Data? { columns.index(of: name).flatMap { dataNoCopy(atIndex: $0) } }
}
