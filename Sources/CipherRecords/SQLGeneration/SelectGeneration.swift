import CipherDatabase

// SELECT, and what counts rows.

extension SQLGenerator {
    /// Writes a query.
    ///
    /// - Returns: How its columns are divided among its tables; nil when they all belong to one.
    @discardableResult
    mutating func writeSelect(_ relation: Relation, limitedToOne: Bool = false) throws -> ScopeLayout? {
        if !relation.keyColumns.isEmpty {
            try writeKeys(of: relation)
            return nil
        }
        return try writeRequest(relation, limitedToOne: limitedToOne)
    }

    /// Writes a query for the keys of the rows that a request finds.
    ///
    /// Without its other columns, SQLite may find the rows by another index, and a limit leaves other rows of them. The
    /// second LIMIT keeps SQLite from merging both queries, and the common table expression from leaving out the columns.
    private mutating func writeKeys(of relation: Relation) throws {
        let rows = "grdb_rows".quotedDatabaseIdentifier
        write("WITH \(rows) AS (")
        try writeRequest(relation, limitedToOne: false)
        write(") SELECT ")
        write(relation.keyColumns.indices) { $0.write(identifier: Relation.keyName($1)) }
        write(" FROM \(rows) LIMIT -1")
    }

    @discardableResult
    private mutating func writeRequest(_ relation: Relation, limitedToOne: Bool) throws -> ScopeLayout? {
        let commonTables = try commonTables(of: relation)
        let outer = self.commonTables
        // They see each other too, in any order.
        self.commonTables.append(commonTables)
        defer { self.commonTables = outer }
        try write(commonTables)
        return try within(relation) { generator in
            generator.write(relation.isDistinct ? "SELECT DISTINCT " : "SELECT ")
            try generator.writeSelection()
            try generator.writeRows(of: relation)
            try generator.writeOrder()
            try generator.writeLimit(of: relation, isOne: limitedToOne)
            return try generator.scopeLayout(ofPlace: 0)
        }
    }

    /// Writes a query that EXISTS tests. SQLite ignores its DISTINCT there, and an offset counts different rows.
    mutating func writeTestedSelect(_ relation: Relation) throws {
        let isEnclosed = relation.isDistinct && relation.limit?.offset != nil
        if isEnclosed { write("SELECT 1 FROM (") }
        try writeSelect(relation)
        if isEnclosed { write(")") }
    }

    /// Writes tables, conditions and groups.
    private mutating func writeRows(of relation: Relation) throws {
        write(" FROM ")
        try writeTables()
        try write(conditions: relation.filters, after: " WHERE ")
        if !relation.groups.isEmpty {
            write(" GROUP BY ")
            try write(relation.groups) { generator, term in try generator.write(term) }
        }
        if !relation.having.isEmpty {
            // Without groups, functions over rows make all of them one group.
            if relation.groups.isEmpty, !relation.selection.contains(where: \.mayBeAggregate) {
                throw misuse("having(_:) needs group(_:): there are no groups to choose from")
            }
            try write(conditions: relation.having, after: " HAVING ")
        }
    }

    // MARK: Columns

    private mutating func writeSelection() throws {
        guard let places = scopes.last?.places else { return }
        let selections = places.indices.flatMap { index in places[index].relation.selection.map { (index, $0) } }
        if selections.isEmpty { throw misuse("the request selects nothing: give select(_:) a column at least") }
        try write(selections) { generator, element in
            try generator.with(element.0) { try $0.write(element.1) }
        }
        with(0) { generator in
            for (index, column) in places[0].relation.keyColumns.enumerated() {
                generator.write(", ")
                generator.write(column: column)
                generator.write(" AS ")
                generator.write(identifier: Relation.keyName(index))
            }
        }
    }

