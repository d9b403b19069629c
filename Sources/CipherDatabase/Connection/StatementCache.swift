import Foundation

/// Compiled statements by their SQL text, so that the same SQL is compiled once for a connection.
struct StatementCache {
    private var statements: [String: Statement] = [:]
    /// The statement of the last request. Programs mostly request the same one again, with the same string, and
    /// comparing a string with itself costs much less than hashing it.
    private var latest: (sql: String, statement: Statement)?

    /// The statement of this text that is free to run.
    ///
    /// A statement that is between rows stays with its cursor: the caller then gets nil, and compiles another.
    mutating func statement(for sql: String) -> Statement? {
        if let latest, latest.sql.hasSameBytes(as: sql) {
            return latest.statement.handle.isBusy ? nil : latest.statement
        }
        guard let index = statements.index(forKey: sql), statements[index].key.hasSameBytes(as: sql) else { return nil }
        let statement = statements[index].value
        if statement.handle.isBusy { return nil }
        latest = (sql, statement)
        return statement
    }

    mutating func insert(_ statement: Statement, for sql: String) {
        // Programs that write values into SQL text would fill the cache without limit.
        if statements.count >= DatabaseLimits.cachedStatements { removeAll() }
        // A text of other bytes that is equal to this one would otherwise stay as the key.
        statements[sql] = nil
        statements[sql] = statement
        latest = (sql, statement)
    }

    mutating func removeAll() {
        statements.removeAll()
        latest = nil
    }
}

extension String {
    /// Whether the bytes are the same, as SQLite compares texts. Equal strings may differ in how they compose accented
    /// letters.
    func hasSameBytes(as other: String) -> Bool {
        let isSame = utf8.withContiguousStorageIfAvailable { left in
            other.utf8.withContiguousStorageIfAvailable { right -> Bool in
                guard left.count == right.count else { return false }
                guard let first = left.baseAddress, let second = right.baseAddress else { return true }
                return first == second || memcmp(first, second, left.count) == 0
            }
        }
        if case .some(.some(let isSame)) = isSame { return isSame }
        return utf8.elementsEqual(other.utf8)
    }
}
