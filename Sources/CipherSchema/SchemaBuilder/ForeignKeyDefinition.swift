import CipherDatabase

/// A row's reference to one of another table: one column for each column of that table's primary key. Its methods add
/// constraints to all of them and return the reference.
///
/// ```swift
/// t.belongsTo("team", onDelete: .cascade).notNull()
/// ```
public final class ForeignKeyDefinition {
    enum Indexing {
        case index
        case unique
    }

    let name: String
    /// The other table; nil when it follows from the name.
    let table: String?
    private let deleting: Database.ForeignKeyAction?
    private let updating: Database.ForeignKeyAction?
    private let isDeferred: Bool
    private(set) var indexing: Indexing?
    private var refusesNull = false
    private var notNullResolution: Database.ConflictResolution?

    init(
        name: String, table: String?, deleting: Database.ForeignKeyAction?, updating: Database.ForeignKeyAction?,
        isDeferred: Bool, isIndexed: Bool
    ) {
        self.name = name
        self.table = table
        self.deleting = deleting
        self.updating = updating
        self.isDeferred = isDeferred
        indexing = isIndexed ? .index : nil
    }

    /// Refuses NULL in every column of the reference.
    @discardableResult
    public func notNull(onConflict conflictResolution: Database.ConflictResolution? = nil) -> Self {
        refusesNull = true
        notNullResolution = conflictResolution
        return self
    }

    /// Refuses a second row with the same reference.
    @discardableResult
    public func unique() -> Self {
        indexing = .unique
        return self
    }

    /// For a reference inside a primary key, whose index serves the reference too.
    func becomePrimaryKey() {
        indexing = nil
        notNull()
    }

    // MARK: As columns

    /// The additions of the reference to a table.
    struct Parts {
        var columns: [ColumnDefinition]
        /// Where the key has several columns.
        var constraint: ForeignKeyConstraint?
        /// Where the key has several columns; for a single one the column requests the index.
        var index: [String]?
        var indexIsUnique = false
    }

    /// The columns, with names and types from the key that they refer to.
    func parts(referringTo key: ReferencedKey) -> Parts {
        let columns = key.namedColumns.map { column in
            let definition = ColumnDefinition(
                name: name + column.name.prefix(1).uppercased() + column.name.dropFirst(), type: column.type)
            if refusesNull { definition.notNull(onConflict: notNullResolution) }
            return definition
        }
        guard let only = columns.first, columns.count == 1 else {
            let names = columns.map(\.name)
            let clause = ForeignKeyClause(
                table: key.table, columns: key.columnNames, deleting: deleting, updating: updating,
                isDeferred: isDeferred)
            return Parts(
                columns: columns, constraint: ForeignKeyConstraint(columns: names, clause: clause),
                index: indexing.map { _ in names }, indexIsUnique: indexing == .unique)
        }
        only.references(
            key.table, column: key.columnNames?.first, onDelete: deleting, onUpdate: updating, deferred: isDeferred)
        switch indexing {
        case .index: only.indexed()
        case .unique: only.unique()
        case nil: break
        }
        return Parts(columns: columns)
    }
}

/// A primary key that other tables refer to.
struct ReferencedKey {
    typealias Column = (name: String, type: Database.ColumnType?)

    var table: String
    /// Nil for a rowid without a column of its own, and where the key is not known.
    let columns: [Column]?
    /// Whether the key may be written as SQL in the definition of the table, where only SQLite finds it: then a
    /// reference to `rowid` fails, and one that names no columns works.
    var isLeftToSQLite = false

    var columnNames: [String]? { columns?.map(\.name) ?? (isLeftToSQLite ? nil : ["rowid"]) }

    /// The columns by the names that references use; a rowid, or an unknown key, is called `id` there.
    var namedColumns: [Column] { columns ?? [("id", .integer)] }
}

/// A `FOREIGN KEY` clause of a table.
struct ForeignKeyConstraint {
    let columns: [String]
    let clause: ForeignKeyClause
}
