import CipherDatabase

// INSERT that updates the row that it is in conflict with.

/// Which columns of a row an upsert overwrites, unless the call says what to do with a column.
public enum UpsertUpdateStrategy: Sendable {
    /// All columns of the record, but for the primary key and the columns in conflict.
    case allColumns
    /// None.
    case noColumnUnlessSpecified
}

extension MutablePersistableRecord {
    /// Inserts the record, or updates the row that it is in conflict with in all columns but the key.
    /// - SeeAlso: <https://www.sqlite.org/lang_upsert.html>
    public mutating func upsert(_ db: Database) throws {
        try save(db, by: { try $0.upsertWithCallbacks(db, Upsert()) })
    }

    /// Inserts the record or updates the row that it is in conflict with, and reads the row as it is then.
    ///
    /// - Parameters:
    ///   - conflictTarget: The columns of the unique key that may be in conflict; none for any key.
    ///   - strategy: Whether columns that `assignments` does not name are overwritten.
    ///   - assignments: New values of the row: `excluded` are the values of the record. `noOverwrite` keeps a column as
    ///     it is. Nil for nothing special.
    public mutating func upsertAndFetch(
        _ db: Database, onConflict conflictTarget: [String] = [], updating strategy: UpsertUpdateStrategy = .allColumns,
        doUpdate assignments: ((_ excluded: TableAlias<Self>) -> [ColumnAssignment])? = nil
    ) throws -> Self where Self: FetchableRecord {
        try upsertAndFetch(
            db, as: Self.self, onConflict: conflictTarget, updating: strategy, doUpdate: assignments)
    }

    /// Inserts the record or updates the row that it is in conflict with, and reads the row as another type.
    ///
    /// - Parameters:
    ///   - type: What the row is read as.
    ///   - conflictTarget: The columns of the unique key that may be in conflict; none for any key.
    ///   - strategy: Whether columns that `assignments` does not name are overwritten.
    ///   - assignments: New values of the row: `excluded` are the values of the record. `noOverwrite` keeps a column as
    ///     it is. Nil for nothing special.
    public mutating func upsertAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, as type: T.Type, onConflict conflictTarget: [String] = [],
        updating strategy: UpsertUpdateStrategy = .allColumns,
        doUpdate assignments: ((_ excluded: TableAlias<Self>) -> [ColumnAssignment])? = nil
    ) throws -> T {
        try runUpsertAndFetch(
            db, as: type, onConflict: conflictTarget, updating: strategy, doUpdate: assignments)
    }

    fileprivate mutating func runUpsertAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, as type: T.Type, onConflict conflictTarget: [String], updating strategy: UpsertUpdateStrategy,
        doUpdate assignments: ((_ excluded: TableAlias<Self>) -> [ColumnAssignment])?
    ) throws -> T {
        var fetched: T?
        let upsert = Upsert(
            conflictTarget: conflictTarget, strategy: strategy,
            assignments: assignments?(TableAlias(name: "excluded")) ?? [],
            selection: T.databaseSelection.map { $0.sqlSelection.content }, read: { fetched = try T(row: $0) })
        try save(db, by: { try $0.upsertWithCallbacks(db, upsert) })
        guard let fetched else { throw recordNotFound(db) }
        return fetched
    }

    private mutating func upsertWithCallbacks(_ db: Database, _ upsert: Upsert) throws -> PersistenceSuccess {
        try willInsert(db)
        var inserted: InsertionSuccess?
        try aroundInsert(db) {
            let success = try run(upsert, db)
            inserted = success
            return success
        }
        guard let inserted else { throw DatabaseError.skippedCallback("aroundInsert", of: Self.self) }
        didInsert(inserted)
        return PersistenceSuccess(inserted)
    }

    private func run(_ upsert: Upsert, _ db: Database) throws -> InsertionSuccess {
        let table = try db.records().table(of: type(of: self), db)
        let given = try table.container(of: self)
        let container = try table.inserted(given)
        var success = InsertionSuccess(
            rowID: db.lastInsertedRowID, rowIDColumn: table.key.rowIDColumn, persistenceContainer: given)
        let statement = try table.statement(for: upsert, container, db)
        let count = statement.columnCount
        if count == 0 {
            if try statement.executeForOutcome().changesCount == 0 { throw table.notFound(container) }
            return success
        }
        // SQLite does not tell the rowid of a row that an upsert updated, so the rowid is returned after the selection.
        let hasRowID = table.key.tableHasRowID
        let rows = try Row.fetchCursor(statement, adapter: RangeRowAdapter(0..<(hasRowID ? count - 1 : count)))
        // A trigger may ignore the insertion.
        guard let row = try rows.next() else { throw table.notFound(container) }
        if hasRowID, let rowID = Int64.fromDatabaseValue(row.unadapted.databaseValue(at: count - 1)) {
            success.rowID = rowID
        }
        // The record may keep its row.
        try upsert.read(row.copy())
        // A full-text table that follows this one is up to date when the statement has come to its end.
        while try rows.next() != nil {}
        return success
    }
}

extension PersistableRecord {
    /// Inserts the record, or updates the row that it is in conflict with in all columns but the key.
    /// - SeeAlso: <https://www.sqlite.org/lang_upsert.html>
    public func upsert(_ db: Database) throws {
        var record: some MutablePersistableRecord = self
        try record.upsert(db)
    }

