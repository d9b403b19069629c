import CipherDatabase
import CipherSchema

// INSERT, with and without RETURNING.

extension MutablePersistableRecord {
    // MARK: Inserting

    /// Inserts the record.
    ///
    /// - Parameter conflictResolution: What happens to a row that breaks a constraint; nil for what
    ///   ``persistenceConflictPolicy`` says.
    @inlinable
    public mutating func insert(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) throws {
        try save(db, by: { try $0.insertWithCallbacks(db, onConflict: conflictResolution) })
    }

    /// Inserts the record.
    ///
    /// - Returns: The record as it is after the insertion, with its new key.
    public func inserted(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) throws -> Self {
        var record = self
        try record.insert(db, onConflict: conflictResolution)
        return record
    }

    /// Inserts the record by `INSERT OR IGNORE`: a row that would break a constraint is not inserted, and nothing is
    /// thrown. Foreign keys are the exception, whose errors are thrown.
    ///
    /// - Returns: Whether a row was inserted. A record that was ignored gets no rowid, and no `didInsert`.
    /// - SeeAlso: <https://www.sqlite.org/lang_conflict.html>
    public mutating func insertOrIgnore(_ db: Database) throws -> Bool {
        var isInserted = false
        try save(db) { record in
            let success = try record.insertWithCallbacks(db, onConflict: .ignore)
            isInserted = !success.isIgnored
            return success
        }
        return isInserted
    }

    // MARK: Inserting and fetching

    /// Inserts the record and reads the row that it has become, with its default and generated values.
    public func insertAndFetch(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) throws -> Self where Self: FetchableRecord {
        var record = self
        return try record.insertAndFetch(db, onConflict: conflictResolution, as: Self.self)
    }

    /// Inserts the record and reads the row that it has become as another type.
    ///
    /// - Throws: ``RecordError/recordNotFound(databaseTableName:key:)`` where a conflict was ignored.
    public mutating func insertAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil, as type: T.Type
    ) throws -> T {
        let fetched = try insertAndFetch(
            db, onConflict: conflictResolution, selection: T.databaseSelection, fetch: { try T.fetchOne($0) })
        guard let fetched else { throw recordNotFound(db) }
        return fetched
    }

    /// Inserts the record and reads what the statement returns of its row.
    public mutating func insertAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        selection: [any SQLSelectable], fetch: (Statement) throws -> T
    ) throws -> T {
        try Self.fetching(selection, fetch) { returning in
            try save(db, by: { try $0.insertWithCallbacks(db, onConflict: conflictResolution, returning: returning) })
        }
    }

    /// Inserts the record and reads what the statement returns of its row.
    public mutating func insertAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        fetch: (Statement) throws -> T, select: (DatabaseComponents) throws -> [any SQLSelectable]
    ) throws -> T {
        try insertAndFetch(
            db, onConflict: conflictResolution, selection: select(Self.databaseComponents), fetch: fetch)
    }

    /// Stores a record by a statement that returns a selection of its row.
    ///
    /// - Parameter store: Runs the statement, and the function that reads what it returns.
    static func fetching<T>(
        _ selection: [any SQLSelectable], _ fetch: (Statement) throws -> T, by store: (Returning) throws -> Void
    ) throws -> T {
        var fetched: T?
        try withoutActuallyEscaping(fetch) { fetch in
            try store(Returning(selection) { fetched = try fetch($0) })
        }
        guard let fetched else { throw DatabaseError.skippedCallback("aroundSave", of: Self.self) }
        return fetched
    }
}

extension PersistableRecord {
    /// Inserts the record.
    ///
    /// - Parameter conflictResolution: What happens to a row that breaks a constraint; nil for what
    ///   ``MutablePersistableRecord/persistenceConflictPolicy`` says.
    @inlinable
    public func insert(_ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil) throws {
        var record = self
        try record.save(db, by: { try $0.insertWithCallbacks(db, onConflict: conflictResolution) })
    }

    /// Inserts the record by `INSERT OR IGNORE`: a row that would break a constraint is not inserted, and nothing is
    /// thrown. Foreign keys are the exception, whose errors are thrown.
    ///
    /// - Returns: Whether a row was inserted. A record that was ignored gets no rowid, and no `didInsert`.
    /// - SeeAlso: <https://www.sqlite.org/lang_conflict.html>
    public func insertOrIgnore(_ db: Database) throws -> Bool {
        var record: some MutablePersistableRecord = self
        return try record.insertOrIgnore(db)
    }

    /// Inserts the record and reads what the statement returns of its row.
    public func insertAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        selection: [any SQLSelectable], fetch: (Statement) throws -> T
    ) throws -> T {
        var record: some MutablePersistableRecord = self
        return try record.insertAndFetch(db, onConflict: conflictResolution, selection: selection, fetch: fetch)
    }

    /// Inserts the record and reads what the statement returns of its row.
    public func insertAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        fetch: (Statement) throws -> T, select: (DatabaseComponents) throws -> [any SQLSelectable]
    ) throws -> T {
        try insertAndFetch(
            db, onConflict: conflictResolution, selection: select(Self.databaseComponents), fetch: fetch)
    }

    /// Inserts the record and reads the row that it has become as another type.
    ///
    /// - Throws: ``RecordError/recordNotFound(databaseTableName:key:)`` where a conflict was ignored.
    public func insertAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil, as type: T.Type
    ) throws -> T {
        var record: some MutablePersistableRecord = self
        return try record.insertAndFetch(db, onConflict: conflictResolution, as: type)
    }
}

