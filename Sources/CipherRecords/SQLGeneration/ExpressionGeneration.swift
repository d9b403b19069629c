import CipherDatabase

// Expressions: terms, operators, functions, and SQL text of the program.

extension SQLGenerator {
    /// Writes an expression.
    mutating func write(_ term: Term) throws {
        switch term {
        case .value(let bound): if bound.value.isNull { write("NULL") } else { write(value: bound.value) }
        case .node(let node): try write(node.operation)
        }
    }

    /// Writes an expression as an operand: in parentheses, unless it holds together by itself.
    mutating func write(operand term: Term) throws {
        guard term.needsParentheses else { return try write(term) }
        write("(")
        try write(term)
        write(")")
    }

    private mutating func write(_ operation: Operation) throws {
        switch operation {
        case .column(let name, let owner): write(column: name, qualifier: try qualifier(of: owner))
        case .fastKey(let owner):
            let table = try table(of: owner)
            write(try facts.fastKey(of: table.table)) { $0.write(column: $1, qualifier: table.qualifier) }
        case .apply(let function, let operands): try write(function, operands)
        case .located(let path, let term): try located(path) { try $0.write(term) }
        case .literal(let literal): try write(literal)
        case .subquery(let query):
            write("(")
            try write(query)
            write(")")
        case .bareQuery(let query): try write(query)
        case .tableName(let name): write(identifier: name)
        case .definition(let table): try write(table)
        case .columns(let selections, let table, let qualifier):
            // `columnsOf` stands in statements of any tables: it always says which one it means.
            let outer = current
            if !table.isEmpty { current = Current(table: table, qualifier: qualifier ?? table, place: current.place) }
            try write(selections) { generator, selection in try generator.write(selection) }
            current = outer
        case .inTable(let alias, let term):
            let outer = current
            current = try table(of: .alias(alias))
            try write(term)
            current = outer
        case .json(let term): try write(term)
        // A request gets here after its closures have run.
        case .deferred: throw misuse("an expression that needs a connection is used without one")
        }
    }

    mutating func write(_ literal: LiteralText) throws {
        let outer = qualifiesAliases
        qualifiesAliases = outer || literal.hasQueryText
        defer { qualifiesAliases = outer }
        for (index, piece) in literal.pieces.enumerated() {
            switch piece {
            case .text(let text, let values): write(text, values: values.lazy.map(\.value))
            case .node(let node):
                let (former, next) = (literal.text(at: index - 1), literal.text(at: index + 1))
                let isGrouped = node.form.needsParentheses(between: former, and: next)
                if isGrouped { write("(") }
                try write(node.operation)
                if isGrouped { write(")") }
            case .failure(let message): throw misuse(message)
            }
        }
    }

    // MARK: Operators

    private mutating func write(_ function: Operator, _ operands: [Term]) throws {
        switch function {
        case .infix(let infix):
            if case .fastKey(let owner)? = operands[0].operation, operands[1].isNull {
                try writeExistence(of: owner, infix)
            } else {
                try write(operands, between: " \(infix.rawValue) ")
            }
        case .chain(let chain): try write(operands[...], in: chain)
        case .prefix(let prefix):
            write(prefix.rawValue)
            try write(operand: operands[0])
        case .between, .among, .inRows, .exists, .like: try writePredicate(function, operands)
        case .collate(let name):
            // COLLATE binds to the right operand of a comparison, which then has the collation of both.
            if operands[0].isComparison { try write(operands[0]) } else { try write(operand: operands[0]) }
            write(" COLLATE ")
            write(name: name)
        case .named(let name):
            try write(operands[0])
            write(" AS ")
            write(identifier: name)
        case .cast(let type):
            write("CAST(")
            try write(operands[0])
            write(" AS \(type.rawValue))")
        case .function(let function): try write(function, operands)
        case .choice(let hasBase, let hasElse): try writeChoice(operands, hasBase: hasBase, hasElse: hasElse)
        case .isEmpty(let negated):
            try write(operand: operands[0])
            write(negated ? " > 0" : " = 0")
        case .primaryKey, .uniqueKeys, .linked, .amongRows: try writeKeyCondition(function, operands)
        }
    }

