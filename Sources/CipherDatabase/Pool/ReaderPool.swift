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

    private typealias Waiter = @Sendable (Result<SerialConnection?, any Error>) -> Void

    private struct State {
        var idle: [SerialConnection] = []
        var lent: [SerialConnection] = []
        /// Connections that are being opened now.
        var opening = 0
        /// Connections opened so far; the next one takes the next number.
        var opened = 0
        var waiters: [Waiter] = []
        var isClosed = false
        /// Barriers that are waited for or under way; nothing is lent while there is one.
        var barriers = 0
        /// Called when the last connection has come back.
        var whenAllAreBack: [@Sendable () -> Void] = []

        var allAreBack: Bool { lent.isEmpty && opening == 0 }
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

    /// Lends a connection, waiting for one when all are lent.
    func acquire() throws -> SerialConnection {
        switch state.withLock({ grant(&$0) }) {
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
            // Nil tells that a place became free without a connection for it.
            return try result.withLock { $0 }.get() ?? acquire()
        }
    }

    /// Lends a connection without blocking the thread.
    func acquire() async throws -> SerialConnection {
        switch state.withLock({ grant(&$0) }) {
        case .connection(let connection): return connection
        case .closed: throw DatabaseError.connectionIsClosed()
        case .reentrant: ProgrammerError.trap(ProgrammerError.reentrant)
        case .open(let number):
            return try await withCheckedThrowingContinuation { continuation in
                // Opening reads files, and may derive a key: no work for the threads of tasks.
                DispatchQueue.global().async { [self] in
                    continuation.resume(with: Result { try openConnection(number) })
                }
            }
        case .wait:
            let granted = try await withCheckedThrowingContinuation { continuation in
                enqueue { continuation.resume(with: $0) }
            }
            if let granted { return granted }
            return try await acquire()
        }
    }

    /// Lends a connection when there is one, without waiting for it.
    func acquire(_ receive: @escaping @Sendable (Result<SerialConnection, any Error>) -> Void) {
        Task { [self] in
            do {
                let connection: SerialConnection = try await acquire()
                receive(.success(connection))
            } catch {
                receive(.failure(error))
            }
        }
    }

    /// The lent connection whose access this thread is in.
    var connectionAccessedHere: SerialConnection? { state.withLock { $0.lent.first(where: \.isAccessedHere) } }

    /// Takes a connection back.
    func release(_ connection: SerialConnection) {
        let (waiter, arrivals): (Waiter?, [@Sendable () -> Void]) = state.withLock { state in
            if !state.waiters.isEmpty && state.barriers == 0 { return (state.waiters.removeFirst(), []) }
            state.lent.removeAll { $0 === connection }
            if !state.isClosed { state.idle.append(connection) }
            return (nil, takeArrivals(&state))
        }
        waiter?(.success(connection))
        for arrival in arrivals { arrival() }
    }

    private func takeArrivals(_ state: inout State) -> [@Sendable () -> Void] {
        guard state.allAreBack else { return [] }
        defer { state.whenAllAreBack.removeAll() }
        return state.whenAllAreBack
    }

    private func grant(_ state: inout State) -> Grant {
        if state.isClosed { return .closed }
        if state.lent.contains(where: \.isAccessedHere) { return .reentrant }
        if state.barriers > 0 { return .wait }
        if let connection = state.idle.popLast() {
            state.lent.append(connection)
            return .connection(connection)
        }
        guard state.lent.count + state.opening < maximumCount else { return .wait }
        state.opening += 1
        state.opened += 1
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
        do {
            let connection = try open(number)
            let isClosed = state.withLock { state in
                state.opening -= 1
                if !state.isClosed { state.lent.append(connection) }
                return state.isClosed
            }
            if isClosed {
                try connection.close()
                throw DatabaseError.connectionIsClosed()
            }
            return connection
        } catch {
            let (waiter, arrivals): (Waiter?, [@Sendable () -> Void]) = state.withLock { state in
                state.opening = max(0, state.opening - (state.isClosed ? 0 : 1))
                let arrivals = takeArrivals(&state)
                return (state.waiters.isEmpty || state.barriers > 0 ? nil : state.waiters.removeFirst(), arrivals)
            }
            waiter?(.success(nil))
            for arrival in arrivals { arrival() }
            throw error
        }
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
            guard state.barriers == 0 else { return [] }
            var served: [(Waiter, SerialConnection?)] = []
            while !state.waiters.isEmpty {
                let places = maximumCount - state.lent.count - state.opening - served.filter { $0.1 == nil }.count
                if let connection = state.idle.popLast() {
                    state.lent.append(connection)
                    served.append((state.waiters.removeFirst(), connection))
                } else if places > 0 {
                    served.append((state.waiters.removeFirst(), nil))
                } else {
                    break
                }
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
    func close() throws {
        let (connections, waiters) = state.withLock { state in
            state.isClosed = true
            defer {
                state.idle.removeAll()
                state.waiters.removeAll()
            }
            return (state.idle + state.lent, state.waiters)
        }
        for waiter in waiters { waiter(.failure(DatabaseError.connectionIsClosed())) }
        for connection in connections { try connection.close() }
    }
}
