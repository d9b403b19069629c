import CipherDatabase
import CipherRecords

/// The difference between two values of an observation that are lists.
///
/// ```swift
/// let observation = ValueObservation.trackingChanges(of: Player.order { $0.score.desc })
/// for try await changes in observation.values(in: store) {
///     for player in changes.removed { ... }
/// }
/// ```
///
/// Elements are the same where they have the same key: the primary key, or what the program takes for one. Of several
/// with one key, the first belongs to the former first, and so on.
///
/// Each value says what has changed since the one before, so none may be left out: a sequence of them needs the
/// buffering policy `.unbounded`. Programs that leave values out compare the lists themselves, by
/// ``init(from:to:by:)``.
public struct ValueChanges<Element: Sendable>: Sendable {
    /// An element that is another one than before, and has its key.
    public struct Update: Sendable {
        public let former: Element
        public let current: Element
    }

    /// The list as it is now.
    public let elements: [Element]
    /// The elements that were not there before, in the order of the list. At first, all of them.
    public let added: [Element]
    /// The elements that changed, in the order of the list.
    public let updated: [Update]
    /// The elements that are gone, in the order that they had.
    public let removed: [Element]
    /// Whether elements that were there before have another order among each other.
    public let isReordered: Bool

    /// Whether the two lists have the same elements. They may have another order: see ``isReordered``.
    public var isEmpty: Bool { added.isEmpty && updated.isEmpty && removed.isEmpty }

    /// Compares two lists.
    ///
    /// - Parameters:
    ///   - former: The earlier list.
    ///   - elements: The later list.
    ///   - key: The key of an element.
    public init<Key: Hashable>(from former: [Element], to elements: [Element], by key: (Element) throws -> Key)
        rethrows where Element: Equatable
    {
        try self.init(from: former, former.map(key), to: elements, elements.map(key)) { $0 == $1 }
    }

    /// Compares two lists, by the identity of their elements.
    public init(from former: [Element], to elements: [Element]) where Element: Equatable & Identifiable {
        self.init(from: former, to: elements, by: \.id)
    }

    fileprivate init<Key: Hashable>(
        from former: [Element], _ formerKeys: [Key], to elements: [Element], _ keys: [Key],
        _ areEqual: (Element, Element) -> Bool
    ) {
        // The places of each key, the last first.
        var places: [Key: [Int]] = [:]
        for (place, key) in formerKeys.enumerated().reversed() { places[key, default: []].append(place) }
        var (added, updated, isReordered, lastPlace) = ([Element](), [Update](), false, -1)
        var isKept = [Bool](repeating: false, count: former.count)
        for (element, key) in zip(elements, keys) {
            guard let place = places[key]?.popLast() else {
                added.append(element)
                continue
            }
            isKept[place] = true
            if place < lastPlace { isReordered = true }
            lastPlace = max(lastPlace, place)
            if !areEqual(former[place], element) { updated.append(Update(former: former[place], current: element)) }
        }
        self.elements = elements
        self.added = added
        self.updated = updated
        self.isReordered = isReordered
        removed = former.indices.filter { !isKept[$0] }.map { former[$0] }
    }
}

extension ValueChanges.Update: Equatable where Element: Equatable {}
extension ValueChanges: Equatable where Element: Equatable {}

extension ValueReducers {
    /// Compares the lists of another reducer with those before.
    public struct Changes<Base: ValueReducer, Element: Equatable & Sendable, Key: Hashable & Sendable>: ValueReducer {
        var base: Base
        let elements: @Sendable (Base.Value) -> [Element]
        let key: @Sendable (Element) throws -> Key
        var former: (elements: [Element], keys: [Key])?

        public func fetch(_ db: Database) throws -> Base.Fetched { try base.fetch(db) }

        public mutating func value(_ fetched: Base.Fetched) throws -> ValueChanges<Element>? {
            guard let list = try base.value(fetched).map(elements) else { return nil }
            let keys = try list.map(key)
            defer { former = (list, keys) }
            let changes = ValueChanges(from: former?.elements ?? [], former?.keys ?? [], to: list, keys) { $0 == $1 }
            return former != nil && changes.isEmpty && !changes.isReordered ? nil : changes
        }
    }

    /// Fetches records, and compares them with those before by their primary keys.
    public struct RecordChanges<Element: Equatable & Sendable>: ValueReducer {
        /// Records with their primary keys.
        public struct Fetched: Sendable {
            let elements: [Element]
            let keys: [[DatabaseValue.Storage]]
        }

        let fetching: @Sendable (Database) throws -> Fetched
        var former: Fetched?

        public func fetch(_ db: Database) throws -> Fetched { try fetching(db) }

        public mutating func value(_ fetched: Fetched) -> ValueChanges<Element>? {
            defer { former = fetched }
            let changes = ValueChanges(
                from: former?.elements ?? [], former?.keys ?? [], to: fetched.elements, fetched.keys
            ) { $0 == $1 }
            return former != nil && changes.isEmpty && !changes.isReordered ? nil : changes
        }
    }
}

extension ValueObservation {
    /// Tracks the records of a request, and tells which were added, updated and removed since the value before, by
    /// their primary keys.
    ///
    /// The first value has all of them as added. Values without any change are left out.
    ///
    /// - Parameter request: A request of records that encode their primary key; for others see ``changes(by:)``.
    public static func trackingChanges<Record>(
        of request: some FetchRequest<Record> & Sendable
    ) -> Self
    where
        Record: FetchableRecord & EncodableRecord & TableRecord & Equatable & Sendable,
        Reducer == ValueReducers.RecordChanges<Record>
    {
        Self(
            reducer: ValueReducers.RecordChanges { db in
                let records = try request.fetchAll(db)
                let keys = try records.map { try $0.primaryKey(db).map(\.value.storage) }
                return ValueReducers.RecordChanges.Fetched(elements: records, keys: keys)
            }, tracking: .regions { try request.databaseRegion($0) })
    }

    /// Tells which elements were added, updated and removed since the value before, by keys of the program.
    ///
    /// The first value has all of them as added. Values without any change are left out.
    ///
    /// - Parameter key: The key of an element.
    public func changes<Element: Equatable & Sendable, Key: Hashable & Sendable>(
        by key: @escaping @Sendable (Element) throws -> Key
    ) -> ValueObservation<ValueReducers.Changes<Reducer, Element, Key>>
    where Reducer.Value: Collection, Reducer.Value.Element == Element {
        with(ValueReducers.Changes(base: reducer, elements: { Array($0) }, key: key))
    }

    /// Tells which elements were added, updated and removed since the value before, by their identity.
    public func changes<Element: Equatable & Identifiable & Sendable>()
        -> ValueObservation<ValueReducers.Changes<Reducer, Element, Element.ID>>
    where Reducer.Value: Collection, Reducer.Value.Element == Element, Element.ID: Sendable {
        changes { $0.id }
    }
}
