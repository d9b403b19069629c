import CipherDatabase
import CipherSchema

// DELETE and UPDATE of the rows of a request.

extension SQLGenerator {
    mutating func writeDelete(_ relation: Relation, returning: [Selection]) throws {
        try writeChange(of: relation, verb: "DELETE FROM ", returning: returning) { _ in }
    }

    mutating func writeUpdate(
        _ relation: Relation, _ assignments: [Assignment], _ policy: Database.ConflictResolution?,
        returning: [Selection]
    ) throws {
        let clause = policy.map { $0 == .abort ? "" : "OR \($0.rawValue) " } ?? ""
        try writeChange(of: relation, verb: "UPDATE \(clause)", returning: returning) { generator in
            generator.write(" SET ")
            try generator.write(assignments) { generator, assignment in
                generator.write(identifier: assignment.column)
                generator.write(" = ")
                try generator.write(assignment.value)
            }
        }
    }

    /// Writes a statement that changes the rows of a request.
    ///
    /// DELETE and UPDATE cannot express joins, groups and limits: a query for the keys of the rows does. SQLite takes a
    /// limit only where it was built so, and a query of keys means the same everywhere.
    private mutating func writeChange(
        of relation: Relation, verb: String, returning: [Selection],
        _ writeAssignments: (inout SQLGenerator) throws -> Void
    ) throws {
        var changed = relation
        changed.commonTables = []
        changed.ordering = Ordering()
        let commonTables = try commonTables(of: relation)
        if commonTables.contains(where: { $0.name.lowercasedASCII == relation.table.lowercasedASCII }) {
            throw misuse(
                "the request reads the common table expression \(relation.table), and SQL would change the rows of the table "
                    + "of that name: give the expression another name")
        }
        let outer = self.commonTables
        self.commonTables.append(commonTables)
        defer { self.commonTables = outer }
        try write(commonTables)
        if !relation.canBeChangedDirectly {
            changed = Relation(table: relation.table)
            // Assignments and returned values may name them. Within the query, they are its own.
            changed.aliases = relation.aliases
            changed.filters = [try keyCondition(relation)]
        }
        try within(changed) { generator in
            generator.write(verb)
            generator.write(identifier: changed.table)
            if let scope = generator.scopes.last, scope.isRenamed(0) {
                generator.write(" AS " + scope.places[0].name.quotedDatabaseIdentifier)
            }
            try writeAssignments(&generator)
            try generator.write(conditions: changed.filters, after: " WHERE ")
            if returning.isEmpty { return }
            generator.write(" RETURNING ")
            // SQLite knows the table by its own name alone there.
            // https://www.sqlite.org/lang_returning.html#limitations_and_caveats
            generator.current.qualifier = nil
            if let scope = generator.scopes.popLast() { generator.scopes.append(scope.withTableName) }
            try generator.write(returning) { generator, selection in try generator.write(selection) }
        }
    }

    /// That the key of a row is among those of a request.
    private func keyCondition(_ relation: Relation) throws -> Term {
        let columns = try facts.fastKey(of: relation.table)
        if !relation.groups.isEmpty, !(try isGroupedByUniqueKey(relation)) {
            throw misuse(
                "the rows of a grouped request can be changed only where each group is one row: group by a unique key of "
                    + "table \(relation.table)")
        }
        let keepsSelection = relation.limit != nil && relation.mayOrderBySelection
        if keepsSelection, relation.groups.isEmpty,
            !relation.having.isEmpty || relation.selection.contains(where: \.isAggregate)
        {
            throw misuse(
                "the rows of a request with a limit cannot be changed if an aggregate makes one row of them: remove "
                    + "the aggregate, or group by a unique key of table \(relation.table)")
        }
        var keys = relation.joins.isEmpty || keepsSelection ? relation : relation.joiningOnly
        keys = keys.withoutCommonTables
        if relation.isDistinct, relation.limit != nil, relation.groups.isEmpty {
            // The limit counts different rows.
            guard try isDistinctByKey(relation) else {
                throw misuse(
                    "the rows of a request with distinct() and a limit can be changed only where each row of the request "
                        + "is another row of table \(relation.table): select its primary key, and no columns of joined "
                        + "tables")
            }
        } else {
            keys.isDistinct = false
        }
        if keepsSelection {
            keys.keyColumns = columns
        } else {
            keys.selection = columns.map { .expression(Term(.column($0, .request))) }
        }
        keys = keys.withoutOrder
        let names = columns.map(\.quotedDatabaseIdentifier).joined(separator: ", ")
        let key =
            columns.count == 1
            ? Term(.column(columns[0], .request)) : Term(.literal(LiteralText(SQL(sql: names))))
        return Term(.apply(.inRows(negated: false), [key, Term(.subquery(.relation(keys)))]))
    }

