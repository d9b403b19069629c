import CipherStore
import Foundation
import KeyCustody
import StoreBackups
import StoreTools

/// `backup list PLACE`: the backups of a repository.
struct BackupListCommand: Command {
    static let syntax = CommandSyntax(
        name: "backup list",
        summary: "list the backups of a repository",
        operands: [OperandSyntax("PLACE", "the repository: a folder, or s3://BUCKET/PREFIX; it is only read")],
        options: [.json, .quiet] + RepositoryPlace.options,
        examples: ["cipherctl backup list /backup", "cipherctl backup list /backup --json"],
        notes: [
            "It needs no key, so it shows what the records say: nothing of it is authenticated. `cipherctl backup "
                + "verify PLACE` with a key authenticates it. \"unproven\" marks a record that another user may have written.",
            "Each time in which a store can be restored at any second has a line (`cipherctl replicate`), and so has each "
                + "gap.",
            "The exit code is 2 if a record cannot be read, or an object of a replica is missing.",
        ])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws { self.arguments = arguments }

    func run(_ console: Console) throws -> ExitCode {
        let repository = try RepositoryPlace.open(arguments.operands[0], arguments)
        var damage: [String] = []
        let backups = try repository.backups(onDamage: { damage.append($0) })
        let ranges = try repository.replicatedRanges(onDamage: { damage.append($0) })
        for sentence in damage { console.note(sentence) }
        try console.report(
            json: .object([
                "backups": .array(backups.map { .object($0.members) }),
                "replicated": .array(ranges.map { .object($0.members) }), "damaged": .int(damage.count),
            ]),
            lines: (backups.isEmpty && ranges.isEmpty ? ["no backups"] : [])
                + backups.map { $0.line + ($0.isUnproven ? "  unproven" : "") } + ReplicatedRange.lines(ranges))
        return damage.isEmpty ? .ok : .needsAttention
    }
}

/// `backup prune PLACE`: removes the backups that no rule keeps.
struct BackupPruneCommand: Command {
    let changesFiles = true
    static let interruptionHint = "Run it again: it completes. No backup that a rule keeps is lost."
    static let syntax = CommandSyntax(
        name: "backup prune",
        summary: "remove old backups from a repository by rules",
        operands: [OperandSyntax("PLACE", "the repository: a folder, or s3://BUCKET/PREFIX")],
        options: [
            OptionSyntax("--keep-last", value: "N", "keep the newest N backups of each store"),
            OptionSyntax("--keep-daily", value: "N", "keep the last backup of each of the newest N days that have one"),
            OptionSyntax("--keep-weekly", value: "N", "the same for weeks, which begin on Monday"),
            OptionSyntax("--keep-monthly", value: "N", "the same for months"),
            OptionSyntax(
                "--keep-continuous", value: "AGE",
                "keep each moment of replicas of this time up to now, as 7d; without it all of them are kept"),
            OptionSyntax("--dry-run", "show what would be removed, and remove nothing"),
            .yes, .json, .quiet,
        ] + RepositoryPlace.options + KeyOptions.all,
        examples: [
            "cipherctl backup prune /backup --keep-last 10 --keep-daily 7 --keep-weekly 4 --keep-monthly 12 --dry-run",
            "cipherctl backup prune /backup --keep-last 10 --yes --key-file app.key",
        ],
        notes: [
            "A backup stays if any rule keeps it; the newest one of each store always stays. Times are UTC.",
            "Without an option for a key it asks for none. Then a record that another user may have written is kept and not "
                + "counted: nothing shows that it is a backup. With a key the records count that it authenticates, of any "
                + "user. The other ones are kept and not counted, also those of stores and times with other keys.",
            "It also removes what killed backups have left. It waits ten seconds for backups, restorations and "
                + "verifications, then ends with 69.",
        ])

