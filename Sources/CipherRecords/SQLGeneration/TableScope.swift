import CipherDatabase

/// Tells the tables of one statement apart: the identity behind a ``TableAlias``.
final class AliasID: Hashable, Sendable {
    /// The name that the program gave; nil lets the statement choose.
    let name: String?

    init(name: String?) { self.name = name }

    /// The aliases that take the places of those without names, in the order in which a request has them: so requests of
    /// one shape are equal, and find the compiled request of the first one.
    static let places = (0..<32).map { _ in AliasID(name: nil) }

    // Two aliases without names are different tables, even in requests of one shape.
    static func == (left: AliasID, right: AliasID) -> Bool {
        left === right || (left.name != nil && left.name == right.name)
    }

    func hash(into hasher: inout Hasher) {
        if let name { hasher.combine(name) } else { hasher.combine(ObjectIdentifier(self)) }
    }
}

/// The tables of one query, each with the name by which its columns are qualified.
struct TableScope {
    /// A table in the join tree of the query.
    struct Place {
        let relation: Relation
        /// How it is joined; nil for the root.
        let join: Join?
        /// The position of the table that it is joined to.
        let parent: Int
        /// The name of the table in the statement.
        var name: String
        /// The names that stand for the table in expressions.
        var aliases: [AliasID]
    }

    /// The tables from the root on, each before those that are joined to it.
    private(set) var places: [Place] = []
    /// Whether columns are qualified.
    private(set) var isQualified: Bool

    /// The scope of a query that is SQL text.
    init() { isQualified = false }

    /// - Parameter outer: The scopes around the query.
    init(_ relation: Relation, within outer: [TableScope]) throws {
        try Self.add(relation, join: nil, parent: 0, to: &places)
        isQualified = places.count > 1 || relation.alias?.name != nil
        try chooseNames(takenOutside: Self.aliasedNames(in: outer, except: Set(places.flatMap(\.aliases))))
    }

    /// The scope of one table without an alias in SQL.
    var withTableName: TableScope {
        var scope = self
        scope.places[0].name = places[0].relation.table
        scope.isQualified = false
        return scope
    }

    private static func add(_ relation: Relation, join: Join?, parent: Int, to places: inout [Place]) throws {
        try check(relation, join, isBehindOptional: join != nil && places[parent].join?.kind == .optional)
        let name = relation.alias?.name ?? relation.table
        var place = Place(relation: relation, join: join, parent: parent, name: name, aliases: relation.aliases)
        if case .condition(_, let left, let right)? = join?.link {
            place.aliases.append(right)
            places[parent].aliases.append(left)
        }
        places.append(place)
        let own = places.count - 1
        for join in relation.joins { try add(join.relation, join: join, parent: own, to: &places) }
    }

    /// Refuses what no statement can say.
    private static func check(_ relation: Relation, _ join: Join?, isBehindOptional: Bool) throws {
        func misuse(_ message: String) -> DatabaseError {
            DatabaseError(resultCode: .SQLITE_MISUSE, message: message)
        }
        let names = Set(relation.aliases.compactMap(\.name))
        if names.count > 1 {
            throw misuse(
                "table \(relation.table) has several aliases with a name: \(names.sorted().joined(separator: ", "))")
        }
        for (index, one) in relation.joins.enumerated() {
            guard relation.joins[..<index].contains(where: { $0.key == one.key }) else { continue }
            throw misuse(
                "two different associations of table \(relation.table) have the key \(one.key): give one of them "
                    + "another, by forKey(_:)")
        }
        guard let join else { return }
        if isBehindOptional && join.kind == .required {
            throw misuse(
                "association \(join.key) is required, behind one that is optional: make both optional, or both required"
            )
        }
        if relation.isDistinct || !relation.groups.isEmpty || !relation.having.isEmpty {
            throw misuse(
                "association \(join.key) has distinct rows, groups or aggregates, which a join cannot have: use "
                    + "including(all:)")
        }
    }

    /// Names that inner queries may not use: columns are qualified with them from inside.
    ///
    /// - Parameter inner: Aliases of the inner query, which are that query's own tables inside.
    private static func aliasedNames(in scopes: [TableScope], except inner: Set<AliasID>) -> Set<String> {
        var names: Set<String> = []
        for place in scopes.flatMap(\.places) where place.aliases.contains(where: { !inner.contains($0) }) {
            names.insert(place.name.lowercasedASCII)
        }
        return names
    }

