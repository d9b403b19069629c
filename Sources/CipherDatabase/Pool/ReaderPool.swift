import Dispatch
import StorePlatform
import Synchronization

/// The reading connections of a pool: opened when first needed, kept, and lent to one access at a time.
///
/// A connection is opened outside of the pool's lock, so readers open concurrently, and a slow opening does not block
/// others.
final class ReaderPool: Sendable {
    private let maximumCount: Int
    private let open: @Sendable (_ number: Int) throws -> SerialConnection
    private let state = Mutex(State())
    private let forkCount = ForkWatch.count

    /// Receives a connection, or nil when a place became free without a connection for it.
    private typealias Receiver = @Sendable (Result<SerialConnection?, any Error>) -> Void

    private struct Waiter {
        /// Whether it may continue while a barrier waits: a read from inside a write, for which the barrier waits.
        let passesBarriers: Bool
        let tell: Receiver
    }
    private struct Departure {
        var reads: Set<ObjectIdentifier>
        let tell: @Sendable () -> Void
    }

    /// The openings of connections under way.
    private let openers = DispatchGroup()

    private struct State {
        var idle: [SerialConnection] = []
        var lent: [SerialConnection] = []
        /// Connections that are being opened now.
        var opening = 0
        /// Connections opened so far; the next one gets the next number.
        var opened = 0
        var waiters: [Waiter] = []
        var isClosed = false
        /// Whether closing failed once: connections that were closed by then may still be returned.
        var wasReopened = false
        /// Barriers that wait or are under way; nothing is lent while there is one.
        var barriers = 0
        /// The functions that wait for the end of certain reads.
        var departures: [Departure] = []
        /// Called when the last connection has been returned.
        var whenAllAreBack: [@Sendable () -> Void] = []

        /// Removes the functions that waited for the read of this connection alone, and returns them.
        mutating func takeDepartures(_ connection: SerialConnection) -> [@Sendable () -> Void] {
            for index in departures.indices { departures[index].reads.remove(ObjectIdentifier(connection)) }
            defer { departures.removeAll { $0.reads.isEmpty } }
            return departures.filter(\.reads.isEmpty).map(\.tell)
        }

        var allAreBack: Bool { lent.isEmpty && opening == 0 }

        /// Removes and returns the next waiter, unless a barrier makes it wait.
        mutating func takeWaiter() -> Receiver? {
            if waiters.isEmpty { return nil }
            guard let index = waiters.firstIndex(where: { barriers == 0 || $0.passesBarriers }) else { return nil }
            return waiters.remove(at: index).tell
        }

        /// Removes and returns the functions that wait for all connections, when all have been returned.
        mutating func takeArrivals() -> [@Sendable () -> Void] {
            guard !whenAllAreBack.isEmpty, allAreBack else { return [] }
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
        /// The pool belongs to the parent of this forked process.
        case foreign
    }

    /// Lends a connection, waiting for one when all are lent. Traps when this thread already uses one.
    ///
    /// - Parameter isInsideWrite: Whether the call is made inside a write access of the same pool.
    func acquire(isInsideWrite: Bool = false) throws -> SerialConnection {
        switch state.withLock({ grant(&$0, isWaitedFor: true, passesBarriers: isInsideWrite) }) {
        case .connection(let connection): return connection
        case .open(let number): return try openConnection(number)
        case .closed: throw DatabaseError.connectionIsClosed()
        case .foreign: throw DatabaseError.connectionOfParent()
        case .reentrant: ProgrammerError.trap(ProgrammerError.reentrant)
        case .wait:
            let arrival = SingleWait<Result<SerialConnection?, any Error>>()
            enqueue(passesBarriers: isInsideWrite) { arrival.end($0) }
            return try arrival.wait().get() ?? acquire(isInsideWrite: isInsideWrite)
        }
    }