    private mutating func writePredicate(_ function: Operator, _ operands: [Term]) throws {
        switch function {
        case .between(let negated):
            try write(operand: operands[0])
            write(negated ? " NOT BETWEEN " : " BETWEEN ")
            try write(operands.dropFirst(), between: " AND ")
        case .among(let negated):
            try write(operand: operands[0])
            write(negated ? " NOT IN (" : " IN (")
            try write(operands.dropFirst()) { generator, term in try generator.write(operand: term) }
            write(")")
        case .inRows(let negated):
            try write(operand: operands[0])
            write(negated ? " NOT IN " : " IN ")
            try write(operands[1])
        case .exists(let negated):
            write(negated ? "NOT EXISTS " : "EXISTS ")
            guard case .subquery(.relation(let relation))? = operands[0].operation else {
                return try write(operands[0])
            }
            write("(")
            try writeTestedSelect(relation)
            write(")")
        case .like(let negated):
            try write(operands.prefix(2), between: negated ? " NOT LIKE " : " LIKE ")
            if operands.count > 2 {
                write(" ESCAPE ")
                try write(operands[2])
            }
        default: throw misuse("the operator is no predicate")
        }
    }

    /// Writes whether a table has a row: without one, all of its columns are NULL.
    private mutating func writeExistence(of owner: ColumnOwner, _ infix: Infix) throws {
        let terms = try existenceColumns(of: owner).map { name in
            Term(.apply(.infix(infix), [Term(.column(name, owner)), Term(DatabaseValue.null)]))
        }
        guard terms.count == 1, let term = terms.first else {
            return try write(Term.chain(infix == .is ? .and : .or, terms))
        }
        guard case .apply(_, let operands)? = term.operation else { return }
        try write(operands, between: " \(infix.rawValue) ")
    }

    /// Columns of which one at least is not NULL in each row.
    private func existenceColumns(of owner: ColumnOwner) throws -> [String] {
        let table = try table(of: owner).table
        if try hasKey(table) { return try facts.fastKey(of: table) }
        if case .alias(let alias) = owner, let scope = scopes.last(where: { $0.place(of: alias) != nil }),
            let place = scope.place(of: alias), let link = place.join?.link,
            let pairs = try? facts.columnPairs(
                link, left: scope.places[place.parent].relation.table, right: place.relation.table), !pairs.isEmpty
        {
            // They are equal to columns of the other table, so no row with NULL is joined.
            return [pairs[0].right]
        }
        return try columns(of: table)
    }

    /// Writes a chain. To SQLite it is as many expressions in one another as it has operands, so a long one is written as
    /// a chain of shorter ones.
    /// - SeeAlso: <https://www.sqlite.org/limits.html#max_expr_depth>
    private mutating func write(_ operands: ArraySlice<Term>, in chain: Chain) throws {
        let separator = " \(chain.rawValue) "
        guard chain.isAssociative else { return try write(operands, between: separator) }
        if operands.contains(where: { $0.operands(of: chain) != nil }) {
            var flat: [Term] = []
            for operand in operands { operand.appendOperands(of: chain, to: &flat) }
            return try write(flat[...], in: chain)
        }
        guard operands.count > Chain.mostOperands else { return try write(operands, between: separator) }
        let parts = Swift.min(Chain.mostOperands, (operands.count - 1) / Chain.mostOperands + 1)
        let length = (operands.count - 1) / parts + 1
        let starts = stride(from: operands.startIndex, to: operands.endIndex, by: length)
        try write(Array(starts), separator: separator) { generator, start in
            generator.write("(")
            try generator.write(operands[start..<Swift.min(start + length, operands.endIndex)], in: chain)
            generator.write(")")
        }
    }

    private mutating func write(_ operands: some Collection<Term>, between separator: String) throws {
        try write(operands, separator: separator) { generator, term in try generator.write(operand: term) }
    }

