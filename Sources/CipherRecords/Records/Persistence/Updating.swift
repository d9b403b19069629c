import CipherDatabase
import CipherSchema

// UPDATE, with and without RETURNING.

extension MutablePersistableRecord {
    // MARK: Updating

    /// Updates the row that has the record's primary key, in all columns of the record.
    ///
    /// - Parameter conflictResolution: What happens to a row that breaks a constraint; nil for what
    ///   ``persistenceConflictPolicy`` says.
    /// - Throws: ``RecordError/recordNotFound(databaseTableName:key:)`` when no row was changed.
    public func update(_ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil) throws {
        try update(db, onConflict: conflictResolution, columns: .all)
    }

    /// Updates some columns of the row that has the record's primary key.
    ///
    /// - Throws: ``RecordError/recordNotFound(databaseTableName:key:)`` when no row was changed.
    public func update(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        columns: some Collection<String>
    ) throws {
        try update(db, onConflict: conflictResolution, columns: .some(Set(columns)))
    }

    /// Updates some columns of the row that has the record's primary key.
    ///
    /// - Throws: ``RecordError/recordNotFound(databaseTableName:key:)`` when no row was changed.
    public func update(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        columns: some Collection<any ColumnExpression>
    ) throws {
        try update(db, onConflict: conflictResolution, columns: .some(Set(columns.map(\.name))))
    }

    /// Updates some columns of the row that has the record's primary key.
    ///
    /// - Throws: ``RecordError/recordNotFound(databaseTableName:key:)`` when no row was changed.
    public func update(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        columns: some Collection<some ColumnExpression>
    ) throws {
        try update(db, onConflict: conflictResolution, columns: .some(Set(columns.map(\.name))))
    }

    // MARK: Updating what has changed

    /// Updates the columns that differ from another record.
    ///
    /// - Returns: Whether any did; otherwise nothing runs.
    @discardableResult
    public func updateChanges(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        from record: some EncodableRecord
    ) throws -> Bool {
        try updateChanges(db, onConflict: conflictResolution, from: PersistenceContainer(record))
    }

    /// Changes the record, and updates the columns that differ afterwards.
    ///
    /// - Returns: Whether any did; otherwise nothing runs.
    @discardableResult
    public mutating func updateChanges(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        modify: (inout Self) throws -> Void
    ) throws -> Bool {
        let former = try PersistenceContainer(self)
        try modify(&self)
        return try updateChanges(db, onConflict: conflictResolution, from: former)
    }

    /// The same as `updateChanges(_:onConflict:modify:)`, by the label that programs for GRDB 5 have.
    @discardableResult
    public mutating func updateChanges(_ db: Database, with change: (inout Self) throws -> Void) throws -> Bool {
        try updateChanges(db, modify: change)
    }

    private func updateChanges(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution?, from former: PersistenceContainer
    ) throws -> Bool {
        let columns = try PersistenceContainer(self).changes(from: former).map(\.column)
        if columns.isEmpty { return false }
        try update(db, onConflict: conflictResolution, columns: .some(Set(columns)))
        return true
    }

    // MARK: Updating and fetching

    /// Updates the row that has the record's primary key, and reads it as it is then.
    ///
    /// - Throws: ``RecordError/recordNotFound(databaseTableName:key:)`` when no row was changed.
    public func updateAndFetch(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) throws -> Self where Self: FetchableRecord {
        try updateAndFetch(db, onConflict: conflictResolution, as: Self.self)
    }

