import StorePlatform

/// The statements that begin and end transactions, compiled once for a connection.
struct ControlStatements {
    enum Kind: Int, CaseIterable {
        case beginDeferred
        case beginImmediate
        case beginExclusive
        case commit
        case rollback
        /// Gives a deferred transaction its snapshot, which otherwise its first statement does.
        case view

        var sql: String {
            switch self {
            case .beginDeferred: "BEGIN DEFERRED TRANSACTION"
            case .beginImmediate: "BEGIN IMMEDIATE TRANSACTION"
            case .beginExclusive: "BEGIN EXCLUSIVE TRANSACTION"
            case .commit: "COMMIT TRANSACTION"
            case .rollback: "ROLLBACK TRANSACTION"
            // The statement with the fewest steps of all that read the file.
            case .view: "PRAGMA schema_version"
            }
        }

        var isBegin: Bool { rawValue <= Kind.beginExclusive.rawValue }
        var takesWriteLock: Bool { self == .beginImmediate || self == .beginExclusive }

        /// How the connection's gate treats it.
        var call: GatedCall {
            switch self {
            case .beginDeferred, .view: .read
            case .beginImmediate, .beginExclusive: .write
            case .commit, .rollback: .ending
            }
        }
    }

    private var statements: [StatementHandle?] = Kind.allCases.map { _ in nil }
    /// The schema version that the last `view` has read; nil if it failed.
    private(set) var viewedVersion: Int32?

    /// Runs a statement.
    /// - Returns: `SQLITE_DONE`, or the code of the failure.
    mutating func run(_ kind: Kind, on connection: ConnectionHandle, _ hooks: ConnectionHooks) -> ResultCode {
        let statement: StatementHandle
        if let compiled = statements[kind.rawValue] {
            statement = compiled
        } else {
            hooks.isCompiling = true
            defer { hooks.isCompiling = false }
            let (code, compiled, _) = connection.prepare(kind.sql, persistent: true)
            guard code == .SQLITE_OK, let compiled else { return code }
            statement = StatementHandle(compiled)
            statements[kind.rawValue] = statement
        }
        let code = ResultCode(rawValue: statement.step())
        if kind == .view {
            viewedVersion = code == .SQLITE_ROW ? Int32(truncatingIfNeeded: statement.int64(at: 0)) : nil
        }
        _ = statement.reset()
        return code == .SQLITE_ROW ? .SQLITE_DONE : code
    }

    mutating func finalizeAll() {
        for case let statement? in statements { statement.finalize() }
        statements = Kind.allCases.map { _ in nil }
    }
}
