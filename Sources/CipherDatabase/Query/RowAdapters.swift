/// Shows no column.
public struct EmptyRowAdapter: RowAdapter {
    public init() {}

    public func layout(of base: RowLayout) throws -> RowLayout { RowLayout(columns: []) }
}

/// Shows some columns under other names, in the order of the statement.
public struct ColumnMapping: RowAdapter {
    private let baseNames: [String: String]

    /// - Parameter mapping: From the names to show to the names in the statement, whose case is ignored.
    public init(_ mapping: [String: String]) { baseNames = mapping }

    public func layout(of base: RowLayout) throws -> RowLayout {
        let columns = try baseNames.map { name, baseName in
            guard let column = base.column(named: baseName) else {
                let names = base.columns.map(\.name).joined(separator: ", ")
                throw DatabaseError(
                    resultCode: .SQLITE_MISUSE,
                    message: "the mapping names a column \(baseName) that is not there: the columns are \(names)")
            }
            return RowLayout.Column(index: column.index, name: name)
        }
        return RowLayout(columns: columns.sorted { ($0.index, $0.name) < ($1.index, $1.name) })
    }
}

/// Shows the columns from a given one on.
public struct SuffixRowAdapter: RowAdapter {
    private let index: Int

    /// - Parameter index: The first column to show, counted from 0.
    public init(fromIndex index: Int) { self.index = index }

    public func layout(of base: RowLayout) throws -> RowLayout {
        try base.slice(index..<max(index, base.columns.count))
    }
}

/// Shows the columns of a range.
public struct RangeRowAdapter: RowAdapter {
    private let range: Range<Int>

    /// - Parameter range: The columns to show, counted from 0.
    public init(_ range: Range<Int>) { self.range = range }

    /// - Parameter range: The columns to show, counted from 0.
    public init(_ range: ClosedRange<Int>) { self.range = Range(range) }

    public func layout(of base: RowLayout) throws -> RowLayout { try base.slice(range) }
}

/// Shows all columns under other names.
public struct RenameColumnAdapter: RowAdapter {
    private let transform: @Sendable (String) -> String

    /// - Parameter transform: From the name in the statement to the name to show.
    public init(_ transform: @escaping @Sendable (String) -> String) { self.transform = transform }

    public func layout(of base: RowLayout) throws -> RowLayout {
        RowLayout(
            columns: base.columns.map { RowLayout.Column(index: $0.index, name: transform($0.name)) },
            scopes: base.scopes)
    }
}

/// Adds scopes to a row: rows over columns of the same statement.
public struct ScopeAdapter: RowAdapter {
    private let base: (any RowAdapter)?
    private let scopes: [String: any RowAdapter]

    /// Keeps the row's columns as they are.
    public init(_ scopes: [String: any RowAdapter]) {
        base = nil
        self.scopes = scopes
    }

    /// Shows the row's columns as `base` does. Scopes of `base` stay, unless `scopes` has one of the same name.
    public init(base: some RowAdapter, scopes: [String: any RowAdapter]) {
        self.base = base
        self.scopes = scopes
    }

    public func layout(of base: RowLayout) throws -> RowLayout {
        let shown = try self.base?.layout(of: base) ?? base
        return shown.addingScopes(try scopes.mapValues { try $0.layout(of: base) })
    }
}

/// One adapter applied after another.
struct ChainedAdapter: RowAdapter {
    let first: any RowAdapter
    let second: any RowAdapter

    func layout(of base: RowLayout) throws -> RowLayout { try second.layout(of: first.layout(of: base)) }
}

/// An adapter that is used again and again: a statement keeps the layout that it has for its rows, and with it what the
/// record layer has found out about them.
package final class KeptRowAdapter: RowAdapter {
    private let base: any RowAdapter

    package init(_ base: any RowAdapter) { self.base = base }

    package func layout(of base: RowLayout) throws -> RowLayout { try self.base.layout(of: base) }
}

/// Adapters that split a row into pieces: one for each count, and a last one for the columns after them.
///
/// - Parameter columnCounts: How many columns each piece has.
public func splittingRowAdapters(columnCounts: [Int]) -> [any RowAdapter] {
    var start = 0
    var adapters: [any RowAdapter] = []
    for count in columnCounts {
        adapters.append(RangeRowAdapter(start..<(start + max(0, count))))
        start += max(0, count)
    }
    return adapters + [SuffixRowAdapter(fromIndex: start)]
}

extension RowLayout {
    fileprivate func slice(_ range: Range<Int>) throws -> RowLayout {
        guard range.lowerBound >= 0 && range.upperBound <= columns.count else {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: "the adapter shows columns \(range.lowerBound)..<\(range.upperBound) of \(columns.count)")
        }
        return RowLayout(columns: Array(columns[range]))
    }
}
