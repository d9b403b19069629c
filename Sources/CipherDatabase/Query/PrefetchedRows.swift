// The rows of other tables that `including(all:)` fetches for the rows of a request.

/// The rows of other tables that were fetched for the rows of a request, and for their scopes at every depth.
@usableFromInline
package final class PrefetchedRows {
    private(set) fileprivate var groups: [(key: String, rows: RowGroups)] = []
    /// The rows that were fetched for joined tables and through other tables.
    private(set) fileprivate var children: [(key: String, isScope: Bool, rows: PrefetchedRows)] = []

    package init() {}

    /// Adds the rows of an association.
    ///
    /// - Parameters:
    ///   - key: That of the association.
    ///   - path: The keys that lead to it from the request, each with whether it is a scope of the request's rows.
    /// - Returns: Whether there were no rows of this key.
    package func insert(
        _ rows: RowGroups, key: String, at path: some Collection<(key: String, isScope: Bool)>
    ) -> Bool {
        if let next = path.first {
            return child(next.key, isScope: next.isScope).insert(rows, key: key, at: path.dropFirst())
        }
        if groups.contains(where: { $0.key == key }) { return false }
        groups.append((key, rows))
        return true
    }

    private func child(_ key: String, isScope: Bool) -> PrefetchedRows {
        if let known = children.first(where: { $0.key == key && $0.isScope == isScope }) { return known.rows }
        let rows = PrefetchedRows()
        children.append((key, isScope, rows))
        return rows
    }

    fileprivate func group(_ key: String) -> RowGroups? { groups.first { $0.key == key }?.rows }

    /// The nearest rows of a key; nil when none were asked for.
    fileprivate func nearest(_ key: String) -> RowGroups? {
        if let group = group(key) { return group }
        var level = children.map(\.rows)
        while !level.isEmpty {
            for rows in level { if let group = rows.group(key) { return group } }
            level = level.flatMap { $0.children.map(\.rows) }
        }
        return nil
    }

    fileprivate var keys: Set<String> {
        children.reduce(into: Set(groups.map(\.key))) { $0.formUnion($1.rows.keys) }
    }
}

/// The rows that were fetched for one of the rows of a request.
struct OwnPrefetchedRows {
    fileprivate let all: PrefetchedRows
    /// The position of the row.
    var index: Int

    init(all: PrefetchedRows, index: Int) {
        self.all = all
        self.index = index
    }

    /// The rows that were fetched for a scope of the row.
    func scope(_ name: String) -> OwnPrefetchedRows? {
        all.children.first { $0.isScope && $0.key == name }.map { OwnPrefetchedRows(all: $0.rows, index: index) }
    }

    func isSame(as other: OwnPrefetchedRows) -> Bool {
        guard all.groups.count == other.all.groups.count, all.children.count == other.all.children.count else {
            return false
        }
        let hasSameGroups = all.groups.allSatisfy { group in
            other.all.group(group.key).map { $0[other.index].elementsEqual(group.rows[index]) } ?? false
        }
        return hasSameGroups
            && all.children.allSatisfy { child in
                let twin = other.all.children.first { $0.key == child.key && $0.isScope == child.isScope }
                guard let twin else { return false }
                return OwnPrefetchedRows(all: child.rows, index: index)
                    .isSame(as: OwnPrefetchedRows(all: twin.rows, index: other.index))
            }
    }
}

extension Row {
    /// The rows of other tables that were fetched for this one, by `including(all:)`.
    public var prefetchedRows: PrefetchedRowsView { PrefetchedRowsView(own: adaptation?.prefetched) }

    /// The rows that were prefetched for this one, the nearest ones of a key; nil when none were asked for. To be read
    /// now, by the thread that has this row.
    package func prefetchedGroup(_ key: String) -> PrefetchedGroup? {
        guard let adaptation, let own = adaptation.prefetched else { return nil }
        var group = own.all.nearest(key)?[own.index]
        if isLent { group?.lender = adaptation }
        return group
    }

    /// The rows of a request, with the rows of other tables.
    package static func adding(_ prefetched: PrefetchedRows, to rows: [Row]) -> [Row] {
        guard let first = rows.first else { return rows }
        // All rows of a request have the same layout.
        let layout = first.adaptation?.layout ?? RowLayout(first.columns)
        return rows.enumerated().map { index, row in
            .adapting(row.unadapted, to: layout, prefetched: OwnPrefetchedRows(all: prefetched, index: index))
        }
    }

