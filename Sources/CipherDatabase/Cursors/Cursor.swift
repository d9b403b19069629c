/// A sequence of elements that may throw while it is read, one element at a time.
///
/// A cursor of the database reads rows on demand, so it is used inside the access that made it, once.
public protocol Cursor<Element>: AnyObject {
    associatedtype Element

    /// The next element; nil at the end.
    func next() throws -> Element?

    /// Calls `body` with every remaining element. Cursors and collections that are made of this cursor use this call
    /// wherever they consume all of it.
    func forEach(_ body: (Element) throws -> Void) throws
}

extension Cursor {
    @inlinable
    public func forEach(_ body: (Element) throws -> Void) throws {
        while let element = try next() { try body(element) }
    }
}

/// A type-erased cursor.
public final class AnyCursor<Element>: Cursor {
    private let body: () throws -> Element?
    /// The `forEach` of the cursor inside; nil where there is none.
    private let all: (((Element) throws -> Void) throws -> Void)?

    /// A cursor of what a function returns, until it returns nil.
    public init(_ next: @escaping () throws -> Element?) {
        body = next
        all = nil
    }

    /// A cursor of the remaining elements of another one.
    public init(_ cursor: some Cursor<Element>) {
        body = cursor.next
        all = cursor.forEach
    }

    public convenience init(_ elements: some Sequence<Element>) { self.init(iterator: elements.makeIterator()) }

    /// A cursor of the elements of an iterator.
    public convenience init(iterator: some IteratorProtocol<Element>) {
        var iterator = iterator
        self.init { iterator.next() }
    }

    public func next() throws -> Element? { try body() }

    public func forEach(_ body: (Element) throws -> Void) throws {
        if let all { return try all(body) }
        while let element = try next() { try body(element) }
    }
}

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

// Collections out of cursors.

extension Array {
    /// The elements of a cursor, all of them.
    @inlinable
    public init(_ cursor: some Cursor<Element>) throws {
        self.init()
        try append(contentsOf: cursor)
    }

    /// The elements of a cursor, all of them.
    ///
    /// - Parameter minimumCapacity: The number of elements for which space is reserved.
    @inlinable
    public init(_ cursor: some Cursor<Element>, minimumCapacity: Int) throws {
        self.init()
        reserveCapacity(minimumCapacity)
        try append(contentsOf: cursor)
    }
}

extension RangeReplaceableCollection {
    /// The elements of a cursor, all of them.
    @inlinable
    public init(_ cursor: some Cursor<Element>) throws {
        self.init()
        try append(contentsOf: cursor)
    }

    /// The elements of a cursor, all of them.
    ///
    /// - Parameter minimumCapacity: The number of elements for which space is reserved.
    @inlinable
    public init(_ cursor: some Cursor<Element>, minimumCapacity: Int) throws {
        self.init()
        reserveCapacity(minimumCapacity)
        try append(contentsOf: cursor)
    }

    /// Adds the elements of a cursor.
    @inlinable
    public mutating func append(contentsOf cursor: some Cursor<Element>) throws {
        try cursor.forEach { append($0) }
    }
}

extension Set {
    /// The elements of a cursor, each once.
    @inlinable
    public init(_ cursor: some Cursor<Element>) throws {
        self.init()
        try cursor.forEach { insert($0) }
    }

    /// The elements of a cursor, each once.
    ///
    /// - Parameter minimumCapacity: The number of elements for which space is reserved.
    @inlinable
    public init(_ cursor: some Cursor<Element>, minimumCapacity: Int) throws {
        self.init(minimumCapacity: minimumCapacity)
        try cursor.forEach { insert($0) }
    }

    /// Adds the elements of a cursor.
    @inlinable
    public mutating func formUnion(_ cursor: some Cursor<Element>) throws {
        try cursor.forEach { insert($0) }
    }

    /// The elements of both.
    @inlinable
    public func union(_ cursor: some Cursor<Element>) throws -> Set<Element> {
        var union = self
        try union.formUnion(cursor)
        return union
    }

    /// Removes the elements that a cursor does not have.
    @inlinable
    public mutating func formIntersection(_ cursor: some Cursor<Element>) throws {
        self = try intersection(cursor)
    }

    /// The elements that are in both.
    @inlinable
    public func intersection(_ cursor: some Cursor<Element>) throws -> Set<Element> {
        var intersection: Set<Element> = []
        try cursor.forEach { if contains($0) { intersection.insert($0) } }
        return intersection
    }
}

extension Dictionary {
    /// The pairs of a cursor.
    ///
    /// - Throws: What the cursor throws, and `SQLITE_MISUSE` where a key comes twice.
    @inlinable
    public init(uniqueKeysWithValues pairs: some Cursor<(Key, Value)>) throws {
        self.init()
        try insertUnique(pairs)
    }