    private mutating func write(_ function: Function, _ operands: [Term]) throws {
        if function.isDistinct, case .located(let path, let term)? = operands.first?.operation,
            case .fastKey? = term.operation, try writeCountOfCompositeKeys(at: path)
        {
            return
        }
        write(name: function.name)
        write(function.isDistinct ? "(DISTINCT " : "(")
        if function.takesRows { write("*") }
        let arguments = function.isFiltered ? operands.dropLast() : operands[...]
        try write(arguments.dropLast(function.orders.count)) { generator, term in try generator.write(term) }
        if !function.orders.isEmpty {
            write(" ORDER BY ")
            try write(Array(zip(arguments.suffix(function.orders.count), function.orders))) { generator, order in
                try generator.write(order.0)
                generator.write(order.1.sql)
            }
        }
        write(")")
        guard function.isFiltered, let condition = operands.last else { return }
        write(" FILTER (WHERE ")
        try write(condition)
        write(")")
    }

    /// Writes how many rows of a joined table there are, where its key has several columns: DISTINCT takes one
    /// expression, so each key becomes a text.
    ///
    /// - Returns: Whether the key has several columns.
    private mutating func writeCountOfCompositeKeys(at path: [String]) throws -> Bool {
        try located(path) { generator in
            let columns = try generator.facts.fastKey(of: generator.current.table)
            if columns.count == 1 { return false }
            generator.write("COUNT(DISTINCT CASE WHEN ")
            generator.write(column: columns[0])
            generator.write(" IS NOT NULL THEN ")
            generator.write(columns, separator: " || ',' || ") { generator, column in
                generator.write("quote(")
                generator.write(column: column)
                generator.write(")")
            }
            generator.write(" END)")
            return true
        }
    }

    private mutating func writeChoice(_ operands: [Term], hasBase: Bool, hasElse: Bool) throws {
        var operands = operands[...]
        write("CASE")
        if hasBase, let base = operands.popFirst() {
            write(" ")
            try write(operand: base)
        }
        let otherwise = hasElse ? operands.popLast() : nil
        while let condition = operands.popFirst(), let result = operands.popFirst() {
            write(" WHEN ")
            try write(condition)
            write(" THEN ")
            try write(result)
        }
        if let otherwise {
            write(" ELSE ")
            try write(otherwise)
        }
        write(" END")
    }

    // MARK: Keys

    private mutating func writeKeyCondition(_ function: Operator, _ operands: [Term]) throws {
        switch function {
        case .primaryKey: try writePrimaryKey(operands)
        case .uniqueKeys(let columns): try writeUniqueKeys(columns, operands)
        case .linked(let origin): try writeLink(to: origin, operands)
        case .amongRows(let count): try writeAmongRows(count, operands)
        default: throw misuse("the operator is no condition on keys")
        }
    }

    /// Writes that a row is linked to one whose values are known.
    private mutating func writeLink(to origin: OriginRow, _ values: [Term]) throws {
        guard let pairs = try facts.columnPairs(origin.link, left: origin.table, right: current.table) else {
            throw misuse("request(for:) needs an association by columns: join the common table expression to a request")
        }
        let equations = try pairs.map { pair -> (comparison: LinkComparison, column: Term, value: Term) in
            guard let index = origin.columns.firstIndex(where: { $0.lowercasedASCII == pair.left.lowercasedASCII })
            else {
                throw misuse(
                    "the record does not encode column \(pair.left) of table \(origin.table), which the association "
                        + "needs")
            }
            let comparison = try facts.comparison(of: pair, left: origin.table, right: current.table)
            return (comparison, comparison.operand(Term(.column(pair.right, .request))), values[index])
        }
        // NULL refers to nothing.
        if equations.contains(where: \.value.isNull) { return write("0") }
        if equations.allSatisfy({ $0.comparison.storing == nil }) {
            return try write(.conjunction(equations.map { $0.column.equals($0.value) }))
        }
        try write(equations, separator: " AND ") { generator, equation in
            generator.write("(")
            try generator.write(operand: equation.column)
            generator.write(" = ")
            generator.write(equation.comparison.storing?.before ?? "")
            try generator.write(equation.value)
            generator.write(equation.comparison.storing?.after ?? "")
            generator.write(")")
        }
    }

    private mutating func writeAmongRows(_ count: Int, _ operands: [Term]) throws {
        write("(")
        try write(operands.prefix(count)) { generator, term in try generator.write(term) }
        if operands.count == count + 1 {
            // The rows of a table.
            write(") IN ")
            return try write(operands[count])
        }
        write(") IN (VALUES ")
        let starts = Array(stride(from: count, to: operands.count, by: count))
        try write(starts) { generator, start in
            generator.write("(")
            try generator.write(operands[start..<(start + count)]) { generator, term in try generator.write(term) }
            generator.write(")")
        }
        write(")")
    }

