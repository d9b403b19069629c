import CipherDatabase
import CipherSchema

/// A new value for a column in an update.
///
/// ```swift
/// try Player.updateAll(db) { $0.score += 1 }
/// try Player.updateAll(db, Column("score").set(to: 0))
/// ```
public struct ColumnAssignment: Sendable {
    let column: String
    /// nil leaves the column as it is.
    let value: Term?

    var assignment: Assignment? { value.map { Assignment(column: column, value: $0) } }
}

extension ColumnExpression {
    /// Gives the column a value.
    public func set(to value: any SQLSpecificExpressible) -> ColumnAssignment {
        ColumnAssignment(column: name, value: Term(value.sqlExpression))
    }

    /// Gives the column a value.
    @_disfavoredOverload
    public func set(to value: (any SQLExpressible)?) -> ColumnAssignment {
        ColumnAssignment(column: name, value: value.map { Term($0.sqlExpression) } ?? Term(DatabaseValue.null))
    }

    /// Leaves the column as it is when an upsert finds a row.
    public var noOverwrite: ColumnAssignment { ColumnAssignment(column: name, value: nil) }

    /// Adds to the column.
    public static func += (column: Self, value: some SQLSpecificExpressible) -> ColumnAssignment {
        column.set(to: column + value)
    }

    /// Adds to the column.
    @_disfavoredOverload
    public static func += (column: Self, value: some SQLExpressible) -> ColumnAssignment {
        column.set(to: column + value)
    }

    /// Subtracts from the column.
    public static func -= (column: Self, value: some SQLSpecificExpressible) -> ColumnAssignment {
        column.set(to: column - value)
    }

    /// Subtracts from the column.
    @_disfavoredOverload
    public static func -= (column: Self, value: some SQLExpressible) -> ColumnAssignment {
        column.set(to: column - value)
    }

    /// Multiplies the column.
    public static func *= (column: Self, value: some SQLSpecificExpressible) -> ColumnAssignment {
        column.set(to: column * value)
    }

    /// Multiplies the column.
    @_disfavoredOverload
    public static func *= (column: Self, value: some SQLExpressible) -> ColumnAssignment {
        column.set(to: column * value)
    }

    /// Divides the column.
    public static func /= (column: Self, value: some SQLSpecificExpressible) -> ColumnAssignment {
        column.set(to: column / value)
    }

    /// Divides the column.
    @_disfavoredOverload
    public static func /= (column: Self, value: some SQLExpressible) -> ColumnAssignment {
        column.set(to: column / value)
    }

    /// Keeps the bits of the column that the value has too.
    public static func &= (column: Self, value: some SQLSpecificExpressible) -> ColumnAssignment {
        column.set(to: column & value)
    }

    /// Keeps the bits of the column that the value has too.
    @_disfavoredOverload
    public static func &= (column: Self, value: some SQLExpressible) -> ColumnAssignment {
        column.set(to: column & value)
    }

    /// Adds the bits of the value to the column.
    public static func |= (column: Self, value: some SQLSpecificExpressible) -> ColumnAssignment {
        column.set(to: column | value)
    }

    /// Adds the bits of the value to the column.
    @_disfavoredOverload
    public static func |= (column: Self, value: some SQLExpressible) -> ColumnAssignment {
        column.set(to: column | value)
    }

    /// Shifts the bits of the column to the left.
    public static func <<= (column: Self, value: some SQLSpecificExpressible) -> ColumnAssignment {
        column.set(to: column << value)
    }

    /// Shifts the bits of the column to the left.
    @_disfavoredOverload
    public static func <<= (column: Self, value: some SQLExpressible) -> ColumnAssignment {
        column.set(to: column << value)
    }

    /// Shifts the bits of the column to the right.
    public static func >>= (column: Self, value: some SQLSpecificExpressible) -> ColumnAssignment {
        column.set(to: column >> value)
    }

    /// Shifts the bits of the column to the right.
    @_disfavoredOverload
    public static func >>= (column: Self, value: some SQLExpressible) -> ColumnAssignment {
        column.set(to: column >> value)
    }
}

// MARK: - Deleting

extension QueryInterfaceRequest {
    /// Deletes the rows.
    ///
    /// - Returns: How many rows were deleted.
    @discardableResult
    public func deleteAll(_ db: Database) throws -> Int {
        let statement = try db.prepare(.delete(relation.withoutPrefetches, returning: [])).statement
        return try db.countingChanges(of: relation.table) {
            return try statement.executeForOutcome()
        }
    }