    /// Whether two different rows of the request are two rows of its table, and the other way round.
    private func isDistinctByKey(_ relation: Relation) throws -> Bool {
        guard try facts.hasKey(relation.table), relation.joins.allSatisfy(\.relation.selectsNothing) else {
            return false
        }
        let key = try facts.primaryKey(relation.table).columns.map(\.lowercasedASCII)
        var found: Set<String> = []
        for selection in relation.selection {
            switch selection {
            case .allColumns(.request), .primaryKey(.request): found.formUnion(key)
            case .allColumnsExcluding(let excluded, .request):
                found.formUnion(Set(key).subtracting(excluded.map(\.lowercasedASCII)))
            case .expression(let term):
                guard case .column(let name, .request) = term.operation else { return false }
                found.insert(name.lowercasedASCII)
            default: return false
            }
        }
        return found.isSuperset(of: key)
    }

    private func isGroupedByUniqueKey(_ relation: Relation) throws -> Bool {
        let columns = relation.groups.compactMap(\.identifyingColumn)
        if relation.groups.contains(where: { $0.operation == .fastKey(.request) }) { return true }
        return try facts.isUniqueKey(columns, relation.table)
    }
}

extension Selection {
    /// Whether it may give an expression a name in the result: SQL text may.
    fileprivate var mayHaveName: Bool {
        switch self {
        case .allColumns, .allColumnsExcluding, .primaryKey, .one: false
        case .expression(let term): term.mayHaveName
        case .located(_, let selections), .inTable(_, let selections): selections.contains(where: \.mayHaveName)
        case .literal, .deferred: true
        }
    }
}

extension Ordering.Element {
    /// Whether SQL text of the program stands in it.
    fileprivate var hasText: Bool {
        switch self {
        case .term(let term, _): term.hasText
        case .primaryKey: false
        case .deferred: true
        }
    }
}

extension Term {
    /// Whether it may have a name in the result: SQL text may.
    fileprivate var mayHaveName: Bool {
        switch operation {
        case nil, .column, .fastKey, .subquery, .bareQuery, .tableName: false
        case .apply(.named, _)?, .literal?, .definition?, .columns?, .deferred?: true
        case .apply(_, let operands)?: operands.contains(where: \.mayHaveName)
        case .located(_, let term)?, .inTable(_, let term)?, .json(let term)?: term.mayHaveName
        }
    }

    /// Whether SQL text of the program stands in the expression, outside of a query.
    fileprivate var hasText: Bool {
        switch operation {
        case nil, .column, .fastKey, .subquery, .bareQuery, .tableName: false
        case .literal?, .definition?, .columns?, .deferred?: true
        case .apply(_, let operands)?: operands.contains(where: \.hasText)
        case .located(_, let term)?, .inTable(_, let term)?, .json(let term)?: term.hasText
        }
    }

    /// The column that has different values wherever the expression has.
    fileprivate var identifyingColumn: String? {
        switch operation {
        case .column(let name, .request)?: name
        case .apply(.prefix(.minus), let operands)?: operands[0].identifyingColumn
        default: nil
        }
    }
}

extension Relation {
    /// The name of a column in ``keyColumns`` among the selected ones.
    static func keyName(_ index: Int) -> String { "grdb_key\(index)" }

    /// Whether the order may name a selected expression, or its position: ORDER BY finds names among the results first.
    /// - SeeAlso: <https://www.sqlite.org/lang_select.html#orderby>
    fileprivate var mayOrderBySelection: Bool {
        selection.contains(where: \.mayHaveName) || ordering.isStable || ordering.elements.contains(where: \.hasText)
            || joins.contains(where: \.relation.mayOrderBySelection)
    }

    fileprivate var canBeChangedDirectly: Bool {
        joins.isEmpty && groups.isEmpty && limit == nil && !isDistinct && having.isEmpty
    }

    fileprivate var selectsNothing: Bool {
        selection.isEmpty && joins.allSatisfy(\.relation.selectsNothing)
    }

    /// The same rows, with nothing selected from joined tables.
    private func withoutSelection() -> Relation {
        var relation = joiningOnly
        relation.selection = []
        return relation
    }

    /// The same rows in a statement that has the common table expressions already.
    fileprivate var withoutCommonTables: Relation {
        var relation = self
        relation.commonTables = []
        relation.joins = joins.map { join in
            var join = join
            join.relation = join.relation.withoutCommonTables
            return join
        }
        return relation
    }

    fileprivate var joiningOnly: Relation {
        var relation = self
        relation.joins = joins.map { join in
            var join = join
            join.relation = join.relation.withoutSelection()
            return join
        }
        return relation
    }
}