    /// Numbers the tables that would have the same name, and leaves the names that the program gave.
    private mutating func chooseNames(takenOutside outside: Set<String>) throws {
        var taken = outside
        for place in places {
            guard let name = place.relation.alias?.name else { continue }
            guard taken.insert(name.lowercasedASCII).inserted else {
                throw DatabaseError(
                    resultCode: .SQLITE_MISUSE,
                    message: "two tables of one request have the alias \(name): give each a name of its own")
            }
        }
        let counts = Dictionary(grouping: places.filter { $0.relation.alias?.name == nil }) {
            $0.name.lowercasedASCII
        }.mapValues(\.count)
        var numbers: [String: Int] = [:]
        for index in places.indices where places[index].relation.alias?.name == nil {
            let table = places[index].name
            let key = table.lowercasedASCII
            guard counts[key, default: 0] > 1 || taken.contains(key) else { continue }
            repeat {
                numbers[key, default: 0] += 1
                places[index].name = table + String(numbers[key, default: 0])
            } while taken.contains(places[index].name.lowercasedASCII)
            taken.insert(places[index].name.lowercasedASCII)
        }
    }

    /// Whether the table has another name in the statement than in the database.
    func isRenamed(_ index: Int) -> Bool { places[index].name != places[index].relation.table }

    /// The table of an alias.
    func place(of alias: AliasID) -> Place? { places.first { $0.aliases.contains(alias) } }

    /// The position of the table at the end of a path of joins; nil when there is none.
    func place(at path: [String], from start: Int) -> Int? {
        var place = start
        for key in path {
            let next = places.indices.first { places[$0].join?.key == key && places[$0].parent == place }
            guard let next else { return nil }
            place = next
        }
        return place
    }

    /// How columns of a table are qualified within the query.
    func qualifier(of index: Int) -> String? {
        isQualified || isRenamed(index) ? places[index].name : nil
    }
}

extension SQLGenerator {
    /// The name before the columns of an owner.
    func qualifier(of owner: ColumnOwner) throws -> String? {
        try table(of: owner).qualifier
    }

    /// The table of an owner.
    func table(of owner: ColumnOwner) throws -> Current {
        switch owner {
        case .request: return current
        case .named(let name): return Current(table: name, qualifier: name, place: current.place)
        case .nobody: return Current(table: current.table, qualifier: nil, place: current.place)
        case .alias(let alias):
            for (depth, scope) in scopes.reversed().enumerated() {
                guard let place = scope.place(of: alias) else { continue }
                // From within another query, always: its own tables may have columns of the same name.
                let isRenamed = place.name != place.relation.table
                let isNeeded = depth > 0 || scope.isQualified || isRenamed || qualifiesAliases
                return Current(
                    table: place.relation.table, qualifier: isNeeded ? place.name : nil, place: current.place)
            }
            throw misuse(
                "a table alias is used outside of its request: apply aliased(_:) to the request or association that it "
                    + "stands for")
        }
    }

    /// Runs a block for a table of the innermost query.
    mutating func with<T>(_ index: Int, _ body: (inout SQLGenerator) throws -> T) rethrows -> T {
        let outer = current
        defer { current = outer }
        if let scope = scopes.last {
            current = Current(
                table: scope.places[index].relation.table, qualifier: scope.qualifier(of: index), place: index)
        }
        return try body(&self)
    }

    /// The position of the table at the end of a path of joins.
    func place(at path: [String]) throws -> Int {
        if let index = scopes.last?.place(at: path, from: current.place) { return index }
        throw misuse("the request does not join \(path.joined(separator: ".")), which an expression is about")
    }

    /// Runs a block for a joined table.
    mutating func located<T>(_ path: [String], _ body: (inout SQLGenerator) throws -> T) throws -> T {
        try with(place(at: path), body)
    }

    /// Runs a block within a query.
    mutating func within<T>(_ relation: Relation, _ body: (inout SQLGenerator) throws -> T) throws -> T {
        let outer = current
        scopes.append(try TableScope(relation, within: scopes))
        defer {
            scopes.removeLast()
            current = outer
        }
        return try with(0, body)
    }
}
