import CipherDatabase
import CipherSchema

/// A table by its name, for programs that have no record type for it.
///
/// `Table("player")` reads rows, `Table<Player>("player")` reads players.
public struct Table<RowDecoder>: Sendable {
    /// The name of the table.
    public let tableName: String

    public init(_ tableName: String) { self.tableName = tableName }

    public init(_ tableName: String) where RowDecoder == Row { self.tableName = tableName }

    /// All rows of the table.
    public func all() -> QueryInterfaceRequest<RowDecoder> {
        var relation = Relation(table: tableName)
        if let record = RowDecoder.self as? any TableRecord.Type { relation.selection = record.relation.selection }
        return QueryInterfaceRequest(relation: relation)
    }
}

// The calls of ``TableRecord``, for a table.

extension Table {
    /// No row.
    public func none() -> QueryInterfaceRequest<RowDecoder> { all().none() }

    /// Selects something else than all columns.
    public func select(_ selection: any SQLSelectable...) -> QueryInterfaceRequest<RowDecoder> {
        all().select(selection)
    }

    /// Selects something else than all columns.
    public func select(_ selection: [any SQLSelectable]) -> QueryInterfaceRequest<RowDecoder> {
        all().select(selection)
    }

    /// Selects SQL text.
    public func select(
        sql: String, arguments: StatementArguments = StatementArguments()
    ) -> QueryInterfaceRequest<RowDecoder> {
        all().select(sql: sql, arguments: arguments)
    }

    /// Selects SQL text.
    public func select(literal: SQL) -> QueryInterfaceRequest<RowDecoder> { all().select(literal: literal) }

    /// Selects something that is read as another type.
    public func select<T>(_ selection: any SQLSelectable..., as type: T.Type = T.self) -> QueryInterfaceRequest<T> {
        all().select(selection, as: type)
    }

    /// Selects something that is read as another type.
    public func select<T>(_ selection: [any SQLSelectable], as type: T.Type = T.self) -> QueryInterfaceRequest<T> {
        all().select(selection, as: type)
    }

    /// Selects SQL text that is read as another type.
    public func select<T>(
        sql: String, arguments: StatementArguments = StatementArguments(), as type: T.Type = T.self
    ) -> QueryInterfaceRequest<T> {
        all().select(sql: sql, arguments: arguments, as: type)
    }

    /// Selects SQL text that is read as another type.
    public func select<T>(literal: SQL, as type: T.Type = T.self) -> QueryInterfaceRequest<T> {
        all().select(literal: literal, as: type)
    }

    /// Selects the primary key.
    public func selectPrimaryKey<Key>(as type: Key.Type = Key.self) -> QueryInterfaceRequest<Key> {
        all().selectPrimaryKey(as: type)
    }

    /// Adds to what is selected.
    public func annotated(with selection: any SQLSelectable...) -> QueryInterfaceRequest<RowDecoder> {
        all().annotated(with: selection)
    }

    /// Adds to what is selected.
    public func annotated(with selection: [any SQLSelectable]) -> QueryInterfaceRequest<RowDecoder> {
        all().annotated(with: selection)
    }

    /// The rows for which a condition is true.
    public func filter(_ predicate: any SQLSpecificExpressible) -> QueryInterfaceRequest<RowDecoder> {
        all().filter(predicate)
    }

    /// The rows for which a condition in SQL text is true.
    public func filter(
        sql: String, arguments: StatementArguments = StatementArguments()
    ) -> QueryInterfaceRequest<RowDecoder> {
        all().filter(sql: sql, arguments: arguments)
    }

    /// The rows for which a condition in SQL text is true.
    public func filter(literal: SQL) -> QueryInterfaceRequest<RowDecoder> { all().filter(literal: literal) }

    /// The row with a primary key; none for nil.
    @_disfavoredOverload
    public func filter(key: (some DatabaseValueConvertible)?) -> QueryInterfaceRequest<RowDecoder> {
        all().filter(key: key)
    }

    /// The row with the columns of a unique key; none for nil.
    public func filter(key: [String: (any DatabaseValueConvertible)?]?) -> QueryInterfaceRequest<RowDecoder> {
        all().filter(key: key)
    }

    /// The rows with primary keys.
    @_disfavoredOverload
    public func filter(keys: some Collection<some DatabaseValueConvertible>) -> QueryInterfaceRequest<RowDecoder> {
        all().filter(keys: keys)
    }

    /// The rows with the columns of unique keys.
    public func filter(keys: [[String: (any DatabaseValueConvertible)?]]) -> QueryInterfaceRequest<RowDecoder> {
        all().filter(keys: keys)
    }

