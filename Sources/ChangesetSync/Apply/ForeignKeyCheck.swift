import CipherDatabase
import CipherSchema

/// Checks the foreign keys of rows that were written while SQLite did not enforce them. Inside the transaction.
///
/// Rows that were not written may refer to nothing: they did so before.
struct ForeignKeyCheck {
    private let db: Database
    private let tables: TrackedTables
    private let orphans: AdmittedOrphans
    private var rows: [(table: TrackedTable, old: DeltaRecord?, new: DeltaRecord?)] = []

    init(_ db: Database, _ tables: TrackedTables, admitting orphans: AdmittedOrphans) {
        (self.db, self.tables, self.orphans) = (db, tables, orphans)
    }

    mutating func note(_ table: TrackedTable, _ old: DeltaRecord?, _ new: DeltaRecord?) {
        rows.append((table, old, new))
    }

    /// - Throws: ``SyncError`` `.foreignKeyViolation`
    func run() throws {
        guard db.isConfiguredForForeignKeys, tables.all.contains(where: { !$0.foreignKeys.isEmpty }) else { return }
        if case .all = orphans { return }
        if try rows.count > Limits.foreignKeyLookups && areWholeTablesRight() { return }
        for (table, old, new) in rows {
            guard let new else { continue }
            try checkParents(of: table, new, old: old?.cells)
        }
        for reference in try Reference.all(tables, in: db) { try checkChildren(reference) }
    }

    private func areWholeTablesRight() throws -> Bool {
        try tables.all.allSatisfy { table in
            try table.foreignKeys.isEmpty || db.foreignKeyCheck(of: table.name, in: "main").next() == nil
        }
    }

    private func checkParents(of table: TrackedTable, _ row: DeltaRecord, old: [ArraySlice<UInt8>]?) throws {
        let cells = row.cells
        for key in table.foreignKeys {
            let isSame = old.map { old in key.columns.allSatisfy { ByteOrder.areEqual(old[$0], cells[$0]) } }
            guard isSame != true, let values = Self.values(key.columns, cells) else { continue }
            let names = key.parentColumns.isEmpty ? try db.primaryKey(key.parent).columns : key.parentColumns
            if try exists(in: key.parent, names, values) { continue }
            if try orphans.contains(table, table.table.key(of: row)) { continue }
            throw SyncError(.foreignKeyViolation, table: table.name)
        }
    }

    /// Looks for rows that refer to what a row was, and is not any more.
    private func checkChildren(_ reference: Reference) throws {
        let parents = RowSearch(parentOf: reference, in: db)
        var gone: [(key: RowKey, form: KeyComparison.Form, values: [ArraySlice<UInt8>])] = []
        for (table, old, new) in rows where table.name == reference.parent.name {
            guard let old, let values = parents.values(old), new.flatMap(parents.values) != values,
                let form = try parents.form(old),
                try !parents.rows(form, values).contains(where: { try parents.isEqual($0, to: values) })
            else { continue }
            gone.append((table.table.key(of: old), form, values))
        }
        if gone.isEmpty { return }
        let children = try RowSearch(childrenOf: reference, in: db)
        try children.prepare(gone.map(\.form))
        for (parent, form, values) in gone {
            for row in try children.rows(form, values) where try children.isEqual(row, to: values) {
                let key = reference.child.table.key(of: row)
                if try orphans.contains(reference.child, key) || orphans.contains(reference.parent, parent) { continue }
                throw SyncError(.foreignKeyViolation, table: reference.child.name)
            }
        }
    }

    /// The values of some columns; nil where one is NULL, which refers to nothing.
    private static func values(_ columns: [Int], _ cells: [ArraySlice<UInt8>]) -> [ExactValue]? {
        if columns.contains(where: { cells[$0].first == Cell.null }) { return nil }
        return columns.compactMap { Cell.value(of: cells[$0]).exact }
    }

    private func exists(in table: String, _ columns: [String], _ values: [ExactValue]) throws -> Bool {
        let condition = columns.map { "\($0.quotedDatabaseIdentifier) = ?" }.joinedAsExpression(by: " AND ")
        let statement = try db.cachedStatement(
            sql: "SELECT 1 FROM main.\(table.quotedDatabaseIdentifier) WHERE \(condition) LIMIT 1")
        try statement.setExactArguments(values)
        return try !statement.records().isEmpty
    }
}

/// The rows that may refer to nothing, or be missing where another one refers to them.
///
/// A commit whose author did not enforce foreign keys is refused where they are enforced, so that its author repairs it. But
/// a merge is nobody's to repair: what a side has, it has. So a pull admits what was changed up to the last merge on its
/// way, whichever side the way leads through. A store without rows, or one that rejoins, has no other way to them than to
/// take them all.
enum AdmittedOrphans {
    case none
    case all
    case rows(MergedRows)

    /// Those of a pull from the head to a commit.
    static func ofMerges(
        _ transaction: RepositoryTransaction, _ graph: CommitGraph, to end: CommitNode
    ) -> AdmittedOrphans {
        transaction.state.head.map { .rows(MergedRows(transaction, graph, from: $0, to: end)) } ?? .all
    }

    func contains(_ table: TrackedTable, _ key: RowKey) throws -> Bool {
        switch self {
        case .none: false
        case .all: true
        case .rows(let rows): try rows.contains(table, key)
        }
    }
}

/// The rows that were changed on the way from one commit to another, up to the last merge. They are read when they are
/// asked for.
final class MergedRows {
    private let transaction: RepositoryTransaction
    private let graph: CommitGraph
    private let head: Int64
    private let end: CommitNode
    private var found: [String: Set<RowKey>]?

    init(_ transaction: RepositoryTransaction, _ graph: CommitGraph, from head: Int64, to end: CommitNode) {
        (self.transaction, self.graph, self.head, self.end) = (transaction, graph, head, end)
    }

    func contains(_ table: TrackedTable, _ key: RowKey) throws -> Bool {
        let known = try found ?? rows()
        found = known
        return known[table.name]?.contains(key) == true
    }

    private func rows() throws -> [String: Set<RowKey>] {
        let isUnder = try graph.isAncestor(head, of: end.n)
        let start = isUnder ? head : try graph.base(of: head, end.n).base?.n
        let steps = try graph.path(from: start, to: end.n) ?? []
        let last = try steps.lastIndex { try graph.node($0.child).kind == .merge }
        var rows: [String: Set<RowKey>] = [:]
        for step in steps[..<(last.map { $0 + 1 } ?? 0)] {
            let delta = try transaction.store.delta(step.child, fromParent: step.parent)
            for entry in try transaction.tables.fitting(delta).tables {
                for change in entry.changes {
                    rows[entry.table.name, default: []].insert(entry.table.key(of: change.keyRecord))
                }
            }
        }
        return rows
    }
}
