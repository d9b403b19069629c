import Foundation
import ServicePlatform
import StoreFleet
import StorePlatform
import StoreTools

/// `status`, `verify`, `backup`, `rotate` and `doctor` with `--fleet`: the same command for all stores of a file.
///
/// Each store is a process of its own, which runs this program with the store: a crash, a leak or a hang of one ends there,
/// each has its own time limit, and no key of one store is in the memory that works on another one.
struct FleetCommand: PreparedCommand {
    private let lines: FleetCommandLines
    private let arguments: ParsedArguments
    private let jobs: Int?
    private let timeLimit: Duration?
    private var work: FleetWork { lines.work }

    var changesFiles: Bool { !work.isReading && !arguments.has("--dry-run") && !arguments.has("--status") }
    /// It ends its programs.
    var endsBySignal: Bool { true }
    var endingGrace: Duration { ServiceLimits.endingGrace + ServiceLimits.killGrace * 2 }

    /// - Throws: ``UsageError``.
    init(_ work: FleetWork, _ arguments: ParsedArguments, _ syntax: CommandSyntax) throws(UsageError) {
        lines = try FleetCommandLines(work, arguments, syntax)
        self.arguments = arguments
        jobs = try FleetOptions.jobs(arguments)
        timeLimit = try FleetOptions.timeLimit(arguments)
        if arguments.has("--openmetrics") && arguments.has("--json") {
            throw UsageError("--openmetrics and --json were given.", hint: "Leave one of them out.")
        }
        if arguments.value("--textfile") != nil, !arguments.has("--openmetrics") {
            throw UsageError("--textfile is given without --openmetrics.", hint: "Give both, or neither.")
        }
    }

    func run(_ console: Console) throws -> ExitCode {
        let fleet = try FleetOptions.read(arguments)
        Interruption.beginWork()
        let programs = FleetPrograms(jobs: jobs ?? fleet.file.jobs)
        if arguments.has("--openmetrics") {
            let metrics = FleetMetrics(fleet, lines, programs, timeLimit ?? FleetOptions.checkLimit)
            return try metrics.print(to: arguments.value("--textfile"), console)
        }
        var summary = FleetSummary(work, fleet, console)
        for gap in fleet.gaps { try summary.add(FleetResult(gap)) }
        let newest = work.isShort ? NewestBackups(fleet, programs) : nil
        let replicas = work.isShort ? FleetReplicas(fleet, programs) : nil
        let bar = ProgressBar(work.progress)
        defer { bar.end() }
        let limit = timeLimit ?? (work.isShort ? FleetOptions.checkLimit : .seconds(fleet.file.timeLimit))
        var failed: Set<String> = []
        var done = 0
        let copies = work == .backup ? FleetCopies(fleet.stores) : nil
        let arguments = { (store: Fleet.Store) throws(CommandFailure) in
            try copies?.refuse(store)
            return try lines.arguments(for: store)
        }
        try programs.run(fleet.stores, timeLimit: limit, arguments) { store, result in
            var result = result
            for finding in [newest?.finding(on: store, result), replicas?.finding(on: store)] {
                if let finding { result.needAttention(finding) }
            }
            if result.failure != nil, let place = place(of: store) { failed.insert(place) }
            bar.end()
            try summary.add(result)
            done += 1
            bar.show(done, of: fleet.stores.count, detail: "stores")
        }
        bar.end()
        if work == .backup { try prune(fleet, except: failed, programs, &summary) }
        try summary.report(of: fleet.stores.count + fleet.gaps.count)
        return summary.exitCode
    }

    private func place(of store: Fleet.Store) -> String? { arguments.value("--to") ?? store.settings.backupPlace }

