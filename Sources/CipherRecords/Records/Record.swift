import CipherDatabase

/// A base class of records that know which of their values have changed since they were read or stored.
///
/// ```swift
/// final class Player: Record {
///     var id: Int64?
///     var name: String
///
///     override class var databaseTableName: String { "player" }
///
///     required init(row: Row) throws {
///         id = row["id"]
///         name = row["name"]
///         try super.init(row: row)
///     }
///
///     override func encode(to container: inout PersistenceContainer) {
///         container["id"] = id
///         container["name"] = name
///     }
///
///     override func didInsert(_ inserted: InsertionSuccess) {
///         super.didInsert(inserted)
///         id = inserted.rowID
///     }
/// }
/// ```
///
/// An overridden callback calls that of `super`. Structs need no base class: see
/// `updateChanges(_:onConflict:modify:)`.
open class Record {
    /// The row as it was read or stored last; nil where that is not known.
    private var stored: Row?

    public init() {}

    /// Makes a record of a row. It has no changes where a statement returned the row.
    public required init(row: Row) throws {
        // The row of a cursor changes with it.
        if row.isFetched { stored = row.copy() }
    }

    // MARK: Table and columns

    /// The name of the table. That of the class, unless it is said.
    open class var databaseTableName: String { TableNames.name(of: self) }

    /// The treatment of a row that breaks a constraint.
    open class var persistenceConflictPolicy: PersistenceConflictPolicy { PersistenceConflictPolicy() }

    /// The selections of requests. All columns, unless it is said.
    open class var databaseSelection: [any SQLSelectable] { [AllColumns()] }

    /// Gives the columns and their values, those of the primary key among them.
    open func encode(to container: inout PersistenceContainer) throws {}

    // MARK: Changes

    /// Whether the record has values that were not read, and not stored since. So has a record that cannot be encoded.
    public var hasDatabaseChanges: Bool { (try? databaseChanges.isEmpty) != true }

    /// The columns that have changed, with the values that they had; nil for values that were never read or stored.
    public var databaseChanges: [String: DatabaseValue?] {
        get throws {
            var changes: [String: DatabaseValue?] = [:]
            let container = try PersistenceContainer(self)
            for (column, value) in zip(container.columns, container.values) {
                guard let stored, stored.hasColumn(column) else {
                    changes.updateValue(nil, forKey: column)
                    continue
                }
                let former: DatabaseValue = stored[column]
                if former != value { changes.updateValue(former, forKey: column) }
            }
            return changes
        }
    }

    /// Updates the columns that have changed.
    ///
    /// - Returns: Whether any have; otherwise nothing runs.
    /// - Throws: ``RecordError/recordNotFound(databaseTableName:key:)`` when no row was changed.
    @discardableResult
    public final func updateChanges(_ db: Database) throws -> Bool {
        let columns = try Set(databaseChanges.keys)
        if columns.isEmpty { return false }
        try update(db, columns: columns)
        return true
    }

    // MARK: Callbacks

    /// Called before the record is inserted or updated.
    open func willSave(_ db: Database) throws {}

    /// Called around all that inserts or updates the record.
    open func aroundSave(_ db: Database, save: () throws -> PersistenceSuccess) throws { _ = try save() }

    /// Called after the record was inserted or updated, and not where SQLite has ignored the insertion.
    open func didSave(_ saved: PersistenceSuccess) {}

    /// Called before the record is inserted.
    open func willInsert(_ db: Database) throws {}

    /// Called around the statement that inserts the record. Afterwards the record has no changes, unless SQLite has
    /// ignored the insertion.
    open func aroundInsert(_ db: Database, insert: () throws -> InsertionSuccess) throws {
        let inserted = try insert()
        if !inserted.isIgnored { stored = Row(inserted.persistenceContainer.dictionary) }
    }

    /// Called after the record was inserted, and not where SQLite has ignored the insertion.
    open func didInsert(_ inserted: InsertionSuccess) {
        didInsert(with: inserted.rowID, for: inserted.rowIDColumn)
    }

    /// Called after the record was inserted: the form that programs for GRDB 5 have.
    open func didInsert(with rowID: Int64, for column: String?) {}

    /// Called before the record is updated.
    open func willUpdate(_ db: Database, columns: Set<String>) throws {}

    /// Called around the statement that updates the record. Afterwards the record has no changes.
    open func aroundUpdate(_ db: Database, columns: Set<String>, update: () throws -> PersistenceSuccess) throws {
        stored = Row(try update().persistenceContainer.dictionary)
    }

    /// Called after the record was updated.
    open func didUpdate(_ updated: PersistenceSuccess) {}

    /// Called before the record is deleted.
    open func willDelete(_ db: Database) throws {}

    /// Called around the statement that deletes the record. Afterwards all its values are changes.
    open func aroundDelete(_ db: Database, delete: () throws -> Bool) throws {
        _ = try delete()
        stored = nil
    }

    /// Called after the record was deleted, or was not there.
    open func didDelete(deleted: Bool) {}
}

extension Record: FetchableRecord, PersistableRecord {}
