import Synchronization

/// Something that runs until it is cancelled.
public protocol DatabaseCancellable: Sendable {
    /// Ends it. No function of the program is called afterwards, except for a call that is under way on another thread:
    /// it is not waited for, so that it may itself wait for this thread.
    func cancel()
}

/// An observation that ends when this object is cancelled or deallocated.
public final class AnyDatabaseCancellable: DatabaseCancellable {
    private let action: Mutex<Action?>

    // A type of its own, because each access to a Mutex wraps a function once more.
    private struct Action {
        let run: @Sendable () -> Void
    }

    /// - Parameter cancel: Called once.
    @preconcurrency
    public init(cancel: @escaping @Sendable () -> Void) { action = Mutex(Action(run: cancel)) }

    public convenience init(_ cancellable: some DatabaseCancellable) { self.init { cancellable.cancel() } }

    deinit { cancel() }

    public func cancel() {
        let action = action.withLock { $0.take() }
        action?.run()
    }

    /// Keeps this object in a collection.
    public func store(in cancellables: inout some RangeReplaceableCollection<AnyDatabaseCancellable>) {
        cancellables.append(self)
    }

    /// Keeps this object in a set.
    public func store(in cancellables: inout Set<AnyDatabaseCancellable>) { cancellables.insert(self) }
}

extension AnyDatabaseCancellable: Hashable {
    public static func == (left: AnyDatabaseCancellable, right: AnyDatabaseCancellable) -> Bool { left === right }
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
