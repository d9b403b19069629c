import CipherDatabase
import CipherSchema

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
        var join = Join(
            key: destination.key.singular, kind: kind, link: destination.link, relation: relation,
            isToMany: destination.isToMany)
        for pivot in pivots.reversed() {
            var relation = pivot.relation
            relation.selection = []
            relation.add(join)
            join = Join(
                key: pivot.key.singular, kind: kind, link: pivot.link, relation: relation, isToMany: pivot.isToMany)
        }
        return join
    }

    /// The rows of the destination, to be fetched for those of a table.
    var prefetch: Prefetch {
        var prefetch = Prefetch(
            key: pluralKey, isFetched: true, link: destination.link, relation: destination.relation)
        for pivot in pivots.reversed() {
            var relation = pivot.relation
            relation.selection = []
            relation.add(prefetch)
            let key = pivot.isToMany ? pivot.key.plural : pivot.key.singular
            prefetch = Prefetch(key: key, isFetched: false, link: pivot.link, relation: relation)
        }
        return prefetch
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
                var relation = pivot.relation.withoutPrefetches.selectingNothing
                if index == 0 { relation.filters.append(condition) }
                if let join { relation.add(join) }
                let link = index + 1 < pivots.count ? pivots[index + 1].link : destination.link
                // Associations that are joined later have keys of their own.
                let key = "grdb_" + pivot.key.singular
                join = Join(key: key, kind: .required, link: link.reversed, relation: relation, isReversed: true)
                path.insert(key, at: 0)
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

    /// A name that is the same for both uses.
    init(fixed name: String) { (singular, plural) = (name, name) }

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
    /// Adds a join. If the relation has the same one, with the same key, both become one, which is the last.
    mutating func add(_ join: Join) {
        if !admits(join.relation, levels: 1) { return }
        var join = join
        if let index = joins.firstIndex(where: { $0.isSame(as: join) }) { join = joins.remove(at: index).merged(join) }
        joins.append(join)
    }

    /// Adds rows that are fetched with those of the relation. If it has the same ones, both become one.
    mutating func add(_ prefetch: Prefetch) {
        if !admits(prefetch.relation, levels: Node.levelsOfQuery) { return }
        var prefetch = prefetch
        if let index = prefetches.firstIndex(where: { $0.isSame(as: prefetch) }) {
            prefetch = prefetches.remove(at: index).merged(prefetch)
        }
        prefetches.append(prefetch)
    }

    /// Whether a relation may be joined. Relations are walked by recursion, so one that is too deep is left out, and the
    /// statement cannot be written.
    private mutating func admits(_ relation: Relation, levels: Int) -> Bool {
        if !relation.isTooDeep && levels + relation.depth <= Node.mostLevels { return true }
        refuse()
        return false
    }

    private mutating func refuse() {
        if isTooDeep { return }
        isTooDeep = true
        filters.append(.failure(Node.tooManyLevels))
    }

    /// Takes over what another relation of the same table says.
    mutating func merge(_ other: Relation) {
        if other.isTooDeep { refuse() }
        for alias in other.aliases where !aliases.contains(alias) { aliases.append(alias) }
        if !other.selection.isEmpty { selection = other.selection }
        filters += other.filters
        if !other.ordering.elements.isEmpty { ordering = other.ordering }
        isDistinct = isDistinct || other.isDistinct
        if !other.groups.isEmpty { groups = other.groups }
        having += other.having
        commonTables += other.commonTables
        for join in other.joins {
            if let index = joins.firstIndex(where: { $0.isSame(as: join) }) {
                joins[index] = joins[index].merged(join)
            } else {
                joins.append(join)
            }
        }
        for prefetch in other.prefetches {
            if let index = prefetches.firstIndex(where: { $0.isSame(as: prefetch) }) {
                prefetches[index] = prefetches[index].merged(prefetch)
            } else {
                prefetches.append(prefetch)
            }
        }
    }

    private func mapJoined(_ change: (Relation) -> Relation) -> Relation {
        var relation = self
        relation.joins = joins.map { join in
            var join = join
            join.relation = change(join.relation)
            return join
        }
        return relation
    }

    /// The relation without the rows that are fetched with its own.
    var withoutPrefetches: Relation {
        guard hasPrefetches else { return self }
        var relation = mapJoined(\.withoutPrefetches)
        relation.prefetches = []
        return relation
    }

    var hasPrefetches: Bool { !prefetches.isEmpty || joins.contains(where: \.relation.hasPrefetches) }

    /// The relation without anything that is selected, from joined tables neither.
    var selectingNothing: Relation {
        var relation = mapJoined(\.selectingNothing)
        relation.selection = []
        return relation
    }

    /// The relation without any order, joined tables neither.
    var unordered: Relation {
        var relation = mapJoined(\.unordered)
        relation.ordering = Ordering()
        return relation
    }
}

