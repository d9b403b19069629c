import Synchronization

/// When a shared observation ends.
public enum SharedValueObservationExtent: Sendable {
    /// With the ``SharedValueObservation`` object and its clients.
    case observationLifetime
    /// With the last client; the next one starts it again, after an error too.
    case whileObserved
}

/// An observation whose clients share its fetches and values. A client that comes late gets the last value first.
public final class SharedValueObservation<Element: Sendable>: Sendable {
    typealias Start = AsyncValueObservation<Element>.Start

    private let scheduler: any ValueObservationScheduler
    private let extent: SharedValueObservationExtent
    private let begin: Start
    private let state = Mutex(State())

    private struct State {
        var clients: [SharedObservationClient<Element>] = []
        /// The value that was delivered last, and the number of values before it.
        var latest: Result<Element, any Error>?
        var number = 0
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
    @preconcurrency
    public func start(
        onError: @escaping @Sendable (any Error) -> Void, onChange: @escaping @Sendable (Element) -> Void
    ) -> AnyDatabaseCancellable {
        let isImmediate = scheduler.immediateInitialValue()
        let client = SharedObservationClient(onError, onChange)
        let (run, hasLatest) = state.withLock { state -> (Int?, Bool) in
            state.clients.append(client)
            if state.isStarted { return (nil, state.latest != nil) }
            state.isStarted = true
            state.run += 1
            return (state.run, false)
        }
        if hasLatest {
            if isImmediate { deliverLatest(to: client) } else { scheduler.schedule { self.deliverLatest(to: client) } }
        } else if let run {
            let observation = begin(
                { [weak self] in self?.deliver(.failure($0), run) }, { [weak self] in self?.deliver(.success($0), run) }
            )
            state.withLock { if $0.isStarted && $0.run == run { $0.cancellable = observation } }
        }
        // Kept by the client, and with it the observation.
        return AnyDatabaseCancellable { self.remove(client) }
    }

    /// The values as a sequence, each iteration of which is a client.
    public func values(
        bufferingPolicy: AsyncValueObservation<Element>.BufferingPolicy = .unbounded
    ) -> AsyncValueObservation<Element> {
        AsyncValueObservation(bufferingPolicy: bufferingPolicy) { self.start(onError: $0, onChange: $1) }
    }

    private func deliverLatest(to client: SharedObservationClient<Element>) {
        let (latest, number) = state.withLock { ($0.latest, $0.number) }
        if let latest { client.receive(latest, number) }
    }

    private func deliver(_ result: Result<Element, any Error>, _ run: Int) {
        let (clients, number) = state.withLock { state -> ([SharedObservationClient<Element>], Int) in
            guard state.run == run, state.isStarted else { return ([], 0) }
            defer {
                if case .failure = result {
                    state.clients = []
                    if extent == .whileObserved { (state.isStarted, state.latest) = (false, nil) }
                }
            }
            state.latest = result
            state.number += 1
            return (state.clients, state.number)
        }
        for client in clients { client.receive(result, number) }
    }

    private func remove(_ client: SharedObservationClient<Element>) {
        client.end()
        // Released without the lock.
        let ended = state.withLock { state -> AnyDatabaseCancellable? in
            state.clients.removeAll { $0 === client }
            guard state.clients.isEmpty, extent == .whileObserved else { return nil }
            (state.isStarted, state.latest) = (false, nil)
            defer { state.cancellable = nil }
            return state.cancellable
        }
        ended?.cancel()
    }
}

/// One client: it gets the values in their order, each of them once, whatever threads bring them.
private final class SharedObservationClient<Element: Sendable>: Sendable {
    private typealias Functions = (
        onError: @Sendable (any Error) -> Void, onChange: @Sendable (Element) -> Void
    )

    private struct State {
        /// Nil when the client has ended.
        var functions: Functions?
        var pending: [Result<Element, any Error>] = []
        /// The number of the last value.
        var number = 0
        var isDelivering = false
    }

    private let state: Mutex<State>

    init(_ onError: @escaping @Sendable (any Error) -> Void, _ onChange: @escaping @Sendable (Element) -> Void) {
        state = Mutex(State(functions: (onError, onChange)))
    }

    func end() { state.withLock { ($0.functions, $0.pending) = (nil, []) } }

    func receive(_ result: Result<Element, any Error>, _ number: Int) {
        let mustDeliver = state.withLock { state -> Bool in
            if state.functions == nil || number <= state.number { return false }
            state.number = number
            state.pending.append(result)
            defer { state.isDelivering = true }
            return !state.isDelivering
        }
        if mustDeliver { deliverAll() }
    }

    private func deliverAll() {
        while true {
            let next = state.withLock { state -> (Result<Element, any Error>, Functions)? in
                guard !state.pending.isEmpty, let functions = state.functions else {
                    state.isDelivering = false
                    return nil
                }
                return (state.pending.removeFirst(), functions)
            }
            guard let (result, functions) = next else { return }
            switch result {
            case .success(let value): functions.onChange(value)
            case .failure(let error):
                end()
                functions.onError(error)
            }
        }
    }
}
