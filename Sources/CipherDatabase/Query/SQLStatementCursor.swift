/// The statements of an SQL text, one after the other.
public final class SQLStatementCursor: Cursor {
    private let database: Database
    private let sql: String
    private let text: ContiguousArray<CChar>
    private var position = 0
    private var queue: ArgumentQueue?

    init(database: Database, sql: String, arguments: StatementArguments?) {
        self.database = database
        self.sql = sql
        text = sql.utf8CString
        queue = arguments.map { ArgumentQueue($0) }
    }

    /// The next statement, with its arguments set; nil at the end.
    ///
    /// - Throws: ``DatabaseError``, at the end also when arguments are left over.
    public func next() throws -> Statement? {
        database.requireAccess()
        let statement = try compileNext()
        guard var queue else { return statement }
        if let statement {
            try statement.setArguments(queue.values(for: statement))
            self.queue = queue
        } else {
            try queue.requireEnd(sql: sql)
        }
        return statement
    }

    private func compileNext() throws -> Statement? {
        try text.withUnsafeBufferPointer { text in
            guard let start = text.baseAddress, position < text.count else { return nil }
            let (statement, tail) = try database.compile(start + position, persistent: false)
            position = statement == nil ? text.count : tail - start
            return statement
        }
    }
}