    mutating func write(_ selection: Selection) throws {
        switch selection {
        case .allColumns(let owner):
            if let qualifier = try qualifier(of: owner) { write(qualifier.quotedDatabaseIdentifier + ".") }
            write("*")
        case .allColumnsExcluding(let excluded, let owner):
            let (table, excluded) = (try table(of: owner), Set(excluded.map(\.lowercasedASCII)))
            let columns = try columns(of: table.table).filter { !excluded.contains($0.lowercasedASCII) }
            if columns.isEmpty { throw misuse("all columns of table \(table.table) are excluded") }
            write(columns) { $0.write(column: $1, qualifier: table.qualifier) }
        case .primaryKey(let owner):
            let table = try table(of: owner)
            write(try facts.primaryKey(table.table).columns) { $0.write(column: $1, qualifier: table.qualifier) }
        case .expression(let term):
            try write(term)
        case .literal(let literal): try write(literal)
        case .located(let path, let selections):
            try located(path) { generator in
                try generator.write(selections) { generator, selection in try generator.write(selection) }
            }
        case .inTable(let alias, let selections):
            let outer = current
            current = try table(of: .alias(alias))
            try write(selections) { generator, selection in try generator.write(selection) }
            current = outer
        // A request gets here after its closures have run.
        case .deferred: throw misuse("a selection that needs a connection is used without one")
        case .one: write("1")
        }
    }

    // MARK: Tables

    private mutating func writeTables() throws {
        guard let scope = scopes.last else { return }
        for (index, place) in scope.places.enumerated() {
            if let join = place.join { write(join.kind == .required ? " JOIN " : " LEFT JOIN ") }
            write(identifier: place.relation.table)
            if scope.isRenamed(index) { write(" " + place.name.quotedDatabaseIdentifier) }
            guard let join = place.join else { continue }
            let conditions = try linkConditions(join, place, scope) + place.relation.filters
            try with(index) { try $0.write(conditions: conditions, after: " ON ") }
        }
    }

    private func linkConditions(
        _ join: Join, _ place: TableScope.Place, _ scope: TableScope
    ) throws -> [Term] {
        if case .condition(let condition, _, _) = join.link { return condition.map { [$0] } ?? [] }
        let parent = scope.places[place.parent]
        let (left, right) = (parent.relation.table, place.relation.table)
        let pairs = try facts.columnPairs(join.link, left: left, right: right)
        return try (pairs ?? []).map { pair in
            let (own, other) = (Term(.column(pair.right, .request)), Term(.column(pair.left, .named(parent.name))))
            // The collation is that of the left operand.
            let isExchanged = try join.isReversed && facts.mayDifferInCollation(pair, left: left, right: right)
            return isExchanged ? other.equals(own) : own.equals(other)
        }
    }

    // MARK: Order and limit

    private mutating func writeOrder() throws {
        guard let places = scopes.last?.places else { return }
        var elements: [(Int, Ordering.Element)] = []
        // An order that is reversed reverses those of the tables that are joined to its own.
        var isReversed: [Bool] = []
        for (index, place) in places.enumerated() {
            let ordering = place.relation.ordering
            isReversed.append(ordering.isReversed != (index > 0 && isReversed[place.parent]))
            for element in try self.elements(of: ordering, in: index, isReversed: isReversed[index]) {
                elements.append((index, element))
            }
            if ordering.isStable || places[0].relation.ordering.isStable {
                for element in try stableElements(of: index, isReversed: isReversed[index]) {
                    elements.append((index, element))
                }
            }
        }
        if elements.isEmpty { return }
        write(" ORDER BY ")
        try write(elements) { generator, element in
            try generator.with(element.0) { try $0.write(element.1) }
        }
    }

    private func elements(of ordering: Ordering, in index: Int, isReversed: Bool) throws -> [Ordering.Element] {
        let table = scopes.last?.places[index].relation.table ?? current.table
        return isReversed ? try ordering.elements.flatMap { try reversed($0, of: table) } : ordering.elements
    }

