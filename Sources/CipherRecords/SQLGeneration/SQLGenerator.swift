import CipherDatabase

/// Writes requests as SQL: a pure function of a request and the facts of the schema.
///
/// Values become parameters, always; identifiers are quoted, always. Columns are qualified where a statement has
/// several tables, or one with a name of its own.
struct SQLGenerator {
    let facts: SchemaFacts
    private(set) var text = ""
    /// The values of the parameters, in the order of the text.
    private(set) var values: [DatabaseValue] = []
    /// The names of the tables around the place that is written, those of the innermost query last.
    var scopes: [TableScope] = []
    /// The table whose filters, columns or orderings are written.
    var current = Current(table: "", qualifier: nil)
    /// Whether the columns of aliases are qualified in any case: in text of the program with a query, whose tables may have
    /// columns of the same name.
    var qualifiesAliases = false
    /// How the columns of the outermost query are divided among its tables; nil when they all belong to one.
    private(set) var scopeLayout: ScopeLayout?

    /// The common table expressions that can be used at the place that is written: those of each statement around it,
    /// the innermost last.
    var commonTables: [[CommonTable]] = []
    /// The common table expressions, in lower case, whose columns are being asked for.
    var askedTables: Set<String> = []
    /// Values that have to be equal, because only the first of each two is written.
    private(set) var equalValues: [(name: String, first: DatabaseValue, second: DatabaseValue)] = []

    /// The table that unqualified columns belong to.
    struct Current {
        var table: String
        /// The name to write before columns; nil where none is needed.
        var qualifier: String?
        /// Its position among the tables of the innermost query.
        var place = 0
    }

    init(facts: SchemaFacts) { self.facts = facts }

    /// The statement of a request.
    static func generate(_ request: StatementRequest, facts: SchemaFacts) throws -> SQLGenerator {
        var generator = SQLGenerator(facts: facts)
        switch request {
        case .select(let relation, let singleResult):
            generator.scopeLayout = try generator.writeSelect(
                relation, limitedToOne: singleResult && generator.mayHaveManyRows(relation))
        case .count(let relation): try generator.writeCount(relation)
        case .exists(let relation):
            generator.write("SELECT EXISTS (")
            try generator.writeTestedSelect(relation.withoutOrder)
            generator.write(")")
        case .delete(let relation, let returning): try generator.writeDelete(relation, returning: returning)
        case .update(let relation, let assignments, let policy, let returning):
            try generator.writeUpdate(relation, assignments, policy, returning: returning)
        }
        return generator
    }

    // MARK: Text

    mutating func write(_ text: String) { self.text += text }

    mutating func write(identifier: String) { text += identifier.quotedDatabaseIdentifier }

    /// Writes a parameter.
    mutating func write(value: DatabaseValue) {
        text += "?"
        values.append(value)
    }

    /// Writes text that has parameters in it.
    mutating func write(_ text: String, values: some Sequence<DatabaseValue>) {
        self.text += text
        self.values += values
    }

    /// Writes elements with a separator between them.
    mutating func write<Element>(
        _ elements: some Collection<Element>, separator: String = ", ",
        _ writeElement: (inout SQLGenerator, Element) throws -> Void
    ) rethrows {
        var isFirst = true
        for element in elements {
            if !isFirst { text += separator }
            isFirst = false
            try writeElement(&self, element)
        }
    }

    /// Writes a column of the current table.
    mutating func write(column: String) { write(column: column, qualifier: current.qualifier) }

    mutating func write(column: String, qualifier: String?) {
        if let qualifier { text += qualifier.quotedDatabaseIdentifier + "." }
        write(identifier: column)
    }

    /// Writes the name of a collation, function or common type; bare where that is a name to SQL.
    mutating func write(name: String) {
        let isPlain = name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                true
            default: false
            }
        }
        text += isPlain && name.first?.isNumber == false ? name : name.quotedDatabaseIdentifier
    }

    // MARK: Errors

    /// The error of a request that has no SQL: a mistake of the program, which it names with its remedy.
    func misuse(_ message: String) -> DatabaseError { DatabaseError(resultCode: .SQLITE_MISUSE, message: message) }
}

extension SQLGenerator {
    /// Writes a condition: one term as it is, several with AND between them.
    mutating func write(conditions: [Term], after keyword: String) throws {
        if conditions.isEmpty { return }
        write(keyword)
        try write(.conjunction(conditions))
    }

    /// Writes common table expressions before a statement that uses them.
    mutating func write(_ tables: [CommonTable]) throws {
        if tables.isEmpty { return }
        write(tables.contains(where: \.isRecursive) ? "WITH RECURSIVE " : "WITH ")
        try write(tables) { generator, table in try generator.write(table) }
        write(" ")
    }

    /// Writes a common table expression as it stands after WITH.
    mutating func write(_ table: CommonTable) throws {
        write(identifier: table.name)
        if let columns = table.columns, !columns.isEmpty {
            write("(")
            write(columns) { $0.write(identifier: $1) }
            write(")")
        }
        write(" AS (")
        try write(table.query)
        write(")")
    }

    /// Writes a query without parentheses.
    mutating func write(_ query: Subquery) throws {
        switch query {
        case .relation(let relation): try writeSelect(relation)
        case .literal(let literal):
            // Its tables are unknown: columns of its own are not qualified, and those of tables around it are.
            let outer = current
            current = Current(table: "", qualifier: nil)
            scopes.append(TableScope())
            try write(literal)
            scopes.removeLast()
            current = outer
        case .deferred: throw misuse("a query that needs a connection is used without one")
        }
    }
}

extension SQLGenerator {
    /// The common table expressions of a request and of what is joined to it, each name once.
    ///
    /// - Throws: `DatabaseError` where two of one name differ: a statement has one namespace for them.
    mutating func commonTables(of relation: Relation) throws -> [CommonTable] {
        var found: [CommonTable] = []
        try add(relation, to: &found)
        return found
    }

    private mutating func add(_ relation: Relation, to found: inout [CommonTable]) throws {
        for table in relation.commonTables {
            guard let first = found.first(where: { $0.name.lowercasedASCII == table.name.lowercasedASCII }) else {
                found.append(table)
                continue
            }
            guard first == table else { throw Self.twoCommonTables(table.name) }
            // The shapes are equal here: values are compared for each request.
            equalValues += zip(first.query.values, table.query.values).map { (table.name, $0, $1) }
        }
        for join in relation.joins { try add(join.relation, to: &found) }
    }

    /// The mistake of two different common table expressions that have one name.
    static func twoCommonTables(_ name: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: "two different common table expressions are named \"\(name)\" in one request: give each a name of "
                + "its own")
    }
}

extension Relation {
    /// The same rows in any order: a limit needs its order.
    var withoutOrder: Relation {
        limit == nil ? unordered : self
    }
}