    /// The rows that fit a full-text pattern; none for nil.
    public func matching(_ pattern: (any FullTextPattern)?) -> QueryInterfaceRequest<RowDecoder> {
        all().matching(pattern)
    }

    /// The rows in an order.
    public func order(_ orderings: any SQLOrderingTerm...) -> QueryInterfaceRequest<RowDecoder> {
        all().order(orderings)
    }

    /// The rows in an order.
    public func order(_ orderings: [any SQLOrderingTerm]) -> QueryInterfaceRequest<RowDecoder> {
        all().order(orderings)
    }

    /// The rows in an order in SQL text.
    public func order(
        sql: String, arguments: StatementArguments = StatementArguments()
    ) -> QueryInterfaceRequest<RowDecoder> {
        all().order(sql: sql, arguments: arguments)
    }

    /// The rows in an order in SQL text.
    public func order(literal: SQL) -> QueryInterfaceRequest<RowDecoder> { all().order(literal: literal) }

    /// The rows in the order of their primary key.
    public func orderByPrimaryKey() -> QueryInterfaceRequest<RowDecoder> { all().orderByPrimaryKey() }

    /// The first rows.
    ///
    /// - Parameters:
    ///   - limit: The number of rows.
    ///   - offset: How many rows to skip before them.
    public func limit(_ limit: Int, offset: Int? = nil) -> QueryInterfaceRequest<RowDecoder> {
        all().limit(limit, offset: offset)
    }

    /// The rows under an alias.
    public func aliased(_ alias: TableAlias<RowDecoder>) -> QueryInterfaceRequest<RowDecoder> { all().aliased(alias) }

    /// The rows under an alias.
    public func aliased(_ alias: TableAlias<Void>) -> QueryInterfaceRequest<RowDecoder> { all().aliased(alias) }

    /// The rows of a statement that has a common table expression.
    public func with<T>(_ cte: CommonTableExpression<T>) -> QueryInterfaceRequest<RowDecoder> { all().with(cte) }

    /// How many rows the table has.
    public func fetchCount(_ db: Database) throws -> Int { try all().fetchCount(db) }

    /// Deletes all rows.
    ///
    /// - Returns: How many rows were deleted.
    @discardableResult
    public func deleteAll(_ db: Database) throws -> Int { try all().deleteAll(db) }

    /// Changes all rows.
    ///
    /// - Returns: How many rows were changed.
    @discardableResult
    public func updateAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        _ assignments: ColumnAssignment...
    ) throws -> Int {
        try all().updateAll(db, onConflict: conflictResolution, assignments)
    }

    /// Changes all rows.
    ///
    /// - Returns: How many rows were changed.
    @discardableResult
    public func updateAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        _ assignments: [ColumnAssignment]
    ) throws -> Int {
        try all().updateAll(db, onConflict: conflictResolution, assignments)
    }
}

extension Table where RowDecoder: TableRecord {
    /// Selects something else than all columns.
    public func select(
        _ selection: (RowDecoder.DatabaseComponents) throws -> any SQLSelectable
    ) rethrows -> QueryInterfaceRequest<RowDecoder> {
        try all().select(selection)
    }

    /// Selects something else than all columns.
    public func select(
        _ selection: (RowDecoder.DatabaseComponents) throws -> [any SQLSelectable]
    ) rethrows -> QueryInterfaceRequest<RowDecoder> {
        try all().select(selection)
    }

    /// Selects something that is read as another type.
    public func select<T>(
        _ selection: (RowDecoder.DatabaseComponents) throws -> any SQLSelectable, as type: T.Type = T.self
    ) rethrows -> QueryInterfaceRequest<T> {
        try all().select(selection, as: type)
    }

    /// Selects something that is read as another type.
    public func select<T>(
        _ selection: (RowDecoder.DatabaseComponents) throws -> [any SQLSelectable], as type: T.Type = T.self
    ) rethrows -> QueryInterfaceRequest<T> {
        try all().select(selection, as: type)
    }

    /// Adds to what is selected.
    public func annotated(
        with selection: (RowDecoder.DatabaseComponents) throws -> any SQLSelectable
    ) rethrows -> QueryInterfaceRequest<RowDecoder> {
        try all().annotated(with: selection)
    }

    /// Adds to what is selected.
    public func annotated(
        with selection: (RowDecoder.DatabaseComponents) throws -> [any SQLSelectable]
    ) rethrows -> QueryInterfaceRequest<RowDecoder> {
        try all().annotated(with: selection)
    }