    private let arguments: ParsedArguments
    private let policy: RetentionPolicy

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        func count(_ name: String) throws -> Int {
            guard let text = arguments.value(name) else { return 0 }
            guard let count = Int(text), (1...1_000_000).contains(count) else {
                throw UsageError("\(name) needs a number from 1 to 1000000.", hint: "Write: \(name) 7")
            }
            return count
        }
        policy = RetentionPolicy(
            last: try count("--keep-last"), daily: try count("--keep-daily"), weekly: try count("--keep-weekly"),
            monthly: try count("--keep-monthly"), continuousSeconds: try Self.continuous(arguments))
        guard policy.keepsSomething else {
            throw UsageError(
                "No rule says which backups are kept.",
                hint: "Give at least one of --keep-last, --keep-daily, --keep-weekly, --keep-monthly and "
                    + "--keep-continuous.")
        }
    }

    private static func continuous(_ arguments: ParsedArguments) throws -> UInt64? {
        try arguments.value("--keep-continuous").map { text in
            guard let seconds = AgeText.seconds(text) else {
                throw UsageError("--keep-continuous is not a time.", hint: "For example: --keep-continuous 7d")
            }
            return UInt64(clamping: seconds)
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        let isDryRun = arguments.has("--dry-run")
        let repository = try RepositoryPlace.open(arguments.operands[0], arguments)
        if !isDryRun {
            try Confirmation.require(
                "The backups in \"\(arguments.operands[0])\" that no rule keeps are removed for good.", arguments)
        }
        let key = KeyOptions.isGiven(arguments) ? try UnlockedKey(KeyOptions.source(arguments), console) : nil
        Interruption.beginWork()
        let report = try Interruption.explaining {
            try repository.prune(keeping: policy, unlockedBy: key?.source, isDryRun: isDryRun) {
                Interruption.hasArrived
            }
        }
        for notice in report.notices { console.note(notice) }
        let verb = isDryRun ? "would remove" : "removed"
        let removed = report.decisions.count { !$0.isKept }
        try console.report(
            json: .object([
                "dry_run": .bool(isDryRun), "kept": .int(report.decisions.count - removed), "removed": .int(removed),
                "objects_removed": .int(report.objects), "bases_kept": .int(report.bases.kept),
                "bases_removed": .int(report.bases.removed),
                "backups": .array(
                    report.decisions.map { decision in
                        .object(
                            decision.backup.members
                                + JSON.members([
                                    "counted": .bool(decision.standing == .counted),
                                    "kept_by": .array(decision.rules.map { .string($0.rawValue) }),
                                ]))
                    }),
            ]),
            lines: report.decisions.map { "\($0.backup.line)  \($0.outcome(verb))" }
                + [
                    "\(verb) \(CountText.text(removed, "backup")), "
                        + (report.bases.kept + report.bases.removed > 0
                            ? "\(CountText.text(report.bases.removed, "base")) of replicas, " : "")
                        + CountText.text(report.objects, "object")
                ])
        return .ok
    }
}

extension PruneReport.Decision {
    /// The last words of the line of a backup.
    ///
    /// - Parameter removal: The words for one that is not kept.
    fileprivate func outcome(_ removal: String) -> String {
        switch standing {
        case .counted: isKept ? "kept: " + rules.map(\.rawValue).joined(separator: ", ") : removal
        case .unproven: "kept: perhaps written by another user, and not counted"
        case .notAuthentic: "kept: not authentic under this key, and not counted"
        }
    }
}

/// The work of `backup`, `backup verify` and `restore` where the place is a repository.
enum RepositoryWork {
    /// Makes a backup in a repository.
    static func backUp(
        _ store: SharedStore, at storePath: String, to place: String, _ arguments: ParsedArguments, _ console: Console
    ) throws -> ExitCode {
        let repository = try RepositoryPlace.open(place, arguments, creating: arguments.has("--create"))
        let watch = TransferWatch("backing up")
        defer { watch.end() }
        let report = try watch.run { progress, isCancelled in
            try repository.backUp(
                store, progress: progress, onLongWait: Console.longWait(for: storePath), isCancelled: isCancelled)
        }
        for notice in report.notices { console.note(notice) }
        let seconds = report.duration / .seconds(1)
        try console.report(
            json: .object([
                "store": .string(storePath), "repository": .string(place), "backup": .string("\(report.id)"),
                "parent": .optional(report.parent) { .string("\($0)") }, "created": .int(report.created),
                "page_bytes": .int(report.pageBytes), "pages": .int(report.pages), "new_pages": .int(report.newPages),
                "new_bytes": .int(report.newBytes), "seconds": .real(seconds),
            ]),
            lines: [
                "backed up    \(storePath) -> \(place)@\(String("\(report.id)".prefix(12)))",
                "pages        \(report.pages) of \(report.pageBytes) bytes, \(report.newPages) of them new, each authentic",
                "took         \(String(format: "%.1f s", seconds))",
            ])
        return .ok
    }

