import CipherDatabase

/// Fetches the rows of `including(all:)`: one query for each association, for all rows of the request together.
///
/// The rows of the request are fetched first. From them come the values that the association's columns have; they are
/// the filter of a request for its rows, which selects those columns once more, as `grdb_...`, so that each row finds
/// its way back.
struct Prefetching {
    /// The beginning of the names of the columns that link a row with others.
    static let linkPrefix = "grdb_"

    let db: Database
    let relation: Relation
    /// Whether only the first row of the request was fetched.
    let isOne: Bool

    /// The most keys of several columns in one query: SQLite takes a limited number of parameters.
    static let mostCompositeKeys = 500
    /// The most keys that are searched for one by one if a request includes all rows of a table.
    static let mostSoughtKeys = 100

    /// The rows of the request with what it includes.
    func addPrefetchedRows(to rows: [Row]) throws -> [Row] {
        // No row, no query.
        guard let first = rows.first else { return rows }
        let bases = first.unadapted === first ? rows : rows.map(\.unadapted)
        return Row.adding(try prefetch(first, .objects(bases)), to: rows)
    }

    /// The associations that the request includes, for its rows as the statement returned them.
    func prefetch(_ rows: KeptRows) throws -> PrefetchedRows {
        rows.count == 0 ? PrefetchedRows() : try prefetch(rows[0], .kept(rows))
    }

    private func prefetch(_ first: Row, _ bases: BaseRows) throws -> PrefetchedRows {
        let prefetched = PrefetchedRows()
        for association in relation.fetchedAssociations {
            let groups = try groups(of: association, first, bases)
            guard prefetched.insert(groups, key: association.key, at: association.path) else {
                throw misuse(
                    "two different associations of table \(relation.table) have the key \(association.key): give one of "
                        + "them another, by forKey(_:)")
            }
        }
        return prefetched
    }

    /// Calls a function with the requests of what the request includes, for its rows.
    func visitRequests(
        for rows: [Row], _ visit: (_ path: [String], _ request: PreparedRequest) throws -> Void
    ) throws {
        guard let first = rows.first?.unadapted else { return }
        let bases = BaseRows.objects(rows.map(\.unadapted))
        for association in relation.fetchedAssociations {
            let path = association.path.map(\.key) + [association.key]
            for request in try children(of: association, first, bases).requests {
                try visit(path, request.makePreparedRequest(db, forSingleResult: false))
            }
        }
    }

    // MARK: Rows of an association

    /// The start of an association: the rows of the request, or those of one of its scopes.
    private struct Origin {
        let chain: AssociationChain
        let table: String
        /// The row that has the columns of the table.
        let row: Row
        let isScope: Bool

        var first: AssociationChain.Step { chain.pivots.first ?? chain.destination }
    }

    /// How the rows of an association are fetched.
    private struct Children {
        let origin: Origin
        let values: LinkValues
        /// How each of the linking columns is compared with the values.
        let comparisons: [LinkComparison]
        /// The columns that link them, with the names under which they are selected once more.
        let selected: [(name: String, alias: String)]
        /// None where no row can have any.
        let requests: [QueryInterfaceRequest<Row>]
    }

    /// - Parameters:
    ///   - row: The first row of the request.
    ///   - bases: The rows that the statement returned.
    private func children(of association: FetchedAssociation, _ row: Row, _ bases: BaseRows) throws -> Children {
        let origin = try origin(of: association, row)
        guard let pairs = try columnPairs(origin) else {
            throw misuse("association \(association.key) is a condition: join it, by including(required:)")
        }
        let positions = try pairs.map { pair in
            guard let position = origin.row.unadaptedIndex(of: pair.left) else {
                throw misuse(
                    "including(all:) of association \(association.key) needs column \(pair.left) of table "
                        + "\(origin.table): select it too")
            }
            return position
        }
        let values = LinkValues(of: bases, at: positions)
        let selected = pairs.map { (name: $0.right, alias: Self.linkPrefix + $0.right) }
        let comparisons = try pairs.map {
            try SchemaFacts(db).comparison(of: $0, left: origin.table, right: origin.first.relation.table)
        }
        let conditions = try values.count == 0 ? [] : self.requests(origin, pairs, values, comparisons)
        let requests = conditions.map { condition, tables in
            var relation = origin.chain.request(where: condition, selecting: selected)
            relation.commonTables += tables
            return QueryInterfaceRequest<Row>(relation: relation)
        }
        return Children(
            origin: origin, values: values, comparisons: comparisons, selected: selected, requests: requests)
    }