    /// All rows, or none.
    public func filter(
        _ predicate: (RowDecoder.DatabaseComponents) throws -> ConstantCondition
    ) rethrows -> QueryInterfaceRequest<RowDecoder> {
        try all().filter(predicate)
    }

    /// The rows for which a condition is true.
    public func filter(
        _ predicate: (RowDecoder.DatabaseComponents) throws -> any SQLSpecificExpressible
    ) rethrows -> QueryInterfaceRequest<RowDecoder> {
        try all().filter(predicate)
    }

    /// The rows for which a condition is true.
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public func filter(
        _ predicate: (RowDecoder.DatabaseComponents) throws -> any SQLExpressible
    ) rethrows -> QueryInterfaceRequest<RowDecoder> {
        try all().filter(predicate)
    }

    /// The rows in an order.
    public func order(
        _ orderings: (RowDecoder.DatabaseComponents) throws -> any SQLOrderingTerm
    ) rethrows -> QueryInterfaceRequest<RowDecoder> {
        try all().order(orderings)
    }

    /// The rows in an order.
    public func order(
        _ orderings: (RowDecoder.DatabaseComponents) throws -> [any SQLOrderingTerm]
    ) rethrows -> QueryInterfaceRequest<RowDecoder> {
        try all().order(orderings)
    }

    /// Changes all rows.
    ///
    /// - Returns: How many rows were changed.
    @discardableResult
    public func updateAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        assignment: (RowDecoder.DatabaseComponents) throws -> ColumnAssignment
    ) throws -> Int {
        try all().updateAll(db, onConflict: conflictResolution, assignment: assignment)
    }

    /// Changes all rows.
    ///
    /// - Returns: How many rows were changed.
    @discardableResult
    public func updateAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        assignments: (RowDecoder.DatabaseComponents) throws -> [ColumnAssignment]
    ) throws -> Int {
        try all().updateAll(db, onConflict: conflictResolution, assignments: assignments)
    }
}

// MARK: - Fetching

extension Table where RowDecoder == Row {
    /// The rows of the table, one after the other.
    public func fetchCursor(_ db: Database) throws -> RowCursor { try all().fetchCursor(db) }

    /// The rows of the table.
    public func fetchAll(_ db: Database) throws -> [RowDecoder] { try all().fetchAll(db) }

    /// One row of the table; nil if there is none.
    public func fetchOne(_ db: Database) throws -> RowDecoder? { try all().fetchOne(db) }
}

extension Table where RowDecoder == Row {
    /// The different things that the table holds.
    public func fetchSet(_ db: Database) throws -> Set<RowDecoder> { try all().fetchSet(db) }
}

extension Table where RowDecoder: FetchableRecord {
    /// The rows of the table, one after the other.
    public func fetchCursor(_ db: Database) throws -> RecordCursor<RowDecoder> { try all().fetchCursor(db) }

    /// The rows of the table.
    public func fetchAll(_ db: Database) throws -> [RowDecoder] { try all().fetchAll(db) }

    /// One row of the table; nil if there is none.
    public func fetchOne(_ db: Database) throws -> RowDecoder? { try all().fetchOne(db) }
}

extension Table where RowDecoder: FetchableRecord & Hashable {
    /// The different things that the table holds.
    public func fetchSet(_ db: Database) throws -> Set<RowDecoder> { try all().fetchSet(db) }
}

extension Table where RowDecoder: DatabaseValueConvertible {
    /// The rows of the table, one after the other.
    public func fetchCursor(_ db: Database) throws -> DatabaseValueCursor<RowDecoder> { try all().fetchCursor(db) }

    /// The rows of the table.
    public func fetchAll(_ db: Database) throws -> [RowDecoder] { try all().fetchAll(db) }

    /// One row of the table; nil if there is none.
    public func fetchOne(_ db: Database) throws -> RowDecoder? { try all().fetchOne(db) }
}

extension Table where RowDecoder: DatabaseValueConvertible & Hashable {
    /// The different things that the table holds.
    public func fetchSet(_ db: Database) throws -> Set<RowDecoder> { try all().fetchSet(db) }
}

extension Table {
    /// Whether a row has a primary key of one column.
    public func exists(_ db: Database, key: some DatabaseValueConvertible) throws -> Bool {
        try !filter(key: key).isEmpty(db)
    }

    /// Whether a row has the columns of a unique key.
    public func exists(_ db: Database, key: [String: (any DatabaseValueConvertible)?]) throws -> Bool {
        try !filter(key: key).isEmpty(db)
    }

