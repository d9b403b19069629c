import CipherDatabase

/// A row that the program's table does not show as it was written.
public struct SyncConflict: Hashable, Sendable {
    public enum Reason: String, Hashable, Sendable {
        /// Another row has its key or a unique value, or its parent is not shown.
        case contested
        /// A value is shown as ON DELETE says, or as the column converts it.
        case altered
        case notNull
        case check
        case type
        case unique
        case foreignKey
        /// Values of columns that are not here, or of several insertions of one key.
        case composed
        case missingTable
    }

    /// The name of the table in commits.
    public let table: String
    /// The values of the key, in its order.
    public let key: [DatabaseValue]
    public let reason: Reason
    /// The written values, by the columns of the program, with the local defaults of the others.
    public let written: [String: DatabaseValue]
    /// The shown values; nil if the row is hidden.
    public let shown: [String: DatabaseValue]?
}

extension SyncConflict.Reason {
    init(_ reason: HiddenReason) {
        self =
            switch reason {
            case .composed: .composed
            case .contested: .contested
            case .altered: .altered
            case .notNull: .notNull
            case .check: .check
            case .type: .type
            case .unique: .unique
            case .foreignKey: .foreignKey
            case .unknownTable: .missingTable
            }
    }
}

/// Conflicts and the rules of tables.
extension ChangesetRepository {
    /// The rows that are not shown as they were written. They are the same on every device with the same schema and head.
    ///
    /// An ordinary commit that changes one of the rows settles a conflict everywhere: to write a hidden row, insert one
    /// with its key.
    ///
    /// - Throws: `DatabaseError`.
    public func conflicts() throws -> [SyncConflict] {
        try looking { work in
            try Conflicts(base: work.base).all().map { conflict in
                SyncConflict(
                    table: conflict.table.text, key: conflict.key.map(\.databaseValue),
                    reason: SyncConflict.Reason(conflict.reason), written: conflict.written.mapValues(\.databaseValue),
                    shown: conflict.shown?.mapValues(\.databaseValue))
            }
        }
    }

    /// Sets the rules of a table for all devices, by a commit. Of concurrent settings the later one counts.
    ///
    /// - Parameters:
    ///   - counters: Columns of integers whose changes are added up. A column stays a counter once it is one.
    ///   - deletionsWin: Whether a deletion wins over a concurrent update. Otherwise the update brings the row back.
    /// - Throws: ``EngineError`` `.unsuitableTable` if the table is not tracked or lacks a column, `.insideTransaction`;
    ///   `DatabaseError`.
    public func setRules(of table: String, counters: Set<String> = [], deletionsWin: Bool = false) throws {
        try working { work in
            guard let known = work.catalog.local(table), let local = known.local else {
                throw EngineError(.unsuitableTable, table)
            }
            let columns = try counters.map { name in
                guard let place = local.column(named: name), let column = known.columnsOfPlaces[place] else {
                    throw EngineError(.unsuitableTable, table)
                }
                return column.id
            }
            let policy = TablePolicy(table: known.name, counters: columns, deletionsWin: deletionsWin)
            try work.commit([], events: [.policy(policy)])
        }
    }
}