    /// Verifies a repository.
    static func verify(_ place: String, _ arguments: ParsedArguments, _ console: Console) throws -> ExitCode {
        let sample = try self.sample(arguments.value("--sample") ?? "100%")
        let repository = try RepositoryPlace.open(place, arguments)
        let key = KeyOptions.isGiven(arguments) ? try UnlockedKey(KeyOptions.source(arguments), console) : nil
        let bar = ProgressBar("verifying")
        defer { bar.end() }
        let result = try Interruption.explaining {
            try repository.verify(
                sample: sample, unlockedBy: key?.source, progress: { bar.show($0, of: $1, detail: "packs") },
                isCancelled: { Interruption.hasArrived })
        }
        bar.end()
        noteFaults(result, console)
        try console.report(
            json: .object([
                "repository": .string(place), "backups": .int(result.backups),
                "authentic": .optional(key) { _ in .int(result.authentic) }, "packs": .int(result.packs),
                "packs_read": .int(result.packsRead), "bytes_read": .int(result.bytesRead),
                "bases": .int(result.bases), "segments": .int(result.segments),
                "problems": .array(
                    result.problems.map { problem in
                        .object([
                            "object": .string(problem.object), "why": .string(problem.sentence),
                            "backups": .array(problem.backups.map { .string("\($0)") }),
                        ])
                    }),
                "unproven": .array(result.unproven.map { .string($0) }),
            ]),
            lines: [
                "\(result.problems.isEmpty ? "verified" : "damaged ")     \(place)",
                "backups      \(result.backups)"
                    + (key == nil ? ", by their hashes" : ", \(result.authentic) of them authentic under this key"),
                "packs        \(result.packs), pages read of \(result.packsRead)",
            ]
                + (result.bases > 0
                    ? [
                        "replicas     \(CountText.text(result.bases, "base")), \(CountText.text(result.segments, "segment"))"
                    ]
                    : []) + [
                    "problems     \(result.problems.count)"
                ])
        guard !result.problems.isEmpty else { return result.unproven.isEmpty ? .ok : .needsAttention }
        throw CommandFailure(
            .damagedData, "backupDamaged", what: "The repository \"\(place)\" is damaged.",
            why: "\(CountText.text(result.problems.count, "problem")) found: the notes name the objects.",
            hint:
                "Remove each damaged object by hand, then back up the stores: pages that they still have are stored again."
        )
    }

    private static func noteFaults(_ result: RepositoryVerification, _ console: Console) {
        for problem in result.problems { console.note(text(of: problem)) }
        guard !result.unproven.isEmpty else { return }
        console.note(
            "not verified, because another user may have written them: \(CountText.list(result.unproven)). Restorations leave "
                + "them out. If that user did not make backups here, let him remove them.")
    }

    private static func text(of problem: RepositoryVerification.Problem) -> String {
        let users = problem.backups.prefix(5).map { String("\($0)".prefix(12)) }.joined(separator: ", ")
        let more = problem.backups.count > 5 ? " and \(problem.backups.count - 5) more" : ""
        return problem.sentence + (users.isEmpty ? "" : " Backups that need it: \(users)\(more).")
    }

    /// A share such as `10%`, or `10`.
    private static func sample(_ text: String) throws(UsageError) -> Double {
        let number = text.hasSuffix("%") ? String(text.dropLast()) : text
        guard let percent = Double(number), percent > 0, percent <= 100 else {
            throw UsageError("--sample needs a share of more than 0 % and at most 100 %.", hint: "Write: --sample 10%")
        }
        return percent / 100
    }

    /// The source of a restoration.
    enum Chosen {
        case backup(StoredBackup)
        case moment(ReplicatedMoment)

        /// The identifier of a backup, or the time up to which a moment is complete.
        var name: String {
            switch self {
            case .backup(let backup): "\(backup.id)"
            case .moment(let moment): MomentText.text(moment.completeUntil)
            }
        }
    }

    /// The choice by `--backup`, `--at` and `--store`: a moment of a replica where it has the time, or else a backup.
    static func chosen(
        _ arguments: ParsedArguments, in repository: BackupRepository, _ console: Console
    ) throws -> Chosen {
        let time = try arguments.value("--at").map(milliseconds)
        func backup() throws -> StoredBackup {
            try repository.backup(
                arguments.value("--backup"), notAfter: time.map { $0 / 1000 }, onNotice: { console.note($0) })
        }
        if arguments.value("--backup") != nil { return .backup(try backup()) }
        let store = arguments.value("--store")
        guard let moment = try repository.moment(at: time, store: store) else {
            guard store == nil else {
                throw CommandFailure(
                    .usage, "noSuchStore", what: "There is no replica of that store and time.",
                    why: "--store chooses among replicas.", hint: "See: cipherctl backup list PLACE")
            }
            return .backup(try backup())
        }
        if moment.completeUntil < time ?? .max {
            let later = try repository.backups().filter { found in
                found.storeID == moment.storeID && !found.isUnproven && found.created * 1000 > moment.completeUntil
                    && found.created * 1000 <= time ?? .max
            }
            if moment.next == nil, let last = later.max(by: { $0.created < $1.created }) { return .backup(last) }
        }
        say(moment, time, console)
        return .moment(moment)
    }

