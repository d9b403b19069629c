// Cursors made from cursors. None reads an element before it is requested.

extension Cursor {
    /// The elements, transformed as they are read.
    public func map<Result>(_ transform: @escaping (Element) throws -> Result) -> MapCursor<Self, Result> {
        MapCursor(self, transform)
    }

    /// The transformed elements that are not nil.
    public func compactMap<Result>(
        _ transform: @escaping (Element) throws -> Result?
    ) -> CompactMapCursor<Self, Result> {
        CompactMapCursor(self, transform)
    }

    /// The elements that `isWanted` accepts.
    public func filter(_ isWanted: @escaping (Element) throws -> Bool) -> FilterCursor<Self> {
        FilterCursor(self, isWanted)
    }

    /// The elements of the sequences that elements are transformed into.
    public func flatMap<Segment: Sequence>(
        _ transform: @escaping (Element) throws -> Segment
    ) -> FlattenCursor<MapCursor<Self, AnyCursor<Segment.Element>>> {
        map { AnyCursor(try transform($0)) }.joined()
    }

    /// The elements of the cursors that elements are transformed into.
    public func flatMap<Segment: Cursor>(
        _ transform: @escaping (Element) throws -> Segment
    ) -> FlattenCursor<MapCursor<Self, Segment>> {
        map(transform).joined()
    }

    /// Each element with its position, counted from 0.
    public func enumerated() -> EnumeratedCursor<Self> { EnumeratedCursor(self) }

    /// The first elements.
    ///
    /// - Parameter limit: The most elements to take.
    public func prefix(_ limit: Int) -> PrefixCursor<Self> { PrefixCursor(self, limit: limit) }

    /// The elements before the first that `isWanted` refuses.
    public func prefix(while isWanted: @escaping (Element) throws -> Bool) -> PrefixWhileCursor<Self> {
        PrefixWhileCursor(self, isWanted)
    }

    /// The elements after the first ones.
    ///
    /// - Parameter count: How many to leave out.
    public func dropFirst(_ count: Int) -> DropFirstCursor<Self> { DropFirstCursor(self, count: count) }

    /// The elements after the first one.
    public func dropFirst() -> DropFirstCursor<Self> { dropFirst(1) }

    /// The elements from the first one that `isUnwanted` refuses.
    public func drop(while isUnwanted: @escaping (Element) throws -> Bool) -> DropWhileCursor<Self> {
        DropWhileCursor(self, isUnwanted)
    }
}

extension Sequence {
    /// The elements of the cursors that elements are transformed into.
    public func flatMap<Segment: Cursor>(
        _ transform: @escaping (Element) throws -> Segment
    ) -> FlattenCursor<MapCursor<AnyCursor<Element>, Segment>> {
        AnyCursor(self).flatMap(transform)
    }
}

extension Cursor where Element: Cursor {
    /// The elements of the cursors in this one, one cursor after the other.
    public func joined() -> FlattenCursor<Self> { FlattenCursor(self) }
}

extension Cursor where Element: Sequence {
    /// The elements of the sequences in this cursor, one sequence after the other.
    public func joined() -> FlattenCursor<MapCursor<Self, AnyCursor<Element.Element>>> { flatMap { $0 } }
}
