// The rows within a row that adapters define.

extension Row {
    /// The scopes of the row, which adapters such as ``ScopeAdapter`` define.
    public var scopes: ScopesView {
        let adaptation = adaptation
        return ScopesView(
            base: adaptation?.base, layouts: adaptation?.layout.scopes ?? [:],
            prefetched: adaptation?.prefetched?.scopes ?? [:])
    }

    /// The scopes of the row, their scopes, and so on.
    public var scopesTree: ScopesTreeView { ScopesTreeView(scopes: scopes) }

    /// The row without its scopes.
    public var unscoped: Row {
        guard let adaptation, !adaptation.layout.scopes.isEmpty || adaptation.prefetched != nil else { return self }
        return Row.adapting(adaptation.base, to: adaptation.layout.withoutScopes)
    }

    /// The row as the statement returned it, with all of its columns.
    public var unadapted: Row { adaptation?.base ?? self }

    /// The scopes of a row, by name.
    public struct ScopesView: Collection {
        fileprivate let base: Row?
        fileprivate let layouts: [String: RowLayout]
        fileprivate let prefetched: [String: PrefetchedRows]

        public typealias Index = Dictionary<String, RowLayout>.Index
        public typealias Element = (name: String, row: Row)

        /// The names of the scopes.
        public var names: Dictionary<String, RowLayout>.Keys { layouts.keys }

        /// The row of a scope; nil when there is no scope of this name.
        public subscript(name: String) -> Row? {
            guard let base, let layout = layouts[name] else { return nil }
            return .adapting(base, to: layout, prefetched: prefetched[name])
        }

        public var startIndex: Index { layouts.startIndex }
        public var endIndex: Index { layouts.endIndex }
        public func index(after index: Index) -> Index { layouts.index(after: index) }
        public subscript(position: Index) -> Element {
            let (name, layout) = layouts[position]
            return (name, base.map { .adapting($0, to: layout, prefetched: prefetched[name]) } ?? Row())
        }
    }

    /// The scopes of a row at every depth, by name.
    public struct ScopesTreeView {
        fileprivate let scopes: ScopesView

        /// The names of the scopes at every depth.
        public var names: Set<String> {
            scopes.reduce(into: Set(scopes.names)) { $0.formUnion($1.row.scopesTree.names) }
        }

        /// The row of the nearest scope of a name; nil when there is none.
        public subscript(name: String) -> Row? {
            var level = [scopes]
            while !level.isEmpty {
                for scopes in level { if let row = scopes[name] { return row } }
                level = level.flatMap { $0.map(\.row.scopes) }
            }
            return nil
        }
    }
}

// MARK: - Prefetched rows

/// The rows of other tables that were fetched for a row and for its scopes, by the keys of their associations.
package final class PrefetchedRows {
    package let rows: [String: [Row]]
    package let scopes: [String: PrefetchedRows]

    package init(rows: [String: [Row]], scopes: [String: PrefetchedRows]) {
        self.rows = rows
        self.scopes = scopes
    }
}

extension Row {
    /// The rows of other tables that were fetched for this one, by `including(all:)`.
    public var prefetchedRows: PrefetchedRowsView { PrefetchedRowsView(root: adaptation?.prefetched) }

    /// The row with rows of other tables.
    package func adding(_ prefetched: PrefetchedRows) -> Row {
        if let adaptation { return .adapting(adaptation.base, to: adaptation.layout, prefetched: prefetched) }
        return .adapting(self, to: RowLayout(columns), prefetched: prefetched)
    }

    /// The position of a column in the row that the statement returned, for the leftmost column of a name here.
    package func unadaptedIndex(of name: String) -> Int? {
        columns.index(of: name).map { adaptation?.layout.columns[$0].index ?? $0 }
    }

    /// The prefetched rows of a row and of its scopes at every depth, by the keys of their associations.
    public struct PrefetchedRowsView {
        fileprivate let root: PrefetchedRows?

        /// Whether there are none.
        public var isEmpty: Bool { keys.isEmpty }

        /// The keys of all associations.
        public var keys: Set<String> {
            var keys: Set<String> = []
            var level = root.map { [$0] } ?? []
            while !level.isEmpty {
                for node in level { keys.formUnion(node.rows.keys) }
                level = level.flatMap(\.scopes.values)
            }
            return keys
        }

        /// The nearest rows of a key; nil when none were asked for.
        public subscript(_ key: String) -> [Row]? {
            var level = root.map { [$0] } ?? []
            while !level.isEmpty {
                for node in level { if let rows = node.rows[key] { return rows } }
                level = level.flatMap(\.scopes.values)
            }
            return nil
        }
    }
}
