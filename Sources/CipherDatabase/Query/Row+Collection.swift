// A row as a collection of its columns.

extension Row: RandomAccessCollection {
    public struct Index: Strideable, Sendable {
        let position: Int
        public func distance(to other: Index) -> Int { other.position - position }
        public func advanced(by distance: Int) -> Index { Index(position: position + distance) }
    }
    public var startIndex: Index { Index(position: 0) }
    public var endIndex: Index { Index(position: count) }
    public func index(after index: Index) -> Index { Index(position: index.position + 1) }
    public func index(before index: Index) -> Index { Index(position: index.position - 1) }
    public func distance(from start: Index, to end: Index) -> Int { end.position - start.position }
    public func index(_ index: Index, offsetBy distance: Int) -> Index { Index(position: index.position + distance) }

    /// Name and stored value of a column.
    public subscript(position: Index) -> (String, DatabaseValue) {
        (columnNames[position.position], databaseValue(at: position.position))
    }
}
