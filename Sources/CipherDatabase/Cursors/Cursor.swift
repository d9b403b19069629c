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
