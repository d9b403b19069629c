import CipherDatabase

/// How the columns of a row are divided among the tables of a join: the row's own columns come first, then those of
/// each joined table, which become a scope of the row.
struct ScopeLayout {
    /// The columns of the table itself.
    var columnCount: Int
    /// The joined tables that selected something, or whose own joined tables did.
    var scopes: [(key: String, layout: ScopeLayout)]

    /// The columns of the table and of all that is joined to it.
    var totalColumnCount: Int { columnCount + scopes.reduce(0) { $0 + $1.layout.totalColumnCount } }

    /// Shows rows in this way.
    var adapter: any RowAdapter { adapter(from: 0) }

    private func adapter(from start: Int) -> any RowAdapter {
        var position = start + columnCount
        var adapters: [String: any RowAdapter] = [:]
        for (key, layout) in scopes {
            adapters[key] = layout.adapter(from: position)
            position += layout.totalColumnCount
        }
        return RangeRowAdapter(start..<(start + columnCount)).addingScopes(adapters)
    }
}

extension SQLGenerator {
    /// The layout of a table in the query that is written; nil when no table that is joined to it selects anything.
    func scopeLayout(ofPlace index: Int) throws -> ScopeLayout? {
        guard let scope = scopes.last,
            scope.places.dropFirst().contains(where: { !$0.relation.selection.isEmpty })
        else { return nil }
        let layout = try layout(ofPlace: index, in: scope)
        return layout.scopes.isEmpty ? nil : layout
    }

    private func layout(ofPlace index: Int, in scope: TableScope) throws -> ScopeLayout {
        let relation = scope.places[index].relation
        var layout = ScopeLayout(
            columnCount: try columnCount(of: relation.selection, ofPlace: index, in: scope), scopes: [])
        for child in scope.places.indices.dropFirst() where scope.places[child].parent == index {
            let inner = try self.layout(ofPlace: child, in: scope)
            guard let join = scope.places[child].join, inner.totalColumnCount > 0 else { continue }
            layout.scopes.append((join.key, inner))
        }
        return layout
    }

    func columnCount(of selections: [Selection], ofPlace index: Int, in scope: TableScope) throws -> Int {
        let table = scope.places[index].relation.table
        return try selections.reduce(0) { count, selection in
            switch selection {
            case .expression, .one: return count + 1
            case .allColumns: return count + (try columns(of: table).count)
            case .allColumnsExcluding(let excluded, _):
                let excluded = Set(excluded.map(\.lowercasedASCII))
                return try count + columns(of: table).count { !excluded.contains($0.lowercasedASCII) }
            case .primaryKey: return count + (try facts.primaryKey(table).columns.count)
            case .located(let path, let selections):
                guard let place = scope.place(at: path, from: index) else { return count }
                return try count + columnCount(of: selections, ofPlace: place, in: scope)
            case .inTable(let alias, let selections):
                guard let place = scope.places.firstIndex(where: { $0.aliases.contains(alias) }) else { return count }
                return try count + columnCount(of: selections, ofPlace: place, in: scope)
            case .literal, .deferred:
                throw misuse(
                    "the columns of SQL text cannot be counted in a request that includes other tables: select them one "
                        + "by one")
            }
        }
    }

    /// The names of the columns of a table or a common table expression.
    func columns(of table: String) throws -> [String] {
        do {
            return try findColumns(of: table)
        } catch let error as CircularColumns where askedTables.isEmpty {
            throw misuse(
                "common table expression \(error.table) is made of its own columns: give it their names")
        }
    }

    /// - Throws: ``CircularColumns``.
    private func findColumns(of table: String) throws -> [String] {
        let name = table.lowercasedASCII
        func isTable(_ common: CommonTable) -> Bool { common.name.lowercasedASCII == name }
        guard let depth = commonTables.lastIndex(where: { $0.contains(where: isTable) }),
            let common = commonTables[depth].first(where: isTable)
        else { return try facts.columns(table) }
        if let columns = common.columns, !columns.isEmpty { return columns }
        var query = SQLGenerator(facts: facts)
        query.askedTables = askedTables
        guard query.askedTables.insert(name).inserted else {
            throw CircularColumns(table: table)
        }
        // Those of one statement see each other, in any order, and those of the statements around it.
        let groups = commonTables[...depth].filter { !$0.isEmpty }
        var isComplete = true
        for (index, group) in groups.enumerated() {
            if index > 0 { query.write("SELECT * FROM (") }
            query.commonTables.append(group)
            isComplete = try query.writeUncircular(group) && isComplete
        }
        query.write("SELECT * FROM ")
        query.write(identifier: table)
        query.write(String(repeating: ")", count: groups.count - 1))
        do {
            return try facts.columnsOfQuery(query.text)
        } catch  where !isComplete {
            // It reads one of those that need its columns.
            throw CircularColumns(table: table)
        }
    }

    /// Writes common table expressions before a statement, without those that need the columns which are being asked for.
    ///
    /// - Returns: Whether all of them were written.
    private mutating func writeUncircular(_ tables: [CommonTable]) throws -> Bool {
        var count = 0
        for table in tables {
            var next = self
            next.write(count > 0 ? ", " : tables.contains(where: \.isRecursive) ? "WITH RECURSIVE " : "WITH ")
            do {
                try next.write(table)
            } catch is CircularColumns {
                continue
            }
            (self, count) = (next, count + 1)
        }
        if count > 0 { write(" ") }
        return count == tables.count
    }

    /// Whether a table has a primary key: not a view of which none is known, and no common table expression.
    func hasKey(_ table: String) throws -> Bool {
        let name = table.lowercasedASCII
        if commonTables.joined().contains(where: { $0.name.lowercasedASCII == name }) { return false }
        return try facts.hasKey(table)
    }
}

/// The columns of a common table expression are asked for while its own text is written.
private struct CircularColumns: Error {
    let table: String
}