    /// Deletes the row with a unique key.
    ///
    /// A unique key admits any number of rows with NULL, and texts that are equal by the collation of a column alone.
    ///
    /// - Parameter columns: The columns of the key.
    /// - Returns: Whether there was one.
    /// - Throws: `DatabaseError` `.SQLITE_MISUSE` if there are several.
    func deleteOnly(_ db: Database, of columns: some Collection<String>) throws -> Bool {
        if try !db.columnsSeparateRows(columns, of: relation.table), try limit(2).fetchCount(db) > 1 {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message:
                    "several rows of table \(relation.table) have this key: delete them with deleteAll(_:), or one "
                    + "of them by its primary key")
        }
        return try deleteAll(db) > 0
    }

    /// A statement that deletes the rows and returns a selection of each.
    public func deleteAndFetchStatement(_ db: Database, selection: [any SQLSelectable]) throws -> Statement {
        try db.prepare(.delete(relation.withoutPrefetches, returning: selection.map { $0.sqlSelection.content }))
            .statement
    }
}

extension QueryInterfaceRequest where RowDecoder: FetchableRecord & TableRecord {
    /// Deletes the rows and returns them, one after another. Rows that the cursor has not reached are deleted too.
    public func deleteAndFetchCursor(_ db: Database) throws -> RecordCursor<RowDecoder> {
        try RowDecoder.fetchCursor(deleteAndFetchStatement(db, selection: RowDecoder.databaseSelection))
    }

    /// Deletes the rows and returns them.
    public func deleteAndFetchAll(_ db: Database) throws -> [RowDecoder] { try Array(deleteAndFetchCursor(db)) }
}

extension QueryInterfaceRequest where RowDecoder: FetchableRecord & TableRecord & Hashable {
    /// Deletes the rows and returns the different ones.
    public func deleteAndFetchSet(_ db: Database) throws -> Set<RowDecoder> { try Set(deleteAndFetchCursor(db)) }
}

extension QueryInterfaceRequest
where RowDecoder: TableRecord & Identifiable, RowDecoder.ID: Hashable & DatabaseValueConvertible {
    /// Deletes the rows and returns their identifiers.
    public func deleteAndFetchIds(_ db: Database) throws -> Set<RowDecoder.ID> {
        let statement = try db.prepare(.delete(relation.withoutPrefetches, returning: [.primaryKey(.request)]))
            .statement
        return try RowDecoder.ID.fetchSet(statement)
    }
}

// MARK: - Updating

extension QueryInterfaceRequest {
    private func update(
        _ db: Database, _ policy: Database.ConflictResolution?, _ assignments: [ColumnAssignment],
        returning: [Selection]
    ) throws -> PreparedRequest {
        let record = RowDecoder.self as? any MutablePersistableRecord.Type
        let policy = policy ?? record?.persistenceConflictPolicy.conflictResolutionForUpdate
        return try db.prepare(
            .update(relation.withoutPrefetches, assignments.compactMap(\.assignment), policy, returning: returning))
    }

    /// Changes the rows.
    ///
    /// - Parameter conflictResolution: What happens to a row that breaks a constraint; nil for what the record type
    ///   says.
    /// - Returns: How many rows were changed.
    @discardableResult
    public func updateAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        _ assignments: ColumnAssignment...
    ) throws -> Int {
        try updateAll(db, onConflict: conflictResolution, assignments)
    }

    /// Changes the rows.
    ///
    /// - Parameter conflictResolution: What happens to a row that breaks a constraint; nil for what the record type
    ///   says.
    /// - Returns: How many rows were changed.
    @discardableResult
    public func updateAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        _ assignments: [ColumnAssignment]
    ) throws -> Int {
        guard assignments.contains(where: { $0.assignment != nil }) else { return 0 }
        let statement = try update(db, conflictResolution, assignments, returning: []).statement
        return try db.countingChanges(of: relation.table) {
            return try statement.executeForOutcome()
        }
    }

    /// A statement that changes the rows and returns a selection of each.
    ///
    /// - Throws: `DatabaseError` `.SQLITE_MISUSE` without any assignment.
    public func updateAndFetchStatement(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        _ assignments: [ColumnAssignment], selection: [any SQLSelectable]
    ) throws -> Statement {
        guard assignments.contains(where: { $0.assignment != nil }) else {
            throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "an update needs an assignment at least")
        }
        return try update(
            db, conflictResolution, assignments, returning: selection.map { $0.sqlSelection.content }
        ).statement
    }
}

extension QueryInterfaceRequest where RowDecoder: TableRecord {
    /// Changes the rows.
    ///
    /// - Parameter conflictResolution: What happens to a row that breaks a constraint; nil for what the record type
    ///   says.
    /// - Returns: How many rows were changed.
    @discardableResult
    public func updateAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        assignment: (RowDecoder.DatabaseComponents) throws -> ColumnAssignment
    ) throws -> Int {
        try updateAll(db, onConflict: conflictResolution, [assignment(RowDecoder.databaseComponents)])
    }

    /// Changes the rows.
    ///
    /// - Parameter conflictResolution: What happens to a row that breaks a constraint; nil for what the record type
    ///   says.
    /// - Returns: How many rows were changed.
    @discardableResult
    public func updateAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        assignments: (RowDecoder.DatabaseComponents) throws -> [ColumnAssignment]
    ) throws -> Int {
        try updateAll(db, onConflict: conflictResolution, assignments(RowDecoder.databaseComponents))
    }
}

