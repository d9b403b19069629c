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
        /// The primary key has other columns here than the writer's table.
        case otherKey
        /// An expression of a constraint, an index or a generated column fails here: it refuses the values, or its function
        /// or collation is missing. The next opening of the repository tries the row again.
        case expression
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
            case .otherKey: .otherKey
            case .expression: .expression
            }
    }
}

/// Conflicts.
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
}
