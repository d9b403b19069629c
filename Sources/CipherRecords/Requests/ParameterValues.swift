import CipherDatabase

// The values of a request in one fixed order, and the same request with other values in their places. Both go the same
// way through the request; `CompiledRequest` checks that they do, for each request that it keeps.

/// The replaced parts in a copy of a request.
final class Rewriting {
    /// The value to put in the place of another one.
    let value: (DatabaseValue) -> DatabaseValue
    /// Runs the closures of parts that need a connection; nil leaves these parts as they are.
    let database: Database?
    /// Whether there was any such part, or an alias without a name.
    private(set) var hasResolved = false

    /// The aliases without names that have come so far.
    private var unnamed: [AliasID] = []

    init(database: Database? = nil, value: @escaping (DatabaseValue) -> DatabaseValue = { $0 }) {
        self.database = database
        self.value = value
    }

    /// The alias that takes the place of another one: itself, if it has a name.
    func alias(_ alias: AliasID) -> AliasID {
        if alias.name != nil { return alias }
        let index = unnamed.firstIndex { $0 === alias } ?? unnamed.count
        if index == unnamed.count { unnamed.append(alias) }
        guard index < AliasID.places.count else { return alias }
        let place = AliasID.places[index]
        if place !== alias { hasResolved = true }
        return place
    }

    func owner(_ owner: ColumnOwner) -> ColumnOwner {
        if case .alias(let alias) = owner { return .alias(self.alias(alias)) }
        return owner
    }

    /// The elements that a closure makes; nil where it stays.
    func elements<Element>(of deferred: Deferred<Element>) throws -> [Element]? {
        guard let database else { return nil }
        hasResolved = true
        return try deferred.make(database)
    }
}

/// A part of a request that a closure of the program makes when the request gets a connection.
final class Deferred<Element>: Hashable, Sendable {
    let make: @Sendable (Database) throws -> [Element]

    init(_ make: @escaping @Sendable (Database) throws -> [Element]) { self.make = make }

    static func == (left: Deferred, right: Deferred) -> Bool { left === right }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

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

    func rewritten(_ rewriting: Rewriting) throws -> StatementRequest {
        switch self {
        case .select(let relation, let singleResult):
            return .select(try relation.rewritten(rewriting), singleResult: singleResult)
        case .count(let relation): return .count(try relation.rewritten(rewriting))
        case .exists(let relation): return .exists(try relation.rewritten(rewriting))
        case .delete(let relation, let returning):
            let relation = try relation.rewritten(rewriting)
            return .delete(relation, returning: try returning.rewritten(rewriting))
        case .update(let relation, let assignments, let policy, let returning):
            let relation = try relation.rewritten(rewriting)
            let assigned = try assignments.map {
                Assignment(column: $0.column, value: try $0.value.rewritten(rewriting))
            }
            return .update(relation, assigned, policy, returning: try returning.rewritten(rewriting))
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
            case .inTable(_, let term), .json(let term): term.forEachValue(body)
            case .deferred: break
            }
        }
    }

    func rewritten(_ rewriting: Rewriting) throws -> Term {
        switch self {
        case .value(let bound): return bound.value.isNull ? self : Term(rewriting.value(bound.value))
        case .node(let node): return .node(try node.rewritten(rewriting))
        }
    }
}

extension [Term] {
    func rewritten(_ rewriting: Rewriting) throws -> [Term] {
        try flatMap { term in
            if case .deferred(let deferred)? = term.operation, let terms = try rewriting.elements(of: deferred) {
                return try terms.rewritten(rewriting)
            }
            return [try term.rewritten(rewriting)]
        }
    }
}

