import Synchronization

/// When a shared observation ends.
public enum SharedValueObservationExtent: Sendable {
    /// With the ``SharedValueObservation`` object and its clients.
    case observationLifetime
    /// With the last client; the next one starts it again, after an error too.
    case whileObserved
}

/// An observation of which all clients share the fetches and the values. A client that comes late gets the last value
/// first.
public final class SharedValueObservation<Element: Sendable>: Sendable {
    typealias Start = AsyncValueObservation<Element>.Start

    private let scheduler: any ValueObservationScheduler
    private let extent: SharedValueObservationExtent
    private let begin: Start
    private let state = Mutex(State())

    private struct Client: Sendable {
        let onError: @Sendable (any Error) -> Void
        let onChange: @Sendable (Element) -> Void
    }

    private struct State {
        var clients: [(id: Int, client: Client)] = []
        var nextID = 0
        var latest: Element?
        var failure: (any Error)?
        /// The observation under way.
        var cancellable: AnyDatabaseCancellable?
        var isStarted = false
        /// Counts the starts: what an earlier observation delivers is not passed on.
        var run = 0
    }

    init(_ scheduler: any ValueObservationScheduler, _ extent: SharedValueObservationExtent, begin: @escaping Start) {
        self.scheduler = scheduler
        self.extent = extent
        self.begin = begin
    }

    /// Adds a client.
    ///
    /// - Parameters:
    ///   - onError: Called once, when the observation has failed.
    ///   - onChange: Called with the last value, if there is one, and with each later one.
    /// - Returns: What keeps the client.
    public func start(
        onError: @escaping @Sendable (any Error) -> Void, onChange: @escaping @Sendable (Element) -> Void
    ) -> AnyDatabaseCancellable {
        let isImmediate = scheduler.immediateInitialValue()
        let client = Client(onError: onError, onChange: onChange)
        let (id, run, latest, failure) = state.withLock { state -> (Int, Int?, Element?, (any Error)?) in
            let id = state.nextID
            state.nextID += 1
            if let failure = state.failure { return (id, nil, nil, failure) }
            state.clients.append((id, client))
            if state.isStarted { return (id, nil, state.latest, nil) }
            state.isStarted = true
            state.run += 1
            return (id, state.run, nil, nil)
        }
        // Kept by the client, and with it the observation.
        let cancellable = AnyDatabaseCancellable { self.remove(id) }
        if let failure {
            if isImmediate { onError(failure) } else { scheduler.schedule { onError(failure) } }
        } else if latest != nil {
            if isImmediate { deliverLatest(to: id) } else { scheduler.schedule { self.deliverLatest(to: id) } }
        } else if let run {
            let observation = begin({ [weak self] in self?.fail($0, run) }, { [weak self] in self?.deliver($0, run) })
            state.withLock { if $0.isStarted && $0.run == run { $0.cancellable = observation } }
        }
        return cancellable
    }

    /// The values as a sequence, each iteration of which is a client.
    public func values(
        bufferingPolicy: AsyncValueObservation<Element>.BufferingPolicy = .unbounded
    ) -> AsyncValueObservation<Element> {
        AsyncValueObservation(bufferingPolicy: bufferingPolicy) { self.start(onError: $0, onChange: $1) }
    }

    private func deliverLatest(to id: Int) {
        let (client, latest) = state.withLock { state in
            (state.clients.first { $0.id == id }?.client, state.latest)
        }
        if let client, let latest { client.onChange(latest) }
    }

    private func deliver(_ value: Element, _ run: Int) {
        let clients = state.withLock { state -> [Client] in
            guard state.run == run, state.isStarted else { return [] }
            state.latest = value
            return state.clients.map(\.client)
        }
        for client in clients { client.onChange(value) }
    }

    private func fail(_ error: any Error, _ run: Int) {
        let clients = state.withLock { state -> [Client] in
            guard state.run == run, state.isStarted else { return [] }
            defer { state.clients = [] }
            if extent == .observationLifetime {
                state.failure = error
            } else {
                state.isStarted = false
                state.latest = nil
            }
            return state.clients.map(\.client)
        }
        for client in clients { client.onError(error) }
    }

    private func remove(_ id: Int) {
        // Released without the lock.
        let ended = state.withLock { state -> AnyDatabaseCancellable? in
            state.clients.removeAll { $0.id == id }
            guard state.clients.isEmpty, extent == .whileObserved else { return nil }
            state.isStarted = false
            state.latest = nil
            defer { state.cancellable = nil }
            return state.cancellable
        }
        ended?.cancel()
    }
}
