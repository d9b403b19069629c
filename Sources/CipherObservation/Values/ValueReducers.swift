import CipherDatabase

/// Makes the values of an observation: it fetches inside an access, and converts outside of it.
public protocol ValueReducer<Value>: Sendable {
    /// The fetched value.
    associatedtype Fetched: Sendable
    /// The delivered value.
    associatedtype Value: Sendable

    /// Fetches in an access.
    func fetch(_ db: Database) throws -> Fetched

    /// Converts what was fetched, outside of accesses, in the order of the fetches.
    ///
    /// - Returns: nil for nothing to deliver.
    mutating func value(_ fetched: Fetched) throws -> Value?
}

/// A reducer that may convert values without any function of the program.
protocol PlainReducer {
    /// Whether it does: converting then takes no time, and cannot block.
    var isPlain: Bool { get }
}

/// The reducers of ``ValueObservation``.
public enum ValueReducers {
    /// Delivers what a function fetches.
    public struct Fetch<Value: Sendable>: ValueReducer, PlainReducer {
        var isPlain: Bool { true }
        let fetching: @Sendable (Database) throws -> Value
        public func fetch(_ db: Database) throws -> Value { try fetching(db) }
        public func value(_ fetched: Value) -> Value? { fetched }
    }

    /// Converts the values of another reducer.
    public struct Map<Base: ValueReducer, Value: Sendable>: ValueReducer {
        var base: Base
        let transform: @Sendable (Base.Value) throws -> Value
        public func fetch(_ db: Database) throws -> Base.Fetched { try base.fetch(db) }
        public mutating func value(_ fetched: Base.Fetched) throws -> Value? {
            try base.value(fetched).map(transform)
        }
    }

    /// Delivers the values of another reducer that differ from the one before.
    public struct RemoveDuplicates<Base: ValueReducer>: ValueReducer {
        var base: Base
        let areEqual: @Sendable (Base.Value, Base.Value) -> Bool
        var latest: Base.Value?
        public func fetch(_ db: Database) throws -> Base.Fetched { try base.fetch(db) }
        public mutating func value(_ fetched: Base.Fetched) throws -> Base.Value? {
            guard let value = try base.value(fetched) else { return nil }
            if let latest, areEqual(latest, value) { return nil }
            latest = value
            return value
        }
    }

    /// Reports the values of another reducer.
    public struct Trace<Base: ValueReducer>: ValueReducer, PlainReducer {
        var base: Base
        let willFetch: @Sendable () -> Void
        /// Nil where nobody wants to know.
        let didReceiveValue: (@Sendable (Base.Value) -> Void)?
        var isPlain: Bool { didReceiveValue == nil && (base as? any PlainReducer)?.isPlain == true }
        public func fetch(_ db: Database) throws -> Base.Fetched {
            willFetch()
            return try base.fetch(db)
        }
        public mutating func value(_ fetched: Base.Fetched) throws -> Base.Value? {
            guard let value = try base.value(fetched) else { return nil }
            didReceiveValue?(value)
            return value
        }
    }
}
