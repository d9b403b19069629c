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
        if relation.groups.isEmpty, !relation.having.isEmpty || relation.selection.contains(where: \.isAggregate) {
            throw misuse(
                "the rows of a request cannot be changed if an aggregate makes one row of them: remove the aggregate, or "
                    + "group by the primary key of table \(relation.table)")
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
                "the rows of a grouped request can be changed only where each group is one row: group by the primary key of "
                    + "table \(relation.table), or by a unique key that is never NULL")
        }
        // A limit depends on the order, which may name what is selected, and without one on the columns.
        let keepsSelection = relation.limit != nil
        var keys = relation.joins.isEmpty || keepsSelection ? relation : relation.joiningOnly
        keys = keys.withoutCommonTables
        if relation.isDistinct, relation.limit != nil {
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
        let columns = try facts.columns(relation.table).map(\.lowercasedASCII)
        var found: Set<String> = []
        for selection in relation.selection {
            switch selection {
            case .allColumns(.request): found.formUnion(columns)
            case .primaryKey(.request): found.formUnion(try facts.primaryKey(relation.table).columns)
            case .allColumnsExcluding(let excluded, .request):
                found.formUnion(Set(columns).subtracting(excluded.map(\.lowercasedASCII)))
            case .expression(let term):
                guard case .column(let name, .request) = term.operation else { return false }
                found.insert(name.lowercasedASCII)
            default: return false
            }
        }
        return try facts.separatesRows(Array(found), relation.table)
    }

    /// Whether each group is one row of the table.
    private func isGroupedByUniqueKey(_ relation: Relation) throws -> Bool {
        if relation.groups.contains(where: { $0.operation == .fastKey(.request) }) { return true }
        let rowID = try facts.hasKey(relation.table) ? facts.primaryKey(relation.table).rowIDColumn : nil
        let columns = relation.groups.compactMap { term -> String? in
            switch term.operation {
            case .column(let name, .request)?: return name
            // Only of integers: the minus of each text is 0.
            case .apply(.prefix(.minus), let operands)?:
                guard case .column(let name, .request)? = operands[0].operation else { return nil }
                return name.lowercasedASCII == rowID?.lowercasedASCII ? name : nil
            default: return nil
            }
        }
        return try facts.separatesRows(columns, relation.table)
    }
}

extension Relation {
    /// The name of a column in ``keyColumns`` among the selected ones.
    static func keyName(_ index: Int) -> String { "grdb_key\(index)" }

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