    /// Updates the row that has the record's primary key, and reads it as another type.
    ///
    /// - Throws: ``RecordError/recordNotFound(databaseTableName:key:)`` when no row was changed.
    public func updateAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil, as type: T.Type
    ) throws -> T {
        let fetched = try updateAndFetch(
            db, onConflict: conflictResolution, columns: .all, select: T.databaseSelection,
            fetch: { try T.fetchOne($0) })
        guard let fetched else { throw recordNotFound(db) }
        return fetched
    }

    /// Updates the row that has the record's primary key, and reads what the statement returns of it.
    ///
    /// - Throws: ``RecordError/recordNotFound(databaseTableName:key:)`` when no row was changed.
    public func updateAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        selection: [any SQLSelectable], fetch: (Statement) throws -> T
    ) throws -> T {
        try updateAndFetch(db, onConflict: conflictResolution, columns: .all, select: selection, fetch: fetch)
    }

    /// Updates some columns of the row that has the record's primary key, and reads what the statement returns of it.
    ///
    /// - Throws: ``RecordError/recordNotFound(databaseTableName:key:)`` when no row was changed.
    public func updateAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        columns: some Collection<String>, selection: [any SQLSelectable], fetch: (Statement) throws -> T
    ) throws -> T {
        try updateAndFetch(
            db, onConflict: conflictResolution, columns: .some(Set(columns)), select: selection, fetch: fetch)
    }

    /// Updates some columns of the row that has the record's primary key, and reads what the statement returns of it.
    ///
    /// - Throws: ``RecordError/recordNotFound(databaseTableName:key:)`` when no row was changed.
    public func updateAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        columns: some Collection<some ColumnExpression>, selection: [any SQLSelectable],
        fetch: (Statement) throws -> T
    ) throws -> T {
        try updateAndFetch(
            db, onConflict: conflictResolution, columns: .some(Set(columns.map(\.name))), select: selection,
            fetch: fetch)
    }

    /// Updates the row that has the record's primary key, and reads what the statement returns of it.
    ///
    /// - Throws: ``RecordError/recordNotFound(databaseTableName:key:)`` when no row was changed.
    public func updateAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        fetch: (Statement) throws -> T, select: (DatabaseComponents) throws -> [any SQLSelectable]
    ) throws -> T {
        try updateAndFetch(
            db, onConflict: conflictResolution, columns: .all, select: select(Self.databaseComponents), fetch: fetch)
    }

    /// Changes the record, updates the columns that differ afterwards, and reads the row as it is then.
    ///
    /// - Returns: nil when nothing differs.
    public mutating func updateChangesAndFetch(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        modify: (inout Self) throws -> Void
    ) throws -> Self? where Self: FetchableRecord {
        try updateChangesAndFetch(db, onConflict: conflictResolution, as: Self.self, modify: modify)
    }

    /// Changes the record, updates the columns that differ afterwards, and reads the row as another type.
    ///
    /// - Returns: nil when nothing differs.
    public mutating func updateChangesAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil, as type: T.Type,
        modify: (inout Self) throws -> Void
    ) throws -> T? {
        let fetched = try updateChangesAndFetch(
            db, onConflict: conflictResolution, selection: T.databaseSelection, fetch: { try T.fetchOne($0) },
            modify: modify)
        guard let fetched else { return nil }
        guard let record = fetched else { throw recordNotFound(db) }
        return record
    }

    /// Changes the record, updates the columns that differ afterwards, and reads what the statement returns of the
    /// row.
    ///
    /// - Returns: nil when nothing differs.
    public mutating func updateChangesAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        selection: [any SQLSelectable], fetch: (Statement) throws -> T, modify: (inout Self) throws -> Void
    ) throws -> T? {
        let former = try PersistenceContainer(self)
        try modify(&self)
        let columns = try PersistenceContainer(self).changes(from: former).map(\.column)
        if columns.isEmpty { return nil }
        return try updateAndFetch(
            db, onConflict: conflictResolution, columns: .some(Set(columns)), select: selection, fetch: fetch)
    }

    private func updateAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution?, columns: UpdatedColumns,
        select: [any SQLSelectable], fetch: (Statement) throws -> T
    ) throws -> T {
        try Self.fetching(select, fetch) { returning in
            try update(db, onConflict: conflictResolution, columns: columns, returning: returning)
        }
    }
}

extension MutablePersistableRecord where Self: AnyObject {
    /// Changes the record, and updates the columns that differ afterwards.
    ///
    /// - Returns: Whether any did; otherwise nothing runs.
    @discardableResult
    public func updateChanges(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        modify: (Self) throws -> Void
    ) throws -> Bool {
        var record = self
        return try record.updateChanges(db, onConflict: conflictResolution) { (record: inout Self) in
            try modify(record)
        }
    }

    /// Changes the record, updates the columns that differ afterwards, and reads the row as it is then.
    ///
    /// - Returns: nil when nothing differs.
    public func updateChangesAndFetch(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        modify: (Self) throws -> Void
    ) throws -> Self? where Self: FetchableRecord {
        var record = self
        return try record.updateChangesAndFetch(db, onConflict: conflictResolution) { (record: inout Self) in
            try modify(record)
        }
    }
}

/// Which columns an update changes.
enum UpdatedColumns {
    case all
    case some(Set<String>)
}

extension MutablePersistableRecord {
    // MARK: Callbacks

    private func update(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution?, columns: UpdatedColumns,
        returning: Returning? = nil
    ) throws {
        try willSave(db)
        var saved: PersistenceSuccess?
        try aroundSave(db) {
            let success = try updateWithCallbacks(
                db, onConflict: conflictResolution, columns: columns, returning: returning)
            saved = success
            return success
        }
        guard let saved else { throw DatabaseError.skippedCallback("aroundSave", of: Self.self) }
        didSave(saved)
    }

