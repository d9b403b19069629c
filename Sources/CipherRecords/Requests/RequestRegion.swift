import CipherDatabase
import Foundation

// The region that requests read: see ``DatabaseRegion``.

extension Table: DatabaseRegionConvertible {
    /// The whole table; for a view, what the view reads.
    ///
    /// - Throws: `DatabaseError` when there is no such table.
    public func databaseRegion(_ db: Database) throws -> DatabaseRegion {
        try db.withoutWatching {
            if let name = try db.nameOfTable(tableName) { return DatabaseRegion(table: name) }
            if Database.isSchemaTable(tableName) { return DatabaseRegion(table: tableName) }
            return try SQLRequest<Row>(literal: "SELECT * FROM \(identifier: tableName)").databaseRegion(db)
        }
    }
}

extension Relation {
    /// The region of a statement that reads the relation, narrowed to the rows that its filters name.
    func region(readBy statement: Statement, _ db: Database) throws -> DatabaseRegion {
        let region = statement.databaseRegion
        guard !filters.isEmpty, let rowIDs = pinnedRowIDs(db) else { return region }
        // A table that is read in a second place is read there in other rows too.
        if readsQueries || joins.contains(where: { $0.relation.reads(table) }) || statement.readsIndirectly(table) {
            return region
        }
        return rowIDs.isEmpty ? DatabaseRegion() : region.narrowing(table, toRowIDs: rowIDs)
    }

    /// The region of the associations that are fetched for the rows of the relation: empty if it can have no row.
    func regionOfPrefetches(_ db: Database) throws -> DatabaseRegion {
        guard hasPrefetches, filters.isEmpty || pinnedRowIDs(db)?.isEmpty != true else { return DatabaseRegion() }
        var region = DatabaseRegion()
        for association in fetchedAssociations {
            let chain = association.chain
            let first = chain.pivots.first ?? chain.destination
            let pairs = try SchemaFacts(db).columnPairs(first.link, left: table, right: first.relation.table) ?? []
            let columns = pairs.map { (name: $0.right, alias: "grdb_" + $0.right) }
            let children = chain.request(where: Term(1.databaseValue), selecting: columns)
            region.formUnion(try QueryInterfaceRequest<Row>(relation: children).databaseRegion(db))
        }
        return region
    }

    // MARK: Other reads of the table

    /// Whether the relation or what is joined to it has this table.
    private func reads(_ table: String) -> Bool {
        self.table.lowercased() == table.lowercased() || joins.contains { $0.relation.reads(table) }
    }

    /// Whether there are queries within the query, which may read any table.
    private var readsQueries: Bool {
        !commonTables.isEmpty || filters.contains(where: \.holdsQuery) || groups.contains(where: \.holdsQuery)
            || having.contains(where: \.holdsQuery) || selection.contains(where: \.holdsQuery)
            || ordering.elements.contains(where: \.holdsQuery)
            || joins.contains { join in
                if case .condition(let term?, _, _) = join.link, term.holdsQuery { return true }
                return join.relation.readsQueries
            }
    }

    // MARK: Rows

    /// The rowids that the filters leave; nil where they leave others too.
    private func pinnedRowIDs(_ db: Database) -> Set<Int64>? {
        guard filters.contains(where: RowPins.mayName), let key = try? db.primaryKey(table), key.tableHasRowID
        else { return nil }
        let columns = (try? db.columns(in: table)) ?? []
        var names = Set(RowIDName.visible(beside: columns.map(\.name)))
        let keyIsRowID = key.isRowID
        if let column = key.rowIDColumn { names.insert(column.lowercased()) }
        let pins = RowPins(names: names, aliases: Set(aliases), keyIsRowID: keyIsRowID) { origin in
            try? SchemaFacts(db).columnPairs(origin.link, left: origin.table, right: table)
        }
        return pins.intersection(filters)
    }
}

/// Finds the rowids that a condition names.
private struct RowPins {
    /// The names of the rowid, in lower case.
    let names: Set<String>
    /// The aliases of the table.
    let aliases: Set<AliasID>
    let keyIsRowID: Bool
    /// The columns by which the table is linked to another one, where that is known.
    let columnPairs: (OriginRow) -> [Join.ColumnPair]?

    /// Whether a condition has a form that can name rowids, so that the schema must be asked.
    static func mayName(_ term: Term) -> Bool {
        guard case .node(let node) = term else { if case .value = term { return true } else { return false } }
        guard case .apply(let function, let operands) = node.operation else { return false }
        return switch function {
        case .chain: operands.contains(where: mayName)
        case .infix(.equal), .infix(.is), .among(negated: false), .primaryKey, .uniqueKeys, .linked: true
        case .infix, .prefix, .between, .among, .inRows, .exists, .like, .collate, .cast, .function, .choice, .named,
            .isEmpty, .amongRows:
            false
        }
    }

