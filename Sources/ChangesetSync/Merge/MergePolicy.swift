import CipherDatabase

/// What merges choose where two devices have changed the same concurrently.
///
/// ```swift
/// var policy = MergePolicy(tables: [
///     "item": .init(counters: ["stock"]),
///     "session": .init(deletion: .deleteWins),
/// ])
/// policy.rename = { duplicate in duplicate.adding(" (\(duplicate.attempt + 2))", to: "name") }
/// policy.resolve = { conflict in
///     conflict.column == "body" ? .value(joined(conflict.ours, conflict.theirs)) : .automatic
/// }
/// let repository = ChangesetRepository(store, mergePolicy: policy)
/// ```
///
/// Every device should have the same policy, and its closures should depend on their arguments alone: then all devices
/// that merge the same two commits make the same merge. Where they do not, devices still end with the same rows: of
/// merges that unite the same commits the one with the least identifier stays, whoever has made it.
public struct MergePolicy: Sendable {
    /// What a deletion of a row and a concurrent update of it make.
    public enum Deletion: Hashable, Sendable {
        /// The row stays, updated.
        case updateWins
        /// The row is deleted.
        case deleteWins
    }

    /// The rules for one table.
    public struct Table: Hashable, Sendable {
        public var deletion: Deletion
        /// Columns that count: both changes are added up (ours + theirs - base), where all values are integers. A row that
        /// the base does not have, and NULL, count as 0. A sum that is no 64-bit integer, and other values, are conflicts
        /// as in other columns.
        public var counters: Set<String>

        public init(deletion: Deletion = .updateWins, counters: Set<String> = []) {
            (self.deletion, self.counters) = (deletion, counters)
        }
    }

    /// What a resolver decides.
    public enum Resolution: Hashable, Sendable {
        /// What is chosen without a resolver.
        case automatic
        /// The value of the column that is asked for.
        case value(DatabaseValue)
        /// The row has these values, by column. Columns that are not named get what the merge makes of them. Nothing else
        /// of the row is asked for.
        case row([String: DatabaseValue])
        /// The row is deleted.
        case delete
    }

    /// By table; others have the rules of `Table()`.
    public var tables: [String: Table]
    /// Called with a row that loses its value of a unique key to an older row, for values in which it differs from all
    /// others. It is asked for one unique key after the other, up to 16 times for each. Nil, as without a closure, and values
    /// that are never free give the row its former values, or remove it.
    public var rename: (@Sendable (DuplicateRow) throws -> [String: DatabaseValue]?)?
    /// Called for each cell that two commits have written, neither of which knew the other, and for each row that one of
    /// two such commits has deleted and the other one updated.
    public var resolve: (@Sendable (RowConflict) throws -> Resolution)?

    public init(
        tables: [String: Table] = [:],
        rename: (@Sendable (DuplicateRow) throws -> [String: DatabaseValue]?)? = nil,
        resolve: (@Sendable (RowConflict) throws -> Resolution)? = nil
    ) {
        (self.tables, self.rename, self.resolve) = (tables, rename, resolve)
    }
}

/// A conflict that a resolver is asked about (``MergePolicy/resolve``).
public struct RowConflict {
    /// The two commits that are merged. Ours is the one with the lesser identifier, on every device.
    public enum Side: Hashable, Sendable {
        case ours
        case theirs
    }

    public let table: String
    /// The values of the key, by column.
    public let key: [String: DatabaseValue]
    /// The row by column: at the common ancestor, and on both sides. Nil where there is none.
    public let base: [String: DatabaseValue]?
    public let ours: [String: DatabaseValue]?
    public let theirs: [String: DatabaseValue]?
    /// The column that is asked for; nil where one side has deleted the row.
    public let column: String?
    /// All columns of the row that are in conflict; where one side has deleted the row, those that the other one wrote.
    public let columns: [String]
    /// The side that has written later.
    public let later: Side
    /// The rows of both sides.
    public let states: MergeStates
}

/// A row that loses its value of a unique key to an older row (``MergePolicy/rename``).
public struct DuplicateRow {
    public let table: String
    /// The values of the key, by column.
    public let key: [String: DatabaseValue]
    /// The row as the merge has it, by column.
    public let row: [String: DatabaseValue]
    /// The columns of the unique key; empty where it is an index of expressions, or of some rows.
    public let columns: [String]
    /// Counts the calls for this row and this key, beginning with 0: the values of the last call were not free.
    public let attempt: Int
    /// The rows of both sides.
    public let states: MergeStates