    /// The position of a column in the row that the statement returned, for the leftmost column of a name here.
    package func unadaptedIndex(of name: String) -> Int? {
        columns.index(of: name).map { adaptation?.layout.columns[$0].index ?? $0 }
    }

    /// The prefetched rows of a row and of its scopes at every depth, by the keys of their associations.
    public struct PrefetchedRowsView {
        fileprivate let own: OwnPrefetchedRows?

        /// Whether there are none.
        public var isEmpty: Bool { own == nil }

        /// The keys of all associations.
        public var keys: Set<String> { own?.all.keys ?? [] }

        /// The nearest rows of a key; nil when none were asked for.
        public subscript(_ key: String) -> [Row]? { group(key).map { Array($0) } }

        /// The same, without an array of their own.
        package func group(_ key: String) -> PrefetchedGroup? {
            guard let own else { return nil }
            return own.all.nearest(key)?[own.index]
        }
    }
}

extension Row.PrefetchedRowsView: Equatable {
    /// Whether both have the same rows for the same keys.
    public static func == (left: Self, right: Self) -> Bool {
        left.keys == right.keys && left.keys.allSatisfy { left[$0] == right[$0] }
    }
}

/// The rows of an association, in groups: those of each row of a request.
package struct RowGroups {
    enum Rows {
        case objects([Row])
        /// Rows that become objects when somebody asks for them.
        case kept(KeptRows)
    }

    private let rows: Rows
    /// The positions of the rows, group by group; empty where the rows are in this order.
    private let order: [Int32]
    /// The beginning of each group, and the end of the last one.
    private let starts: [Int32]
    /// The group of each row of the request; -1 for none.
    private let groups: [Int32]

    /// - Parameters:
    ///   - rows: The rows of the association; those of one group keep their order.
    ///   - groupOfRow: The group of each of them; -1 for none.
    ///   - groupCount: How many groups there are.
    ///   - groups: The group of each row of the request; -1 for none.
    package init(_ rows: [Row], groupOfRow: [Int32], groupCount: Int, of groups: [Int32]) {
        self.init(.objects(rows), groupOfRow, groupCount, groups)
    }

    /// The same of rows without objects.
    package init(_ rows: KeptRows, groupOfRow: [Int32], groupCount: Int, of groups: [Int32]) {
        self.init(.kept(rows), groupOfRow, groupCount, groups)
    }

    private init(_ rows: Rows, _ groupOfRow: [Int32], _ groupCount: Int, _ groups: [Int32]) {
        self.rows = rows
        self.groups = groups
        var starts = [Int32](repeating: 0, count: groupCount + 1)
        var isInOrder = true
        var last: Int32 = 0
        for group in groupOfRow {
            if group < last { isInOrder = false }
            last = group
            if group >= 0 { starts[Int(group) + 1] += 1 }
        }
        for group in 0..<groupCount { starts[group + 1] += starts[group] }
        self.starts = starts
        if isInOrder {
            order = []
            return
        }
        var next = starts
        var order = [Int32](repeating: 0, count: Int(starts[groupCount]))
        for (position, group) in groupOfRow.enumerated() where group >= 0 {
            order[Int(next[Int(group)])] = Int32(truncatingIfNeeded: position)
            next[Int(group)] += 1
        }
        self.order = order
    }

    /// No rows.
    package init(emptyFor count: Int) {
        self.init([], groupOfRow: [], groupCount: 0, of: Array(repeating: -1, count: count))
    }

    /// The rows of one row of the request.
    fileprivate subscript(_ index: Int) -> PrefetchedGroup {
        let group = Int(groups[index])
        let range = group < 0 ? 0..<0 : Int(starts[group])..<Int(starts[group + 1])
        return PrefetchedGroup(rows: rows, order: order, indices: range)
    }
}

/// The rows of an association for one row of a request.
package struct PrefetchedGroup: RandomAccessCollection {
    let rows: RowGroups.Rows
    fileprivate let order: [Int32]
    package let indices: Range<Int>
    /// The owner of the row that shows those of one group after another; nil if each group has a row of its own.
    var lender: AdaptedSource?

    package var startIndex: Int { indices.lowerBound }
    package var endIndex: Int { indices.upperBound }
    package subscript(position: Int) -> Row {
        switch rows {
        case .objects(let rows): rows[place(of: position)]
        case .kept(let rows): rows[place(of: position)]
        }
    }

    /// The same group for use at any time, and on any thread.
    package var independent: PrefetchedGroup {
        var group = self
        group.lender = nil
        return group
    }

    /// The place of a row among those of all groups.
    func place(of position: Int) -> Int { order.isEmpty ? position : Int(order[position]) }
}
