// The cursors that the operations of ``Cursor`` make. None reads an element before it is requested.

/// The elements of a cursor, transformed as they are read.
public final class MapCursor<Base: Cursor, Element>: Cursor {
    private let base: Base
    private let transform: (Base.Element) throws -> Element

    init(_ base: Base, _ transform: @escaping (Base.Element) throws -> Element) {
        self.base = base
        self.transform = transform
    }

    public func next() throws -> Element? { try base.next().map(transform) }

    public func forEach(_ body: (Element) throws -> Void) throws { try base.forEach { try body(transform($0)) } }
}

/// The elements of a cursor, transformed as they are read, without those that become nil.
public final class CompactMapCursor<Base: Cursor, Element>: Cursor {
    private let base: Base
    private let transform: (Base.Element) throws -> Element?

    init(_ base: Base, _ transform: @escaping (Base.Element) throws -> Element?) {
        self.base = base
        self.transform = transform
    }

    public func next() throws -> Element? {
        while let element = try base.next() { if let result = try transform(element) { return result } }
        return nil
    }

    public func forEach(_ body: (Element) throws -> Void) throws {
        try base.forEach { if let result = try transform($0) { try body(result) } }
    }
}

/// The elements of a cursor that a function accepts.
public final class FilterCursor<Base: Cursor>: Cursor {
    private let base: Base
    private let isWanted: (Base.Element) throws -> Bool

    init(_ base: Base, _ isWanted: @escaping (Base.Element) throws -> Bool) {
        self.base = base
        self.isWanted = isWanted
    }

    public func next() throws -> Base.Element? { try base.first(where: isWanted) }

    public func forEach(_ body: (Base.Element) throws -> Void) throws {
        try base.forEach { if try isWanted($0) { try body($0) } }
    }
}

/// The elements of the cursors in a cursor.
public final class FlattenCursor<Base: Cursor>: Cursor where Base.Element: Cursor {
    private let base: Base
    private var inner: Base.Element?

    init(_ base: Base) { self.base = base }

    public func next() throws -> Base.Element.Element? {
        while true {
            if let element = try inner?.next() { return element }
            inner = try base.next()
            if inner == nil { return nil }
        }
    }

    public func forEach(_ body: (Base.Element.Element) throws -> Void) throws {
        try inner?.forEach(body)
        inner = nil
        try base.forEach { try $0.forEach(body) }
    }
}

/// The elements of a cursor with their positions.
public final class EnumeratedCursor<Base: Cursor>: Cursor {
    private let base: Base
    private var position = 0

    init(_ base: Base) { self.base = base }

    public func next() throws -> (Int, Base.Element)? {
        guard let element = try base.next() else { return nil }
        defer { position += 1 }
        return (position, element)
    }

    public func forEach(_ body: ((Int, Base.Element)) throws -> Void) throws {
        try base.forEach { element in
            defer { position += 1 }
            try body((position, element))
        }
    }
}

/// The first elements of a cursor.
public final class PrefixCursor<Base: Cursor>: Cursor {
    private let base: Base
    private var left: Int

    init(_ base: Base, limit: Int) {
        ProgrammerError.require(limit >= 0, "a cursor has no prefix of \(limit) elements")
        self.base = base
        left = limit
    }

    public func next() throws -> Base.Element? {
        guard left > 0 else { return nil }
        left -= 1
        return try base.next()
    }
}

/// The elements of a cursor before the first that a function refuses.
public final class PrefixWhileCursor<Base: Cursor>: Cursor {
    private let base: Base
    private let isWanted: (Base.Element) throws -> Bool
    private var isDone = false

    init(_ base: Base, _ isWanted: @escaping (Base.Element) throws -> Bool) {
        self.base = base
        self.isWanted = isWanted
    }

    public func next() throws -> Base.Element? {
        if isDone { return nil }
        if let element = try base.next(), try isWanted(element) { return element }
        isDone = true
        return nil
    }
}

/// The elements of a cursor after its first ones.
public final class DropFirstCursor<Base: Cursor>: Cursor {
    private let base: Base
    private var left: Int

    init(_ base: Base, count: Int) {
        ProgrammerError.require(count >= 0, "a cursor cannot drop \(count) elements")
        self.base = base
        left = count
    }

    public func next() throws -> Base.Element? {
        while left > 0 {
            left -= 1
            guard try base.next() != nil else { return nil }
        }
        return try base.next()
    }

    public func forEach(_ body: (Base.Element) throws -> Void) throws {
        try base.forEach { element in
            if left > 0 {
                left -= 1
            } else {
                try body(element)
            }
        }
    }
}

/// The elements of a cursor from the first one that a function refuses.
public final class DropWhileCursor<Base: Cursor>: Cursor {
    private let base: Base
    private let isUnwanted: (Base.Element) throws -> Bool
    private var isDropping = true

    init(_ base: Base, _ isUnwanted: @escaping (Base.Element) throws -> Bool) {
        self.base = base
        self.isUnwanted = isUnwanted
    }

    public func next() throws -> Base.Element? {
        while isDropping {
            guard let element = try base.next() else { return nil }
            if try !isUnwanted(element) {
                isDropping = false
                return element
            }
        }
        return try base.next()
    }

    public func forEach(_ body: (Base.Element) throws -> Void) throws {
        try base.forEach { element in
            if isDropping { isDropping = try isUnwanted(element) }
            if !isDropping { try body(element) }
        }
    }
}
