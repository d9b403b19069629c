// The rows within a row that adapters define.

extension Row {
    /// The scopes of the row, which adapters such as ``ScopeAdapter`` define.
    public var scopes: ScopesView { ScopesView(base: adaptation?.base, layouts: adaptation?.layout.scopes ?? [:]) }

    /// The scopes of the row, their scopes, and so on.
    public var scopesTree: ScopesTreeView { ScopesTreeView(scopes: scopes) }

    /// The row without its scopes.
    public var unscoped: Row {
        guard let adaptation, !adaptation.layout.scopes.isEmpty else { return self }
        return Row.adapting(adaptation.base, to: adaptation.layout.withoutScopes)
    }

    /// The row as the statement returned it, with all of its columns.
    public var unadapted: Row { adaptation?.base ?? self }

    /// The scopes of a row, by name.
    public struct ScopesView: Collection {
        fileprivate let base: Row?
        fileprivate let layouts: [String: RowLayout]

        public typealias Index = Dictionary<String, RowLayout>.Index
        public typealias Element = (name: String, row: Row)

        /// The names of the scopes.
        public var names: Dictionary<String, RowLayout>.Keys { layouts.keys }

        /// The row of a scope; nil when there is no scope of this name.
        public subscript(name: String) -> Row? {
            guard let base, let layout = layouts[name] else { return nil }
            return .adapting(base, to: layout)
        }

        public var startIndex: Index { layouts.startIndex }
        public var endIndex: Index { layouts.endIndex }
        public func index(after index: Index) -> Index { layouts.index(after: index) }
        public subscript(position: Index) -> Element {
            let (name, layout) = layouts[position]
            return (name, base.map { .adapting($0, to: layout) } ?? Row())
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
