#if PostgreSQL
    import CPostgreSQL
    import Dispatch
    import Synchronization

    /// One connection to a server. It does one thing at a time; the pool gives it to one task at a time.
    ///
    /// libpq is called on the queue of the connection and nowhere else, and none of its calls there waits for the network,
    /// but for the resolution of names. So a caller is answered in time whatever the server does.
    // Safe because: what changes is used on `queue` only; when deinit runs, nobody else has it.
    final class Connection: @unchecked Sendable {
        private let queue = DispatchQueue(label: "CipherStore.PostgreSQL")
        private let remote: String
        private var handle: OpaquePointer?
        private var watch: SocketWatch?
        private var current: Call?
        /// Bytes that were received since the last row, about: libpq keeps them, or has skipped them.
        private var pendingBytes = 0
        private let usable = Atomic<Bool>(false)
        let created = ContinuousClock.now

        init(remote: String) { self.remote = remote }

        deinit {
            watch?.stop()
            PQfinish(handle)
        }

        /// Whether it is connected and no transaction is open. Once false after it was connected, it stays so.
        var isUsable: Bool { usable.load(ordering: .acquiring) }

        /// - Throws: ``PostgreSQLError``; `CancellationError`. Then the connection has to be closed.
        func connect(_ options: [ServerAddress.Option], within limit: Duration) async throws {
            _ = try await perform(Call(nil, remote, limit)) { call in self.startConnecting(options, call) }
        }

        /// Runs a statement.
        ///
        /// - Returns: The rows of its answer; nil for a statement without any.
        /// - Throws: ``PostgreSQLError``; `CancellationError`. When ``isUsable`` is false then, it may have taken effect.
        @discardableResult
        func run(_ statement: Statement, within limit: Duration) async throws -> Answer? {
            try await perform(Call(statement, remote, limit)) { call in self.send(statement, call) }
        }

        /// Runs a statement that has an answer.
        func rows(_ statement: Statement, within limit: Duration) async throws -> Answer {
            guard let answer = try await run(statement, within: limit) else {
                throw PostgreSQLError(.invalidAnswer, remote, "no rows")
            }
            return answer
        }

        /// Whether the connection looks open from here; nothing is sent.
        func looksOpen() async -> Bool {
            await withCheckedContinuation { continuation in
                queue.async {
                    guard let handle = self.handle, self.isUsable else { return continuation.resume(returning: false) }
                    // What comes unasked is the reason of an end, or that a setting was changed.
                    let isSilent = cpostgresql_readable_bytes(PQsocket(handle)) == 0
                    let isOpen = isSilent && PQconsumeInput(handle) == 1
                    continuation.resume(returning: isOpen && PQstatus(handle) == CONNECTION_OK)
                }
            }
        }

        /// Closes it, and calls `completion` when it is closed: the resolution of a name may have to end first.
        func close(_ completion: @escaping @Sendable () -> Void = {}) {
            usable.store(false, ordering: .releasing)
            queue.async {
                self.closeNow()
                completion()
            }
        }

        // MARK: Calls

        private func perform(_ call: Call, _ start: @escaping @Sendable (Call) -> Void) async throws -> Answer? {
            call.timer.setEventHandler { [weak self, weak call] in
                guard let self, let call else { return }
                abandon(call, PostgreSQLError(.timedOut, remote, "after \(call.limit)"))
            }
            call.timer.resume()
            defer { call.timer.cancel() }
            return try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    guard call.begin(continuation) else { return }
                    queue.async {
                        guard !call.isDone else { return }
                        self.current = call
                        start(call)
                    }
                }
            } onCancel: {
                abandon(call, CancellationError())
            }
        }

        /// Ends a call from any thread. The caller goes on at once; the connection is closed, because an answer may come.
        private func abandon(_ call: Call, _ error: any Error) {
            call.end(.failure(error)) {
                self.usable.store(false, ordering: .releasing)
                // Before the caller goes on, who closes the connection.
                self.queue.async {
                    guard self.current === call else { return }
                    if call.statement != nil { self.requestCancel() }
                    self.closeNow()
                }
            }
        }

        /// Ends the current call, on the queue.
        private func complete(_ call: Call, _ result: Result<Answer?, any Error>, closing: Bool = false) {
            if closing { closeNow() }
            watch?.stop()
            watch = nil
            current = nil
            call.end(result)
        }

        private func fail(_ call: Call, _ error: any Error) { complete(call, .failure(error), closing: true) }

        private func closeNow() {
            usable.store(false, ordering: .releasing)
            watch?.stop()
            watch = nil
            current = nil
            PQfinish(handle)
            handle = nil
        }

        private var message: String { handle.flatMap { PQerrorMessage($0) }.map { String(cString: $0) } ?? "" }

        private func wait(_ call: Call, reading: Bool, writing: Bool) {
            watch = SocketWatch(socket: PQsocket(handle), forWriting: writing, forReading: reading, queue) {
                [weak self] in
                self?.advance(call)
            }
            if watch == nil { fail(call, PostgreSQLError(.connectionLost, remote, "there is no socket")) }
        }

        private func advance(_ call: Call) {
            guard current === call, let handle else { return }
            // More than is read now, because libpq reads in parts; never less in a message that it has to keep as a whole.
            pendingBytes += cpostgresql_readable_bytes(PQsocket(handle))
            let limit = call.statement == nil ? PostgreSQLLimits.greetingBytes : PostgreSQLLimits.messageBytes
            guard pendingBytes <= limit else {
                return fail(call, PostgreSQLError(.invalidAnswer, remote, "a message of more than \(limit) bytes"))
            }
            if call.statement != nil { receive(call, handle) } else { poll(call, handle) }
        }

        // MARK: Connecting

        private func startConnecting(_ options: [ServerAddress.Option], _ call: Call) {
            pendingBytes = 0
            handle = Self.withPointers(options.map(\.keyword)) { keywords in
                Self.withPointers(options.map(\.value)) { values in PQconnectStartParams(keywords, values, 0) }
            }
            guard let handle, PQstatus(handle) != CONNECTION_BAD else {
                return fail(call, PostgreSQLError.connecting(remote, message))
            }
            // The name was resolved in the meantime, and nobody may wait any more.
            guard !call.isDone else { return closeNow() }
            // libpq prints what servers send as notices unless it is told otherwise.
            PQsetNoticeReceiver(handle, { _, _ in }, nil)
            PQsetErrorVerbosity(handle, PQERRORS_SQLSTATE)
            wait(call, reading: false, writing: true)
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

        private func poll(_ call: Call, _ handle: OpaquePointer) {
            switch PQconnectPoll(handle) {
            case PGRES_POLLING_READING: wait(call, reading: true, writing: false)
            case PGRES_POLLING_WRITING: wait(call, reading: false, writing: true)
            case PGRES_POLLING_OK:
                guard PQsetnonblocking(handle, 1) == 0 else {
                    return fail(call, PostgreSQLError(.connectionLost, remote, message))
                }
                usable.store(true, ordering: .releasing)
                complete(call, .success(nil))
            default: fail(call, PostgreSQLError.connecting(remote, message))
            }
        }

        // MARK: Statements

        private func send(_ statement: Statement, _ call: Call) {
            guard let handle, isUsable else { return fail(call, PostgreSQLError(.connectionLost, remote)) }
            pendingBytes = 0
            if statement.columns > 0 { call.answer = Answer(to: statement, remote) }
            // Row by row, so that what a server may send without end is not kept.
            guard statement.send(to: handle), PQsetSingleRowMode(handle) == 1 else {
                return fail(call, PostgreSQLError(.connectionLost, remote, message))
            }
            advance(call)
        }

        private func receive(_ call: Call, _ handle: OpaquePointer) {
            let isOpen = PQconsumeInput(handle) == 1
            // Where sending fails, the reason of the server is still to be read.
            let isUnsent = PQflush(handle) == 1
            while !isOpen || PQisBusy(handle) == 0 {
                guard let result = PQgetResult(handle) else { return conclude(call, handle) }
                pendingBytes = 0
                defer { PQclear(result) }
                do throws(PostgreSQLError) {
                    try take(result, call)
                } catch {
                    return fail(call, error)
                }
            }
            wait(call, reading: true, writing: isUnsent)
        }

        /// Keeps the rows, or the first error, of an answer.
        private func take(_ result: OpaquePointer, _ call: Call) throws(PostgreSQLError) {
            switch PQresultStatus(result) {
            case PGRES_SINGLE_TUPLE where call.answer != nil && !call.isComplete: try call.answer?.add(result)
            case PGRES_TUPLES_OK where call.answer != nil && !call.isComplete:
                try call.answer?.add(result)
                call.isComplete = true
            case PGRES_COMMAND_OK where call.answer == nil && !call.isComplete: call.isComplete = true
            case PGRES_FATAL_ERROR, PGRES_BAD_RESPONSE:
                let state = Self.field(result, CPOSTGRESQL_SQLSTATE).flatMap { Self.isState($0) ? $0 : nil }
                let text =
                    Self.field(result, CPOSTGRESQL_MESSAGE) ?? PQresultErrorMessage(result).map { String(cString: $0) }
                call.failure = call.failure ?? .reported(remote, sqlState: state, text)
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

        private func conclude(_ call: Call, _ handle: OpaquePointer) {
            let isBroken = PQstatus(handle) != CONNECTION_OK || PQtransactionStatus(handle) != PQTRANS_IDLE
            let result: Result<Answer?, any Error> =
                if let failure = call.failure {
                    .failure(failure)
                } else if !call.isComplete {
                    .failure(PostgreSQLError(.invalidAnswer, remote, "no end"))
                } else {
                    .success(call.answer)
                }
            complete(call, result, closing: isBroken)
        }

        // MARK: Cancellation

        private static let cancellations = Atomic<Int>(0)

        /// Asks the server to end the statement: it may be waiting for a lock, and does not see that its client is gone.
        private func requestCancel() {
            guard let handle else { return }
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

        // MARK: One call

        /// Something that a connection does, and who waits for it.
        // Safe because: `answer`, `isComplete` and `failure` are used on the connection's queue only; the rest has a lock,
        // or is set once.
        private final class Call: @unchecked Sendable {
            let statement: Statement?
            let limit: Duration
            let timer: any DispatchSourceTimer
            var answer: Answer?
            /// Whether the server has said that the statement is executed.
            var isComplete = false
            var failure: PostgreSQLError?
            private let state = Mutex<State>(.new)

            private enum State {
                case new
                case running(CheckedContinuation<Answer?, any Error>)
                /// It has ended, with an error that nobody has received yet if it had not begun.
                case done((any Error)?)
            }

            init(_ statement: Statement?, _ remote: String, _ limit: Duration) {
                self.statement = statement
                self.limit = limit
                // Not on the connection's queue, which the resolution of a name may block.
                timer = DispatchSource.makeTimerSource(queue: .global())
                let (seconds, attoseconds) = limit.components
                let nanoseconds = Int(clamping: seconds).multipliedReportingOverflow(by: 1_000_000_000)
                let delay = nanoseconds.overflow ? Int.max / 2 : nanoseconds.partialValue / 2
                timer.schedule(
                    deadline: .now() + .nanoseconds(delay) + .nanoseconds(delay + Int(attoseconds / 1_000_000_000)))
            }

            var isDone: Bool { state.withLock { if case .done = $0 { true } else { false } } }

            /// - Returns: False when it was cancelled before.
            func begin(_ continuation: CheckedContinuation<Answer?, any Error>) -> Bool {
                let error: (any Error)? = state.withLock { state in
                    if case .done(let error) = state { return error ?? CancellationError() }
                    state = .running(continuation)
                    return nil
                }
                if let error { continuation.resume(throwing: error) }
                return error == nil
            }

            /// Ends it, unless it has ended.
            ///
            /// - Parameter before: Called before the caller goes on, if the call had begun.
            func end(_ result: Result<Answer?, any Error>, before: () -> Void = {}) {
                let continuation: CheckedContinuation<Answer?, any Error>? = state.withLock { state in
                    switch state {
                    case .new:
                        if case .failure(let error) = result { state = .done(error) }
                        return nil
                    case .running(let continuation):
                        state = .done(nil)
                        return continuation
                    case .done: return nil
                    }
                }
                guard let continuation else { return }
                before()
                continuation.resume(with: result)
            }
        }
    }
#endif