extension Join.Link {
    /// Whether joins by both can be one. Of two conditions the last one counts, as their functions cannot be compared.
    fileprivate func isSame(as other: Join.Link) -> Bool {
        if case .condition = self, case .condition = other { true } else { self == other }
    }
}

extension Join {
    fileprivate func isSame(as other: Join) -> Bool {
        key == other.key && link.isSame(as: other.link)
            && relation.table.lowercasedASCII == other.relation.table.lowercasedASCII
    }

    fileprivate func merged(_ other: Join) -> Join {
        var join = self
        if other.kind == .required { join.kind = .required }
        join.link = other.link
        join.isToMany = isToMany || other.isToMany
        join.relation.merge(other.relation)
        return join
    }
}

extension Prefetch {
    fileprivate func isSame(as other: Prefetch) -> Bool {
        key == other.key && isFetched == other.isFetched && link == other.link
            && relation.table.lowercasedASCII == other.relation.table.lowercasedASCII
    }

    fileprivate func merged(_ other: Prefetch) -> Prefetch {
        var prefetch = self
        prefetch.relation.merge(other.relation)
        return prefetch
    }
}

// MARK: - Rows that are fetched with others

/// An association whose rows are fetched for those of a relation.
struct FetchedAssociation {
    /// The name under which the rows are found.
    var key: String
    /// The keys of the tables between the relation and the association, each with whether it is joined.
    var path: [(key: String, isScope: Bool)]
    /// All tables from the relation to the rows.
    var chain: AssociationChain
    /// The tables from the nearest joined one to the rows.
    var nearest: (scopes: [String], table: String, chain: AssociationChain)
    /// Whether one row of the relation may stand for several rows of the nearest joined table.
    var passesToMany = false

    fileprivate func behind(_ step: AssociationChain.Step, key: String, isScope: Bool) -> FetchedAssociation {
        var association = self
        var step = step
        // The way to the rows leads through it anyway.
        if let next = path.first, next.isScope { step.relation.joins.removeAll { $0.key == next.key } }
        association.path.insert((key, isScope), at: 0)
        association.chain.pivots.insert(step, at: 0)
        return association
    }
}

extension Relation {
    /// The associations whose rows are fetched for those of the relation.
    var fetchedAssociations: [FetchedAssociation] {
        var associations: [FetchedAssociation] = []
        for prefetch in prefetches {
            let step = AssociationChain.Step(
                key: AssociationKey(fixed: prefetch.key), isToMany: true, link: prefetch.link,
                relation: prefetch.relation)
            if prefetch.isFetched {
                let chain = AssociationChain(destination: step)
                associations.append(
                    FetchedAssociation(key: prefetch.key, path: [], chain: chain, nearest: ([], table, chain)))
                continue
            }
            for inner in prefetch.relation.fetchedAssociations {
                var association = inner.behind(step, key: prefetch.key, isScope: false)
                association.nearest = ([], table, association.chain)
                association.passesToMany = false
                associations.append(association)
            }
        }
        for join in joins where join.relation.hasPrefetches {
            let step = AssociationChain.Step(
                key: AssociationKey(fixed: join.key), isToMany: join.isToMany, link: join.link, relation: join.relation)
            for inner in join.relation.fetchedAssociations {
                var association = inner.behind(step, key: join.key, isScope: true)
                association.nearest.scopes.insert(join.key, at: 0)
                association.passesToMany = inner.passesToMany || join.isToMany
                associations.append(association)
            }
        }
        return associations
    }
}