    /// The rows of an association, for each row of the request.
    private func groups(of association: FetchedAssociation, _ row: Row, _ bases: BaseRows) throws -> RowGroups {
        let fetched = try self.children(of: association, row, bases)
        let (values, selected, requests) = (fetched.values, fetched.selected, fetched.requests)
        var children: [Row] = []
        for request in requests {
            let prepared = try request.makePreparedRequest(db, forSingleResult: false)
            if requests.count == 1, prepared.adapter == nil, prepared.supplement == nil {
                // Rows to which nothing belongs need no objects: most of them are read as records only.
                let rows = try KeptRows(prepared.statement)
                if let groups = values.integerGroups(of: rows, by: selected[0].alias) {
                    return RowGroups(rows, groupOfRow: groups, groupCount: values.count, of: values.groupOfRow)
                }
                children = rows.objects
            } else {
                let rows = try Row.fetchAll(prepared.statement, adapter: prepared.adapter)
                children += try prepared.supplement?(rows) ?? rows
            }
        }
        guard let child = children.first else { return RowGroups(emptyFor: bases.count) }
        let childPositions = try selected.map { column in
            guard let position = child.unadaptedIndex(of: column.alias) else {
                throw misuse("association \(association.key) has no column \(column.alias) to find its rows by")
            }
            return position
        }
        return try groups(of: children, at: childPositions, fetched)
    }

    /// The rows of an association by the values that link them.
    ///
    /// - Parameters:
    ///   - children: The rows.
    ///   - positions: Where a row has the linking values.
    ///   - fetched: What they were found by.
    private func groups(of children: [Row], at positions: [Int], _ fetched: Children) throws -> RowGroups {
        let values = fetched.values
        let links = children.map(\.unadapted)
        if let groups = values.integerGroups(of: links, at: positions[0]) {
            return RowGroups(children, groupOfRow: groups, groupCount: values.count, of: values.groupOfRow)
        }
        let tuples = links.map { link in LinkTuple(values: positions.map { link.databaseValue(at: $0) }) }
        let matches = try matches(of: tuples, fetched)
        var (rows, groups): ([Row], [Int32]) = ([], [])
        for (child, tuple) in zip(children, tuples) {
            for group in matches[tuple] ?? [] {
                rows.append(child)
                groups.append(group)
            }
        }
        return RowGroups(rows, groupOfRow: groups, groupCount: values.count, of: values.groupOfRow)
    }

    /// Where an association starts.
    ///
    /// It is one association from the request's own columns, through the tables that are joined, which may be selected
    /// or not. If a row of the request stands for one of several joined rows, it is that row's alone.
    private func origin(of association: FetchedAssociation, _ row: Row) throws -> Origin {
        let whole = Origin(chain: association.chain, table: relation.table, row: row, isScope: false)
        var needsNearest = association.passesToMany
        if case .condition = whole.first.link { needsNearest = true }
        guard needsNearest else { return whole }
        let scope = association.nearest.scopes.reduce(Optional(row)) { $0?.scopes[$1] }
        guard let scope else { return whole }
        let nearest = Origin(
            chain: association.nearest.chain, table: association.nearest.table, row: scope, isScope: true)
        let hasColumns = try columnPairs(nearest)?.allSatisfy { scope.unadaptedIndex(of: $0.left) != nil }
        return hasColumns == true ? nearest : whole
    }

    private func columnPairs(_ origin: Origin) throws -> [Join.ColumnPair]? {
        try SchemaFacts(db).columnPairs(origin.first.link, left: origin.table, right: origin.first.relation.table)
    }