    /// Deletes the row with a primary key of one column.
    ///
    /// - Returns: Whether there was one.
    @discardableResult
    public func deleteOne(_ db: Database, key: some DatabaseValueConvertible) throws -> Bool {
        try filter(key: key).deleteAll(db) > 0
    }

    /// Deletes the row with the columns of a unique key.
    ///
    /// - Returns: Whether there was one.
    /// - Throws: `DatabaseError` `.SQLITE_MISUSE` if several rows have the key, as with NULL.
    @discardableResult
    public func deleteOne(_ db: Database, key: [String: (any DatabaseValueConvertible)?]) throws -> Bool {
        try filter(key: key).deleteOnly(db, of: key.keys)
    }

    /// Deletes the rows with primary keys of one column.
    ///
    /// - Returns: How many rows were deleted.
    @discardableResult
    public func deleteAll(_ db: Database, keys: some Collection<some DatabaseValueConvertible>) throws -> Int {
        keys.isEmpty ? 0 : try filter(keys: keys).deleteAll(db)
    }
}

// MARK: - By keys

extension Table where RowDecoder == Row {
    /// The row with a primary key of one column; nil if there is none, and for nil.
    public func fetchOne(_ db: Database, key: (some DatabaseValueConvertible)?) throws -> RowDecoder? {
        guard let key else { return nil }
        return try filter(key: key).fetchOne(db)
    }

    /// The row with the columns of a unique key; nil if there is none, and for nil.
    public func fetchOne(_ db: Database, key: [String: (any DatabaseValueConvertible)?]?) throws -> RowDecoder? {
        guard let key else { return nil }
        return try filter(key: key).fetchOne(db)
    }

    /// The row with a primary key of one column.
    ///
    /// - Throws: `RecordError.recordNotFound` when there is none.
    public func find(_ db: Database, key: some DatabaseValueConvertible) throws -> RowDecoder {
        if let found = try fetchOne(db, key: key) { return found }
        throw try notFound(db, key)
    }

    /// The row with the columns of a unique key.
    ///
    /// - Throws: `RecordError.recordNotFound` when there is none.
    public func find(_ db: Database, key: [String: (any DatabaseValueConvertible)?]) throws -> RowDecoder {
        if let found = try fetchOne(db, key: key) { return found }
        throw RecordError.recordNotFound(
            databaseTableName: tableName, key: key.mapValues { $0?.databaseValue ?? .null })
    }

    /// The rows with primary keys of one column, in any order.
    public func fetchAll(_ db: Database, keys: some Collection<some DatabaseValueConvertible>) throws -> [RowDecoder] {
        keys.isEmpty ? [] : try filter(keys: keys).fetchAll(db)
    }

    /// The rows with the columns of unique keys, in any order.
    public func fetchAll(_ db: Database, keys: [[String: (any DatabaseValueConvertible)?]]) throws -> [RowDecoder] {
        keys.isEmpty ? [] : try filter(keys: keys).fetchAll(db)
    }

    /// The rows with primary keys of one column, one after the other.
    public func fetchCursor(
        _ db: Database, keys: some Collection<some DatabaseValueConvertible>
    ) throws -> RowCursor {
        try filter(keys: keys).fetchCursor(db)
    }
}

extension Table where RowDecoder: FetchableRecord {
    /// The row with a primary key of one column; nil if there is none, and for nil.
    public func fetchOne(_ db: Database, key: (some DatabaseValueConvertible)?) throws -> RowDecoder? {
        guard let key else { return nil }
        return try filter(key: key).fetchOne(db)
    }

    /// The row with the columns of a unique key; nil if there is none, and for nil.
    public func fetchOne(_ db: Database, key: [String: (any DatabaseValueConvertible)?]?) throws -> RowDecoder? {
        guard let key else { return nil }
        return try filter(key: key).fetchOne(db)
    }

    /// The row with a primary key of one column.
    ///
    /// - Throws: `RecordError.recordNotFound` when there is none.
    public func find(_ db: Database, key: some DatabaseValueConvertible) throws -> RowDecoder {
        if let found = try fetchOne(db, key: key) { return found }
        throw try notFound(db, key)
    }

    /// The row with the columns of a unique key.
    ///
    /// - Throws: `RecordError.recordNotFound` when there is none.
    public func find(_ db: Database, key: [String: (any DatabaseValueConvertible)?]) throws -> RowDecoder {
        if let found = try fetchOne(db, key: key) { return found }
        throw RecordError.recordNotFound(
            databaseTableName: tableName, key: key.mapValues { $0?.databaseValue ?? .null })
    }