    func updateWithCallbacks(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution?, columns: UpdatedColumns,
        returning: Returning? = nil
    ) throws -> PersistenceSuccess {
        let table = try db.records().table(of: type(of: self), db)
        let names =
            switch columns {
            case .some(let columns): columns
            case .all: table.tableColumnNames
            }
        try willUpdate(db, columns: names)
        var updated: PersistenceSuccess?
        try aroundUpdate(db, columns: names) {
            let success = try runUpdate(
                db, onConflict: conflictResolution, columns: columns, returning: returning)
            updated = success
            return success
        }
        guard let updated else { throw DatabaseError.skippedCallback("aroundUpdate", of: Self.self) }
        didUpdate(updated)
        return updated
    }

    // MARK: Statement

    private func runUpdate(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution?, columns: UpdatedColumns,
        returning: Returning?
    ) throws -> PersistenceSuccess {
        let table = try db.records().table(of: type(of: self), db)
        let container = try table.container(of: self)
        guard let keyValues = table.keyValues(in: container) else { throw table.notFound(container) }
        let policy = conflictResolution ?? type(of: self).persistenceConflictPolicy.conflictResolutionForUpdate
        var updated = table.updatedColumns(of: container)
        if case .some(let chosen) = columns { updated = updated.limited(to: chosen) }
        // Without any column the key is given its own value: the row is found, and nothing changes.
        if updated.indexes.isEmpty { updated = table.keyColumns(of: container) }
        try table.requirePrecision(of: container, at: updated.indexes)
        let values = updated.indexes.map { container.values[$0] } + keyValues
        let sql = { table.updateSQL(updated.columns, policy) }
        let count = try db.countingChanges(of: table.name) {
            if let returning { return try table.run(sql(), values, returning, db) }
            let statement = try table.statement(.update(policy), updated.columnNames, db, sql)
            try statement.setArguments(StatementArguments(plain: values))
            return try statement.executeForOutcome()
        }
        if count == 0 { throw table.notFound(container) }
        return PersistenceSuccess(persistenceContainer: container)
    }
}

/// Columns of a container, in the order of the table.
final class ContainerColumns {
    /// Their positions in the container.
    let indexes: [Int]
    let columns: [String]
    let columnNames: ColumnNames

    init(_ indexes: [Int], _ columns: [String]) {
        self.indexes = indexes
        self.columns = columns
        columnNames = ColumnNames(columns)
    }

    /// Those with one of the names, in any case.
    func limited(to names: Set<String>) -> ContainerColumns {
        let names = Set(names.map(\.lowercasedASCII))
        let chosen = columns.indices.filter { names.contains(columns[$0].lowercasedASCII) }
        return ContainerColumns(chosen.map { indexes[$0] }, chosen.map { columns[$0] })
    }
}

extension RecordTable {
    /// The columns of a container that the table has, without those of the key and those that it computes.
    func updatedColumns(of container: PersistenceContainer) -> ContainerColumns {
        if let known = latestUpdate, known.names === container.names { return known.columns }
        let kept = generatedNames.union(key.columns.map(\.lowercasedASCII))
        let columns = columns(of: container) { !kept.contains($0.lowercasedASCII) }
        latestUpdate = (container.names, columns)
        return columns
    }

    /// The columns of the key.
    func keyColumns(of container: PersistenceContainer) -> ContainerColumns {
        let pairs = key.columns.compactMap { column in
            container.columns.firstIndex { $0.lowercasedASCII == column.lowercasedASCII }.map { ($0, column) }
        }
        return ContainerColumns(pairs.map(\.0), pairs.map(\.1))
    }

    private func columns(
        of container: PersistenceContainer, where isChosen: (String) -> Bool
    ) -> ContainerColumns {
        let positions = Dictionary(
            container.columns.enumerated().map { ($0.element.lowercasedASCII, $0.offset) },
            uniquingKeysWith: { first, _ in first })
        let pairs = tableColumns.filter(isChosen).compactMap { column in
            positions[column.lowercasedASCII].map { ($0, column) }
        }
        return ContainerColumns(pairs.map(\.0), pairs.map(\.1))
    }

    func updateSQL(_ columns: [String], _ policy: Database.ConflictResolution) -> String {
        let clause = policy == .abort ? "" : "OR \(policy.rawValue) "
        let assignments = columns.map { $0.quotedDatabaseIdentifier + "=?" }.joined(separator: ", ")
        return "UPDATE \(clause)\(name.quotedDatabaseIdentifier) SET \(assignments) WHERE \(keyCondition)"
    }
}
