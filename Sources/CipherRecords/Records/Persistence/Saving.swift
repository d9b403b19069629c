import CipherDatabase

// Saving: an update of the row where there is one, an insertion otherwise.

extension MutablePersistableRecord {
    /// Updates the row that has the record's primary key; inserts the record where there is none, and where the key is
    /// NULL.
    public mutating func save(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) throws {
        try save(db, by: { try $0.saveWithCallbacks(db, onConflict: conflictResolution, returning: nil) })
    }

    /// Updates the row that has the record's primary key, or inserts the record.
    ///
    /// - Returns: The record as it is then, with its new key.
    public func saved(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) throws -> Self {
        var record = self
        try record.save(db, onConflict: conflictResolution)
        return record
    }

    /// Updates the row that has the record's primary key or inserts the record, and reads the row as it is then.
    public func saveAndFetch(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) throws -> Self where Self: FetchableRecord {
        var record = self
        return try record.saveAndFetch(db, onConflict: conflictResolution, as: Self.self)
    }

    /// Updates the row that has the record's primary key or inserts the record, and reads the row as another type.
    public mutating func saveAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil, as type: T.Type
    ) throws -> T {
        let fetched = try saveAndFetch(
            db, onConflict: conflictResolution, selection: T.databaseSelection, fetch: { try T.fetchOne($0) })
        guard let fetched else { throw try recordNotFound(db) }
        return fetched
    }

    /// Updates the row that has the record's primary key or inserts the record, and reads what the statement returns.
    public mutating func saveAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        selection: [any SQLSelectable], fetch: (Statement) throws -> T
    ) throws -> T {
        var fetched: T?
        try withoutActuallyEscaping(fetch) { fetch in
            // An update that matches no row returns none: the insertion reads then.
            let returning = Returning(selection.map { $0.sqlSelection.content }) { fetched = try fetch($0) }
            try save(db, by: { try $0.saveWithCallbacks(db, onConflict: conflictResolution, returning: returning) })
        }
        guard let fetched else { throw DatabaseError.skippedCallback("aroundInsert", of: Self.self) }
        return fetched
    }

    /// Updates the row that has the record's primary key or inserts the record, and reads what the statement returns.
    public mutating func saveAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        fetch: (Statement) throws -> T, select: (DatabaseComponents) throws -> [any SQLSelectable]
    ) throws -> T {
        try saveAndFetch(
            db, onConflict: conflictResolution, selection: select(Self.databaseComponents), fetch: fetch)
    }

    private mutating func saveWithCallbacks(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution?, returning: Returning?
    ) throws -> PersistenceSuccess {
        let plan = try db.records().plan(of: Self.self, db)
        if plan.keyValues(in: try plan.container(of: self)) != nil {
            do {
                return try updateWithCallbacks(
                    db, onConflict: conflictResolution, columns: .all, returning: returning)
            } catch RecordError.recordNotFound(plan.table, _) {
                // There is no such row yet.
            }
        }
        if let returning {
            return try insertWithCallbacks(db, onConflict: conflictResolution, returning: returning)
        }
        return try insertWithCallbacks(db, onConflict: conflictResolution)
    }
}

extension PersistableRecord {
    /// Updates the row that has the record's primary key; inserts the record where there is none, and where the key is
    /// NULL.
    public func save(_ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil) throws {
        var record: some MutablePersistableRecord = self
        try record.save(db, onConflict: conflictResolution)
    }

    /// Updates the row that has the record's primary key or inserts the record, and reads the row as another type.
    public func saveAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        as type: T.Type
    ) throws -> T {
        var record: some MutablePersistableRecord = self
        return try record.saveAndFetch(db, onConflict: conflictResolution, as: type)
    }

    /// Updates the row that has the record's primary key or inserts the record, and reads what the statement returns.
    public func saveAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        selection: [any SQLSelectable], fetch: (Statement) throws -> T
    ) throws -> T {
        var record: some MutablePersistableRecord = self
        return try record.saveAndFetch(
            db, onConflict: conflictResolution, selection: selection, fetch: fetch)
    }
}