    /// The rows with primary keys of one column, in any order.
    public func fetchAll(_ db: Database, keys: some Collection<some DatabaseValueConvertible>) throws -> [RowDecoder] {
        keys.isEmpty ? [] : try filter(keys: keys).fetchAll(db)
    }

    /// The rows with the columns of unique keys, in any order.
    public func fetchAll(_ db: Database, keys: [[String: (any DatabaseValueConvertible)?]]) throws -> [RowDecoder] {
        keys.isEmpty ? [] : try filter(keys: keys).fetchAll(db)
    }

    /// The rows with primary keys of one column, one after the other.
    public func fetchCursor(
        _ db: Database, keys: some Collection<some DatabaseValueConvertible>
    ) throws -> RecordCursor<RowDecoder> {
        try filter(keys: keys).fetchCursor(db)
    }
}

extension Table where RowDecoder: FetchableRecord & Hashable {
    /// The different things that the rows with primary keys of one column hold.
    public func fetchSet(
        _ db: Database, keys: some Collection<some DatabaseValueConvertible>
    ) throws -> Set<RowDecoder> {
        keys.isEmpty ? [] : try filter(keys: keys).fetchSet(db)
    }
}

extension Table {
    fileprivate func notFound<Key: DatabaseValueConvertible>(_ db: Database, _ key: Key) throws -> RecordError {
        let column = try db.primaryKey(tableName).columns.first ?? ""
        let value = try RecordKey.Encoding(Key.self, for: RowDecoder.self)?.value(of: key, column: column)
        return .recordNotFound(databaseTableName: tableName, key: [column: value ?? key.databaseValue])
    }

    /// Deletes the rows with the columns of unique keys.
    ///
    /// - Returns: How many rows were deleted.
    @discardableResult
    public func deleteAll(_ db: Database, keys: [[String: (any DatabaseValueConvertible)?]]) throws -> Int {
        keys.isEmpty ? 0 : try filter(keys: keys).deleteAll(db)
    }
}

extension Table where RowDecoder: Identifiable, RowDecoder.ID: DatabaseValueConvertible {
    /// The row with an identifier.
    public func filter(id: RowDecoder.ID) -> QueryInterfaceRequest<RowDecoder> { all().filter(id: id) }

    /// The rows with identifiers.
    @_disfavoredOverload
    public func filter(ids: some Collection<RowDecoder.ID>) -> QueryInterfaceRequest<RowDecoder> {
        all().filter(ids: ids)
    }

    /// Selects the identifiers.
    public func selectID() -> QueryInterfaceRequest<RowDecoder.ID> { all().selectID() }

    /// Whether a row has an identifier.
    public func exists(_ db: Database, id: RowDecoder.ID) throws -> Bool { try exists(db, key: id) }

    /// Deletes the row with an identifier.
    ///
    /// - Returns: Whether there was one.
    @discardableResult
    public func deleteOne(_ db: Database, id: RowDecoder.ID) throws -> Bool { try deleteOne(db, key: id) }

    /// Deletes the rows with identifiers.
    ///
    /// - Returns: How many rows were deleted.
    @discardableResult
    public func deleteAll(_ db: Database, ids: some Collection<RowDecoder.ID>) throws -> Int {
        try deleteAll(db, keys: ids)
    }
}

extension Table where RowDecoder: FetchableRecord & Identifiable, RowDecoder.ID: DatabaseValueConvertible {
    /// The row with an identifier; nil if there is none.
    public func fetchOne(_ db: Database, id: RowDecoder.ID) throws -> RowDecoder? { try fetchOne(db, key: id) }

    /// The row with an identifier.
    ///
    /// - Throws: `RecordError.recordNotFound` when there is none.
    public func find(_ db: Database, id: RowDecoder.ID) throws -> RowDecoder { try find(db, key: id) }

    /// The rows with identifiers, in any order.
    public func fetchAll(_ db: Database, ids: some Collection<RowDecoder.ID>) throws -> [RowDecoder] {
        try fetchAll(db, keys: ids)
    }

    /// A cursor over what the rows with identifiers hold, in any order.
    public func fetchCursor(_ db: Database, ids: some Collection<RowDecoder.ID>) throws -> RecordCursor<RowDecoder> {
        try fetchCursor(db, keys: ids)
    }
}

extension Table
where RowDecoder: FetchableRecord & Identifiable & Hashable, RowDecoder.ID: DatabaseValueConvertible {
    /// The rows with identifiers.
    public func fetchSet(_ db: Database, ids: some Collection<RowDecoder.ID>) throws -> Set<RowDecoder> {
        try fetchSet(db, keys: ids)
    }
}
