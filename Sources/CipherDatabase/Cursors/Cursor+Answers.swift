// Operations over a whole cursor. Every call consumes the elements that it reads.

extension Cursor {
    /// Whether no element is left. Consumes one element.
    @inlinable
    public func isEmpty() throws -> Bool { try next() == nil }

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