    /// Removes old backups by the rules of the file. A place stays as it is where a backup has failed, or where stores have
    /// different rules.
    private func prune(
        _ fleet: Fleet, except failed: Set<String>, _ programs: FleetPrograms, _ summary: inout FleetSummary
    ) throws {
        let ruled = fleet.stores.filter { !$0.settings.retention.isEmpty }
        let places = Dictionary(grouping: ruled, by: { place(of: $0) ?? "" }).filter { !$0.key.isEmpty }
        for (place, stores) in places.sorted(by: { $0.key < $1.key }) where !Interruption.hasArrived {
            if failed.contains(place) {
                Console.note("no backup is removed from \"\(place)\", because a backup has failed")
                continue
            }
            let rules = Set(stores.map(\.settings.retention))
            guard rules.count == 1, let rule = rules.first else {
                let failure = CommandFailure(
                    .usage, "fleetSetting", what: "No backup is removed from \"\(place)\".",
                    why: "The stores with backups there have different rules (keep-...).",
                    hint: "Give them the same rules, or places of their own.")
                try summary.add("prune", FleetResult(place, refused: failure))
                continue
            }
            let options = rule.sorted { $0.key < $1.key }.flatMap { [$0.key, String($0.value)] }
            let mode = arguments.has("--dry-run") ? "--dry-run" : "--yes"
            let limit = timeLimit ?? .seconds(fleet.file.timeLimit)
            try programs.run([place], timeLimit: limit, { ["backup", "prune", $0, mode, "--json"] + options }) {
                try summary.add("prune", FleetResult($0, $1))
            }
        }
    }
}

extension FleetResult {
    /// A pattern that no store matches.
    init(_ gap: Fleet.Gap) {
        self.init(
            gap.pattern,
            refused: CommandFailure(
                .noSuchStore, "noMatch", what: "No store was found for \"\(gap.pattern)\".", why: gap.why,
                hint: "Correct the path in the fleet file, or take the entry out of it."))
    }
}

/// Runs this program for many subjects.
struct FleetPrograms {
    private let jobs: Int

    init(jobs: Int) { self.jobs = jobs }

    /// Runs the program for each store, a bounded number at a time.
    ///
    /// - Parameters:
    ///   - arguments: Called when the work on a store may begin.
    ///   - onEnd: Called in the order of the ends. After an error of it no other program begins.
    /// - Throws: The first error of `onEnd`.
    func run(
        _ stores: [Fleet.Store], timeLimit: Duration, _ arguments: (Fleet.Store) throws(CommandFailure) -> [String],
        onEnd: (Fleet.Store, FleetResult) throws -> Void
    ) throws {
        var queue = Array(stores.enumerated())[...]
        var failure: (any Error)?
        func report(_ store: Fleet.Store, _ result: FleetResult) {
            do { try onEnd(store, result) } catch { failure = failure ?? error }
        }
        ConcurrentPrograms(limit: jobs).run(
            next: {
                while failure == nil, let (index, store) = queue.popFirst() {
                    do throws(CommandFailure) {
                        return (index, program(try arguments(store), timeLimit))
                    } catch {
                        report(store, FleetResult(store.path, refused: error))
                    }
                }
                return nil
            },
            isCancelled: { Interruption.hasArrived || failure != nil },
            onEnd: { report(stores[$0], FleetResult(stores[$0].path, $1)) })
        if let failure { throw failure }
    }

    /// The same for places of backups.
    func run(
        _ places: [String], timeLimit: Duration, _ arguments: (String) -> [String],
        onEnd: (String, ConcurrentPrograms.Outcome) throws -> Void
    ) throws {
        var queue = Array(places.enumerated())[...]
        var failure: (any Error)?
        ConcurrentPrograms(limit: jobs).run(
            next: { queue.popFirst().map { ($0.offset, program(arguments($0.element), timeLimit)) } },
            isCancelled: { Interruption.hasArrived },
            onEnd: { index, outcome in
                do { try onEnd(places[index], outcome) } catch { failure = failure ?? error }
            })
        if let failure { throw failure }
    }

    private func program(_ arguments: [String], _ timeLimit: Duration) -> ConcurrentPrograms.Program {
        ConcurrentPrograms.Program(arguments: [Self.path] + arguments, timeLimit: timeLimit)
    }

    /// This program, also where another version has taken its name since.
    private static let path: String = {
        let path = Bundle.main.executablePath ?? CommandLine.arguments[0]
        return Files.exists(path) ? path : "/proc/self/exe"
    }()
}