    private mutating func writePrimaryKey(_ operands: [Term]) throws {
        let columns = try facts.primaryKey(current.table).columns
        guard columns.count == 1 else {
            throw DatabaseError.compositeKey(columns, of: current.table)
        }
        write(column: columns[0])
        if operands.count == 2, operands[1].isSubquery {
            write(" IN ")
            try write(operands[0])
            write(" AND (TYPEOF(")
            write(column: columns[0])
            write(") <> 'real' OR ")
            write(column: columns[0])
            write(" IN ")
            try write(operands[1])
            write(")")
        } else if operands.count == 1 {
            write(operands[0].isSubquery ? " IN " : " = ")
            try write(operands[0])
        } else {
            write(" IN (")
            try write(operands) { generator, term in try generator.write(term) }
            write(")")
        }
    }

    private mutating func writeUniqueKeys(_ columns: [String], _ operands: [Term]) throws {
        if columns.isEmpty { throw misuse("a key of table \(current.table) names no column") }
        guard let key = try facts.uniqueKey(columns, current.table) else {
            throw misuse(
                "table \(current.table) has no unique key on \(columns.joined(separator: ", ")): make a unique index on "
                    + "these columns, or use filter(_:)")
        }
        if let list = operands.first, list.isSubquery {
            return try writeListedKeys(columns, list, operands.dropFirst().first)
        }
        // In the order of the key; columns that it does not have come last.
        let order = columns.indices.sorted { left, right in
            (key.position(of: columns[left]), left) < (key.position(of: columns[right]), right)
        }
        let rows = stride(from: 0, to: operands.count, by: columns.count).map { start in
            Term.conjunction(order.map { Term(.column(columns[$0], .request)).equals(operands[start + $0]) })
        }
        try write(Term.chain(.or, rows))
    }
}

extension SQLGenerator {
    /// Writes that the columns have the values of a row of a query.
    ///
    /// - Parameter exact: The query again, if a column of type REAL rounds one of its values: then rows with a double are
    ///   compared once more, value by value.
    fileprivate mutating func writeListedKeys(_ columns: [String], _ list: Term, _ exact: Term?) throws {
        write("(")
        write(columns) { $0.write(column: $1) }
        write(") IN ")
        try write(list)
        guard let exact else { return }
        write(" AND (TRUE")
        for column in columns {
            write(" AND TYPEOF(")
            write(column: column)
            write(") <> 'real'")
        }
        write(" OR EXISTS (WITH listed (")
        write(columns.indices) { $0.write("c\($1)") }
        write(") AS ")
        try write(exact)
        write(" SELECT 1 FROM listed WHERE ")
        write(columns.indices, separator: " AND ") { generator, index in
            generator.write(column: columns[index], qualifier: generator.current.qualifier ?? generator.current.table)
            generator.write(" = listed.c\(index)")
        }
        write("))")
    }
}

extension [String] {
    /// The position of a column, in any case; that after the last where it is missing.
    fileprivate func position(of column: String) -> Int {
        firstIndex { $0.lowercasedASCII == column.lowercasedASCII } ?? count
    }
}

extension Term {
    /// Whether the text of the expression could fall apart between other operators.
    fileprivate var needsParentheses: Bool {
        switch operation {
        case nil, .column, .fastKey, .subquery, .tableName: return false
        case .located(_, let term), .inTable(_, let term), .json(let term): return term.needsParentheses
        case .literal, .bareQuery, .definition, .columns, .deferred: return true
        case .apply(let function, let operands):
            switch function {
            case .function, .cast: return false
            case .named: return operands[0].needsParentheses
            default: return true
            }
        }
    }

    // MARK: Building

