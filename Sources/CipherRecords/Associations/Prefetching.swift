import CipherDatabase

/// Fetches the rows of `including(all:)`: one query for each association, for all rows of the request together.
///
/// The rows of the request are fetched first. From them come the values that the association's columns have; they are
/// the filter of a request for its rows, which selects those columns once more, as `grdb_...`, so that each row finds
/// its way back.
struct Prefetching {
    let db: Database
    /// The most keys of several columns in one query: SQLite takes a limited number of parameters.
    static let mostCompositeKeys = 500

    init(_ db: Database) { self.db = db }

    /// The rows of a request with what it includes.
    func addPrefetchedRows(of relation: Relation, to rows: [Row]) throws -> [Row] {
        // No row, no query.
        if rows.isEmpty { return rows }
        return Row.adding(try trees(of: relation, rows, bases: rows.map(\.unadapted)), to: rows)
    }

    /// What is fetched for each row.
    ///
    /// - Parameters:
    ///   - rows: The rows of the relation: those of the request, or one of their scopes.
    ///   - bases: The rows that the statement returned.
    private func trees(of relation: Relation, _ rows: [Row], bases: [Row]) throws -> [PrefetchedRows] {
        var fetched: [(key: String, rows: [[Row]])] = []
        for chain in relation.prefetches {
            if fetched.contains(where: { $0.key == chain.pluralKey }) {
                throw misuse(
                    "two different associations of table \(relation.table) have the key \(chain.pluralKey): give one of "
                        + "them another, by forKey(_:)")
            }
            fetched.append((chain.pluralKey, try groups(of: chain, from: relation.table, rows[0], bases)))
        }
        var scopes: [(key: String, trees: [PrefetchedRows])] = []
        for join in relation.joins where join.relation.hasPrefetches {
            // All rows have the same layout, so the first scope stands for all.
            let scope = rows[0].scopes[join.key] ?? Row()
            let trees = try trees(of: join.relation, [scope], bases: bases)
            scopes.append((join.key, trees))
        }
        return bases.indices.map { index in
            PrefetchedRows(
                rows: Dictionary(uniqueKeysWithValues: fetched.map { ($0.key, $0.rows[index]) }),
                scopes: Dictionary(uniqueKeysWithValues: scopes.map { ($0.key, $0.trees[index]) }))
        }
    }

    /// The rows of an association, for each row of its origin.
    private func groups(of chain: AssociationChain, from table: String, _ row: Row, _ bases: [Row]) throws -> [[Row]] {
        let first = chain.pivots.first ?? chain.destination
        guard let pairs = try SchemaFacts(db).columnPairs(first.link, left: table, right: first.relation.table) else {
            throw misuse("association \(chain.pluralKey) is a condition: join it, by including(required:)")
        }
        let positions = try pairs.map { pair in
            guard let position = row.unadaptedIndex(of: pair.left) else {
                throw misuse(
                    "including(all:) of association \(chain.pluralKey) needs column \(pair.left) of table \(table): "
                        + "select it too")
            }
            return position
        }
        let columns = pairs.map(\.right)
        if columns.count > 1 {
            return try groups(of: chain, bases, positions, columns, keys: CompositeKeys())
        }
        return try groups(of: chain, bases, positions, columns, keys: SingleKeys())
    }

    private func groups<Keys: LinkingKeys>(
        of chain: AssociationChain, _ bases: [Row], _ positions: [Int], _ columns: [String], keys reader: Keys
    ) throws -> [[Row]] {
        let keys = bases.map { reader.key(of: $0, at: positions) }
        // NULL refers to nothing.
        let wanted = Set(keys.filter { !reader.isNull($0) })
        if wanted.isEmpty { return bases.map { _ in [] } }
        let selected = columns.map { (name: $0, alias: "grdb_" + $0) }
        var groups: [Keys.Key: [Row]] = [:]
        for condition in reader.conditions(wanted, columns.map { Term(.column($0, .request)) }) {
            let relation = chain.request(where: condition, selecting: selected)
            let children = try QueryInterfaceRequest<Row>(relation: relation).fetchAll(db)
            guard let first = children.first else { continue }
            let positions = try selected.map { column in
                guard let position = first.unadaptedIndex(of: column.alias) else {
                    throw misuse("association \(chain.pluralKey) has no column \(column.alias) to find its rows by")
                }
                return position
            }
            for child in children { groups[reader.key(of: child.unadapted, at: positions), default: []].append(child) }
        }
        return keys.map { groups[$0] ?? [] }
    }

    private func misuse(_ message: String) -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_MISUSE, message: message)
    }
}

/// How the values of linking columns are read, compared and written.
private protocol LinkingKeys {
    associatedtype Key: Hashable
    func key(of row: Row, at positions: [Int]) -> Key
    func isNull(_ key: Key) -> Bool
    /// Conditions that find all rows with these keys: one for each query.
    func conditions(_ keys: Set<Key>, _ columns: [Term]) -> [Term]
}

/// Keys of one column.
private struct SingleKeys: LinkingKeys {
    func key(of row: Row, at positions: [Int]) -> DatabaseValue { row.databaseValue(at: positions[0]) }
    func isNull(_ key: DatabaseValue) -> Bool { key.isNull }

    func conditions(_ keys: Set<DatabaseValue>, _ columns: [Term]) -> [Term] {
        // In order: the same keys are always the same query, and found in the order of the index.
        [columns[0].isAmong(keys.sorted(by: DatabaseValue.isOrdered).map { Term($0) })]
    }
}

/// Keys of several columns.
private struct CompositeKeys: LinkingKeys {
    func key(of row: Row, at positions: [Int]) -> [DatabaseValue] { positions.map { row.databaseValue(at: $0) } }
    func isNull(_ key: [DatabaseValue]) -> Bool { key.contains(where: \.isNull) }

    func conditions(_ keys: Set<[DatabaseValue]>, _ columns: [Term]) -> [Term] {
        let keys = keys.sorted { $0.lexicographicallyPrecedes($1, by: DatabaseValue.isOrdered) }
        return stride(from: 0, to: keys.count, by: Prefetching.mostCompositeKeys).map { start in
            let values = keys[start..<min(start + Prefetching.mostCompositeKeys, keys.count)].joined().map { Term($0) }
            return Term(.apply(.amongRows(columns.count), columns + values))
        }
    }
}

extension DatabaseValue {
    /// The order in which SQLite sorts values.
    fileprivate static func isOrdered(_ left: DatabaseValue, _ right: DatabaseValue) -> Bool {
        switch (left.storage, right.storage) {
        case (.int64(let left), .int64(let right)): return left < right
        case (.double(let left), .double(let right)): return left < right
        case (.int64(let left), .double(let right)): return Double(left) < right
        case (.double(let left), .int64(let right)): return left < Double(right)
        case (.string(let left), .string(let right)): return left.utf8.lexicographicallyPrecedes(right.utf8)
        case (.blob(let left), .blob(let right)): return left.lexicographicallyPrecedes(right)
        default: return rank(left) < rank(right)
        }
    }

    private static func rank(_ value: DatabaseValue) -> Int {
        switch value.storage {
        case .null: 0
        case .int64, .double: 1
        case .string: 2
        case .blob: 3
        }
    }
}
