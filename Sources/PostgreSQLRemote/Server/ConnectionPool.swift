#if PostgreSQL
    import Dispatch
    import Synchronization

    /// Who has which of a bounded number of connections, and who waits. It opens and closes nothing.
    struct PoolState<Member: Sendable> {
        typealias Ticket = UInt64

        enum Grant: Sendable {
            /// An idle connection, and since when it is idle.
            case use(Member, since: ContinuousClock.Instant)
            /// The right to open one.
            case open
        }

        private let limit: Int
        /// Those that are used, opened, closed or idle.
        private(set) var count = 0
        private var idle: [(member: Member, since: ContinuousClock.Instant)] = []
        private var waiting: [Ticket] = []
        private var lastTicket: Ticket = 0

        init(limit: Int) { self.limit = max(1, limit) }

        var idleCount: Int { idle.count }
        var waitingCount: Int { waiting.count }

        /// - Returns: What the caller may use; nil, and the caller's place in the queue, when everything is used.
        mutating func request() -> (ticket: Ticket, grant: Grant?) {
            lastTicket += 1
            // The one that was used last: the others may be closed when they were idle for long.
            if let last = idle.popLast() { return (lastTicket, .use(last.member, since: last.since)) }
            guard count < limit else {
                waiting.append(lastTicket)
                return (lastTicket, nil)
            }
            count += 1
            return (lastTicket, .open)
        }

        /// - Returns: Whether the ticket was still waiting.
        mutating func withdraw(_ ticket: Ticket) -> Bool {
            guard let index = waiting.firstIndex(of: ticket) else { return false }
            waiting.remove(at: index)
            return true
        }

        /// - Returns: Who gets the connection instead of the pool.
        mutating func giveBack(_ member: Member, at now: ContinuousClock.Instant) -> (Ticket, Grant)? {
            guard !waiting.isEmpty else {
                idle.append((member, now))
                return nil
            }
            return (waiting.removeFirst(), .use(member, since: now))
        }

        /// - Returns: Who may open another one.
        mutating func didClose() -> (Ticket, Grant)? {
            guard !waiting.isEmpty else {
                count -= 1
                return nil
            }
            return (waiting.removeFirst(), .open)
        }

        /// Takes those out that have been idle since a time. They count until they are closed.
        mutating func removeIdle(since time: ContinuousClock.Instant) -> [Member] {
            let old = idle.filter { $0.since <= time }.map(\.member)
            idle.removeAll { $0.since <= time }
            return old
        }
    }

    /// A bounded number of connections to a server. Callers wait in the order in which they come.
    final class ConnectionPool: Sendable {
        private let address: ServerAddress
        private let connectLimit: Duration
        private let state: Mutex<Shared>

        private struct Shared {
            var pool: PoolState<Connection>
            var continuations: [UInt64: CheckedContinuation<PoolState<Connection>.Grant, any Error>] = [:]
            var isSweepPlanned = false
        }

        init(_ address: ServerAddress, limit: Int, connectLimit: Duration) {
            self.address = address
            self.connectLimit = connectLimit
            state = Mutex(Shared(pool: PoolState(limit: limit)))
        }

        /// Connections that are open, or being opened or closed; those of them that are idle; callers that wait.
        var counts: (open: Int, idle: Int, waiting: Int) {
            state.withLock { ($0.pool.count, $0.pool.idleCount, $0.pool.waitingCount) }
        }

        /// Lends a connection.
        ///
        /// - Throws: What `body` throws, and ``PostgreSQLError`` where no connection can be opened; `CancellationError`.
        func withConnection<Result>(_ body: (Connection) async throws -> Result) async throws -> Result {
            let connection = try await acquire()
            defer { release(connection) }
            return try await body(connection)
        }

        private func acquire() async throws -> Connection {
            while true {
                try Task.checkCancellation()
                switch try await grant() {
                case .open: return try await open()
                case .use(let connection, let since):
                    if try await isGood(connection, since: since) { return connection }
                    close(connection)
                }
            }
        }

        private func grant() async throws -> PoolState<Connection>.Grant {
            let ticket = Mutex<UInt64?>(nil)
            return try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    let outcome: Swift.Result<PoolState<Connection>.Grant, any Error>? = state.withLock { state in
                        // Set before the handler below runs: either it is seen here, or the handler finds the ticket.
                        if Task.isCancelled { return .failure(CancellationError()) }
                        let (number, grant) = state.pool.request()
                        if let grant { return .success(grant) }
                        ticket.withLock { $0 = number }
                        state.continuations[number] = continuation
                        return nil
                    }
                    if let outcome { continuation.resume(with: outcome) }
                }
            } onCancel: {
                let continuation = state.withLock { state in
                    ticket.withLock(\.self).flatMap { number in
                        state.pool.withdraw(number) ? state.continuations.removeValue(forKey: number) : nil
                    }
                }
                continuation?.resume(throwing: CancellationError())
            }
        }

        /// Whether a connection that was idle can be used.
        private func isGood(_ connection: Connection, since: ContinuousClock.Instant) async throws -> Bool {
            let now = ContinuousClock.now
            guard now - connection.created < PostgreSQLLimits.connectionAge, await connection.looksOpen() else {
                return false
            }
            guard now - since > PostgreSQLLimits.trustedIdleTime else { return true }
            do {
                let test = Statement("SELECT 1", columns: 1, mostRows: 1, valueBytes: 8)
                try await connection.run(test, within: PostgreSQLLimits.checkLimit)
            } catch is PostgreSQLError {
                return false
            } catch {
                close(connection)
                throw error
            }
            return true
        }

        private func open() async throws -> Connection {
            let deadline = ContinuousClock.now + connectLimit
            for (index, options) in address.attempts.enumerated() {
                let connection = Connection(remote: address.name)
                let left = address.attempts.count - index
                do {
                    let share = max(.milliseconds(1), deadline - .now) / left
                    try await connection.connect(options, within: share)
                    return connection
                } catch {
                    let canTryNext = (error as? PostgreSQLError)?.permitsNextHost ?? false
                    guard left > 1, canTryNext else {
                        close(connection)
                        throw error
                    }
                    connection.close()
                }
            }
            throw PostgreSQLError(.unreachable, address.name)
        }

        private func release(_ connection: Connection) {
            guard connection.isUsable else { return close(connection) }
            let (granted, sweeps) = state.withLock { state in
                let granted = Self.take(state.pool.giveBack(connection, at: .now), &state)
                let sweeps = granted == nil && !state.isSweepPlanned
                if sweeps { state.isSweepPlanned = true }
                return (granted, sweeps)
            }
            granted?()
            if sweeps { planSweep() }
        }

        /// Closes a connection; its place is free when it is closed.
        private func close(_ connection: Connection) {
            connection.close { [weak self] in
                guard let self else { return }
                state.withLock { Self.take($0.pool.didClose(), &$0) }?()
            }
        }

        /// - Returns: What has to be called without the lock.
        private static func take(
            _ granted: (UInt64, PoolState<Connection>.Grant)?, _ state: inout Shared
        ) -> (@Sendable () -> Void)? {
            guard let (ticket, grant) = granted else { return nil }
            let continuation = state.continuations.removeValue(forKey: ticket)
            return { continuation?.resume(returning: grant) }
        }

        /// Closes later what is idle then.
        private func planSweep() {
            let delay = PostgreSQLLimits.idleLimit.components.seconds
            DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + .seconds(Int(delay))) { [weak self] in
                guard let self else { return }
                closeIdle(since: .now - PostgreSQLLimits.idleLimit)
            }
        }

        func closeIdle(since time: ContinuousClock.Instant) {
            let (old, sweeps) = state.withLock { state in
                let old = state.pool.removeIdle(since: time)
                state.isSweepPlanned = state.pool.idleCount > 0
                return (old, state.isSweepPlanned)
            }
            for connection in old { close(connection) }
            if sweeps { planSweep() }
        }
    }
#endif