    /// The conditions on the table next to the origin, once for each query, with the common table expressions that the
    /// conditions use.
    private func requests(
        _ origin: Origin, _ pairs: [Join.ColumnPair], _ values: LinkValues, _ comparisons: [LinkComparison]
    ) throws -> [(condition: Term, tables: [CommonTable])] {
        let plain = pairs.map { Term(.column($0.right, .request)) }
        if plain.count == 1, values.count > Self.mostSoughtKeys, try coversTable(origin, pairs[0]) {
            return [(plain[0].compared(.isNot, to: Term(DatabaseValue.null)), [])]
        }
        let tuples = values.tuples.filter { $0.isAdmitted(by: comparisons) }
        if tuples.isEmpty { return [] }
        let columns = zip(comparisons, plain).map { $0.operand($1) }
        if columns.count == 1 {
            // In order: the same values are always the same query, and found in the order of the index.
            return [(columns[0].isAmong(tuples.map { Term($0.values[0]) }), [])]
        }
        if tuples.count == 1 && isOne {
            return [(.conjunction(zip(columns, tuples[0].values).map { $0.equals(Term($1)) }), [])]
        }
        // The request itself finds the values, where it finds the same rows again whatever it selects.
        if !isOne, !origin.isScope, relation.limit == nil, relation.groups.isEmpty, relation.having.isEmpty {
            let name = "grdb_base"
            var base = relation.withoutPrefetches.unordered.selectingNothing
            base.isDistinct = false
            base.selection = pairs.map { .expression(Term(.column($0.left, .request))) }
            let table = CommonTable(name: name, columns: nil, isRecursive: false, query: .relation(base))
            // Its columns have their types.
            return [(Term(.apply(.amongRows(plain.count), plain + [Term(.tableName(name))])), [table])]
        }
        return stride(from: 0, to: tuples.count, by: Self.mostCompositeKeys).map { start in
            let part = tuples[start..<min(start + Self.mostCompositeKeys, tuples.count)]
            return (Term(.apply(.amongRows(columns.count), columns + part.flatMap(\.values).map { Term($0) })), [])
        }
    }

    /// Whether the rows of the request are all rows of a table that the association's rows refer to, by a foreign key of
    /// the schema: then it is quicker to read all of those than to look for the rows of each key.
    private func coversTable(_ origin: Origin, _ pair: Join.ColumnPair) throws -> Bool {
        guard !isOne, !origin.isScope, origin.chain.pivots.isEmpty, relation.filters.isEmpty, relation.limit == nil,
            relation.joins.isEmpty, relation.groups.isEmpty, relation.having.isEmpty, relation.commonTables.isEmpty
        else { return false }
        return try SchemaFacts(db).foreignKeys(origin.first.relation.table).contains { key in
            key.table.lowercasedASCII == relation.table.lowercasedASCII && key.mapping.count == 1
                && key.mapping[0].origin.lowercasedASCII == pair.right.lowercasedASCII
                && key.mapping[0].destination.lowercasedASCII == pair.left.lowercasedASCII
        }
    }

    // MARK: Groups

    /// The groups of rows with some values in their linking columns.
    ///
    /// - Parameter tuples: The values in the rows of the association.
    private func matches(of tuples: [LinkTuple], _ fetched: Children) throws -> [LinkTuple: [Int32]] {
        let (wanted, columns) = (fetched.values.tuples, fetched.selected.map(\.name))
        let relation = fetched.origin.first.relation
        let areComparable = columns.indices.allSatisfy { column in
            let (left, right) = (Kinds(of: wanted, column), Kinds(of: tuples, column))
            if left.hasReal || right.hasReal { return false }
            if left.hasInteger && right.hasText || left.hasText && right.hasInteger { return false }
            guard left.hasText && right.hasText else { return true }
            return db.collation(ofColumn: columns[column], in: relation.table) == "BINARY"
        }
        if areComparable {
            return Dictionary(uniqueKeysWithValues: wanted.enumerated().map { ($1, [Int32($0)]) })
        }
        return try comparedMatches(wanted, relation, columns, fetched.comparisons)
    }