extension Node {
    func rewritten(_ rewriting: Rewriting) throws -> Node {
        switch operation {
        case .column(let name, .alias(let alias)): Node(.column(name, .alias(rewriting.alias(alias))))
        case .fastKey(.alias(let alias)): Node(.fastKey(.alias(rewriting.alias(alias))))
        case .column, .fastKey, .tableName, .deferred: self
        case .apply(let function, let operands):
            Node(.apply(function, try operands.rewritten(rewriting)))
        case .located(let path, let term): Node(.located(path, try term.rewritten(rewriting)))
        case .literal(let text): Node(.literal(try text.rewritten(rewriting)))
        case .subquery(let query): Node(.subquery(try query.rewritten(rewriting)))
        case .bareQuery(let query): Node(.bareQuery(try query.rewritten(rewriting)))
        case .definition(let table): Node(.definition(try table.rewritten(rewriting)))
        case .columns(let selections, let table, let qualifier):
            Node(.columns(try selections.rewritten(rewriting), table: table, qualifier: qualifier))
        case .inTable(let alias, let term): Node(.inTable(rewriting.alias(alias), try term.rewritten(rewriting)))
        case .json(let term): Node(.json(try term.rewritten(rewriting)))
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

    func rewritten(_ rewriting: Rewriting) throws -> LiteralText {
        var mapped = self
        mapped.pieces = try pieces.map { piece in
            switch piece {
            case .text(let text, let values): .text(text, values.map { RawValue(value: rewriting.value($0.value)) })
            case .node(let node): .node(try node.rewritten(rewriting))
            case .failure: piece
            }
        }
        return mapped
    }
}

extension Subquery {
    var values: [DatabaseValue] {
        var values: [DatabaseValue] = []
        forEachValue { values.append($0) }
        return values
    }

    func forEachValue(_ body: (DatabaseValue) -> Void) {
        switch self {
        case .relation(let relation): relation.forEachValue(body)
        case .literal(let text): text.forEachValue(body)
        case .deferred: break
        }
    }

    func rewritten(_ rewriting: Rewriting) throws -> Subquery {
        switch self {
        case .relation(let relation): .relation(try relation.rewritten(rewriting))
        case .literal(let text): .literal(try text.rewritten(rewriting))
        case .deferred(let deferred): try rewriting.elements(of: deferred)?.first ?? self
        }
    }
}

extension CommonTable {
    func rewritten(_ rewriting: Rewriting) throws -> CommonTable {
        var mapped = self
        mapped.query = try query.rewritten(rewriting)
        return mapped
    }
}

extension Selection {
    /// Whether it holds no values, and no closure that needs a connection.
    var isPlain: Bool {
        switch self {
        case .allColumns, .allColumnsExcluding, .primaryKey, .one: true
        case .expression(let term): if case .column? = term.operation { true } else { false }
        case .located(_, let selections), .inTable(_, let selections): selections.allSatisfy(\.isPlain)
        case .literal, .deferred: false
        }
    }

    func forEachValue(_ body: (DatabaseValue) -> Void) {
        switch self {
        case .expression(let term): term.forEachValue(body)
        case .literal(let text): text.forEachValue(body)
        case .located(_, let selections), .inTable(_, let selections):
            for selection in selections { selection.forEachValue(body) }
        case .allColumns, .allColumnsExcluding, .primaryKey, .deferred, .one: break
        }
    }

    func rewritten(_ rewriting: Rewriting) throws -> Selection {
        switch self {
        case .expression(let term): .expression(try term.rewritten(rewriting))
        case .literal(let text): .literal(try text.rewritten(rewriting))
        case .located(let path, let selections): .located(path, try selections.rewritten(rewriting))
        case .inTable(let alias, let selections): .inTable(rewriting.alias(alias), try selections.rewritten(rewriting))
        case .allColumns(let owner): .allColumns(rewriting.owner(owner))
        case .allColumnsExcluding(let names, let owner): .allColumnsExcluding(names, rewriting.owner(owner))
        case .primaryKey(let owner): .primaryKey(rewriting.owner(owner))
        case .deferred, .one: self
        }
    }
}

extension [Selection] {
    func rewritten(_ rewriting: Rewriting) throws -> [Selection] {
        try flatMap { selection in
            if case .deferred(let deferred) = selection, let selections = try rewriting.elements(of: deferred) {
                return try selections.rewritten(rewriting)
            }
            return [try selection.rewritten(rewriting)]
        }
    }
}

extension Ordering.Element {
    fileprivate func rewritten(_ rewriting: Rewriting) throws -> [Ordering.Element] {
        switch self {
        case .term(let term, let direction): return [.term(try term.rewritten(rewriting), direction)]
        case .primaryKey: return [self]
        case .deferred(let deferred):
            guard let elements = try rewriting.elements(of: deferred) else { return [self] }
            return try elements.flatMap { try $0.rewritten(rewriting) }
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

    func rewritten(_ rewriting: Rewriting) throws -> Relation {
        var mapped = self
        if !aliases.isEmpty { mapped.aliases = aliases.map(rewriting.alias) }
        mapped.commonTables = try commonTables.map { try $0.rewritten(rewriting) }
        mapped.selection = try selection.rewritten(rewriting)
        mapped.filters = try filters.rewritten(rewriting)
        mapped.groups = try groups.rewritten(rewriting)
        mapped.having = try having.rewritten(rewriting)
        mapped.ordering.elements = try ordering.elements.flatMap { try $0.rewritten(rewriting) }
        mapped.limit?.offset = limit?.offset.map { BoundValue(value: rewriting.value($0.value)) }
        mapped.joins = try joins.map { join in
            var mapped = join
            if case .condition(let condition, let left, let right) = join.link {
                mapped.link = .condition(
                    try condition?.rewritten(rewriting), left: rewriting.alias(left), right: rewriting.alias(right))
            }
            mapped.relation = try join.relation.rewritten(rewriting)
            return mapped
        }
        return mapped
    }
}
