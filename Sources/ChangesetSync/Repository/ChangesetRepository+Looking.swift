import CipherDatabase
import Foundation

/// The change of one row.
public struct SyncRowChange: Hashable, Sendable {
    public enum Kind: String, Sendable {
        case inserted
        case updated
        case deleted
    }

    public let table: String
    public let kind: Kind
    /// The values of the key, by column.
    public let key: [String: DatabaseValue]
    /// The former values: of a deletion all, of an update those that changed.
    public let old: [String: DatabaseValue]
    /// The new values: of an insertion all, of an update those that changed.
    public let new: [String: DatabaseValue]
}

extension ChangesetRepository {
    /// What a commit has changed.
    ///
    /// - Throws: ``SyncError`` `.unknownCommit`, `.damagedCommit`; `DatabaseError`.
    public func changes(of id: CommitID) throws -> [SyncRowChange] {
        try looking { db in
            let store = CommitStore(db: db)
            return Self.changes(try store.delta(store.requireNode(id).n))
        }
    }

    /// What differs between the states of two commits.
    ///
    /// - Parameter former: The commit to compare with; nil compares with empty tables.
    /// - Throws: ``SyncError`` `.unknownCommit`, `.damagedCommit`, `.schemaAhead`; `DatabaseError`.
    public func diff(from former: CommitID?, to id: CommitID) throws -> [SyncRowChange] {
        try looking { db in
            let transaction = try RepositoryTransaction(db)
            let (store, graph) = (transaction.store, CommitGraph(transaction.store))
            let start = try former.map { try store.requireNode($0).n }
            let end = try store.requireNode(id).n
            let base = try start.flatMap { try graph.base(of: $0, end).base?.n }
            var composer = PathComposer(store, transaction.tables)
            for step in try start.flatMap({ try graph.path(from: base, to: $0) })?.reversed() ?? [] {
                try composer.undo(step)
            }
            for step in try base == end ? [] : graph.path(from: base, to: end) ?? [] { try composer.add(step) }
            return Self.changes(try composer.result())
        }
    }

    private func looking<T>(_ body: (Database) throws -> T) throws -> T {
        try writer.unsafeReentrantRead { db in
            try db.isolated {
                _ = try RepositoryState(db)
                return try body(db)
            }
        }
    }

    static func changes(_ delta: Delta) -> [SyncRowChange] {
        delta.tables.flatMap { entry in
            entry.changes.map { change in
                func values(_ record: DeltaRecord?, isPart: (Int) -> Bool) -> [String: DatabaseValue] {
                    var values: [String: DatabaseValue] = [:]
                    for (column, value) in (record?.values ?? []).enumerated() where isPart(column) {
                        if case .undefined = value { continue }
                        values[entry.table.columns[column]] = value.databaseValue
                    }
                    return values
                }
                let isKey = { (column: Int) in entry.table.keyOrdinals[column] != 0 }
                let isUpdate = change.operation == .update
                let kind: SyncRowChange.Kind =
                    switch change.operation {
                    case .insert: .inserted
                    case .update: .updated
                    case .delete: .deleted
                    }
                return SyncRowChange(
                    table: entry.table.name, kind: kind, key: values(change.keyRecord, isPart: isKey),
                    old: values(change.old) { !isUpdate || !isKey($0) }, new: values(change.new) { _ in true })
            }
        }
    }
}