    /// The terms that order rows which the other terms leave equal.
    ///
    /// These are the columns of the primary key: VACUUM may change rowids, and it keeps the key. A table without a key is
    /// ordered by all of its columns, by position, because a view may have two columns of one name.
    private func stableElements(of index: Int, isReversed: Bool) throws -> [Ordering.Element] {
        guard let scope = scopes.last else { return [] }
        let (relation, root) = (scope.places[index].relation, scope.places[0].relation)
        let direction = isReversed ? Ordering.Direction.descending : .ascending
        func columns(_ names: [String]) -> [Ordering.Element] {
            let known = relation.ordering.elements.compactMap(\.columnName).map(\.lowercasedASCII)
            return names.filter { !known.contains($0.lowercasedASCII) }.map {
                .term(Term(.column($0, .request)), direction)
            }
        }
        func positions(of places: Range<Int>) -> [Ordering.Element]? {
            let counts = places.map { place in
                try? columnCount(of: scope.places[place].relation.selection, ofPlace: place, in: scope)
            }
            guard !counts.contains(nil) else { return nil }
            let count = counts.reduce(0) { $0 + ($1 ?? 0) }
            return (0..<count).map { .term(Term(.literal(LiteralText(SQL(sql: String($0 + 1))))), direction) }
        }
        if !root.groups.isEmpty || root.isDistinct {
            // The source of the rows decides, not the rows of the tables.
            if index > 0 { return [] }
            if root.groups.isEmpty { return positions(of: scope.places.indices) ?? [] }
            return try root.groups.flatMap { term -> [Ordering.Element] in
                if term.operation == .fastKey(.request) { return try columns(facts.fastKey(of: relation.table)) }
                return [.term(term, direction)]
            }
        }
        if relation.ordering.elements.contains(.primaryKey) { return [] }
        if try hasKey(relation.table) { return try columns(facts.primaryKey(relation.table).columns) }
        if index == 0, let elements = positions(of: 0..<1) { return elements }
        return try columns(self.columns(of: relation.table))
    }

    private func reversed(_ element: Ordering.Element, of table: String) throws -> [Ordering.Element] {
        switch element {
        case .primaryKey:
            return try facts.primaryKey(table).columns.map { .term(Term(.column($0, .request)), .descending) }
        case .term(let term, let direction):
            guard let reversed = direction.reversed else {
                throw misuse(
                    "an order that is given as SQL text without a direction cannot be reversed, because the text may "
                        + "have directions in it: write the opposite order, or give each expression its direction, as "
                        + "in order(SQL(\"LENGTH(name)\").desc)")
            }
            // The direction is that of the whole text.
            return [.term(term.isolated, reversed)]
        case .deferred: return [element]
        }
    }

    private mutating func write(_ element: Ordering.Element) throws {
        switch element {
        case .primaryKey: write(try facts.primaryKey(current.table).columns) { $0.write(column: $1) }
        case .term(let term, let direction):
            try write(term)
            write(direction.sql)
        // A request gets here after its closures have run.
        case .deferred: throw misuse("an order that needs a connection is used without one")
        }
    }

    private mutating func writeLimit(of relation: Relation, isOne: Bool) throws {
        guard let limit = relation.limit else {
            if isOne { write(" LIMIT 1") }
            return
        }
        write(" LIMIT \(limit.count)")
        if let offset = limit.offset {
            write(" OFFSET ")
            write(value: offset.value)
        }
    }

    /// Whether a query may have more than one row, so that a limit saves work.
    func mayHaveManyRows(_ relation: Relation) -> Bool {
        if relation.limit != nil { return false }
        if relation.groups.isEmpty, relation.selection.contains(where: \.isAggregate) { return false }
        guard relation.joins.isEmpty else { return true }
        // A whole key has one row at most.
        var columns: [String] = []
        for filter in relation.filters.flatMap(\.conditions) {
            switch filter.operation {
            case .apply(.primaryKey, let operands) where operands.count == 1 && !operands[0].isSubquery: return false
            case .apply(.uniqueKeys(let names), let operands)
            where operands.count == names.count && operands.first?.isSubquery != true:
                return false
            case .apply(.infix(.equal), let operands), .apply(.infix(.is), let operands):
                let isReversed = operands[0].operation == nil
                let (column, value) = isReversed ? (operands[1], operands[0]) : (operands[0], operands[1])
                if let name = column.requestColumn, value.operation == nil { columns.append(name) }
            default: break
            }
        }
        // A table that is not there shows when the statement is made.
        return columns.isEmpty || (try? facts.isUniqueKey(columns, relation.table)) != true
    }
}