    /// The rowids for which a condition can be true; nil for any.
    func rowIDs(_ term: Term) -> Set<Int64>? {
        guard case .node(let node) = term else {
            guard case .value(let bound) = term else { return nil }
            let isTrue: Bool? = bound.value.isNull ? false : Bool.fromDatabaseValue(bound.value)
            return isTrue == false ? [] : nil
        }
        guard case .apply(let function, let operands) = node.operation else { return nil }
        switch function {
        case .chain(.and): return intersection(operands)
        case .chain(.or):
            var union: Set<Int64> = []
            for operand in operands {
                guard let rowIDs = rowIDs(operand) else { return nil }
                union.formUnion(rowIDs)
            }
            return union
        case .infix(.equal), .infix(.is):
            guard operands.count == 2 else { return nil }
            if isRowID(operands[0]) { return values(operands[1...]) }
            return isRowID(operands[1]) ? values(operands[..<1]) : nil
        case .among(negated: false): return operands.first.map(isRowID) == true ? values(operands[1...]) : nil
        case .primaryKey: return keyIsRowID ? values(operands[...]) : nil
        case .linked(let origin): return rowIDs(linkedTo: origin, operands)
        case .uniqueKeys(let columns):
            // Many keys are the rows of a query.
            guard operands.count.isMultiple(of: columns.count), !operands.contains(where: \.isSubquery) else {
                return nil
            }
            guard let index = columns.firstIndex(where: { names.contains($0.lowercased()) }) else { return nil }
            let keys = stride(from: index, to: operands.count, by: columns.count).map { operands[$0] }
            return values(keys[...])
        // No default: an operator that is missing here names no rows, and an observation of them sees no change.
        case .infix, .chain, .prefix, .between, .among, .inRows, .exists, .like, .collate, .cast, .function, .choice,
            .named, .isEmpty, .amongRows:
            return nil
        }
    }

    /// The rowids of the row that another one is linked to, as `belongsTo` does.
    ///
    /// - Parameter row: The values of the other row.
    private func rowIDs(linkedTo origin: OriginRow, _ row: [Term]) -> Set<Int64>? {
        guard let pairs = columnPairs(origin) else { return nil }
        return pairs.reduce(Set<Int64>?.none) { common, pair in
            let index = origin.columns.firstIndex { $0.lowercased() == pair.left.lowercased() }
            guard let index, let found = rowIDs(of: row[index], in: pair.right) else { return common }
            return common?.intersection(found) ?? found
        }
    }

    /// The rowids of the rows with a value in a column: none for NULL, which refers to nothing.
    private func rowIDs(of value: Term, in column: String) -> Set<Int64>? {
        if value.isNull { return [] }
        return names.contains(column.lowercased()) ? values([value]) : nil
    }

    /// The rowids for which all of some conditions can be true.
    func intersection(_ terms: [Term]) -> Set<Int64>? {
        terms.reduce(nil) { common, term in
            guard let rowIDs = rowIDs(term) else { return common }
            return common?.intersection(rowIDs) ?? rowIDs
        }
    }

    private func isRowID(_ term: Term) -> Bool {
        guard case .column(let name, let owner)? = term.operation, names.contains(name.lowercased()) else {
            return false
        }
        switch owner {
        case .request: return true
        case .alias(let alias): return aliases.contains(alias)
        case .named, .nobody: return false
        }
    }

    /// Values that are compared with the rowid; nil where SQLite would convert one of them.
    private func values(_ terms: ArraySlice<Term>) -> Set<Int64>? {
        var values: Set<Int64> = []
        for term in terms {
            guard case .value(let bound) = term else { return nil }
            switch bound.value.storage {
            case .null: break
            case .int64(let number): values.insert(number)
            default: return nil
            }
        }
        return values
    }
}

extension Term {
    /// Whether a query stands in the expression.
    fileprivate var holdsQuery: Bool {
        switch operation {
        case nil, .column, .fastKey: false
        case .apply(_, let operands): operands.contains(where: \.holdsQuery)
        case .located(_, let term), .inTable(_, let term), .json(let term): term.holdsQuery
        case .literal(let literal): literal.holdsQuery
        case .columns(let selection, _, _): selection.contains(where: \.holdsQuery)
        case .subquery, .bareQuery, .tableName, .definition, .deferred: true
        }
    }
}

extension Ordering.Element {
    fileprivate var holdsQuery: Bool {
        switch self {
        case .term(let term, _): term.holdsQuery
        case .primaryKey: false
        case .deferred: true
        }
    }
}

extension Selection {
    fileprivate var holdsQuery: Bool {
        switch self {
        case .allColumns, .allColumnsExcluding, .primaryKey, .one: false
        case .expression(let term): term.holdsQuery
        case .literal(let literal): literal.holdsQuery
        case .located(_, let selection), .inTable(_, let selection): selection.contains(where: \.holdsQuery)
        case .deferred: true
        }
    }
}

extension LiteralText {
    fileprivate var holdsQuery: Bool {
        pieces.contains { piece in
            switch piece {
            // `IN table` reads a table too.
            case .text(let text, _):
                text.range(of: #"\b(select|in\s+[^\s(])"#, options: [.regularExpression, .caseInsensitive]) != nil
            case .node(let node): Term.node(node).holdsQuery
            case .failure: true
            }
        }
    }
}