    /// Inserts the record or updates the row that it is in conflict with, and reads the row as it is then.
    ///
    /// - Parameters:
    ///   - conflictTarget: The columns of the unique key that may be in conflict; none for any key.
    ///   - strategy: Whether columns that `assignments` does not name are overwritten.
    ///   - assignments: New values of the row: `excluded` are the values of the record. `noOverwrite` keeps a column as
    ///     it is. Nil for nothing special.
    public func upsertAndFetch(
        _ db: Database, onConflict conflictTarget: [String] = [], updating strategy: UpsertUpdateStrategy = .allColumns,
        doUpdate assignments: ((_ excluded: TableAlias<Self>) -> [ColumnAssignment])? = nil
    ) throws -> Self where Self: FetchableRecord {
        try upsertAndFetch(
            db, as: Self.self, onConflict: conflictTarget, updating: strategy, doUpdate: assignments)
    }

    /// Inserts the record or updates the row that it is in conflict with, and reads the row as another type.
    ///
    /// - Parameters:
    ///   - type: What the row is read as.
    ///   - conflictTarget: The columns of the unique key that may be in conflict; none for any key.
    ///   - strategy: Whether columns that `assignments` does not name are overwritten.
    ///   - assignments: New values of the row: `excluded` are the values of the record. `noOverwrite` keeps a column as
    ///     it is. Nil for nothing special.
    public func upsertAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, as type: T.Type, onConflict conflictTarget: [String] = [],
        updating strategy: UpsertUpdateStrategy = .allColumns,
        doUpdate assignments: ((_ excluded: TableAlias<Self>) -> [ColumnAssignment])? = nil
    ) throws -> T {
        var record = self
        return try record.runUpsertAndFetch(
            db, as: type, onConflict: conflictTarget, updating: strategy, doUpdate: assignments)
    }
}

/// The action of an upsert on an existing row, and the values that it returns of the row.
private struct Upsert {
    var conflictTarget: [String] = []
    var strategy = UpsertUpdateStrategy.allColumns
    var assignments: [ColumnAssignment] = []
    var selection: [Selection] = []
    var read: (Row) throws -> Void = { _ in }

    /// Whether the statement is the same for all records that give the same columns.
    var isPlain: Bool { conflictTarget.isEmpty && assignments.isEmpty && selection.isEmpty && strategy == .allColumns }
}

extension RecordTable {
    fileprivate func statement(
        for upsert: Upsert, _ container: PersistenceContainer, _ db: Database
    ) throws -> Statement {
        let rowID: [Selection] = key.rowIDName.map { [.expression(Term(.column($0, .request)))] } ?? []
        guard upsert.isPlain else {
            let (sql, values) = try upsertSQL(upsert, container, db)
            return try statement(sql, container.values + values, returning: upsert.selection + rowID, db)
        }
        let statement = try statement(.upsert, container.names, db) {
            try upsertSQL(upsert, container, db).sql
                + (key.rowIDName.map { " RETURNING " + $0.quotedDatabaseIdentifier } ?? "")
        }
        try statement.setArguments(StatementArguments(plain: container.values))
        return statement
    }

    /// - Returns: The statement up to what it returns, and its values after those of the record.
    private func upsertSQL(
        _ upsert: Upsert, _ container: PersistenceContainer, _ db: Database
    ) throws -> (sql: String, values: [DatabaseValue]) {
        var generator = SQLGenerator(facts: SchemaFacts(db))
        // Columns of the row itself, beside those of `excluded`.
        generator.current = SQLGenerator.Current(table: name, qualifier: nil)
        generator.scopes = [try TableScope(.excluded, within: [])]
        generator.write(insertSQL(container.columns, .abort) + " ON CONFLICT")
        if !upsert.conflictTarget.isEmpty {
            generator.write("(")
            generator.write(upsert.conflictTarget) { $0.write(identifier: $1) }
            generator.write(")")
        }
        generator.write(" DO UPDATE SET ")
        let named = Set(upsert.assignments.map(\.column.lowercasedASCII))
        let kept = named.union((key.columns + upsert.conflictTarget).map(\.lowercasedASCII))
        let overwritten =
            upsert.strategy == .allColumns ? container.columns.filter { !kept.contains($0.lowercasedASCII) } : []
        let assignments = upsert.assignments.compactMap(\.assignment)
        try generator.write(assignments) { generator, assignment in
            generator.write(identifier: assignment.column)
            generator.write(" = ")
            try generator.write(assignment.value)
        }
        if !assignments.isEmpty && !overwritten.isEmpty { generator.write(", ") }
        generator.write(overwritten) { generator, column in
            generator.write(identifier: column)
            generator.write(" = ")
            generator.write(column: column, qualifier: "excluded")
        }
        if overwritten.isEmpty && assignments.isEmpty {
            // A row that no column of is updated would not be returned.
            generator.write(key.columns.prefix(1), separator: "") { generator, column in
                generator.write(identifier: column)
                generator.write(" = ")
                generator.write(identifier: column)
            }
        }
        return (generator.text, generator.values)
    }
}

extension Relation {
    /// The row that an upsert would have inserted.
    fileprivate static var excluded: Relation {
        var relation = Relation(table: "excluded")
        relation.alias = AliasID(name: "excluded")
        return relation
    }
}