    /// The pairs of a cursor.
    ///
    /// - Parameter minimumCapacity: The number of pairs for which space is reserved.
    /// - Throws: What the cursor throws, and `SQLITE_MISUSE` where a key comes twice.
    @inlinable
    public init(minimumCapacity: Int, uniqueKeysWithValues pairs: some Cursor<(Key, Value)>) throws {
        self.init(minimumCapacity: minimumCapacity)
        try insertUnique(pairs)
    }

    @usableFromInline
    mutating func insertUnique(_ pairs: some Cursor<(Key, Value)>) throws {
        try pairs.forEach { key, value in
            guard updateValue(value, forKey: key) == nil else {
                throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "a key comes twice in the cursor")
            }
        }
    }

    /// The elements of a cursor, grouped by a key.
    @inlinable
    public init<Values: Cursor>(grouping values: Values, by key: (Values.Element) throws -> Key) throws
    where Value == [Values.Element] {
        self.init()
        try values.forEach { self[try key($0), default: []].append($0) }
    }

    /// The elements of a cursor, grouped by a key.
    ///
    /// - Parameter minimumCapacity: The number of keys for which space is reserved.
    @inlinable
    public init<Values: Cursor>(
        minimumCapacity: Int, grouping values: Values, by key: (Values.Element) throws -> Key
    ) throws where Value == [Values.Element] {
        self.init(minimumCapacity: minimumCapacity)
        try values.forEach { self[try key($0), default: []].append($0) }
    }
}

// Operations over a whole cursor. Every call consumes the elements that it reads.

extension Cursor {
    /// Whether no element is left. Consumes one element.
    @inlinable
    public var isEmpty: Bool { get throws { try next() == nil } }

    /// The first element that is left.
    @inlinable
    public func first() throws -> Element? { try next() }

    /// The first element that `isWanted` accepts.
    @inlinable
    public func first(where isWanted: (Element) throws -> Bool) throws -> Element? {
        while let element = try next() { if try isWanted(element) { return element } }
        return nil
    }

    /// Whether any element is accepted by `isWanted`.
    @inlinable
    public func contains(where isWanted: (Element) throws -> Bool) throws -> Bool {
        try first(where: isWanted) != nil
    }

    /// Folds the elements, changing the result in place.
    @inlinable
    public func reduce<Result>(into result: Result, _ update: (inout Result, Element) throws -> Void) throws -> Result {
        var result = result
        while let element = try next() { try update(&result, element) }
        return result
    }

    /// Folds the elements.
    @inlinable
    public func reduce<Result>(_ initial: Result, _ next: (Result, Element) throws -> Result) throws -> Result {
        var result = initial
        while let element = try self.next() { result = try next(result, element) }
        return result
    }

    /// The least element; nil when there is none.
    @inlinable
    public func min(by isLess: (Element, Element) throws -> Bool) throws -> Element? {
        guard var least = try next() else { return nil }
        while let element = try next() { if try isLess(element, least) { least = element } }
        return least
    }

    /// The greatest element; nil when there is none.
    @inlinable
    public func max(by isLess: (Element, Element) throws -> Bool) throws -> Element? {
        guard var greatest = try next() else { return nil }
        while let element = try next() { if try isLess(greatest, element) { greatest = element } }
        return greatest
    }

    /// All elements but the last ones.
    ///
    /// - Parameter count: How many to leave out.
    public func dropLast(_ count: Int) throws -> [Element] {
        ProgrammerError.require(count >= 0, "a cursor cannot drop \(count) elements")
        var elements = try Array(self)
        elements.removeLast(Swift.min(count, elements.count))
        return elements
    }

    /// All elements but the last one.
    public func dropLast() throws -> [Element] { try dropLast(1) }

    /// The last elements.
    ///
    /// - Parameter limit: The most elements to take. No more than these are kept at any time.
    public func suffix(_ limit: Int) throws -> [Element] {
        ProgrammerError.require(limit >= 0, "a cursor has no suffix of \(limit) elements")
        if limit == 0 {
            try forEach { _ in }
            return []
        }
        // A ring: the oldest element is overwritten.
        var ring: [Element] = []
        var oldest = 0
        while let element = try next() {
            if ring.count < limit {
                ring.append(element)
            } else {
                ring[oldest] = element
                oldest = (oldest + 1) % limit
            }
        }
        return Array(ring[oldest...] + ring[..<oldest])
    }
}

extension Cursor where Element: Equatable {
    /// Whether any element equals `wanted`.
    @inlinable
    public func contains(_ wanted: Element) throws -> Bool { try contains { $0 == wanted } }
}

extension Cursor where Element: Comparable {
    /// The least element; nil when there is none.
    @inlinable
    public func min() throws -> Element? { try min(by: <) }

    /// The greatest element; nil when there is none.
    @inlinable
    public func max() throws -> Element? { try max(by: <) }
}

extension Cursor where Element: StringProtocol {
    /// The concatenated texts.
    public func joined(separator: String = "") throws -> String {
        guard let first = try next() else { return "" }
        return try reduce(into: String(first)) { $0 += separator + String($1) }
    }
}
