import CipherStore
import Dispatch
import StoreTools
import Synchronization

/// `watch STORE`: prints changes as they are committed.
struct WatchCommand: Command {
    static let syntax = CommandSyntax(
        name: "watch",
        summary: "print the changes of a store as they are committed, by whom, until Ctrl-C",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: HistoryArguments.options + [
            OptionSyntax("--json", "print each transaction, note, warning and error as a line of JSON"), .quiet,
        ] + KeyOptions.all,
        examples: [
            "cipherctl watch app.db --key-file app.key",
            "cipherctl watch app.db --table note --json --key-file app.key",
            "cipherctl watch app.db --since \"$TOKEN\" --key-file app.key",
        ],
        notes: [
            "Every recorded change is printed once, in the order of the commits, whichever process has made it. Without "
                + "--since it begins with the next commit. At the end it prints the token of the place that it has "
                + "reached, with which the next run continues. In JSON the last of the transactions that were read "
                + "together has that token, too.",
            "It sleeps while nothing is committed. SIGINT (Ctrl-C), SIGTERM and SIGHUP end it with exit code 0. If "
                + "the store does not record changes, begin with cipherctl history record.",
        ])

    private let path: String
    private let since: HistoryToken?
    private let tables: Set<String>
    private let arguments: ParsedArguments
    var endsBySignal: Bool { true }

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        since = try HistoryArguments.token(arguments)
        tables = HistoryArguments.tables(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let store = try StoreOpening.readOnly(path, key, onNotice: console.note)
        defer { try? store.close() }
        let events = WatchEvents()
        Interruption.shared.whenSet { events.end() }
        let observation = DatabaseRegionObservation(tracking: .fullDatabase).start(
            in: store, onError: { events.end($0) }, onChange: { _ in events.add() })
        defer { observation.cancel() }
        // Read after the observation has begun: no commit is missed.
        var token = try since ?? store.read { try $0.historyToken() }
        try store.read { try HistoryArguments.noteUnrecorded(arguments, $0, console) }
        console.note("watching \"\(path)\" from token \(token); Ctrl-C ends it")
        repeat {
            try WatchEvents.survivingStops(of: store) { try printChanges(of: store, since: &token, console, events) }
            try console.output.flush()
        } while try events.wait()
        if console.isJSON {
            try console.output.line(JSON.object(["token": .string("\(token)")]).text)
        } else {
            console.note("to continue from here: --since \(token)")
        }
        return .ok
    }

    private func printChanges(
        of store: SharedStore, since token: inout HistoryToken, _ console: Console, _ events: WatchEvents
    ) throws {
        while !events.isEnded {
            let page = try store.history(since: token, limit: HistoryArguments.pageChanges)
            let reports = page.transactions.map { HistoryReport($0, tables: tables) }.filter { !$0.changes.isEmpty }
            for (index, report) in reports.enumerated() {
                let isLast = index == reports.count - 1
                try console.report(json: report.json(token: isLast ? page.token : nil), lines: report.lines)
            }
            Console.noteReplacements(in: reports.flatMap(\.values))
            // A printed change is not printed again, whatever happens next.
            token = page.token
            if !page.hasMore { return }
        }
    }
}

/// The events that a watch waits for: commits, and its end.
final class WatchEvents: Sendable {
    private let arrivals = DispatchSemaphore(value: 0)
    private let state = Mutex(State())

    private struct State {
        var isPending = false
        var isEnded = false
        var error: (any Error)?
    }

    var isEnded: Bool { state.withLock { $0.isEnded } }

    /// There was a commit.
    func add() {
        let isFirst = state.withLock { state -> Bool in
            defer { state.isPending = true }
            return !state.isPending
        }
        if isFirst { arrivals.signal() }
    }

    /// Ends the watch.
    ///
    /// - Parameter error: Why, if it was not a signal.
    func end(_ error: (any Error)? = nil) {
        state.withLock { state in
            state.isEnded = true
            if state.error == nil { state.error = error }
        }
        arrivals.signal()
    }

    /// Waits for a commit.
    ///
    /// - Returns: False at the end.
    /// - Throws: The error that has ended the observation, as that of a store that was replaced.
    func wait() throws -> Bool {
        if !isEnded { arrivals.wait() }
        let (isEnded, error) = state.withLock { state in
            state.isPending = false
            return (state.isEnded, state.error)
        }
        if let error { throw error }
        return !isEnded
    }

    /// Runs an access, and again after a stop by Ctrl-Z has interrupted it.
    static func survivingStops(of store: SharedStore, _ access: () throws -> Void) throws {
        while true {
            let suspensions = store.suspensionCount
            do {
                return try access()
            } catch let error as DatabaseError where error.isInterruptionError {
                guard store.suspensionCount != suspensions || store.isSuspended else { throw error }
                store.waitUntilResumedBlocking()
            }
        }
    }
}