    /// Lends a connection that is open and free; nil if there is none, or if accesses wait for one.
    func acquireIfFree() -> SerialConnection? {
        state.withLock { state in
            guard !state.isClosed, state.barriers == 0, state.waiters.isEmpty, ForkWatch.count == forkCount,
                let connection = state.idle.popLast()
            else { return nil }
            state.lent.append(connection)
            return connection
        }
    }

    /// Lends a connection without blocking the thread.
    func acquire(_ receive: @escaping @Sendable (Result<SerialConnection, any Error>) -> Void) {
        switch state.withLock({ grant(&$0, isWaitedFor: false, passesBarriers: false) }) {
        case .connection(let connection): receive(.success(connection))
        case .closed: receive(.failure(DatabaseError.connectionIsClosed()))
        case .foreign: receive(.failure(DatabaseError.connectionOfParent()))
        case .reentrant: ProgrammerError.trap(ProgrammerError.reentrant)
        case .open(let number):
            // Opening reads files, and may derive a key: it must not block the threads of tasks.
            DispatchQueue.global().async { [self] in receive(Result { try openConnection(number) }) }
        case .wait:
            enqueue(passesBarriers: false) { [self] outcome in
                switch outcome {
                case .success(let connection?): receive(.success(connection))
                case .success(nil): acquire(receive)
                case .failure(let error): receive(.failure(error))
                }
            }
        }
    }

    /// Returns a connection to the pool.
    func release(_ connection: SerialConnection) {
        let (waiter, next, arrivals) = state.withLock {
            state -> (Receiver?, SerialConnection?, [@Sendable () -> Void]) in
            let isUsable = !state.wasReopened || connection.isOpen
            let departures = state.departures.isEmpty ? [] : state.takeDepartures(connection)
            if isUsable, let waiter = state.takeWaiter() { return (waiter, connection, departures) }
            if let index = state.lent.firstIndex(where: { $0 === connection }) {
                state.lent.swapAt(index, state.lent.count - 1)
                state.lent.removeLast()
            }
            if isUsable && !state.isClosed { state.idle.append(connection) }
            return (isUsable ? nil : state.takeWaiter(), nil, departures + state.takeArrivals())
        }
        waiter?(.success(next))
        for arrival in arrivals { arrival() }
    }

    /// The lent connection whose access this thread is in.
    var connectionAccessedHere: SerialConnection? { state.withLock { $0.lent.first(where: \.isAccessedHere) } }

