import Foundation

/// Who writes to the history: an open store, pool or queue. It stays the same when its connections are replaced.
// Safe because: clock and number are used inside accesses of the one connection that writes, and the rest is constant.
final class HistoryIdentity: @unchecked Sendable {
    /// Tells it from others that have the same number at another time.
    let identity = Int64.random(in: 1...Int64.max)
    var clock = HistoryClock()
    /// The number of its row in the table of authors, as it was at its latest recorded write; nil before the first one.
    /// It is another author's where the row was rolled back or purged since: only the identity tells them apart.
    var number: Int64?
}

/// The statements by which a connection finds its row in the table of authors. They run while a trigger runs.
final class HistoryStamping {
    private var find: StatementHandle?
    private let hooks: ConnectionHooks
    private let handle: ConnectionHandle
    private let label: String

    init(_ handle: ConnectionHandle, _ hooks: ConnectionHooks, label: String) {
        self.handle = handle
        self.hooks = hooks
        self.label = label
    }

    func finalize() {
        find?.finalize()
        find = nil
    }

    /// The stamp of the transaction under way, in which a row of the history is about to be written.
    func stamp(_ author: HistoryIdentity) throws -> Int64 {
        let time = author.clock.time(now: HistoryStamp.time(ofSeconds: Date().timeIntervalSince1970))
        return HistoryStamp(time: time, author: try number(of: author)).number
    }

    /// The number of the author's row, which is made where it is missing: the transaction or the savepoint that made
    /// it may have been rolled back, and an author without rows is purged.
    private func number(of author: HistoryIdentity) throws -> Int64 {
        if let number = author.number, try identity(of: number) == author.identity { return number }
        // The compilation is the library's own, and changes nothing that the program may see.
        let (effects, isCompiling, writesOwnRows) = (hooks.effects, hooks.isCompiling, hooks.writesOwnRows)
        (hooks.isCompiling, hooks.writesOwnRows) = (true, true)
        defer { (hooks.effects, hooks.isCompiling, hooks.writesOwnRows) = (effects, isCompiling, writesOwnRows) }
        let wanted = try author.number.flatMap { try identity(of: $0) == nil ? $0 : nil }
        let sql = """
            INSERT INTO main.\(HistoryTables.author) (id, identity, label)
            SELECT ifnull(?1, CASE
                WHEN ifnull(max(id), 0) < \(HistoryStamp.authors) THEN ifnull(max(id), 0) + 1
                ELSE (SELECT min(id) + 1 FROM main.\(HistoryTables.author) AS one
                    WHERE NOT EXISTS (SELECT 1 FROM main.\(HistoryTables.author) WHERE id = one.id + 1))
                END), ?2, ?3
            FROM main.\(HistoryTables.author) RETURNING id
            """
        let (code, compiled, _) = handle.prepare(sql, persistent: false)
        // Somebody dropped the table: the rows have a time, and no author.
        guard code == .SQLITE_OK, let compiled else { return 0 }
        let statement = StatementHandle(compiled)
        defer { statement.finalize() }
        _ = wanted.map { statement.bind($0, at: 1) }
        _ = statement.bind(author.identity, at: 2)
        _ = statement.bind(label, at: 3)
        guard statement.step() == ResultCode.SQLITE_ROW.rawValue else { throw failure }
        let number = statement.int64(at: 0)
        guard statement.step() == ResultCode.SQLITE_DONE.rawValue else { throw failure }
        author.number = number
        return number
    }

    private func identity(of number: Int64) throws -> Int64? {
        if find == nil {
            let isCompiling = hooks.isCompiling
            hooks.isCompiling = true
            defer { hooks.isCompiling = isCompiling }
            let sql = "SELECT identity FROM main.\(HistoryTables.author) WHERE id = ?"
            let (code, compiled, _) = handle.prepare(sql, persistent: true)
            guard code == .SQLITE_OK, let compiled else { return nil }
            find = StatementHandle(compiled)
        }
        guard let find else { return nil }
        defer { _ = find.reset() }
        _ = find.bind(number, at: 1)
        return switch ResultCode(rawValue: find.step()) {
        case .SQLITE_ROW: find.int64(at: 0)
        case .SQLITE_DONE: nil
        default: throw failure
        }
    }

    private var failure: DatabaseError {
        DatabaseError(resultCode: handle.lastExtendedCode, message: handle.lastMessage)
    }
}

extension Database {
    /// Makes the rows that triggers record tell when they were written, and by whom. Called when the connection is
    /// opened.
    func addHistoryFunction() throws {
        if configuration.readonly { return }
        hooks.history.makeStamp = { [unowned self] in try makeHistoryStamp() }
        try check(handle.addHistoryFunction(hooks))
    }

    private func makeHistoryStamp() throws -> Int64 { try beginHistoryStamping().stamp(connectionKey.author) }

    /// From now on the history learns of the end of each transaction.
    @discardableResult
    func beginHistoryStamping() -> HistoryStamping {
        if let stamping = hooks.history.stamping { return stamping }
        let name = configuration.label ?? ProcessInfo.processInfo.processName
        let stamping = HistoryStamping(handle, hooks, label: name)
        hooks.history.stamping = stamping
        want(.transactionEnd, for: HistoryFeature.key)
        return stamping
    }

    /// Identifies this store object among the authors of the history.
    package var historyAuthorIdentity: Int64 { connectionKey.author.identity }

    /// The given author numbers that belong to this store object, read in the current snapshot.
    func ownHistoryAuthors(among numbers: Set<Int64>) throws -> Set<Int64> {
        if numbers.isEmpty { return [] }
        do {
            return try Set(
                numbers.filter { number in
                    try Int64.fetchOne(
                        self, sql: "SELECT 1 FROM main.\(HistoryTables.author) WHERE id = ? AND identity = ?",
                        arguments: [number, historyAuthorIdentity]) != nil
                })
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            // Somebody dropped the table: the changes count as those of others.
            return []
        }
    }
}
