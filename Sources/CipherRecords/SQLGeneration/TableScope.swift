import CipherDatabase

/// Tells the tables of one statement apart: the identity behind a ``TableAlias``.
final class AliasID: Hashable, Sendable {
    /// The name that the program gave; nil lets the statement choose.
    let name: String?

    init(name: String?) { self.name = name }

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
    }

    /// The tables from the root on, each before those that are joined to it.
    private(set) var places: [Place] = []
    /// Whether columns are qualified.
    let isQualified: Bool

    /// - Parameter outer: The scopes around the query.
    init(_ relation: Relation, within outer: [TableScope]) throws {
        Self.add(relation, join: nil, parent: 0, to: &places)
        isQualified = places.count > 1 || relation.alias?.name != nil
        try chooseNames(takenOutside: Self.aliasedNames(in: outer))
    }

    private static func add(_ relation: Relation, join: Join?, parent: Int, to places: inout [Place]) {
        let name = relation.alias?.name ?? relation.table
        places.append(Place(relation: relation, join: join, parent: parent, name: name))
        let own = places.count - 1
        for join in relation.joins { add(join.relation, join: join, parent: own, to: &places) }
    }

    /// Names that inner queries may not use: columns are qualified with them from inside.
    private static func aliasedNames(in scopes: [TableScope]) -> Set<String> {
        var names: Set<String> = []
        for place in scopes.flatMap(\.places) where place.relation.alias != nil {
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
    func place(of alias: AliasID) -> Place? { places.first { $0.relation.alias == alias } }

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
        case .named(let name): return Current(table: name, qualifier: name)
        case .nobody: return Current(table: current.table, qualifier: nil)
        case .alias(let alias):
            for (depth, scope) in scopes.reversed().enumerated() {
                guard let place = scope.place(of: alias) else { continue }
                // From within another query, always: its own tables may have columns of the same name.
                let isRenamed = place.name != place.relation.table
                let isNeeded = depth > 0 || scope.isQualified || isRenamed
                return Current(table: place.relation.table, qualifier: isNeeded ? place.name : nil)
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
            current = Current(table: scope.places[index].relation.table, qualifier: scope.qualifier(of: index))
        }
        return try body(&self)
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
