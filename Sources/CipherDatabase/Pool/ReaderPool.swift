import Dispatch
import Synchronization

/// The reading connections of a pool: opened when first needed, kept, and lent to one access at a time.
///
/// A connection is opened outside of the pool's lock, so readers open side by side and one that opens slowly stalls
/// nobody.
final class ReaderPool: Sendable {
    private let maximumCount: Int
    private let open: @Sendable (_ number: Int) throws -> SerialConnection
    private let state = Mutex(State())

    /// Takes a connection, or nil when a place became free without a connection for it.
    private typealias Waiter = @Sendable (Result<SerialConnection?, any Error>) -> Void
    /// Those who are opening a connection now.
    private let openers = DispatchGroup()

    private struct State {
        var idle: [SerialConnection] = []
        var lent: [SerialConnection] = []
        /// Connections that are being opened now.
        var opening = 0
        /// Connections opened so far; the next one takes the next number.
        var opened = 0
        var waiters: [Waiter] = []
        var isClosed = false
        /// Whether closing failed once: connections that were closed by then may still come back.
        var wasReopened = false
        /// Barriers that are waited for or under way; nothing is lent while there is one.
        var barriers = 0
        /// Called when the last connection has come back.
        var whenAllAreBack: [@Sendable () -> Void] = []

        var allAreBack: Bool { lent.isEmpty && opening == 0 }

        /// The next of those who wait, unless a barrier keeps them waiting.
        mutating func takeWaiter() -> Waiter? {
            waiters.isEmpty || barriers > 0 ? nil : waiters.removeFirst()
        }

        /// Those who wait for all connections, when all are back.
        mutating func takeArrivals() -> [@Sendable () -> Void] {
            guard allAreBack else { return [] }
            defer { whenAllAreBack.removeAll() }
            return whenAllAreBack
        }
    }

    /// - Parameter open: Opens the n-th connection, counted from 1.
    init(maximumCount: Int, open: @escaping @Sendable (_ number: Int) throws -> SerialConnection) {
        self.maximumCount = max(1, maximumCount)
        self.open = open
    }

    // MARK: Lending

    private enum Grant {
        case connection(SerialConnection)
        case open(number: Int)
        case wait
        case closed
        case reentrant
    }

    /// Lends a connection, waiting for one when all are lent. Traps when this thread uses one already.
    func acquire() throws -> SerialConnection {
        switch state.withLock({ grant(&$0, isWaitedFor: true) }) {
        case .connection(let connection): return connection
        case .open(let number): return try openConnection(number)
        case .closed: throw DatabaseError.connectionIsClosed()
        case .reentrant: ProgrammerError.trap(ProgrammerError.reentrant)
        case .wait:
            let arrival = DispatchSemaphore(value: 0)
            let result = Mutex<Result<SerialConnection?, any Error>>(.success(nil))
            enqueue { outcome in
                result.withLock { $0 = outcome }
                arrival.signal()
            }
            arrival.wait()
            return try result.withLock { $0 }.get() ?? acquire()
        }
    }

    /// Lends a connection without blocking the thread.
    func acquire(_ receive: @escaping @Sendable (Result<SerialConnection, any Error>) -> Void) {
        switch state.withLock({ grant(&$0, isWaitedFor: false) }) {
        case .connection(let connection): receive(.success(connection))
        case .closed: receive(.failure(DatabaseError.connectionIsClosed()))
        case .reentrant: ProgrammerError.trap(ProgrammerError.reentrant)
        case .open(let number):
            // Opening reads files, and may derive a key: no work for the threads of tasks.
            DispatchQueue.global().async { [self] in receive(Result { try openConnection(number) }) }
        case .wait:
            enqueue { [self] outcome in
                switch outcome {
                case .success(let connection?): receive(.success(connection))
                case .success(nil): acquire(receive)
                case .failure(let error): receive(.failure(error))
                }
            }
        }
    }

    /// Takes a connection back.
    func release(_ connection: SerialConnection) {
        let (waiter, next, arrivals) = state.withLock {
            state -> (Waiter?, SerialConnection?, [@Sendable () -> Void]) in
            let isUsable = !state.wasReopened || connection.isOpen
            if isUsable, let waiter = state.takeWaiter() { return (waiter, connection, []) }
            state.lent.removeAll { $0 === connection }
            if isUsable && !state.isClosed { state.idle.append(connection) }
            return (isUsable ? nil : state.takeWaiter(), nil, state.takeArrivals())
        }
        waiter?(.success(next))
        for arrival in arrivals { arrival() }
    }

    /// The lent connection whose access this thread is in.
    var connectionAccessedHere: SerialConnection? { state.withLock { $0.lent.first(where: \.isAccessedHere) } }

