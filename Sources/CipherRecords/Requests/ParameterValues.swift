import CipherDatabase

// The values of a request in one fixed order, and the same request with other values in their places. Both go the same
// way through the request; `StatementPlan` checks that they do, for each request that it keeps.

extension StatementRequest {
    func forEachValue(_ body: (DatabaseValue) -> Void) {
        switch self {
        case .select(let relation, _), .count(let relation), .exists(let relation): relation.forEachValue(body)
        case .delete(let relation, let returning):
            relation.forEachValue(body)
            for selection in returning { selection.forEachValue(body) }
        case .update(let relation, let assignments, _, let returning):
            relation.forEachValue(body)
            for assignment in assignments { assignment.value.forEachValue(body) }
            for selection in returning { selection.forEachValue(body) }
        }
    }

    func mapValues(_ transform: (DatabaseValue) -> DatabaseValue) -> StatementRequest {
        switch self {
        case .select(let relation, let singleResult):
            return .select(relation.mapValues(transform), singleResult: singleResult)
        case .count(let relation): return .count(relation.mapValues(transform))
        case .exists(let relation): return .exists(relation.mapValues(transform))
        case .delete(let relation, let returning):
            let relation = relation.mapValues(transform)
            return .delete(relation, returning: returning.map { $0.mapValues(transform) })
        case .update(let relation, let assignments, let policy, let returning):
            let relation = relation.mapValues(transform)
            let assigned = assignments.map { Assignment(column: $0.column, value: $0.value.mapValues(transform)) }
            return .update(relation, assigned, policy, returning: returning.map { $0.mapValues(transform) })
        }
    }
}

extension Term {
    /// NULL is left out: it is a part of the text.
    func forEachValue(_ body: (DatabaseValue) -> Void) {
        switch self {
        case .value(let bound): if !bound.value.isNull { body(bound.value) }
        case .node(let node):
            switch node.operation {
            case .column, .fastKey, .tableName: break
            case .apply(_, let operands): for operand in operands { operand.forEachValue(body) }
            case .located(_, let term): term.forEachValue(body)
            case .literal(let text): text.forEachValue(body)
            case .subquery(let query), .bareQuery(let query): query.forEachValue(body)
            case .definition(let table): table.query.forEachValue(body)
            case .columns(let selections, _, _): for selection in selections { selection.forEachValue(body) }
            }
        }
    }

    func mapValues(_ transform: (DatabaseValue) -> DatabaseValue) -> Term {
        switch self {
        case .value(let bound): return bound.value.isNull ? self : Term(transform(bound.value))
        case .node(let node): return .node(node.mapValues(transform))
        }
    }
}

extension Node {
    func mapValues(_ transform: (DatabaseValue) -> DatabaseValue) -> Node {
        switch operation {
        case .column, .fastKey, .tableName: self
        case .apply(let function, let operands):
            Node(.apply(function, operands.map { $0.mapValues(transform) }))
        case .located(let path, let term): Node(.located(path, term.mapValues(transform)))
        case .literal(let text): Node(.literal(text.mapValues(transform)))
        case .subquery(let query): Node(.subquery(query.mapValues(transform)))
        case .bareQuery(let query): Node(.bareQuery(query.mapValues(transform)))
        case .definition(let table): Node(.definition(table.mapValues(transform)))
        case .columns(let selections, let table, let qualifier):
            Node(.columns(selections.map { $0.mapValues(transform) }, table: table, qualifier: qualifier))
        }
    }
}

extension LiteralText {
    func forEachValue(_ body: (DatabaseValue) -> Void) {
        for piece in pieces {
            switch piece {
            case .text(_, let values): for raw in values { body(raw.value) }
            case .node(let node): Term.node(node).forEachValue(body)
            case .failure: break
            }
        }
    }

    func mapValues(_ transform: (DatabaseValue) -> DatabaseValue) -> LiteralText {
        var mapped = self
        mapped.pieces = pieces.map { piece in
            switch piece {
            case .text(let text, let values): .text(text, values.map { RawValue(value: transform($0.value)) })
            case .node(let node): .node(node.mapValues(transform))
            case .failure: piece
            }
        }
        return mapped
    }
}

extension Subquery {
    func forEachValue(_ body: (DatabaseValue) -> Void) {
        switch self {
        case .relation(let relation): relation.forEachValue(body)
        case .literal(let text): text.forEachValue(body)
        }
    }

    func mapValues(_ transform: (DatabaseValue) -> DatabaseValue) -> Subquery {
        switch self {
        case .relation(let relation): .relation(relation.mapValues(transform))
        case .literal(let text): .literal(text.mapValues(transform))
        }
    }
}

extension CommonTable {
    func mapValues(_ transform: (DatabaseValue) -> DatabaseValue) -> CommonTable {
        var mapped = self
        mapped.query = query.mapValues(transform)
        return mapped
    }
}

extension Selection {
    func forEachValue(_ body: (DatabaseValue) -> Void) {
        switch self {
        case .expression(let term): term.forEachValue(body)
        case .literal(let text): text.forEachValue(body)
        case .located(_, let selections): for selection in selections { selection.forEachValue(body) }
        case .allColumns, .allColumnsExcluding, .primaryKey, .one: break
        }
    }

    func mapValues(_ transform: (DatabaseValue) -> DatabaseValue) -> Selection {
        switch self {
        case .expression(let term): .expression(term.mapValues(transform))
        case .literal(let text): .literal(text.mapValues(transform))
        case .located(let path, let selections): .located(path, selections.map { $0.mapValues(transform) })
        case .allColumns, .allColumnsExcluding, .primaryKey, .one: self
        }
    }
}

extension Relation {
    func forEachValue(_ body: (DatabaseValue) -> Void) {
        for table in commonTables { table.query.forEachValue(body) }
        for selection in selection { selection.forEachValue(body) }
        for filter in filters { filter.forEachValue(body) }
        for group in groups { group.forEachValue(body) }
        for condition in having { condition.forEachValue(body) }
        for case .term(let term, _) in ordering.elements { term.forEachValue(body) }
        if let offset = limit?.offset { body(offset.value) }
        for join in joins {
            if case .condition(let condition?, _, _) = join.link { condition.forEachValue(body) }
            join.relation.forEachValue(body)
        }
    }

    func mapValues(_ transform: (DatabaseValue) -> DatabaseValue) -> Relation {
        var mapped = self
        mapped.commonTables = commonTables.map { $0.mapValues(transform) }
        mapped.selection = selection.map { $0.mapValues(transform) }
        mapped.filters = filters.map { $0.mapValues(transform) }
        mapped.groups = groups.map { $0.mapValues(transform) }
        mapped.having = having.map { $0.mapValues(transform) }
        mapped.ordering.elements = ordering.elements.map { element in
            if case .term(let term, let direction) = element {
                .term(term.mapValues(transform), direction)
            } else {
                element
            }
        }
        mapped.limit?.offset = limit?.offset.map { BoundValue(value: transform($0.value)) }
        mapped.joins = joins.map { join in
            var mapped = join
            if case .condition(let condition?, let left, let right) = join.link {
                mapped.link = .condition(condition.mapValues(transform), left: left, right: right)
            }
            mapped.relation = join.relation.mapValues(transform)
            return mapped
        }
        return mapped
    }
}