    private static func say(_ moment: ReplicatedMoment, _ time: UInt64?, _ console: Console) {
        let until = MomentText.text(moment.completeUntil)
        if moment.precedesPause, let next = moment.next {
            console.note(
                "the store was not replicated from \(until) to \(MomentText.text(next)): commits of that time are in later "
                    + "moments alone")
        } else if moment.next == nil, let time, time > moment.completeUntil {
            console.note("the replica ends at \(until): commits after that are not in it")
        }
    }

    /// Whether a time is written as the calendar has it: Foundation reads February 30 as March 2, and 25:00 as the next day.
    static func isOfCalendar(_ text: String, _ date: Date) -> Bool {
        Date(timeIntervalSince1970: date.timeIntervalSince1970.rounded(.down)).formatted(.iso8601).prefix(19)
            == text.prefix(19).uppercased()
    }

    /// A time in UTC as milliseconds since 1970.
    private static func milliseconds(_ text: String) throws(UsageError) -> UInt64 {
        let exact = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        guard let date = (try? Date(text, strategy: .iso8601)) ?? (try? Date(text, strategy: exact)),
            (0...253_402_300_799).contains(date.timeIntervalSince1970), isOfCalendar(text, date)
        else { throw UsageError("--at needs a time in UTC.", hint: "Write: --at 2026-11-28T10:15:30Z") }
        return UInt64((date.timeIntervalSince1970 * 1000).rounded())
    }
}

/// A backup of a repository as a store in a private folder, to be read: `PLACE@ID`.
final class ReadableBackup {
    /// The database file.
    let path: String
    private let folder: MadeFolder

    /// Restores the backup that a text names; nil where it names none.
    ///
    /// - Throws: The errors of a restoration.
    init?(_ text: String, _ arguments: ParsedArguments, _ key: UnlockedKey) throws {
        guard let at = text.lastIndex(of: "@"), (try? Files.kind(text)) ?? nil == nil else { return nil }
        let place = String(text[..<at])
        guard RepositoryPlace.isRepository(place) else { return nil }
        let repository = try RepositoryPlace.open(place, arguments)
        let backup = try repository.backup(String(text[text.index(after: at)...]))
        let parent = FileManager.default.temporaryDirectory.path
        let folder = try MadeFolder("\(parent)/cipherctl-\(UUID().uuidString.prefix(13).lowercased())")
        self.folder = folder
        path = folder.path + "/store.db"
        do {
            try repository.restore(
                backup, to: path, unlockedBy: key.source, isCancelled: { Interruption.hasArrived })
        } catch {
            folder.remove()
            throw error
        }
    }

    /// Removes the folder.
    func remove() { folder.remove() }
}

extension StoredBackup {
    /// The line that commands print.
    fileprivate var line: String {
        let bytes = Double(pages) * Double(pageBytes)
        let time = Date(timeIntervalSince1970: Double(min(created, 253_402_300_799))).formatted(.iso8601)
        return "\(shortID)  \(time)  \(String(format: "%10.1f MB", bytes / 1e6))  \(storeID)  epoch \(epoch)"
    }

    fileprivate var members: [JSON.Member] {
        JSON.members([
            "backup": .string("\(id)"), "store_id": .string("\(storeID)"), "created": .int(created),
            "sequence": .int(sequence), "epoch": .int(epoch), "page_bytes": .int(pageBytes), "pages": .int(pages),
            "unproven": .bool(isUnproven),
        ])
    }
}

extension ReplicatedRange {
    /// The lines of ranges and of the gaps between them.
    fileprivate static func lines(_ ranges: [ReplicatedRange]) -> [String] {
        var lines: [String] = []
        for (index, range) in ranges.enumerated() {
            let former = index > 0 ? ranges[index - 1] : range
            if index > 0, former.storeID == range.storeID {
                lines.append(line("gap", former.until, range.since, range.storeID))
            }
            lines.append(line("any second", range.since, range.until, range.storeID))
        }
        return lines
    }

    private static func line(_ what: String, _ since: UInt64, _ until: UInt64, _ storeID: StoreID) -> String {
        what.padding(toLength: 12, withPad: " ", startingAt: 0)
            + "  \(MomentText.text(since)) to \(MomentText.text(until))  \(storeID)"
    }

    fileprivate var members: [JSON.Member] {
        JSON.members([
            "store_id": .string("\(storeID)"), "since": .real(Double(since) / 1000),
            "until": .real(Double(until) / 1000),
            "bases": .int(bases), "segments": .int(segments),
        ])
    }
}