    /// Operands with one operator between them. Chains of the same operator become one where that is the same.
    static func chain(_ chain: Chain, _ terms: [Term], flattening: Bool = true) -> Term {
        if terms.isEmpty { return Term(chain.neutralValue) }
        if terms.count == 1 { return terms[0] }
        guard flattening, chain.isAssociative else { return Term(.apply(.chain(chain), terms)) }
        let flat = terms.flatMap { $0.operands(of: chain) ?? [$0] }
        return Term(.apply(.chain(chain), packed(flat, of: chain)))
    }

    /// The operands of a long associative chain, with parts of it in one operand each.
    ///
    /// A chain that is built in a loop is copied with each operand: so it is no longer than a few parts. The SQL text has
    /// all operands in one chain.
    static func packed(_ operands: [Term], of chain: Chain) -> [Term] {
        var operands = operands
        while operands.count > Chain.packedOperands {
            let levels = operands.map { $0.levels(of: chain) }
            var packed: [Term] = []
            var index = 0
            while index < operands.count {
                var end = index + 1
                while end < operands.count, levels[end] == levels[index] { end += 1 }
                while end - index >= Chain.packedOperands {
                    packed.append(Term(.apply(.chain(chain), Array(operands[index..<index + Chain.packedOperands]))))
                    index += Chain.packedOperands
                }
                packed += operands[index..<end]
                index = end
            }
            guard packed.count < operands.count else { break }
            operands = packed
        }
        return operands
    }

    /// The operands of a chain of this operator; nil for all else.
    fileprivate func operands(of chain: Chain) -> [Term]? {
        if case .apply(.chain(chain), let operands)? = operation { operands } else { nil }
    }

    fileprivate func appendOperands(of chain: Chain, to terms: inout [Term]) {
        guard let operands = operands(of: chain) else { return terms.append(self) }
        for operand in operands { operand.appendOperands(of: chain, to: &terms) }
    }

    /// How many chains of this operator are in one another.
    private func levels(of chain: Chain) -> Int {
        guard let first = operands(of: chain)?.first else { return 0 }
        return 1 + first.levels(of: chain)
    }

    static func conjunction(_ terms: [Term]) -> Term { chain(.and, terms) }

    /// Whether both are equal; IS NULL where one of them is.
    func equals(_ other: Term) -> Term { compared(.equal, to: other) }

    func compared(_ infix: Infix, to other: Term) -> Term {
        // The collation of a comparison is not that of its result.
        if case .apply(.collate(let name), let operands)? = operation, !operands[0].isComparison {
            return Term(.apply(.collate(name), [operands[0].compared(infix, to: other)]))
        }
        var (infix, left, right) = (infix, self, other)
        if left.isNull || right.isNull {
            if infix == .equal { infix = .is }
            if infix == .notEqual { infix = .isNot }
            let isSymmetric = infix == .is || infix == .isNot
            if isSymmetric && left.isNull { (left, right) = (right, left) }
        }
        return Term(.apply(.infix(infix), [left, right]))
    }

    /// Whether both sides of an operator are compared.
    var isComparison: Bool {
        guard case .apply(.infix(let infix), _)? = operation else { return false }
        switch infix {
        case .equal, .notEqual, .is, .isNot, .less, .lessOrEqual, .greater, .greaterOrEqual: return true
        case .subtract, .divide, .leftShift, .rightShift, .match, .jsonValue, .jsonText: return false
        }
    }

    /// The expression, compared by a collation. Of a condition, what it compares is: `x IN (...) COLLATE name` has no
    /// effect in SQL, and `x BETWEEN a AND b COLLATE name` has half of it.
    /// - SeeAlso: <https://www.sqlite.org/datatype3.html#assigning_collating_sequences_from_sql>
    func collated(_ name: String) -> Term {
        switch operation {
        case .apply(let function, let operands)?:
            switch function {
            case .among, .between, .inRows:
                return Term(.apply(function, [operands[0].collated(name)] + operands.dropFirst()))
            case .chain(.and), .chain(.or):
                return Term(.apply(function, operands.map { $0.collated(name) }))
            case .collate: return operands[0].collated(name)
            default: break
            }
        default: break
        }
        return Term(.apply(.collate(name), [self]))
    }

    /// Whether a condition is true, or false.
    func tested(_ value: Bool) -> Term {
        if case .apply(.isEmpty, _)? = operation { return value ? self : negated }
        return compared(.equal, to: Term(value.databaseValue))
    }
}
