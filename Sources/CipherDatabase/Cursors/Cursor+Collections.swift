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
}

extension Dictionary {
    /// The pairs of a cursor. Traps on a duplicate key.
    @inlinable
    public init(uniqueKeysWithValues pairs: some Cursor<(Key, Value)>) throws {
        self.init()
        try insertUnique(pairs)
    }

    /// The pairs of a cursor. Traps on a duplicate key.
    ///
    /// - Parameter minimumCapacity: The number of pairs for which space is reserved.
    @inlinable
    public init(minimumCapacity: Int, uniqueKeysWithValues pairs: some Cursor<(Key, Value)>) throws {
        self.init(minimumCapacity: minimumCapacity)
        try insertUnique(pairs)
    }

    @usableFromInline
    mutating func insertUnique(_ pairs: some Cursor<(Key, Value)>) throws {
        try pairs.forEach { key, value in
            ProgrammerError.require(updateValue(value, forKey: key) == nil, "a key comes twice in the cursor")
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