// MARK: - Upsert

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
    ///   - assignments: New values of the row: `excluded` are the values of the record. Columns that are not named get
    ///     those, but for the key and the columns in conflict; `noOverwrite` keeps a column as it is. Nil for nothing
    ///     special.
    public mutating func upsertAndFetch(
        _ db: Database, onConflict conflictTarget: [String] = [],
        doUpdate assignments: ((_ excluded: TableAlias<Self>) -> [ColumnAssignment])? = nil
    ) throws -> Self where Self: FetchableRecord {
        try upsertAndFetch(db, as: Self.self, onConflict: conflictTarget, doUpdate: assignments)
    }

    /// Inserts the record or updates the row that it is in conflict with, and reads the row as another type.
    public mutating func upsertAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, as type: T.Type, onConflict conflictTarget: [String] = [],
        doUpdate assignments: ((_ excluded: TableAlias<Self>) -> [ColumnAssignment])? = nil
    ) throws -> T {
        try runUpsertAndFetch(db, as: type, onConflict: conflictTarget, doUpdate: assignments)
    }

    fileprivate mutating func runUpsertAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, as type: T.Type, onConflict conflictTarget: [String],
        doUpdate assignments: ((_ excluded: TableAlias<Self>) -> [ColumnAssignment])?
    ) throws -> T {
        var fetched: T?
        var upsert = Upsert(conflictTarget: conflictTarget)
        upsert.assignments = assignments?(TableAlias(name: "excluded")) ?? []
        upsert.returning = Returning(T.databaseSelection.map { $0.sqlSelection.content }) {
            fetched = try T.fetchOne($0)
        }
        try save(db, by: { try $0.upsertWithCallbacks(db, upsert) })
        guard let fetched else { throw try recordNotFound(db) }
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
        let plan = try db.records().plan(of: Self.self, db)
        let container = try plan.container(of: self)
        let (sql, values) = try plan.upsertSQL(upsert, container, db)
        var success = InsertionSuccess(
            rowID: 0, rowIDColumn: plan.key.rowIDColumn, persistenceContainer: container)
        if let returning = upsert.returning {
            try plan.run(sql, values, returning, db)
            // SQLite does not tell the rowid of a row that an upsert updated.
            success.rowID = try plan.rowID(container, db) ?? db.lastInsertedRowID
            return success
        }
        // The rowid of the row, whether it was inserted or updated.
        let returned = plan.key.tableHasRowID ? " RETURNING \"rowid\"" : ""
        let statement = try plan.statement(.upsert, container.names, db) { sql + returned }
        try statement.setArguments(StatementArguments(plain: values))
        if plan.key.tableHasRowID {
            success.rowID = try Int64.fetchOne(statement) ?? db.lastInsertedRowID
        } else {
            try statement.execute()
        }
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
    public func upsertAndFetch(
        _ db: Database, onConflict conflictTarget: [String] = [],
        doUpdate assignments: ((_ excluded: TableAlias<Self>) -> [ColumnAssignment])? = nil
    ) throws -> Self where Self: FetchableRecord {
        try upsertAndFetch(db, as: Self.self, onConflict: conflictTarget, doUpdate: assignments)
    }

    /// Inserts the record or updates the row that it is in conflict with, and reads the row as another type.
    public func upsertAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, as type: T.Type, onConflict conflictTarget: [String] = [],
        doUpdate assignments: ((_ excluded: TableAlias<Self>) -> [ColumnAssignment])? = nil
    ) throws -> T {
        var record = self
        return try record.runUpsertAndFetch(
            db, as: type, onConflict: conflictTarget, doUpdate: assignments)
    }
}

/// What an upsert does where there is a row already.
struct Upsert {
    var conflictTarget: [String] = []
    var assignments: [ColumnAssignment] = []
    var returning: Returning?
}

extension RecordPlan {
    func upsertSQL(
        _ upsert: Upsert, _ container: PersistenceContainer, _ db: Database
    ) throws -> (sql: String, values: [DatabaseValue]) {
        var generator = SQLGenerator(facts: SchemaFacts(db))
        // Columns of the row itself, beside those of `excluded`.
        generator.current = SQLGenerator.Current(table: table, qualifier: nil)
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
        var overwritten = container.columns.filter { !kept.contains($0.lowercasedASCII) }
        let assignments = upsert.assignments.compactMap(\.assignment)
        if overwritten.isEmpty && assignments.isEmpty { overwritten = key.columns }
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
        return (generator.text, container.values + generator.values)
    }

    /// The rowid of the row that has the key of a container; nil when the key says none.
    func rowID(_ container: PersistenceContainer, _ db: Database) throws -> Int64? {
        key.rowIDColumn.flatMap { container.value(of: $0) }.flatMap { Int64.fromDatabaseValue($0) }
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