    /// Asks SQLite for the groups: what is equal depends on the affinity and the collation of the columns.
    /// - SeeAlso: <https://www.sqlite.org/datatype3.html#comparison_expressions>
    private func comparedMatches(
        _ tuples: [LinkTuple], _ relation: Relation, _ columns: [String], _ comparisons: [LinkComparison]
    ) throws -> [LinkTuple: [Int32]] {
        let table = relation.table.quotedDatabaseIdentifier
        let names = columns.map { table + "." + $0.quotedDatabaseIdentifier }
        let keys = columns.indices.map { "\"grdb_key\".\"k\($0)\"" }
        let positions = tuples.indices.filter { tuples[$0].isAdmitted(by: comparisons) }
        let operands = zip(comparisons, names).map { $0.operand($1) }
        var matches: [LinkTuple: [Int32]] = [:]
        for start in stride(from: 0, to: positions.count, by: Self.mostCompositeKeys) {
            let part = positions[start..<min(start + Self.mostCompositeKeys, positions.count)]
            // Parameters have no affinity: this compares as IN does with a list of values.
            let row = "(" + Array(repeating: "?", count: columns.count + 1).joined(separator: ", ") + ")"
            let key = CommonTable(
                name: "grdb_key", columns: columns.indices.map { "k\($0)" } + ["i"], isRecursive: false,
                query: .literal(
                    LiteralText(
                        SQL(
                            sql: "VALUES " + Array(repeating: row, count: part.count).joined(separator: ", "),
                            arguments: StatementArguments(part.flatMap { tuples[$0].values + [$0.databaseValue] })))))
            var query = SQLGenerator(facts: SchemaFacts(db))
            try query.write(relation.commonTables + [key])
            query.write("SELECT DISTINCT \"grdb_key\".\"i\", ")
            // DISTINCT takes 1 and 1.0 for the same.
            query.write(names.map { "\($0) COLLATE BINARY, typeof(\($0))" }.joined(separator: ", "))
            query.write(" FROM \(table), \"grdb_key\" WHERE ")
            query.write(zip(operands, keys).map { "\($0) = \($1)" }.joinedAsExpression(by: " AND "))
            let rows = try Row.fetchCursor(
                db, sql: query.text, arguments: StatementArguments(query.values))
            while let row = try rows.next() {
                let tuple = columns.indices.map { row.databaseValue(at: 1 + 2 * $0) }
                matches[LinkTuple(values: tuple), default: []].append(Int32(row[0] as Int))
            }
        }
        return matches
    }

    /// Which storage classes values have.
    private struct Kinds {
        var hasInteger = false
        var hasReal = false
        var hasText = false

        init(of tuples: [LinkTuple], _ column: Int) {
            for tuple in tuples {
                switch tuple.values[column].storage {
                case .int64: hasInteger = true
                case .double: hasReal = true
                case .string: hasText = true
                case .null, .blob: break
                }
            }
        }
    }

    private func misuse(_ message: String) -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_MISUSE, message: message)
    }
}

/// The values of the linking columns of one row.
private struct LinkTuple: Hashable {
    let values: [DatabaseValue]

    /// Whether the values can equal those of the columns.
    func isAdmitted(by comparisons: [LinkComparison]) -> Bool { zip(comparisons, values).allSatisfy { $0.admits($1) } }

    // An INTEGER and a REAL are different: as texts they would be.
    static func == (left: LinkTuple, right: LinkTuple) -> Bool {
        zip(left.values, right.values).allSatisfy { $0.storage == $1.storage }
    }

    func hash(into hasher: inout Hasher) { hasher.combine(values) }
}

/// The rows of a request as its statement returned them, with or without an object for each.
private enum BaseRows {
    case objects([Row])
    case kept(KeptRows)

    var count: Int {
        switch self {
        case .objects(let rows): rows.count
        case .kept(let rows): rows.count
        }
    }

    func storedInteger(_ row: Int, _ column: Int) -> Int64? {
        switch self {
        case .objects(let rows): rows[row].storedInteger(at: column)
        case .kept(let rows): rows.storedInteger(row, column)
        }
    }

    func databaseValue(_ row: Int, _ column: Int) -> DatabaseValue {
        switch self {
        case .objects(let rows): rows[row].databaseValue(at: column)
        case .kept(let rows): rows.databaseValue(row, column)
        }
    }
}

/// The values by which the rows of a request are linked to those of an association, each once and in order.
private struct LinkValues {
    /// The values, where there is one column and all of them are integers: no value is boxed.
    private var integers: [Int64]?
    private var others: [LinkTuple] = []
    /// The position of each row's values among them; -1 for NULL, which refers to nothing.
    private(set) var groupOfRow: [Int32]

    /// - Parameter positions: The columns.
    init(of rows: BaseRows, at positions: [Int]) {
        groupOfRow = []
        groupOfRow.reserveCapacity(rows.count)
        if positions.count == 1, readIntegers(of: rows, at: positions[0]) { return }
        integers = nil
        let tuples = (0..<rows.count).map { row in LinkTuple(values: positions.map { rows.databaseValue(row, $0) }) }
        // NULL refers to nothing.
        others = Set(tuples.filter { !$0.values.contains(where: \.isNull) }).sorted {
            $0.values.lexicographicallyPrecedes($1.values, by: DatabaseValue.isOrdered)
        }
        let groups = Dictionary(uniqueKeysWithValues: others.enumerated().map { ($1, Int32($0)) })
        groupOfRow = tuples.map { groups[$0] ?? -1 }
    }