/// The values that a statement returns of the rows that it changes, and their reader.
@usableFromInline
struct Returning {
    let selection: [Selection]
    let fetch: (Statement) throws -> Void

    /// - Throws: `DatabaseError` `.SQLITE_MISUSE` for an empty selection.
    init(_ selection: [any SQLSelectable], fetch: @escaping (Statement) throws -> Void) throws {
        if selection.isEmpty {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE, message: "nothing is selected of the row: select a column at least")
        }
        self.selection = selection.map { $0.sqlSelection.content }
        self.fetch = fetch
    }
}

extension MutablePersistableRecord {
    // MARK: Callbacks

    /// Runs what stores the record between the callbacks of saving.
    @inlinable
    mutating func save(_ db: Database, by store: (inout Self) throws -> PersistenceSuccess) throws {
        try willSave(db)
        var saved: PersistenceSuccess?
        // The callback may look at the record while the closure changes it: it sees the record as it was before.
        let former = self
        try former.aroundSave(db) {
            let success = try store(&self)
            saved = success
            return success
        }
        guard let saved else { throw DatabaseError.skipped("aroundSave", of: Self.self) }
        if !saved.isIgnored { didSave(saved) }
    }

    @inlinable
    mutating func insertWithCallbacks(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution?
    ) throws -> PersistenceSuccess {
        try willInsert(db)
        var inserted: InsertionSuccess?
        try aroundInsert(db) {
            let success = try runInsert(db, onConflict: conflictResolution)
            inserted = success
            return success
        }
        guard let inserted else { throw DatabaseError.skipped("aroundInsert", of: Self.self) }
        if !inserted.isIgnored { didInsert(inserted) }
        return PersistenceSuccess(inserted)
    }

    mutating func insertWithCallbacks(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution?, returning: Returning
    ) throws -> PersistenceSuccess {
        try willInsert(db)
        var inserted: InsertionSuccess?
        try aroundInsert(db) {
            let success = try runInsert(db, onConflict: conflictResolution, returning: returning)
            inserted = success
            return success
        }
        guard let inserted else { throw DatabaseError.skipped("aroundInsert", of: Self.self) }
        if !inserted.isIgnored { didInsert(inserted) }
        return PersistenceSuccess(inserted)
    }

    // MARK: Statements

    @usableFromInline
    func runInsert(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution?
    ) throws -> InsertionSuccess {
        let table = try db.records().table(of: type(of: self), db)
        let given = try table.container(of: self)
        let container = try table.inserted(given)
        let policy = conflictResolution ?? type(of: self).persistenceConflictPolicy.conflictResolutionForInsert
        let statement = try table.statement(.insert(policy), container.names, db) {
            table.insertSQL(container.columns, policy)
        }
        try statement.setArguments(StatementArguments(plain: container.values))
        return try table.success(of: statement.executeForOutcome(), given, db)
    }

    func runInsert(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution?, returning: Returning
    ) throws -> InsertionSuccess {
        let table = try db.records().table(of: type(of: self), db)
        let given = try table.container(of: self)
        let container = try table.inserted(given)
        let policy = conflictResolution ?? type(of: self).persistenceConflictPolicy.conflictResolutionForInsert
        let sql = table.insertSQL(container.columns, policy)
        let outcome = try table.run(sql, container.values, returning, db)
        return try table.success(of: outcome, given, db)
    }
}

extension DatabaseError {
    @usableFromInline
    static func skipped(_ name: String, of type: Any.Type) -> DatabaseError { skippedCallback(name, of: type) }
}

extension RecordTable {
    func insertSQL(_ columns: [String], _ policy: Database.ConflictResolution) -> String {
        let clause = policy == .abort ? "" : "OR \(policy.rawValue) "
        let names = columns.map(\.quotedDatabaseIdentifier).joined(separator: ", ")
        let marks = databaseQuestionMarks(count: columns.count)
        return "INSERT \(clause)INTO \(name.quotedDatabaseIdentifier) (\(names)) VALUES (\(marks))"
    }

    /// Runs a statement that returns a selection of the rows that it changes.
    ///
    /// - Returns: What SQLite counted when the statement ended. The program may have run others since.
    @discardableResult
    func run(
        _ sql: String, _ values: [DatabaseValue], _ returning: Returning, _ db: Database
    ) throws -> StatementOutcome {
        let statement = try statement(sql, values, returning: returning.selection, db)
        statement.keepsOutcome = true
        try returning.fetch(statement)
        return try statement.endedOutcome()
    }

    /// The known facts about an insertion.
    func success(
        of outcome: StatementOutcome, _ container: PersistenceContainer, _ db: Database
    ) throws -> InsertionSuccess {
        // SQLite counts no row of a view: INSTEAD OF triggers insert what they want.
        if outcome.changesCount == 0, try !db.viewExists(name) {
            return InsertionSuccess(ignored: container)
        }
        return InsertionSuccess(
            rowID: outcome.lastInsertedRowID, rowIDColumn: key.rowIDColumn, persistenceContainer: container)
    }

    /// A statement that returns a selection of the rows that it changes.
    func statement(
        _ sql: String, _ values: [DatabaseValue], returning selection: [Selection], _ db: Database
    ) throws -> Statement {
        var generator = SQLGenerator(facts: SchemaFacts(db))
        generator.current.table = name
        generator.write(" RETURNING ")
        let selection = try selection.rewritten(Rewriting(database: db))
        try generator.write(selection) { generator, selection in try generator.write(selection) }
        let statement = try db.makeStatement(sql: sql + generator.text)
        try statement.setArguments(StatementArguments(plain: values + generator.values))
        return statement
    }
}
