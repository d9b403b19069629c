import CipherStore
import ChangesetSync
import Dispatch
import StorePlatform
import StoreTools

/// `sync run STORE`: fetches, joins and puts, once or as a service.
struct SyncRunCommand: SyncCommand {
    static let syntax = CommandSyntax(
        name: "sync run",
        summary: "exchange commits with all remotes, once or as a service; exit code 2 as `sync status` has it",
        operands: [SyncAccess.storeOperand],
        options: [
            SyncRemotes.option,
            OptionSyntax("--every", value: "AGE", "again after this time, as 30s or 5m, until a signal ends it"),
        ] + SyncAccess.longOptions,
        examples: [
            "cipherctl sync run app.db --key-file app.key",
            "cipherctl sync run app.db --every 30s --key-credential app --json",
        ],
        notes: [
            "With --every it is a service: SIGTERM, SIGINT (Ctrl-C) and SIGHUP end it with exit code 0. After an error of "
                + "a remote it waits longer each time, up to a quarter of an hour. A random part of the wait keeps devices "
                + "from returning at once. It prints a line for each round that has moved something.",
            "It may be killed at any time; the next run continues. If a remote lacks commits that this store has, the run "
                + "puts them, also those of others. A unit for systemd: Docs/systemd/cipherstore-sync.service.",
        ])

    let arguments: ParsedArguments
    private let remote: RemoteAddress?
    private let every: Duration?
    var endsBySignal: Bool { true }

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        remote = try SyncRemotes.address(arguments)
        every = try arguments.value("--every").map { text in
            guard let seconds = AgeText.seconds(text), seconds > 0 else {
                throw UsageError("--every is not a time.", hint: "For example: --every 30s")
            }
            return .seconds(seconds)
        }
    }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        SyncRemotes.warnOfPassword(remote, console)
        let progress = SyncProgress()
        defer { progress.end() }
        let rounds = SyncRounds(access, try SyncExchange(access, given: remote, progress), console)
        guard let every else { return try rounds.once() }
        do {
            try rounds.repeating(every)
        } catch let error as CommandFailure where error.exitCode == .interrupted {
            return .ok
        }
        return .ok
    }
}

/// The rounds of `sync run`.
private final class SyncRounds {
    private let access: SyncAccess
    private let exchange: SyncExchange
    private let console: Console
    private var attention: [String] = []

    init(_ access: SyncAccess, _ exchange: SyncExchange, _ console: Console) {
        (self.access, self.exchange, self.console) = (access, exchange, console)
    }

    func once() throws -> ExitCode {
        let round = try exchange.run()
        let report = try SyncStatusReport(access.repository)
        try print(round, report)
        try round.throwFailure()
        return report.attention.isEmpty ? .ok : .needsAttention
    }

    func repeating(_ every: Duration) throws {
        console.note("syncing \"\(access.path)\" every \(every.components.seconds) s; Ctrl-C ends it")
        let wait = SignalWait()
        var schedule = SyncSchedule(every: every)
        while true {
            var hasFailed = false
            do {
                let round = try exchange.run()
                let report = try SyncStatusReport(access.repository)
                for failure in round.failures {
                    guard SyncSchedule.isPassing(failure.error) else { throw failure.error }
                    say(failure.error)
                }
                hasFailed = !round.failures.isEmpty
                if round.hasMoved || report.attention != attention { try print(round, report) }
                attention = report.attention
            } catch  where SyncSchedule.isPassing(error) {
                try Interruption.shared.check()
                hasFailed = true
                say(error)
            }
            try wait.pass(schedule.pause(afterFailure: hasFailed))
        }
    }

    private func say(_ error: any Error) {
        let report = ErrorReport(error)
        Console.talk(console.isJSON ? report.json.text + "\n" : report.text)
    }

    private func print(_ round: SyncExchange.Round, _ report: SyncStatusReport) throws {
        let state = report.isInSync ? "in sync" : "not in sync"
        let repaired = round.repaired > 0 ? ", sent \(CountText.text(round.repaired, "lost commit")) again" : ""
        try console.report(
            json: .object([
                "store": .string(access.path), "remotes": .array(exchange.names.map(JSON.string)),
                "fetched": .int(round.fetched), "snapshots": .int(round.snapshots), "pushed": .int(round.pushed),
                "repaired": .int(round.repaired), "joined": .bool(round.hasJoined),
                "head": .optional(report.status.head, JSON.string), "in_sync": .bool(report.isInSync),
                "failures": round.failuresJSON, "attention": .array(report.attention.map(JSON.string)),
            ]),
            lines: ["fetched \(round.fetched), pushed \(round.pushed)\(repaired), \(state)"]
                + report.attention.map { "attention: \($0)" })
        // A service prints each line when it is due.
        if !console.output.isKeptUntilEnd { try console.output.flush() }
    }
}

/// A wait that a signal ends.
private struct SignalWait {
    private let signal = DispatchSemaphore(value: 0)

    /// To be called once in a run of the program.
    init() {
        let signal = signal
        Interruption.shared.whenSet { signal.signal() }
    }

    /// - Throws: ``CommandFailure`` with exit code 130 once a signal has arrived.
    func pass(_ duration: Duration) throws {
        try Interruption.shared.check()
        let milliseconds = Int(clamping: Int64(duration / .milliseconds(1)))
        _ = signal.wait(timeout: .now() + .milliseconds(milliseconds))
        try Interruption.shared.check()
    }
}

/// When the next round of a service comes.
struct SyncSchedule {
    let every: Duration
    private var failures = 0

    /// The longest wait after an error, unless rounds are rarer.
    static let longest = Duration.seconds(15 * 60)
    private static let shortest = Duration.seconds(5)

    init(every: Duration) { self.every = every }

    /// The wait before the next round.
    ///
    /// - Parameter part: From 0 to 1, at random: of a wait after an error one half is fixed, the other one random.
    mutating func pause(afterFailure hasFailed: Bool, part: Double = .random(in: 0...1)) -> Duration {
        guard hasFailed else {
            failures = 0
            return every
        }
        let limit = max(every, Self.longest)
        let full = min(max(every, Self.shortest) * (1 << min(failures, 16)), limit)
        failures += 1
        return full * (0.5 + part / 2)
    }

    /// Whether a service continues after an error.
    static func isPassing(_ error: any Error) -> Bool {
        switch error {
        case is RemoteFailure, is DatabaseError, is SystemError: true
        case let error as EngineError: error.code == .betweenSlices || error.code == .notReady
        case let error as CommandFailure: error.name == "noDirectory"
        // Another process has the turn for longer than a minute.
        case let error as StoreError: error.code == .storeInUse
        default: false
        }
    }
}
