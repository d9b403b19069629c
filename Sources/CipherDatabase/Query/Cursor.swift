/// A sequence of elements that may throw while it is read, one element at a time.
///
/// A cursor of the database reads rows as they are asked for, so it is used inside the access that made it, once.
public protocol Cursor<Element>: AnyObject {
    associatedtype Element

    /// The next element; nil at the end.
    func next() throws -> Element?

    /// Calls `body` with every element that is left.
    func forEach(_ body: (Element) throws -> Void) throws
}

extension Cursor {
    @inlinable
    public func forEach(_ body: (Element) throws -> Void) throws {
        while let element = try next() { try body(element) }
    }

    /// Whether no element is left. Takes one element.
    @inlinable
    public func isEmpty() throws -> Bool { try next() == nil }

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

    /// The elements, transformed as they are read.
    public func map<T>(_ transform: @escaping (Element) throws -> T) -> AnyCursor<T> {
        AnyCursor { try self.next().map(transform) }
    }

    /// The transformed elements that are not nil.
    public func compactMap<T>(_ transform: @escaping (Element) throws -> T?) -> AnyCursor<T> {
        AnyCursor {
            while let element = try self.next() { if let result = try transform(element) { return result } }
            return nil
        }
    }

    /// The elements that `isWanted` accepts.
    public func filter(_ isWanted: @escaping (Element) throws -> Bool) -> AnyCursor<Element> {
        AnyCursor {
            while let element = try self.next() { if try isWanted(element) { return element } }
            return nil
        }
    }

    /// The first `limit` elements.
    public func prefix(_ limit: Int) -> AnyCursor<Element> {
        var left = limit
        return AnyCursor {
            guard left > 0 else { return nil }
            left -= 1
            return try self.next()
        }
    }
}

/// A cursor that hides what makes its elements.
public final class AnyCursor<Element>: Cursor {
    private let body: () throws -> Element?

    public init(_ next: @escaping () throws -> Element?) { body = next }

    public convenience init(_ elements: some Sequence<Element>) {
        var iterator = elements.makeIterator()
        self.init { iterator.next() }
    }

    public func next() throws -> Element? { try body() }
}

extension Array {
    /// The elements of a cursor, all of them.
    @inlinable
    public init(_ cursor: some Cursor<Element>) throws {
        self.init()
        while let element = try cursor.next() { append(element) }
    }
}

extension Set {
    /// The elements of a cursor, each once.
    @inlinable
    public init(_ cursor: some Cursor<Element>) throws {
        self.init()
        while let element = try cursor.next() { insert(element) }
    }
}
