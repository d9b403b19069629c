/// Which columns of a statement's rows an adapter shows, under which names and with which scopes.
public struct RowLayout: Sendable {
    /// A column of the statement, counted from 0, and the name under which it is shown.
    public struct Column: Sendable, Hashable {
        public let index: Int
        public let name: String

        public init(index: Int, name: String) {
            self.index = index
            self.name = name
        }
    }

    /// The columns, from left to right.
    public let columns: [Column]
    /// The layouts of the scopes.
    public let scopes: [String: RowLayout]
    let rowColumns: RowColumns
    /// The first of columns that are adjacent in the statement; nil for scattered columns.
    let firstOfNeighbors: Int?

    public init(columns: [Column], scopes: [String: RowLayout] = [:]) {
        self.init(columns: columns, scopes: scopes, rowColumns: RowColumns(names: columns.map(\.name)))
    }

    /// The layout of a statement's own rows.
    init(_ rowColumns: RowColumns) {
        let columns = rowColumns.names.enumerated().map { Column(index: $0.offset, name: $0.element) }
        self.init(columns: columns, scopes: [:], rowColumns: rowColumns)
    }

    private init(columns: [Column], scopes: [String: RowLayout], rowColumns: RowColumns) {
        self.columns = columns
        self.scopes = scopes
        self.rowColumns = rowColumns
        let first = columns.first?.index ?? 0
        firstOfNeighbors = zip(columns, first...).allSatisfy { $0.index == $1 } ? first : nil
    }

    /// The leftmost column of a name, whatever its case.
    public func column(named name: String) -> Column? { rowColumns.index(of: name).map { columns[$0] } }

    /// The same columns with scopes added; an added one replaces one of the same name.
    public func addingScopes(_ added: [String: RowLayout]) -> RowLayout {
        RowLayout(columns: columns, scopes: scopes.merging(added) { $1 }, rowColumns: rowColumns)
    }

    /// The same columns without scopes.
    var withoutScopes: RowLayout { RowLayout(columns: columns, scopes: [:], rowColumns: rowColumns) }
}

/// Converts the rows of a statement: to some of the columns, other names, groups of columns.
///
/// Pass one to a fetch:
///
/// ```swift
/// let adapter = ScopeAdapter(["team": SuffixRowAdapter(fromIndex: 2)])
/// let row = try Row.fetchOne(db, sql: "SELECT player.id, player.name, team.* FROM ...", adapter: adapter)
/// row?.scopes["team"]
/// ```
public protocol RowAdapter: Sendable {
    /// How the adapter shows the rows of a layout.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_MISUSE` when the columns it needs do not exist.
    func layout(of base: RowLayout) throws -> RowLayout
}

extension RowAdapter {
    /// This adapter with scopes added; an added one replaces one of the same name.
    public func addingScopes(_ scopes: [String: any RowAdapter]) -> any RowAdapter {
        scopes.isEmpty ? self : ScopeAdapter(base: self, scopes: scopes)
    }
}

extension Row {
    /// A row as an adapter shows it.
    static func adapting(_ base: Row, to layout: RowLayout, prefetched: OwnPrefetchedRows? = nil) -> Row {
        if let first = layout.firstOfNeighbors {
            return Row(showing: base, from: first, layout: layout, prefetched: prefetched)
        }
        if base.statement != nil { return adapting(base.copy(), to: layout, prefetched: prefetched) }
        let values = layout.columns.map { base.databaseValue(at: $0.index) }
        return Row(RowBlock(values, columns: layout.rowColumns), base: base, layout: layout, prefetched: prefetched)
    }
}