    private func grant(_ state: inout State, isWaitedFor: Bool) -> Grant {
        if state.isClosed { return .closed }
        // Waiting for a second connection of the same pool inside of an access could wait for ever.
        if isWaitedFor && state.lent.contains(where: \.isAccessedHere) { return .reentrant }
        if state.barriers > 0 { return .wait }
        if let connection = state.idle.popLast() {
            state.lent.append(connection)
            return .connection(connection)
        }
        guard state.lent.count + state.opening < maximumCount else { return .wait }
        state.opening += 1
        state.opened += 1
        openers.enter()
        return .open(number: state.opened)
    }

    private func enqueue(_ waiter: @escaping Waiter) {
        // Between the refusal and this call a connection may have come back.
        let outcome: Result<SerialConnection?, any Error>? = state.withLock { state in
            if state.isClosed { return .failure(DatabaseError.connectionIsClosed()) }
            if state.barriers == 0 {
                if let connection = state.idle.popLast() {
                    state.lent.append(connection)
                    return .success(connection)
                }
                if state.lent.count + state.opening < maximumCount { return .success(nil) }
            }
            state.waiters.append(waiter)
            return nil
        }
        if let outcome { waiter(outcome) }
    }

    private func openConnection(_ number: Int) throws -> SerialConnection {
        defer { openers.leave() }
        let opened = Result { try open(number) }
        let (isClosed, waiter, arrivals) = state.withLock { state -> (Bool, Waiter?, [@Sendable () -> Void]) in
            state.opening -= 1
            if case .success(let connection) = opened, !state.isClosed {
                state.lent.append(connection)
                return (false, nil, [])
            }
            return (state.isClosed, state.takeWaiter(), state.takeArrivals())
        }
        waiter?(.success(nil))
        for arrival in arrivals { arrival() }
        let connection = try opened.get()
        if isClosed {
            try connection.close()
            throw DatabaseError.connectionIsClosed()
        }
        return connection
    }

    // MARK: Barriers

    /// Runs `body` while no connection is lent: waits for those that are, and keeps newcomers waiting.
    func barrier<T>(_ body: () throws -> T) rethrows -> T {
        let allAreBack = DispatchSemaphore(value: 0)
        let mustWait = state.withLock { state in
            state.barriers += 1
            if state.allAreBack { return false }
            state.whenAllAreBack.append { allAreBack.signal() }
            return true
        }
        if mustWait { allAreBack.wait() }
        defer { endBarrier() }
        return try body()
    }

    private func endBarrier() {
        let served = state.withLock { state -> [(Waiter, SerialConnection?)] in
            state.barriers -= 1
            var served: [(Waiter, SerialConnection?)] = []
            var places = maximumCount - state.lent.count - state.opening
            while places > 0, let waiter = state.takeWaiter() {
                places -= 1
                let connection = state.idle.popLast()
                if let connection { state.lent.append(connection) }
                served.append((waiter, connection))
            }
            return served
        }
        for (waiter, connection) in served { waiter(.success(connection)) }
    }

    /// Whether a barrier is waited for or under way.
    var hasBarrier: Bool { state.withLock { $0.barriers > 0 } }

    // MARK: All at once

    /// Gives memory back that idle connections keep for speed.
    func releaseMemory() {
        for connection in state.withLock({ $0.idle }) { try? connection.sync { $0.releaseMemory() } }
    }

    /// Interrupts every reader.
    func interrupt() { for connection in state.withLock({ $0.lent }) { connection.interrupt() } }

    /// Closes the readers that are free; the next reads open new ones.
    func closeIdle() {
        let connections = state.withLock { state in
            defer { state.idle.removeAll() }
            return state.idle
        }
        for connection in connections { try? connection.close() }
    }

    /// Closes every reader after the access under way on it, and refuses new ones.
    ///
    /// - Throws: ``DatabaseError`` when a reader cannot be closed; new accesses are possible then.
    func close() throws {
        let (connections, waiters) = state.withLock { state in
            if state.lent.contains(where: \.isAccessedHere) { ProgrammerError.trap(ProgrammerError.reentrant) }
            state.isClosed = true
            defer {
                state.idle.removeAll()
                state.waiters.removeAll()
            }
            return (state.idle + state.lent, state.waiters)
        }
        for waiter in waiters { waiter(.failure(DatabaseError.connectionIsClosed())) }
        // Whoever is opening a connection now closes it when it is open.
        openers.wait()
        var unclosed: [SerialConnection] = []
        var failure: (any Error)?
        for connection in connections {
            do {
                try connection.close()
            } catch {
                unclosed.append(connection)
                failure = error
            }
        }
        guard let failure else { return }
        reopen(with: unclosed)
        throw failure
    }

    /// Allows accesses again, where closing failed.
    func reopen(with connections: [SerialConnection] = []) {
        state.withLock { state in
            state.isClosed = false
            state.wasReopened = true
            // Those that are still lent come back by themselves.
            state.idle += connections.filter { connection in !state.lent.contains { $0 === connection } }
        }
    }
}
