#if PostgreSQL
    import CPostgreSQL
    import Dispatch
    import Synchronization

    /// One connection to a server. One thread uses it at a time, and waits on it for the server.
    ///
    /// libpq is called in its nonblocking mode, so each wait has a limit. The resolution of host names has no such mode: it
    /// has a thread of its own.
    final class ServerConnection {
        private let remote: String
        private var handle: OpaquePointer?
        /// Bytes that were received since the last row, about: libpq keeps them, or has skipped them.
        private var pendingBytes = 0
        let created = ContinuousClock.now

        /// - Throws: ``PostgreSQLError``.
        init(remote: String, _ options: [ServerAddress.Option], within limit: Duration) throws {
            self.remote = remote
            let deadline = ContinuousClock.now + limit
            handle = try Self.start(options, remote, until: deadline)
            do {
                try connect(until: deadline)
            } catch {
                close()
                throw error
            }
        }

        deinit { PQfinish(handle) }

        /// Whether it is connected, and no transaction is open.
        var isOpen: Bool { handle != nil }

        /// Whether it looks open from here; nothing is sent.
        func looksOpen() -> Bool {
            guard let handle else { return false }
            // A server sends something unasked if it ends the connection or a setting was changed.
            let isSilent = cpostgresql_readable_bytes(PQsocket(handle)) == 0
            return isSilent && PQconsumeInput(handle) == 1 && PQstatus(handle) == CONNECTION_OK
        }

        func close() {
            PQfinish(handle)
            handle = nil
        }

        private var message: String { handle.flatMap { PQerrorMessage($0) }.map { String(cString: $0) } ?? "" }

        /// Waits for the socket.
        private func wait(
            _ handle: OpaquePointer, reading: Bool, writing: Bool, limitBytes: Int,
            until deadline: ContinuousClock.Instant
        ) throws {
            while true {
                let left = deadline - .now
                guard left > .zero else { throw PostgreSQLError(.timedOut, remote) }
                let milliseconds = Int32(clamping: Int(left / .milliseconds(1)) + 1)
                let ready = cpostgresql_wait(PQsocket(handle), reading ? 1 : 0, writing ? 1 : 0, milliseconds)
                if ready > 0 { break }
                // A signal, or the end of the time.
            }
            // More than libpq reads at once; never less in a message that it has to keep as a whole.
            pendingBytes += cpostgresql_readable_bytes(PQsocket(handle))
            guard pendingBytes <= limitBytes else {
                throw PostgreSQLError(.invalidAnswer, remote, "a message of more than \(limitBytes) bytes")
            }
        }

        // MARK: Connecting

        /// A handle that one thread makes and another one takes, unless it has waited for too long.
        private final class Starting: Sendable {
            private enum State {
                case waiting
                case made(Int?)
                case abandoned
            }

            private let state = Mutex(State.waiting)
            private let end = DispatchSemaphore(value: 0)

            func finish(_ handle: OpaquePointer?) {
                let address = handle.map { Int(bitPattern: $0) }
                let isAbandoned = state.withLock { state in
                    if case .abandoned = state { return true }
                    state = .made(address)
                    return false
                }
                if isAbandoned { PQfinish(handle) }
                end.signal()
            }

            /// - Returns: nil if the time has passed.
            func take(within limit: DispatchTimeInterval) -> OpaquePointer?? {
                _ = end.wait(timeout: .now() + limit)
                return state.withLock { state in
                    if case .made(let address) = state {
                        return .some(address.flatMap { OpaquePointer(bitPattern: $0) })
                    }
                    state = .abandoned
                    return nil
                }
            }
        }

        private static func start(
            _ options: [ServerAddress.Option], _ remote: String, until deadline: ContinuousClock.Instant
        ) throws -> OpaquePointer {
            let starting = Starting()
            DispatchQueue(label: "CipherStore.PostgreSQL").async {
                starting.finish(
                    withPointers(options.map(\.keyword)) { keywords in
                        withPointers(options.map(\.value)) { values in PQconnectStartParams(keywords, values, 0) }
                    })
            }
            guard let made = starting.take(within: interval(deadline - .now)) else {
                throw PostgreSQLError(.timedOut, remote)
            }
            guard let handle = made else { throw PostgreSQLError(.unreachable, remote, "there is no memory") }
            return handle
        }

        private static func interval(_ duration: Duration) -> DispatchTimeInterval {
            .milliseconds(max(0, Int(duration / .milliseconds(1))))
        }

        private static func withPointers<Result>(
            _ texts: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Result
        ) -> Result {
            var content: [CChar] = []
            var starts: [Int] = []
            for text in texts {
                starts.append(content.count)
                content += text.utf8CString
            }
            return content.withUnsafeBufferPointer { content in
                let pointers = starts.map { start in content.baseAddress.map { $0 + start } } + [nil]
                return pointers.withUnsafeBufferPointer { body($0.baseAddress) }
            }
        }

        private func connect(until deadline: ContinuousClock.Instant) throws {
            guard let handle, PQstatus(handle) != CONNECTION_BAD else {
                throw PostgreSQLError.connecting(remote, message)
            }
            // libpq prints the notices of servers unless a receiver is set.
            PQsetNoticeReceiver(handle, { _, _ in }, nil)
            PQsetErrorVerbosity(handle, PQERRORS_SQLSTATE)
            var (reading, writing) = (false, true)
            while true {
                try wait(
                    handle, reading: reading, writing: writing, limitBytes: PostgreSQLLimits.greetingBytes,
                    until: deadline)
                switch PQconnectPoll(handle) {
                case PGRES_POLLING_READING: (reading, writing) = (true, false)
                case PGRES_POLLING_WRITING: (reading, writing) = (false, true)
                case PGRES_POLLING_OK:
                    guard PQsetnonblocking(handle, 1) == 0 else {
                        throw PostgreSQLError(.connectionLost, remote, message)
                    }
                    return
                default: throw PostgreSQLError.connecting(remote, message)
                }
            }
        }

        // MARK: Statements

        /// Runs a statement that has an answer.
        func rows(_ statement: Statement, within limit: Duration) throws -> Answer {
            guard let answer = try run(statement, within: limit) else {
                throw PostgreSQLError(.invalidAnswer, remote, "no rows")
            }
            return answer
        }

        /// Runs a statement.
        ///
        /// - Returns: The rows of its answer; nil for a statement without any.
        /// - Throws: ``PostgreSQLError``. When ``isOpen`` is false then, the statement may have taken effect.
        @discardableResult
        func run(_ statement: Statement, within limit: Duration) throws -> Answer? {
            guard let handle else { throw PostgreSQLError(.connectionLost, remote) }
            let deadline = ContinuousClock.now + limit
            do {
                let reply = try exchange(statement, handle, until: deadline)
                if PQstatus(handle) != CONNECTION_OK || PQtransactionStatus(handle) != PQTRANS_IDLE { close() }
                return try reply.result(remote)
            } catch let error as PostgreSQLError {
                // The server may be waiting for a lock, and does not see that its client is gone.
                if error.code == .timedOut, error.sqlState == nil { requestCancel(handle) }
                if error.sqlState == nil { close() }
                throw error
            }
        }

        /// The state of the answer to one statement.
        private struct Reply {
            var answer: Answer?
            /// Whether the server has said that the statement is executed.
            var isComplete = false
            var failure: PostgreSQLError?

            func result(_ remote: String) throws -> Answer? {
                if let failure { throw failure }
                guard isComplete else { throw PostgreSQLError(.invalidAnswer, remote, "no end") }
                return answer
            }
        }

        private func exchange(
            _ statement: Statement, _ handle: OpaquePointer, until deadline: ContinuousClock.Instant
        ) throws -> Reply {
            pendingBytes = 0
            var reply = Reply(answer: statement.columns > 0 ? Answer(to: statement, remote) : nil)
            // Row by row: the rows of a server that sends without end are not kept.
            guard statement.send(to: handle), PQsetSingleRowMode(handle) == 1 else {
                throw PostgreSQLError(.connectionLost, remote, message)
            }
            while true {
                let isOpen = PQconsumeInput(handle) == 1
                // If sending fails, the reason of the server is still to be read.
                let isUnsent = PQflush(handle) == 1
                while !isOpen || PQisBusy(handle) == 0 {
                    guard let result = PQgetResult(handle) else { return reply }
                    pendingBytes = 0
                    defer { PQclear(result) }
                    try take(result, &reply)
                }
                try wait(
                    handle, reading: true, writing: isUnsent, limitBytes: PostgreSQLLimits.messageBytes,
                    until: deadline)
            }
        }

        /// Keeps the rows, or the first error, of an answer.
        private func take(_ result: OpaquePointer, _ reply: inout Reply) throws(PostgreSQLError) {
            switch PQresultStatus(result) {
            case PGRES_SINGLE_TUPLE where reply.answer != nil && !reply.isComplete: try reply.answer?.add(result)
            case PGRES_TUPLES_OK where reply.answer != nil && !reply.isComplete:
                try reply.answer?.add(result)
                reply.isComplete = true
            case PGRES_COMMAND_OK where reply.answer == nil && !reply.isComplete: reply.isComplete = true
            case PGRES_FATAL_ERROR, PGRES_BAD_RESPONSE:
                let state = Self.field(result, CPOSTGRESQL_SQLSTATE).flatMap { Self.isState($0) ? $0 : nil }
                let text =
                    Self.field(result, CPOSTGRESQL_MESSAGE) ?? PQresultErrorMessage(result).map { String(cString: $0) }
                reply.failure = reply.failure ?? .reported(remote, sqlState: state, text)
            default: throw PostgreSQLError(.invalidAnswer, remote, "an answer of another kind")
            }
        }

        private static func field(_ result: OpaquePointer, _ code: Int32) -> String? {
            PQresultErrorField(result, code).map { String(cString: $0) }
        }

        private static func isState(_ text: String) -> Bool {
            text.utf8.count == 5
                && text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) }
        }

        // MARK: Cancellation

        private static let cancellations = Atomic<Int>(0)

        /// Asks the server to end the statement.
        private func requestCancel(_ handle: OpaquePointer) {
            let count = Self.cancellations.add(1, ordering: .relaxed).newValue
            guard count <= PostgreSQLLimits.cancellationsAtOnce, let made = cpostgresql_make_cancel(handle) else {
                Self.cancellations.subtract(1, ordering: .relaxed)
                return
            }
            // Safe because: it is a copy, and only this block has it.
            nonisolated(unsafe) let request = made
            DispatchQueue.global(qos: .utility).async {
                cpostgresql_send_cancel(request)
                Self.cancellations.subtract(1, ordering: .relaxed)
            }
        }
    }
#endif
