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
    /// - Parameter minimumCapacity: For how many elements room is made at once.
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
    /// - Parameter minimumCapacity: For how many elements room is made at once.
    @inlinable
    public init(_ cursor: some Cursor<Element>, minimumCapacity: Int) throws {
        self.init()
        reserveCapacity(minimumCapacity)
        try append(contentsOf: cursor)
    }

    /// Adds the elements of a cursor.
    @inlinable
    public mutating func append(contentsOf cursor: some Cursor<Element>) throws {
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

    /// The elements of a cursor, each once.
    ///
    /// - Parameter minimumCapacity: For how many elements room is made at once.
    @inlinable
    public init(_ cursor: some Cursor<Element>, minimumCapacity: Int) throws {
        self.init(minimumCapacity: minimumCapacity)
        while let element = try cursor.next() { insert(element) }
    }

    /// Adds the elements of a cursor.
    @inlinable
    public mutating func formUnion(_ cursor: some Cursor<Element>) throws {
        while let element = try cursor.next() { insert(element) }
    }
}

extension Dictionary {
    /// The pairs of a cursor. Traps when a key comes twice.
    @inlinable
    public init(uniqueKeysWithValues pairs: some Cursor<(Key, Value)>) throws {
        self.init()
        try insertUnique(pairs)
    }

    /// The pairs of a cursor. Traps when a key comes twice.
    ///
    /// - Parameter minimumCapacity: For how many pairs room is made at once.
    @inlinable
    public init(uniqueKeysWithValues pairs: some Cursor<(Key, Value)>, minimumCapacity: Int) throws {
        self.init(minimumCapacity: minimumCapacity)
        try insertUnique(pairs)
    }

    @usableFromInline
    mutating func insertUnique(_ pairs: some Cursor<(Key, Value)>) throws {
        while let (key, value) = try pairs.next() {
            ProgrammerError.require(updateValue(value, forKey: key) == nil, "a key comes twice in the cursor")
        }
    }

    /// The elements of a cursor, by a key of theirs.
    @inlinable
    public init<Values: Cursor>(grouping values: Values, by key: (Values.Element) throws -> Key) throws
    where Value == [Values.Element] {
        self.init()
        while let value = try values.next() { self[try key(value), default: []].append(value) }
    }

    /// The elements of a cursor, by a key of theirs.
    ///
    /// - Parameter minimumCapacity: For how many keys room is made at once.
    @inlinable
    public init<Values: Cursor>(
        grouping values: Values, minimumCapacity: Int, by key: (Values.Element) throws -> Key
    ) throws where Value == [Values.Element] {
        self.init(minimumCapacity: minimumCapacity)
        while let value = try values.next() { self[try key(value), default: []].append(value) }
    }
}
