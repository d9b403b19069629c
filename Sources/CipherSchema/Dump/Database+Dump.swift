import CipherDatabase

// Printing rows and schemas for debugging.

extension Database {
    /// Prints the rows of all statements of a text, which run one after the other.
    ///
    /// - Parameter stream: Where to print; nil for standard output.
    public func dumpSQL(
        _ sql: SQL, format: some DumpFormat = .debug(), to stream: (any TextOutputStream)? = nil
    ) throws {
        var stream = DumpStream(stream)
        let statements = try allStatements(literal: sql)
        while let statement = try statements.next() { try dump(statement, format: format, to: &stream) }
    }

    /// Prints the rows of a request, and after them those that it includes (`including(all:)`), under the names of their
    /// associations.
    ///
    /// - Parameter stream: Where to print; nil for standard output.
    public func dumpRequest(
        _ request: some FetchRequest, format: some DumpFormat = .debug(), to stream: (any TextOutputStream)? = nil
    ) throws {
        var stream = DumpStream(stream)
        try dump(request.makePreparedRequest(self, forSingleResult: false), at: [], format: format, to: &stream)
    }

    /// Prints the rows of tables and views, those of tables in the order of their primary keys.
    ///
    /// - Parameters:
    ///   - tableHeader: Whether the names of the tables are printed.
    ///   - stableOrder: Whether the rows of views are sorted, by all of their columns, so that the output for the same
    ///     rows is always the same.
    ///   - stream: Where to print; nil for standard output.
    public func dumpTables(
        _ tables: [String], format: some DumpFormat = .debug(), tableHeader: DumpTableHeaderOptions = .automatic,
        stableOrder: Bool = false, to stream: (any TextOutputStream)? = nil
    ) throws {
        var stream = DumpStream(stream)
        let showsHeader = tables.count > 1 || tableHeader == .always
        try dump(tables, format: format, showsHeader: showsHeader, stableOrder: stableOrder, to: &stream)
    }

    /// Prints the SQL of all tables, views, indexes and triggers, without the internal ones.
    ///
    /// - Parameter stream: Where to print; nil for standard output.
    public func dumpSchema(to stream: (any TextOutputStream)? = nil) throws {
        var stream = DumpStream(stream)
        try dumpSchema(to: &stream)
    }

