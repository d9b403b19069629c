import CipherDatabase

/// The way from the rows of one table to those of another, as a value: one step for `belongsTo`, `hasMany` and
/// `hasOne`, several for associations through others.
///
/// A chain is used in two directions. Joined to a request it becomes a branch of its join tree, from the origin to the
/// destination. For `request(for:)` and prefetched rows it is a request of its own, whose root is the destination and
/// whose joins lead back to the table next to the origin.
struct AssociationChain: Hashable, Sendable {
    /// A table on the way, and how its rows are found from those of the table before it.
    struct Step: Hashable, Sendable {
        var key: AssociationKey
        var isToMany: Bool
        var link: Join.Link
        var relation: Relation
    }

    /// The tables before the destination, from the origin on.
    var pivots: [Step] = []
    var destination: Step

    var steps: [Step] { pivots + [destination] }
    var isToMany: Bool { steps.contains(where: \.isToMany) }

    /// The keys of the joins that the chain becomes.
    var path: [String] { steps.map(\.key.singular) }

    /// The name of the rows where they are joined one by one.
    var singularKey: String { destination.key.singular }
    /// The name of the rows where all of them are fetched for one row of the origin.
    var pluralKey: String { destination.key.plural }

    /// The way through another association first.
    func through(_ first: AssociationChain) -> AssociationChain {
        AssociationChain(pivots: first.steps + pivots, destination: destination)
    }

    // MARK: From the origin

    /// The join that leads from a table to the destination.
    ///
    /// - Parameter includesColumns: Whether the columns of the destination are selected.
    func join(_ kind: Join.Kind, includesColumns: Bool) -> Join {
        var relation = destination.relation
        if !includesColumns { relation.selection = [] }
        var join = Join(key: destination.key.singular, kind: kind, link: destination.link, relation: relation)
        for pivot in pivots.reversed() {
            var relation = pivot.relation
            relation.selection = []
            relation.add(join)
            join = Join(key: pivot.key.singular, kind: kind, link: pivot.link, relation: relation)
        }
        return join
    }

    // MARK: From the destination

    /// The request of the destination's rows for some rows of the origin.
    ///
    /// - Parameters:
    ///   - condition: What the table next to the origin has to fulfil; its columns belong to that table.
    ///   - columns: Columns of the table next to the origin, to be selected under other names.
    func request(where condition: Term, selecting columns: [(name: String, alias: String)] = []) -> Relation {
        var relation = destination.relation
        var path: [String] = []
        if pivots.isEmpty {
            relation.filters.append(condition)
        } else {
            var join: Join?
            for (index, pivot) in pivots.enumerated() {
                var relation = pivot.relation
                relation.selection = []
                if index == 0 { relation.filters.append(condition) }
                if let join { relation.add(join) }
                let link = index + 1 < pivots.count ? pivots[index + 1].link : destination.link
                join = Join(key: pivot.key.singular, kind: .required, link: link.reversed, relation: relation)
                path.insert(pivot.key.singular, at: 0)
            }
            if let join { relation.add(join) }
        }
        for (name, alias) in columns {
            let column = Term(.column(name, .request))
            let located = path.isEmpty ? column : Term(.located(path, column))
            relation.selection.append(.expression(Term(.apply(.named(alias), [located]))))
        }
        return relation
    }
}

/// The names of an association's rows: in scopes and aggregates, and as prefetched rows.
struct AssociationKey: Hashable, Sendable {
    let singular: String
    let plural: String

    /// A name that is inflected for both uses: that of a table.
    init(table: String) {
        singular = Inflections.default.singularize(table)
        plural = Inflections.default.pluralize(table)
    }

    /// A name that the program gave.
    init(_ name: String, isToMany: Bool) {
        singular = isToMany ? Inflections.default.singularize(name) : name
        plural = isToMany ? name : Inflections.default.pluralize(name)
    }
}

// MARK: - Links

/// How tables find each other by a foreign key; its columns may be left to the schema.
struct ForeignKeyLink: Hashable, Sendable {
    /// The columns of the table that refers to the other one; nil for those of the schema.
    var columns: [String]?
    /// The columns that they refer to; nil for those of the schema.
    var destinationColumns: [String]?
    /// Whether the foreign key is in the table that is joined to.
    var isInLeftTable: Bool
}

extension Join.Link {
    /// The same link, seen from the other table.
    var reversed: Join.Link {
        switch self {
        case .columns(let pairs):
            return .columns(pairs.map { Join.ColumnPair(left: $0.right, right: $0.left) })
        case .condition(let condition, let left, let right):
            return .condition(condition, left: right, right: left)
        case .foreignKey(var link):
            link.isInLeftTable.toggle()
            return .foreignKey(link)
        }
    }
}

extension SchemaFacts {
    /// The columns by which two tables find each other; nil for a link that is a condition.
    ///
    /// - Throws: `DatabaseError` `.SQLITE_MISUSE` where the schema does not say, or says it twice.
    func columnPairs(_ link: Join.Link, left: String, right: String) throws -> [Join.ColumnPair]? {
        switch link {
        case .condition: return nil
        case .columns(let pairs): return pairs
        case .foreignKey(let link):
            let (origin, destination) = link.isInLeftTable ? (left, right) : (right, left)
            return try mapping(link, from: origin, to: destination).map { column, target in
                link.isInLeftTable
                    ? Join.ColumnPair(left: column, right: target) : Join.ColumnPair(left: target, right: column)
            }
        }
    }