    /// The value of a column with a text after it; nothing where the table has no such column.
    public func adding(_ suffix: String, to column: String) -> [String: DatabaseValue] {
        guard let value = row[column] else { return [:] }
        return [column: ((String.fromDatabaseValue(value) ?? "") + suffix).databaseValue]
    }
}

/// Reads the rows of the two commits that are merged, while a closure of a ``MergePolicy`` runs.
public final class MergeStates {
    private var views: [StateView]
    private let tables: TrackedTables
    private let db: Database
    /// By table and columns.
    private var searches: [String: [[Int]: RowSearch]] = [:]

    init(_ views: [StateView], _ tables: TrackedTables, _ db: Database) {
        (self.views, self.tables, self.db) = (views, tables, db)
    }

    /// Ends the reading: the rows are those of the merge's transaction.
    func close() { (views, searches) = ([], [:]) }

    /// The rows of a table that have these values, by column; the row with a key, where all of its columns are named.
    ///
    /// Values are equal where their storage class and their bytes are: 1 and 1.0 differ. NULL equals nothing.
    /// - Throws: ``SyncError`` `.unsuitableTable` for a table that is not tracked, or a column that it does not have;
    ///   `.resolverFailed` after the merge; `DatabaseError`.
    public func rows(
        of table: String, where values: [String: DatabaseValue], on side: RowConflict.Side
    ) throws -> [[String: DatabaseValue]] {
        guard views.count == 2 else { throw SyncError(.resolverFailed, "The rows of a merge were read after it.") }
        guard let table = tables[table] else { throw SyncError(.unsuitableTable, table: table, "It is not tracked.") }
        let conditions = try values.map { name, value in
            guard let column = table.index(ofColumn: name) else {
                throw SyncError(.unsuitableTable, table: table.name, "It has no column \"\(name)\".")
            }
            return (column, DeltaRecord(CollectionOfOne(DeltaValue(value))).bytes)
        }.sorted { $0.0 < $1.0 }
        if conditions.contains(where: { $0.1.first == Cell.null }) { return [] }
        let columns = conditions.map(\.0)
        let search = searches[table.name]?[columns] ?? RowSearch(table, exactly: columns, in: db)
        searches[table.name, default: [:]][columns] = search
        return try views[side == .ours ? 0 : 1].rows(search, equal: conditions.map(\.1))
            .filter { row in
                let cells = row.cells
                return conditions.allSatisfy { ByteOrder.areEqual(cells[$0.0], $0.1) }
            }
            .map(table.values)
    }
}

// MARK: The policy for the tables of a store

/// A policy with the numbers of columns in the place of their names.
struct MergeRules {
    struct Rules {
        var deletion = MergePolicy.Deletion.updateWins
        var counters: Set<Int> = []
    }

    let policy: MergePolicy
    private var rules: [String: Rules] = [:]

    /// - Throws: ``SyncError`` `.unsuitableTable` where the policy names what the tables do not have: it would silently
    ///   not be followed.
    init(_ policy: MergePolicy, _ tables: TrackedTables) throws {
        self.policy = policy
        for (name, entry) in policy.tables {
            guard let table = tables[name] else {
                throw SyncError(.unsuitableTable, table: name, "The merge policy names it, and it is not tracked.")
            }
            let counters = try entry.counters.map { name in
                guard let column = table.index(ofColumn: name), table.table.keyOrdinals[column] == 0 else {
                    throw SyncError(
                        .unsuitableTable, table: table.name,
                        "The merge policy names the counter \"\(name)\", which is no column outside of the primary key."
                    )
                }
                return column
            }
            rules[table.name] = Rules(deletion: entry.deletion, counters: Set(counters))
        }
    }

    var hasCounters: Bool { rules.values.contains { !$0.counters.isEmpty } }

    subscript(table: TrackedTable) -> Rules { rules[table.name] ?? Rules() }
}

extension DeltaValue {
    init(_ value: DatabaseValue) {
        self =
            switch value.storage {
            case .null: .null
            case .int64(let value): .integer(value)
            case .double(let value): .real(value)
            case .string(let text): .string(text)
            case .blob(let bytes): .blob(Array(bytes)[...])
            }
    }
}

extension TrackedTable {
    /// The values of a row, by column.
    func values(_ row: DeltaRecord) -> [String: DatabaseValue] {
        Dictionary(zip(table.columns, row.map(\.databaseValue)), uniquingKeysWith: { first, _ in first })
    }

    /// The values of a key, by column.
    func values(_ key: RowKey) -> [String: DatabaseValue] {
        let names = table.keyColumns.map { table.columns[$0] }
        return Dictionary(zip(names, key.values.map(\.databaseValue)), uniquingKeysWith: { first, _ in first })
    }
}