    /// Prints the schema and the rows of all tables, without the internal ones.
    ///
    /// - Parameter stream: Where to print; nil for standard output.
    public func dumpContent(format: some DumpFormat = .debug(), to stream: (any TextOutputStream)? = nil) throws {
        var stream = DumpStream(stream)
        try dumpSchema(to: &stream)
        let tables = try dumpedObjects(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name COLLATE NOCASE")
        if tables.isEmpty { return }
        stream.write("\n")
        try dump(tables.map { $0[0] }, format: format, showsHeader: true, stableOrder: true, to: &stream)
    }

    // MARK: Parts

    private func dumpSchema(to stream: inout DumpStream) throws {
        stream.writeLine("sqlite_master")
        let objects = try dumpedObjects(
            """
            SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL
            ORDER BY tbl_name COLLATE NOCASE,
                CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 WHEN 'trigger' THEN 2 ELSE 3 END,
                name COLLATE NOCASE, sql
            """)
        for object in objects { stream.writeLine("\(object[1] as String);") }
    }

    /// The rows of a query whose first column is not the name of an internal object.
    private func dumpedObjects(_ sql: String) throws -> [Row] {
        let shadows = try String.fetchSet(
            self, sql: "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow'")
        return try Row.fetchAll(self, sql: sql).filter { row in
            let name: String = row[0]
            return !Database.isSQLiteInternalTable(name) && !Database.isGRDBInternalTable(name)
                && !Database.isStoreInternalObject(name) && !shadows.contains(name)
        }
    }

    private func dump(
        _ tables: [String], format: some DumpFormat, showsHeader: Bool, stableOrder: Bool, to stream: inout DumpStream
    ) throws {
        for (index, table) in tables.enumerated() {
            if index > 0 { stream.write("\n") }
            if showsHeader { stream.writeLine(table) }
            let order = try dumpOrder(of: table, stableOrder: stableOrder)
            let clause = order.isEmpty ? "" : " ORDER BY " + order.joined(separator: ", ")
            let sql = "SELECT * FROM \(table.quotedDatabaseIdentifier)\(clause)"
            try dump(makeStatement(sql: sql), format: format, to: &stream)
        }
    }

    /// The ORDER BY terms for the rows of a table or a view.
    private func dumpOrder(of table: String, stableOrder: Bool) throws -> [String] {
        if try tableExists(table) {
            let key = try primaryKey(table)
            return key.columns.map(\.quotedDatabaseIdentifier)
        }
        // By position: a view may have two columns of one name.
        return stableOrder ? try columns(in: table).indices.map { String($0 + 1) } : []
    }

    /// - Parameter path: The names of the associations that lead to the rows.
    private func dump(
        _ request: PreparedRequest, at path: [String], format: some DumpFormat, to stream: inout DumpStream
    ) throws {
        try dump(request.statement, format: format, to: &stream)
        guard let included = request.included else { return }
        let rows = try Row.fetchAll(request.statement, adapter: request.adapter)
        var latest = path
        try included(rows) { keys, request in
            let own = path + keys
            // A long list of keys takes several requests.
            if own != latest {
                stream.margin()
                stream.writeLine(own.joined(separator: "."))
            }
            latest = own
            try dump(request, at: own, format: format, to: &stream)
        }
    }

    private func dump(_ statement: Statement, format: some DumpFormat, to stream: inout DumpStream) throws {
        var format = format
        let rows = try Row.fetchCursor(statement)
        while try rows.next() != nil { try format.writeRow(self, statement: statement, to: &stream) }
        format.finalize(self, statement: statement, to: &stream)
    }
}

extension DatabaseReader {
    /// Prints the rows of all statements of a text, which run one after the other.
    ///
    /// - Parameter stream: Where to print; nil for standard output.
    public func dumpSQL(
        _ sql: SQL, format: some DumpFormat = .debug(), to stream: (any TextOutputStream)? = nil
    ) throws {
        try unsafeReentrantRead { try $0.dumpSQL(sql, format: format, to: stream) }
    }

    /// Prints the rows of a request.
    ///
    /// - Parameter stream: Where to print; nil for standard output.
    public func dumpRequest(
        _ request: some FetchRequest, format: some DumpFormat = .debug(), to stream: (any TextOutputStream)? = nil
    ) throws {
        try unsafeReentrantRead { try $0.dumpRequest(request, format: format, to: stream) }
    }

    /// Prints the rows of tables and views. Its parameters are those of
    /// `Database.dumpTables(_:format:tableHeader:stableOrder:to:)`.
    public func dumpTables(
        _ tables: [String], format: some DumpFormat = .debug(), tableHeader: DumpTableHeaderOptions = .automatic,
        stableOrder: Bool = false, to stream: (any TextOutputStream)? = nil
    ) throws {
        try unsafeReentrantRead {
            try $0.dumpTables(tables, format: format, tableHeader: tableHeader, stableOrder: stableOrder, to: stream)
        }
    }

    /// Prints the SQL of all tables, views, indexes and triggers, without the internal ones.
    ///
    /// - Parameter stream: Where to print; nil for standard output.
    public func dumpSchema(to stream: (any TextOutputStream)? = nil) throws {
        try unsafeReentrantRead { try $0.dumpSchema(to: stream) }
    }

    /// Prints the schema and the rows of all tables, without the internal ones.
    ///
    /// - Parameter stream: Where to print; nil for standard output.
    public func dumpContent(format: some DumpFormat = .debug(), to stream: (any TextOutputStream)? = nil) throws {
        try unsafeReentrantRead { try $0.dumpContent(format: format, to: stream) }
    }
}