    private func mapping(
        _ link: ForeignKeyLink, from origin: String, to destination: String
    ) throws -> [(String, String)] {
        if let columns = link.columns, let targets = link.destinationColumns {
            return try paired(columns, targets, from: origin, to: destination)
        }
        var found: [[(String, String)]] = []
        for key in try foreignKeys(origin) where key.table.lowercasedASCII == destination.lowercasedASCII {
            let (columns, targets) = (key.mapping.map(\.origin), key.mapping.map(\.destination))
            if let wanted = link.columns, !Self.isSame(wanted, columns) { continue }
            if let wanted = link.destinationColumns, !Self.isSame(wanted, targets) { continue }
            if found.contains(where: { Self.isSame($0.map(\.0), columns) && Self.isSame($0.map(\.1), targets) }) {
                continue
            }
            found.append(key.mapping.map { ($0.origin, $0.destination) })
        }
        if found.count == 1 { return found[0] }
        if found.count > 1 {
            throw misuse(
                "table \(origin) has \(found.count) foreign keys to table \(destination): say which one the association "
                    + "means, as in using: ForeignKey([\"\(found[0][0].0)\"])")
        }
        guard let columns = link.columns else {
            throw misuse(
                "no foreign key leads from table \(origin) to table \(destination): declare one in the schema, or give "
                    + "the association its columns, as in using: ForeignKey([\"\(destination)Id\"])")
        }
        return try paired(columns, primaryKey(destination).columns, from: origin, to: destination)
    }

    private func paired(
        _ columns: [String], _ targets: [String], from origin: String, to destination: String
    ) throws -> [(String, String)] {
        if columns.isEmpty {
            throw misuse("the foreign key from table \(origin) to table \(destination) has no column")
        }
        guard columns.count == targets.count else {
            throw misuse(
                "the foreign key from table \(origin) to table \(destination) has \(columns.count) columns, and refers "
                    + "to \(targets.count): give it as many, as in using: ForeignKey([...], to: [...])")
        }
        return Array(zip(columns, targets))
    }

    private static func isSame(_ left: [String], _ right: [String]) -> Bool {
        Set(left.map(\.lowercasedASCII)) == Set(right.map(\.lowercasedASCII))
    }

    private func misuse(_ message: String) -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_MISUSE, message: message)
    }
}

// MARK: - Trees of joins

extension Relation {
    /// Adds a join. Where the relation has the same one, with the same key, both become one.
    mutating func add(_ join: Join) {
        if let index = joins.firstIndex(where: { $0.isSame(as: join) }) {
            joins[index].merge(join)
        } else {
            joins.append(join)
        }
    }

    /// Adds rows that are fetched with those of the relation. Where it has the same ones, both become one.
    mutating func prefetch(_ chain: AssociationChain) {
        if let index = prefetches.firstIndex(where: { $0.isSame(as: chain) }) {
            prefetches[index].merge(chain)
        } else {
            prefetches.append(chain)
        }
    }

    /// Takes over what another relation of the same table says.
    mutating func merge(_ other: Relation) {
        for alias in other.aliases where !aliases.contains(alias) { aliases.append(alias) }
        if !other.selection.isEmpty { selection = other.selection }
        filters += other.filters
        if !other.ordering.elements.isEmpty { ordering = other.ordering }
        isDistinct = isDistinct || other.isDistinct
        if !other.groups.isEmpty { groups = other.groups }
        having += other.having
        for table in other.commonTables where !commonTables.contains(table) { commonTables.append(table) }
        for join in other.joins { add(join) }
        for chain in other.prefetches { prefetch(chain) }
    }

    /// The relation without the rows that are fetched with its own.
    var withoutPrefetches: Relation {
        guard hasPrefetches else { return self }
        var relation = self
        relation.prefetches = []
        relation.joins = joins.map { join in
            var join = join
            join.relation = join.relation.withoutPrefetches
            return join
        }
        return relation
    }

    var hasPrefetches: Bool { !prefetches.isEmpty || joins.contains(where: \.relation.hasPrefetches) }
}

extension Join {
    fileprivate func isSame(as other: Join) -> Bool {
        key == other.key && link == other.link && relation.table.lowercasedASCII == other.relation.table.lowercasedASCII
    }

    fileprivate mutating func merge(_ other: Join) {
        if other.kind == .required { kind = .required }
        relation.merge(other.relation)
    }
}

extension AssociationChain {
    fileprivate func isSame(as other: AssociationChain) -> Bool {
        let (steps, others) = (steps, other.steps)
        return pluralKey == other.pluralKey && steps.count == others.count
            && zip(steps, others).allSatisfy {
                $0.link == $1.link && $0.relation.table.lowercasedASCII == $1.relation.table.lowercasedASCII
            }
    }

    fileprivate mutating func merge(_ other: AssociationChain) {
        destination.relation.merge(other.destination.relation)
        for index in pivots.indices { pivots[index].relation.merge(other.pivots[index].relation) }
    }
}