    /// - Returns: Whether the column has integers only, and NULL.
    private mutating func readIntegers(of rows: BaseRows, at position: Int) -> Bool {
        var values: [Int64] = []
        values.reserveCapacity(rows.count)
        var isAscending = true
        for row in 0..<rows.count {
            if let value = rows.storedInteger(row, position) {
                if let last = values.last, last >= value { isAscending = false }
                groupOfRow.append(Int32(truncatingIfNeeded: values.count))
                values.append(value)
            } else if rows.databaseValue(row, position).isNull {
                groupOfRow.append(-1)
            } else {
                groupOfRow = []
                return false
            }
        }
        if isAscending {
            integers = values
            return true
        }
        var unique: [Int64] = []
        for value in values.sorted() where unique.last != value { unique.append(value) }
        integers = unique
        let index = IntegerIndex(unique)
        for row in groupOfRow.indices where groupOfRow[row] >= 0 {
            groupOfRow[row] = index.position(of: values[Int(groupOfRow[row])]) ?? -1
        }
        return true
    }

    var count: Int { integers?.count ?? others.count }

    /// The values of all columns, each.
    var tuples: [LinkTuple] { integers?.map { LinkTuple(values: [$0.databaseValue]) } ?? others }

    /// The positions of the values of some rows, -1 for others; nil where any is not an integer.
    func integerGroups(of rows: [Row], at position: Int) -> [Int32]? {
        integerGroups(rows.count) { rows[$0].storedInteger(at: position) }
    }

    /// The same of rows without objects.
    func integerGroups(of rows: KeptRows, by column: String) -> [Int32]? {
        guard let position = rows.index(of: column) else { return nil }
        return integerGroups(rows.count) { rows.storedInteger($0, position) }
    }

    @inline(__always)
    private func integerGroups(_ count: Int, _ value: (Int) -> Int64?) -> [Int32]? {
        guard let integers else { return nil }
        let index = IntegerIndex(integers)
        var groups: [Int32] = []
        groups.reserveCapacity(count)
        var (last, lastGroup): (Int64, Int32) = (0, -1)
        for row in 0..<count {
            guard let value = value(row) else { return nil }
            // Rows of one group often follow each other.
            if value != last || lastGroup < 0 { (last, lastGroup) = (value, index.position(of: value) ?? -1) }
            groups.append(lastGroup)
        }
        return groups
    }
}

/// Finds the positions of integers that are sorted.
private struct IntegerIndex {
    private let integers: [Int64]
    /// Whether each is one more than the one before it, as identifiers often are.
    private let isDense: Bool

    init(_ integers: [Int64]) {
        self.integers = integers
        let (span, overflow) = (integers.last ?? 0).subtractingReportingOverflow(integers.first ?? 0)
        isDense = !overflow && span == integers.count - 1
    }

    func position(of value: Int64) -> Int32? {
        guard let first = integers.first, let last = integers.last, value >= first, value <= last else { return nil }
        if isDense { return Int32(truncatingIfNeeded: value - first) }
        var (low, high) = (0, integers.count - 1)
        while low < high {
            let middle = (low + high) / 2
            if integers[middle] < value { low = middle + 1 } else { high = middle }
        }
        return integers[low] == value ? Int32(truncatingIfNeeded: low) : nil
    }
}

extension DatabaseValue {
    /// The order in which SQLite sorts values.
    fileprivate static func isOrdered(_ left: DatabaseValue, _ right: DatabaseValue) -> Bool {
        switch (left.storage, right.storage) {
        case (.int64(let left), .int64(let right)): return left < right
        case (.double(let left), .double(let right)): return left < right
        case (.int64(let left), .double(let right)): return Double(left) < right
        case (.double(let left), .int64(let right)): return left < Double(right)
        case (.string(let left), .string(let right)): return left.utf8.lexicographicallyPrecedes(right.utf8)
        case (.blob(let left), .blob(let right)): return left.lexicographicallyPrecedes(right)
        default: return rank(left) < rank(right)
        }
    }

    private static func rank(_ value: DatabaseValue) -> Int {
        switch value.storage {
        case .null: 0
        case .int64, .double: 1
        case .string: 2
        case .blob: 3
        }
    }
}
