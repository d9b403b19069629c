import CipherDatabase
import CipherSchema

/// A record that can be inserted, updated and deleted.
///
/// ```swift
/// struct Player: Codable, MutablePersistableRecord {
///     var id: Int64?
///     var name: String
///     mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
/// }
/// var player = Player(id: nil, name: "Ann")
/// try player.insert(db)
/// ```
///
/// Callbacks run around the methods of a record, never around changes by requests or SQL. Those around a statement
/// call their closure once and let its errors pass.
public protocol MutablePersistableRecord: EncodableRecord, TableRecord {
    /// The treatment of a row that breaks a constraint.
    static var persistenceConflictPolicy: PersistenceConflictPolicy { get }

    // MARK: Inserting

    /// Called before a record is inserted.
    mutating func willInsert(_ db: Database) throws
    /// Called around the statement that inserts a record.
    func aroundInsert(_ db: Database, insert: () throws -> InsertionSuccess) throws
    /// Called after a record was inserted, and not where SQLite has ignored the insertion.
    mutating func didInsert(_ inserted: InsertionSuccess)
    /// Called after a record was inserted, unless it has ``didInsert(_:)``: the form that programs for GRDB 5 have.
    mutating func didInsert(with rowID: Int64, for column: String?)

    // MARK: Updating

    /// Called before a record is updated.
    func willUpdate(_ db: Database, columns: Set<String>) throws
    /// Called around the statement that updates a record.
    func aroundUpdate(_ db: Database, columns: Set<String>, update: () throws -> PersistenceSuccess) throws
    /// Called after a record was updated.
    func didUpdate(_ updated: PersistenceSuccess)

    // MARK: Saving

    /// Called before a record is inserted or updated.
    func willSave(_ db: Database) throws
    /// Called around all that inserts or updates a record.
    func aroundSave(_ db: Database, save: () throws -> PersistenceSuccess) throws
    /// Called after a record was inserted or updated, and not where SQLite has ignored the insertion.
    func didSave(_ saved: PersistenceSuccess)

    // MARK: Deleting

    /// Called before a record is deleted.
    func willDelete(_ db: Database) throws
    /// Called around the statement that deletes a record.
    func aroundDelete(_ db: Database, delete: () throws -> Bool) throws
    /// Called after a record was deleted, or was not there.
    func didDelete(deleted: Bool)
}

extension MutablePersistableRecord {
    public static var persistenceConflictPolicy: PersistenceConflictPolicy { PersistenceConflictPolicy() }

    @inlinable
    public mutating func willInsert(_ db: Database) throws {}
    @inlinable
    public func aroundInsert(_ db: Database, insert: () throws -> InsertionSuccess) throws { _ = try insert() }
    @inlinable
    public mutating func didInsert(_ inserted: InsertionSuccess) {
        didInsert(with: inserted.rowID, for: inserted.rowIDColumn)
    }
    @inlinable
    public mutating func didInsert(with rowID: Int64, for column: String?) {}
    @inlinable
    public func willUpdate(_ db: Database, columns: Set<String>) throws {}
    @inlinable
    public func aroundUpdate(_ db: Database, columns: Set<String>, update: () throws -> PersistenceSuccess) throws {
        _ = try update()
    }
    @inlinable
    public func didUpdate(_ updated: PersistenceSuccess) {}
    @inlinable
    public func willSave(_ db: Database) throws {}
    @inlinable
    public func aroundSave(_ db: Database, save: () throws -> PersistenceSuccess) throws { _ = try save() }
    @inlinable
    public func didSave(_ saved: PersistenceSuccess) {}
    @inlinable
    public func willDelete(_ db: Database) throws {}
    @inlinable
    public func aroundDelete(_ db: Database, delete: () throws -> Bool) throws { _ = try delete() }
    @inlinable
    public func didDelete(deleted: Bool) {}
}

