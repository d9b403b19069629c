import CipherStore
import Foundation
import ServicePlatform
import StoreBackups
import StoreTools

/// `replicate STORE --to PLACE`: ships commits to a repository as they happen.
struct ReplicateCommand: Command {
    let changesFiles = true
    let endsBySignal = true
    /// Commits are stored before the end.
    static let grace = Duration.seconds(15)
    static let interruptionHint = "Run it again: it continues."
    static let syntax = CommandSyntax(
        name: "replicate",
        summary: "ship commits to a repository within a second, as a service or once; no key is needed",
        operands: [OperandSyntax("STORE", "the store; other processes keep reading and writing")],
        options: [
            OptionSyntax("--to", value: "PLACE", "a repository: a folder, or s3://BUCKET/PREFIX; needed"),
            OptionSyntax("--create", "make a repository of an empty place"),
            OptionSyntax("--once", "ship what is committed, and end"),
            OptionSyntax("--status", "show how far the replica follows, and change nothing"),
            OptionSyntax(
                "--wal-limit", value: "MIB",
                "the length of the WAL, in MiB, at which commits that cannot be stored are given up (1024)"),
            OptionSyntax("--base-every", value: "AGE", "store the whole database again after this time, as 12h (1d)"),
            .json, .quiet,
        ] + RepositoryPlace.options,
        examples: [
            "cipherctl replicate app.db --to /backup",
            "cipherctl replicate app.db --to /backup --status --json",
            "cipherctl restore /backup app.db --replace --at 2026-11-28T10:15:30Z --key-file app.key",
        ],
        notes: [
            "It runs until SIGTERM, SIGINT (Ctrl-C) or SIGHUP, and then ends with exit code 0. It may be killed at any time; "
                + "the next run continues, or stores a new base and names the gap. A rotation, a restored store and a VACUUM "
                + "need nothing: it stores a new base by itself where that is necessary.",
            "While the place fails the WAL grows up to --wal-limit. Writers never wait. A restoration of the store, and its "
                + "destruction, need the end of the service.",
            "--status ends with 2 if commits wait for longer than ten seconds, or a new base is needed. A unit for systemd: "
                + "Docs/systemd/cipherstore-replicate.service.",
        ])

    private let arguments: ParsedArguments
    private let storePath: String
    private let place: String
    private var options = StoreReplication.Options()

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        storePath = arguments.operands[0]
        guard let place = arguments.value("--to") else {
            throw UsageError("--to is missing.", hint: "Write: cipherctl replicate STORE --to PLACE")
        }
        self.place = place
        for option in ["--once", "--create"] where arguments.has(option) && arguments.has("--status") {
            throw UsageError("--status and \(option) exclude each other.", hint: "Give one of them.")
        }
        if let text = arguments.value("--wal-limit") {
            guard let size = Int(text), (1...1_048_576).contains(size) else {
                throw UsageError(
                    "--wal-limit needs a number of MiB from 1 to 1048576.", hint: "Write: --wal-limit 1024")
            }
            options.walLimitBytes = size << 20
        }
        if let text = arguments.value("--base-every") {
            guard let seconds = AgeText.seconds(text), seconds > 0 else {
                throw UsageError("--base-every is not a time.", hint: "For example: --base-every 12h")
            }
            options.baseInterval = .seconds(Int64(clamping: seconds))
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        if arguments.has("--status") { return try showStatus(console) }
        if !RepositoryPlace.isServer(place) { try ToolError.requireForeign(storePath, to: place, "store") }
        let repository = try RepositoryPlace.open(place, arguments, creating: arguments.has("--create"))
        Interruption.beginWork()
        let replication = StoreReplication(of: storePath, to: repository, options: options) { event in
            Self.say(event, console)
        }
        let interruption = Interruption.shared
        if arguments.has("--once") {
            try Interruption.explaining { try replication.once { interruption.isSet } }
            return try showStatus(console)
        }
        let manager = ServiceManager()
        manager.tell(.ready)
        var next = ContinuousClock.now
        console.note("replicating \"\(storePath)\" to \"\(place)\"; Ctrl-C ends it")
        try replication.run(
            onPoll: {
                guard let pause = manager.watchdogPause, next <= .now else { return }
                next = .now + pause
                manager.tell(.alive)
            }, isCancelled: { interruption.isSet })
        manager.tell(.stopping)
        return .ok
    }

    private func showStatus(_ console: Console) throws -> ExitCode {
        let status = try RepositoryPlace.open(place, arguments).replicationStatus(of: storePath)
        let bytes = status.pendingFrames.map { $0 * (status.pageBytes + 24) }
        try console.report(
            json: .object([
                "store": .string(storePath), "repository": .string(place), "store_id": .string("\(status.storeID)"),
                "running": .bool(status.isRunning),
                "complete_until": .optional(status.until) { .real(Double($0) / 1000) },
                "pending_frames": .optional(status.pendingFrames) { .int($0) },
                "pending_bytes": .optional(bytes) { .int($0) },
                "lag_seconds": .optional(status.lagSeconds) { .real($0) },
            ]),
            lines: [
                "replica      \(storePath) -> \(place)\(status.isRunning ? ", running" : "")",
                "complete     \(status.until.map { "until " + MomentText.text($0) } ?? "never: there is no replica")",
                "lag          "
                    + (status.lagSeconds.map {
                        String(format: "%.1f s, ", $0) + CountText.text(status.pendingFrames ?? 0, "frame")
                    }
                        ?? "a new base is needed"),
            ])
        return (status.lagSeconds ?? .infinity) > 10 ? .needsAttention : .ok
    }

    /// One line for each event that a person may want to know.
    private static func say(_ event: StoreReplication.Event, _ console: Console) {
        switch event {
        case .base(let base):
            console.note(
                "stored base \(base.number): \(CountText.text(base.pages, "page")), \(base.newPages) of them new"
                    + (base.gapSince.map { "; commits after \(MomentText.text($0)) are in it alone" } ?? ""))
        case .shipped: break
        case .gap(let since):
            console.note(
                "commits after \(MomentText.text(since)) are not kept for the replica any longer: the place has failed for too "
                    + "long, or the WAL was reset. They follow if the WAL still has them; otherwise a new base names the gap"
            )
        case .yielded: console.note("the store is switched to a new key")
        case .problem(let error):
            let report = ErrorReport(error)
            Console.talk(console.isJSON ? report.json.text + "\n" : report.text)
        }
    }
}
