import ChangesetSync
import CipherStore
import StorePlatform
import StoreTools

/// `sync run STORE`: fetches, merges, pulls and pushes, once or as a service.
struct SyncRunCommand: Command {
    static let syntax = CommandSyntax(
        name: "sync run",
        summary: "fetch, merge, pull and push, once or as a service; exit code 2 when something needs attention",
        operands: [SyncAccess.storeOperand],
        options: [
            SyncAccess.remoteOption,
            OptionSyntax("--every", value: "AGE", "again after this time, as 30s or 5m, until a signal ends it"),
        ] + SyncAccess.longOptions,
        examples: [
            "cipherctl sync run app.db --key-file app.key",
            "cipherctl sync run app.db --every 30s --key-credential app --json",
        ],
        notes: [
            "With --every it is a service: SIGTERM, SIGINT (Ctrl-C) and SIGHUP end it with exit code 0. After an error of "
                + "the remote it waits longer each time, up to a quarter of an hour, and a random part of it, so that many "
                + "devices do not come back at once. A line is printed for each round that has moved something.",
            "It may be killed at any time; the next one goes on. A unit for systemd: Docs/systemd/cipherstore-sync.service.",
        ])

    private let arguments: ParsedArguments
    private let remote: RemoteAddress?
    private let every: Duration?
    var endsBySignal: Bool { true }

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        remote = try SyncAccess.remote(arguments)
        every = try arguments.value("--every").map { text in
            guard let seconds = AgeText.seconds(text), seconds > 0 else {
                throw UsageError("--every is not a time.", hint: "For example: --every 30s")
            }
            return .seconds(seconds)
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        SyncAccess.warnOfPassword(remote, console)
        let access = try SyncAccess.writable(arguments, console)
        defer { access.close() }
        let progress = SyncProgress()
        defer { progress.end() }
        let (remote, every) = (remote, every)
        // A class that one task uses: what is printed goes to this console.
        let isJSON = console.isJSON
        do {
            return try AsyncWork.wait {
                let service = SyncService(access, progress, Console(isJSON: isJSON))
                return try await access.forgettingUnused(remote) { try await service.run(remote, every) }
            }
        } catch let error as CommandFailure where error.exitCode == .interrupted && every != nil {
            return .ok
        }
    }
}

/// The rounds of `sync run`.
private final class SyncService {
    private let access: SyncAccess
    private let progress: SyncProgress
    private let console: Console
    private var attention: [String] = []

    init(_ access: SyncAccess, _ progress: SyncProgress, _ console: Console) {
        (self.access, self.progress, self.console) = (access, progress, console)
    }

    func run(_ remote: RemoteAddress?, _ every: Duration?) async throws -> ExitCode {
        guard let every else {
            let report = try await round(try await access.manager(remote, progress))
            try print(report)
            return report.attention.isEmpty ? .ok : .needsAttention
        }
        console.note("syncing \"\(access.path)\" every \(every.components.seconds) s; Ctrl-C ends it")
        var schedule = SyncSchedule(every: every)
        var manager: SyncManager?
        while true {
            var hasFailed = false
            do {
                let current: SyncManager
                if let manager { current = manager } else { current = try await access.manager(remote, progress) }
                manager = current
                let report = try await round(current)
                if report.isWorthALine || report.attention != attention { try print(report) }
                attention = report.attention
            } catch  where SyncSchedule.isPassing(error) {
                if Task.isCancelled { throw CancellationError() }
                hasFailed = true
                report(error)
            }
            try await Task.sleep(for: schedule.pause(afterFailure: hasFailed))
        }
    }

    private func report(_ error: any Error) {
        progress.end()
        let report = ErrorReport(error)
        Console.talk(console.isJSON ? report.json.text + "\n" : report.text)
    }

    // MARK: A round

    struct Round {
        var (fetched, merged, pushed, hasMoved) = (0, 0, 0, false)
        var head: CommitID?
        var isInSync = false
        /// Why it is not in sync, where nobody has to look at it yet.
        var obstacle: String?
        var attention: [String] = []

        var isWorthALine: Bool { fetched > 0 || merged > 0 || pushed > 0 || hasMoved }
    }

    /// One exchange. A decision that only a person can make, or a fault of the rows, does not keep commits from being
    /// pushed.
    private func round(_ manager: SyncManager) async throws -> Round {
        var (round, failure, obstacle) = (Round(), (any Error)?.none, SyncError?.none)
        progress.begin("fetching")
        switch await Result(of: { try await manager.fetch() }) {
        case .success(let count): round.fetched = count
        case .failure(let error): throw await manager.pushAfter(failedFetch: error)
        }
        do {
            progress.begin("merging")
            round.merged = try access.repository.mergeAll().count
            progress.begin("pulling")
            round.hasMoved = try access.repository.pull() != nil
        } catch let error as SyncError where ExitCode(error) == .needsAttention {
            obstacle = error
        } catch let error where !(error is CancellationError) {
            failure = error
        }
        progress.begin("pushing", total: try manager.status().ahead)
        round.pushed = try await manager.push()
        progress.end()
        if let failure { throw failure }
        let report = try SyncReport(access.repository)
        (round.head, round.isInSync) = (report.summary.head, report.isInSync)
        round.attention = report.attention
        if round.attention.isEmpty { round.obstacle = report.obstacle }
        if let obstacle, !report.names(obstacle) {
            round.attention.insert(SyncErrorReport(obstacle)?.sentences ?? "\(obstacle)", at: 0)
        }
        return round
    }

    private func print(_ round: Round) throws {
        try console.report(
            json: .object([
                "fetched": .int(round.fetched), "merged": .int(round.merged), "moved": .bool(round.hasMoved),
                "pushed": .int(round.pushed), "head": .optional(round.head) { .string("\($0)") },
                "in_sync": .bool(round.isInSync), "attention": .array(round.attention.map(JSON.string)),
            ]),
            lines: [
                "fetched \(round.fetched), merged \(round.merged), pushed \(round.pushed), "
                    + (round.isInSync ? "in sync" : "not in sync" + (round.obstacle.map { " (\($0))" } ?? ""))
            ] + round.attention.map { "attention: \($0)" })
        try console.output.flush()
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

    /// Whether a service goes on after an error.
    static func isPassing(_ error: any Error) -> Bool {
        switch error {
        case is RemoteError, is DatabaseError, is SystemError: true
        case let error as SyncError: error.code != .otherRepository && error.code != .notEnabled
        case let error as CommandFailure: error.name == "noDirectory"
        // Another process has the turn for longer than a minute.
        case let error as StoreError: error.code == .storeInUse
        case is CancellationError, is UsageError: false
        case let error as SyncFailure: isPassing(error.first)
        default: ServerRemote.report(error) != nil
        }
    }
}