    private func grant(_ state: inout State, isWaitedFor: Bool, passesBarriers: Bool) -> Grant {
        if state.isClosed { return .closed }
        if ForkWatch.count != forkCount { return .foreign }
        // Inside an access, waiting for a second connection of the same pool could deadlock.
        if isWaitedFor && state.lent.contains(where: \.isAccessedHere) { return .reentrant }
        if state.barriers > 0 && !passesBarriers { return .wait }
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

    private func enqueue(passesBarriers: Bool, _ receiver: @escaping Receiver) {
        // A connection may have been returned between the refusal and this call.
        let outcome: Result<SerialConnection?, any Error>? = state.withLock { state in
            if state.isClosed { return .failure(DatabaseError.connectionIsClosed()) }
            if state.barriers == 0 || passesBarriers {
                if let connection = state.idle.popLast() {
                    state.lent.append(connection)
                    return .success(connection)
                }
                if state.lent.count + state.opening < maximumCount { return .success(nil) }
            }
            state.waiters.append(Waiter(passesBarriers: passesBarriers, tell: receiver))
            return nil
        }
        if let outcome { receiver(outcome) }
    }

    private func openConnection(_ number: Int) throws -> SerialConnection {
        defer { openers.leave() }
        let opened = Result { try open(number) }
        let (isClosed, waiter, arrivals) = state.withLock { state -> (Bool, Receiver?, [@Sendable () -> Void]) in
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

    /// Runs `body` as a barrier: newcomers wait until it ends.
    ///
    /// Reads from inside a write pass it, because it waits for the writer. So `body` acquires the writer first, and
    /// then calls ``waitUntilAllAreBack(endedBy:)`` for the reads that such a write has left.
    ///
    /// - Parameter wait: Waits for the reads under way; it may end early.
    /// - Throws: What `wait` throws then, and `body`.
    func barrier<T>(endedBy wait: (SingleWait<WaitOutcome>) throws -> Void, _ body: () throws -> T) throws -> T {
        beginBarrier()
        defer { endBarrier() }
        // First without the writer: a read under way may itself wait for it.
        try waitUntilAllAreBack(endedBy: wait)
        return try body()
    }

    /// Makes newcomers wait until ``endBarrier()``; reads from inside a write pass.
    func beginBarrier() { state.withLock { $0.barriers += 1 } }

    /// Waits until no connection is lent.
    func waitUntilAllAreBack() {
        let arrival = SingleWait<Void>()
        if whenAllAreBack({ arrival.end(()) }) { arrival.wait() }
    }

    /// Waits until no connection is lent.
    ///
    /// - Parameter wait: Waits for the event; it may end early.
    /// - Throws: What `wait` throws.
    func waitUntilAllAreBack(endedBy wait: (SingleWait<WaitOutcome>) throws -> Void) throws {
        let arrival = SingleWait<WaitOutcome>()
        if whenAllAreBack({ arrival.end(.arrived) }) { try wait(arrival) }
    }

    /// Calls a function when no connection is lent, at once if none is.
    func afterAllAreBack(_ tell: @escaping @Sendable () -> Void) { if !whenAllAreBack(tell) { tell() } }

    /// Calls a function when no connection is lent.
    ///
    /// - Returns: Whether there is anything to wait for; the function is not called where there is not.
    private func whenAllAreBack(_ tell: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            if state.allAreBack { return false }
            state.whenAllAreBack.append(tell)
            return true
        }
    }

    /// Calls a function when the reads that are under way now have ended, at once where there are none.
    func afterReadsUnderWay(_ tell: @escaping @Sendable () -> Void) {
        let isIdle = state.withLock { state in
            if state.lent.isEmpty { return true }
            state.departures.append(Departure(reads: Set(state.lent.map(ObjectIdentifier.init)), tell: tell))
            return false
        }
        if isIdle { tell() }
    }

    /// Whether a connection is lent.
    var areLent: Bool { state.withLock { !$0.lent.isEmpty } }

    /// Admits the accesses that a barrier made wait.
    func endBarrier() {
        let served = state.withLock { state -> [(Receiver, SerialConnection?)] in
            state.barriers -= 1
            var served: [(Receiver, SerialConnection?)] = []
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

    /// Whether a barrier waits or is under way.
    var hasBarrier: Bool { state.withLock { $0.barriers > 0 } }

    // MARK: All at once

    /// Releases memory that idle connections keep for speed.
    func releaseMemory() {
        // Lent meanwhile, so that no other access uses them.
        let connections = state.withLock { state in
            defer { state.idle.removeAll() }
            state.lent += state.idle
            return state.idle
        }
        for connection in connections {
            connection.sync { $0.releaseMemory() }
            release(connection)
        }
    }

    /// Makes the reads under way end with an error, or lets them continue.
    func withdraw(because reason: (any Error)?) {
        let connections = state.withLock { $0.lent + (reason == nil ? $0.idle : []) }
        for connection in connections { connection.withdraw(because: reason) }
    }

    /// Interrupts every reader.
    func interrupt() { for connection in state.withLock({ $0.lent }) { connection.interrupt() } }

    /// Closes the idle readers; the next reads open new ones.
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
        for waiter in waiters { waiter.tell(.failure(DatabaseError.connectionIsClosed())) }
        // An access that is opening a connection now closes it when it is open.
        openers.wait()
        waitUntilAllAreBack()
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
            // Those that are still lent are returned by their accesses.
            state.idle += connections.filter { connection in !state.lent.contains { $0 === connection } }
        }
    }
}
