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
}

/// A cursor that hides what makes its elements.
public final class AnyCursor<Element>: Cursor {
    private let body: () throws -> Element?

    /// A cursor of what a function gives, until it gives nil.
    public init(_ next: @escaping () throws -> Element?) { body = next }

    /// A cursor of the elements that are left in another one.
    public convenience init(_ cursor: some Cursor<Element>) { self.init(cursor.next) }

    public convenience init(_ elements: some Sequence<Element>) { self.init(iterator: elements.makeIterator()) }

    /// A cursor of the elements of an iterator.
    public convenience init(iterator: some IteratorProtocol<Element>) {
        var iterator = iterator
        self.init { iterator.next() }
    }

    public func next() throws -> Element? { try body() }
}