// MARK: - Counting

extension SQLGenerator {
    /// Writes the query that counts the rows of a request.
    mutating func writeCount(_ relation: Relation) throws {
        var counted = relation.withoutOrder
        if let term = relation.countedTerm {
            counted.isDistinct = false
            counted.selection = [.expression(term)]
            try writeSelect(counted)
        } else {
            write("SELECT COUNT(*) FROM (")
            try writeSelect(counted)
            write(")")
        }
    }
}

extension Relation {
    /// The expression that counts the rows within the request itself; nil if the request has to be a subquery.
    fileprivate var countedTerm: Term? {
        guard limit == nil, groups.isEmpty, having.isEmpty, joins.isEmpty, commonTables.isEmpty else { return nil }
        // COUNT(DISTINCT x) would leave NULL out, which is one of the different rows.
        if isDistinct { return nil }
        let isPlain = selection.allSatisfy { selection in
            switch selection {
            case .allColumns, .allColumnsExcluding, .primaryKey, .one: true
            case .expression(let term): !term.mayBeAggregate && term.name == nil
            case .literal, .located, .inTable, .deferred: false
            }
        }
        return isPlain ? Term(.apply(.function(Function(name: "COUNT", isAggregate: true, takesRows: true)), [])) : nil
    }
}

extension Selection {
    /// Whether it makes one row of many.
    var isAggregate: Bool {
        switch self {
        case .expression(let term): term.isAggregate
        case .inTable(_, let selections): selections.contains(where: \.isAggregate)
        default: false
        }
    }

    /// Whether it may make one row of many: SQL text may have any function in it.
    fileprivate var mayBeAggregate: Bool {
        switch self {
        case .expression(let term): term.mayBeAggregate
        case .inTable(_, let selections): selections.contains(where: \.mayBeAggregate)
        case .literal: true
        default: false
        }
    }
}

extension Term {
    /// Whether an aggregate function stands anywhere in the expression, queries within it aside.
    var isAggregate: Bool { hasAggregate(inText: false) }

    /// Whether there may be one: SQL text may have any function in it.
    fileprivate var mayBeAggregate: Bool { hasAggregate(inText: true) }

    private func hasAggregate(inText isAggregate: Bool) -> Bool {
        switch operation {
        case .apply(.function(let function), _)? where function.isAggregate: true
        case .apply(_, let operands)?: operands.contains { $0.hasAggregate(inText: isAggregate) }
        case .inTable(_, let term)?, .json(let term)?: term.hasAggregate(inText: isAggregate)
        case .literal?: isAggregate
        default: false
        }
    }

    /// The conditions that are all true where this one is.
    fileprivate var conditions: [Term] {
        if case .apply(.chain(.and), let operands)? = operation { operands.flatMap(\.conditions) } else { [self] }
    }

    /// The name of the column of the request's own table that this is; nil for all else.
    fileprivate var requestColumn: String? {
        switch operation {
        case .column(let name, .request)?: name
        case .json(let term)?: term.requestColumn
        default: nil
        }
    }

    var isSubquery: Bool { if case .subquery? = operation { true } else { false } }

    /// The name in the result; nil when there is none.
    var name: String? { if case .apply(.named(let name), _)? = operation { name } else { nil } }

    /// The expression, with SQL text at its beginning in parentheses.
    fileprivate var isolated: Term {
        switch operation {
        case .literal(var literal)?:
            literal.pieces = [.text("(", [])] + literal.pieces + [.text(")", [])]
            return Term(.literal(literal))
        case .inTable(let alias, let term)?: return Term(.inTable(alias, term.isolated))
        case .json(let term)?: return Term(.json(term.isolated))
        case .located(let path, let term)?: return Term(.located(path, term.isolated))
        default: return self
        }
    }

    /// The expression without a name in the result.
    var unnamed: Term { if case .apply(.named, let operands)? = operation { operands[0] } else { self } }
}

extension Ordering.Element {
    /// The column that it is, in either direction; nil for anything else.
    fileprivate var columnName: String? {
        if case .term(let term, _) = self, case .column(let name, _)? = term.operation { name } else { nil }
    }
}