extension QueryInterfaceRequest where RowDecoder: TableRecord {
    /// A statement that deletes the rows and returns a selection of each.
    public func deleteAndFetchStatement(
        _ db: Database, select: (RowDecoder.DatabaseComponents) throws -> [any SQLSelectable]
    ) throws -> Statement {
        try deleteAndFetchStatement(db, selection: select(RowDecoder.databaseComponents))
    }

    /// A statement that changes the rows and returns a selection of each.
    ///
    /// - Throws: `DatabaseError` `.SQLITE_MISUSE` without any assignment.
    public func updateAndFetchStatement(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        assignments: (RowDecoder.DatabaseComponents) throws -> [ColumnAssignment],
        select: (RowDecoder.DatabaseComponents) throws -> [any SQLSelectable]
    ) throws -> Statement {
        try updateAndFetchStatement(
            db, onConflict: conflictResolution, assignments(RowDecoder.databaseComponents),
            selection: select(RowDecoder.databaseComponents))
    }
}

extension QueryInterfaceRequest where RowDecoder: FetchableRecord & TableRecord {
    /// Changes the rows and returns them as they are then, one after another. All of them are changed, whether the
    /// cursor has reached them or not.
    ///
    /// - Throws: `DatabaseError` `.SQLITE_MISUSE` without any assignment.
    public func updateAndFetchCursor(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        assignments: (RowDecoder.DatabaseComponents) throws -> [ColumnAssignment]
    ) throws -> RecordCursor<RowDecoder> {
        let assignments = try assignments(RowDecoder.databaseComponents)
        return try updateAndFetchCursor(db, onConflict: conflictResolution, assignments)
    }

    /// Changes the rows and returns them as they are then, one after another. All of them are changed, whether the
    /// cursor has reached them or not.
    ///
    /// - Throws: `DatabaseError` `.SQLITE_MISUSE` without any assignment.
    public func updateAndFetchCursor(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        _ assignments: [ColumnAssignment]
    ) throws -> RecordCursor<RowDecoder> {
        try RowDecoder.fetchCursor(
            updateAndFetchStatement(
                db, onConflict: conflictResolution, assignments, selection: RowDecoder.databaseSelection))
    }

    /// Changes the rows and returns them as they are then; none without any assignment.
    public func updateAndFetchAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        assignments: (RowDecoder.DatabaseComponents) throws -> [ColumnAssignment]
    ) throws -> [RowDecoder] {
        let assignments = try assignments(RowDecoder.databaseComponents)
        return try updateAndFetchAll(db, onConflict: conflictResolution, assignments)
    }

    /// Changes the rows and returns them as they are then; none without any assignment.
    public func updateAndFetchAll(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        _ assignments: [ColumnAssignment]
    ) throws -> [RowDecoder] {
        guard assignments.contains(where: { $0.assignment != nil }) else { return [] }
        return try RowDecoder.fetchAll(
            updateAndFetchStatement(
                db, onConflict: conflictResolution, assignments, selection: RowDecoder.databaseSelection))
    }
}

extension QueryInterfaceRequest where RowDecoder: FetchableRecord & TableRecord & Hashable {
    /// Changes the rows and returns the different ones as they are then; none without any assignment.
    public func updateAndFetchSet(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        assignments: (RowDecoder.DatabaseComponents) throws -> [ColumnAssignment]
    ) throws -> Set<RowDecoder> {
        Set(try updateAndFetchAll(db, onConflict: conflictResolution, assignments: assignments))
    }

    /// Changes the rows and returns the different ones as they are then; none without any assignment.
    public func updateAndFetchSet(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        _ assignments: [ColumnAssignment]
    ) throws -> Set<RowDecoder> {
        Set(try updateAndFetchAll(db, onConflict: conflictResolution, assignments))
    }
}

extension Database {
    /// Runs a statement that changes rows of a table or a view.
    ///
    /// SQLite counts no row of a view. Those count instead that its INSTEAD OF triggers change.
    /// - SeeAlso: <https://www.sqlite.org/c3ref/changes.html>
    ///
    /// - Returns: How many rows it has changed.
    func countingChanges(of table: String, _ body: () throws -> StatementOutcome) throws -> Int {
        let before = totalChangesCount
        let outcome = try body()
        if outcome.changesCount > 0 { return outcome.changesCount }
        let others = outcome.totalChangesCount - before
        guard others > 0, try viewExists(table) else { return 0 }
        return others
    }
}