/// A record whose methods do not change it: a class, or a struct that makes its own keys.
public protocol PersistableRecord: MutablePersistableRecord {
    /// Called before a record is inserted.
    func willInsert(_ db: Database) throws
    /// Called after a record was inserted, and not where SQLite has ignored the insertion.
    func didInsert(_ inserted: InsertionSuccess)
    /// Called after a record was inserted, unless it has ``didInsert(_:)``: the form that programs for GRDB 5 have.
    func didInsert(with rowID: Int64, for column: String?)
}

extension PersistableRecord {
    @inlinable
    public func willInsert(_ db: Database) throws {}
    @inlinable
    public func didInsert(_ inserted: InsertionSuccess) {
        didInsert(with: inserted.rowID, for: inserted.rowIDColumn)
    }
    @inlinable
    public func didInsert(with rowID: Int64, for column: String?) {}
}

/// The treatment of a row that breaks a constraint.
/// - SeeAlso: <https://www.sqlite.org/lang_conflict.html>
public struct PersistenceConflictPolicy: Sendable {
    /// For insertions.
    public let conflictResolutionForInsert: Database.ConflictResolution
    /// For updates.
    public let conflictResolutionForUpdate: Database.ConflictResolution

    public init(insert: Database.ConflictResolution = .abort, update: Database.ConflictResolution = .abort) {
        conflictResolutionForInsert = insert
        conflictResolutionForUpdate = update
    }
}

/// The known facts about an inserted row.
public struct InsertionSuccess: Sendable {
    /// Whether SQLite ignored the insertion: no row was inserted.
    ///
    /// A conflict resolution of the call, of the record or of the schema ignores a row, and so does a trigger by
    /// `RAISE(IGNORE)`. Only `aroundInsert` gets such a value.
    /// - SeeAlso: <https://www.sqlite.org/lang_conflict.html>
    public private(set) var isIgnored = false
    /// The rowid. It means nothing for a table without rowids, and is 0 where SQLite ignored the insertion.
    public var rowID: Int64
    /// The column that is the rowid; nil when the table has none, and where SQLite ignored the insertion.
    public var rowIDColumn: String?
    /// The columns and values that were inserted, with the rowid in its column.
    public var persistenceContainer: PersistenceContainer {
        get { encoded.withRowID(rowID, in: rowIDColumn) }
        set { encoded = newValue }
    }

    // Few programs ask for the container, so the rowid is put into it when one does.
    fileprivate var encoded: PersistenceContainer

    public init(rowID: Int64, rowIDColumn: String?, persistenceContainer: PersistenceContainer) {
        self.rowID = rowID
        self.rowIDColumn = rowIDColumn
        encoded = persistenceContainer
    }

    /// The known facts if SQLite ignored the insertion.
    init(ignored container: PersistenceContainer) {
        self.init(rowID: 0, rowIDColumn: nil, persistenceContainer: container)
        isIgnored = true
    }
}

/// The known facts about a row that was inserted or updated.
public struct PersistenceSuccess: Sendable {
    /// Whether SQLite ignored the insertion: no row was stored. Only `aroundSave` gets such a value.
    public private(set) var isIgnored = false
    /// The columns and values of the record, with the rowid of a row that was inserted.
    public var persistenceContainer: PersistenceContainer {
        get { inserted.map { encoded.withRowID($0.rowID, in: $0.column) } ?? encoded }
        set { (encoded, inserted) = (newValue, nil) }
    }

    private var encoded: PersistenceContainer
    private var inserted: (rowID: Int64, column: String?)?

    public init(persistenceContainer: PersistenceContainer) { encoded = persistenceContainer }

    /// The known facts about an inserted row.
    public init(_ inserted: InsertionSuccess) {
        encoded = inserted.encoded
        isIgnored = inserted.isIgnored
        self.inserted = (inserted.rowID, inserted.rowIDColumn)
    }
}

extension PersistenceContainer {
    fileprivate func withRowID(_ rowID: Int64, in column: String?) -> PersistenceContainer {
        guard let column else { return self }
        var container = self
        container[column] = rowID
        return container
    }
}
