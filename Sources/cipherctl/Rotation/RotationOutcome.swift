import CipherStore
import KeyRotation
import StorePlatform
import StoreTools

/// An obstacle to a rotation that is known before the store is opened.
struct RotationObstacle {
    let what: String
    let remedy: String

    static func readOnlyFilesystem(_ path: String) -> RotationObstacle {
        RotationObstacle(
            what: "\"\(path)\" is on a filesystem that is mounted read-only: a rotation writes beside the store.",
            remedy: "Mount the filesystem with the right to write, or run the rotation where it is mounted so.")
    }
}

/// The outcome for one store.
struct RotationOutcome {
    enum Result {
        case rotated(RotationReport)
        case skipped(ageSeconds: UInt64)
        /// Whether it is due is unknown: the time of its data key, in seconds since 1970, is in the future.
        case notChecked(created: UInt64)
        case planned(RotationPlan)
        /// Instead of a plan: the store cannot even be opened for writing.
        case impossible(RotationObstacle, epoch: UInt64)
        /// Instead of a plan: a rotation runs or was interrupted.
        case pending(RotationStatus)
        /// Instead of a plan: a copy left by a rotation, in state none.
        case leftover(String)
        case abandoned
        case nothingPending
        case failed(any Error)
    }

    let path: String
    let result: Result

    init(path: String, _ result: Result) {
        self.path = path
        self.result = result
    }

    var exitCode: ExitCode {
        switch result {
        case .failed(let error): ExitCode(error)
        case .planned(let plan): plan.canBegin ? .ok : .needsAttention
        case .pending(let status): RotationStatusReport.exitCode(status)
        case .notChecked, .leftover, .impossible: .needsAttention
        case .rotated, .skipped, .abandoned, .nothingPending: .ok
        }
    }

    /// A word for programs.
    var name: String {
        switch result {
        case .rotated: "rotated"
        case .skipped: "skipped"
        case .notChecked: "not-checked"
        case .planned, .impossible: "planned"
        case .pending, .leftover: "pending"
        case .abandoned: "abandoned"
        case .nothingPending: "nothing-pending"
        case .failed: "failed"
        }
    }

    // MARK: For people

    var lines: [String] {
        switch result {
        case .rotated(let report): rotated(report)
        case .skipped(let age): ["\(path): not due, its data key is \(AgeText.text(age)) old"]
        case .notChecked(let created):
            [
                "\(path): it is not known whether it is due: its data key has a time in the future, "
                    + "\(SlotReport.moment(created))",
                "  set the clock, or rotate it without --if-older-than",
            ]
        case .planned(let plan): PlanReport.lines(plan, path)
        case .impossible(let obstacle, let epoch):
            [
                "\(path): a rotation cannot begin", "  epoch        \(epoch)", "  obstacle     \(obstacle.what)",
                "               -> \(obstacle.remedy)",
            ]
        case .pending(let status):
            [RotationStatusReport.line(path, status), "  nothing was checked or changed"]
        case .leftover(let copy):
            [
                "\(path): \"\(copy)\" was left by a rotation: the next opening for writing removes it",
                "  nothing was checked or changed",
            ]
        case .abandoned: ["\(path): the rotation was abandoned; the store keeps its key"]
        case .nothingPending: ["\(path): no rotation was pending"]
        case .failed: []
        }
    }

    private func rotated(_ report: RotationReport) -> [String] {
        let pause = CountText.decimal(report.longestPause / .milliseconds(1), digits: 1)
        var lines = [
            "\(path): epoch \(report.fromEpoch) -> \(report.toEpoch)"
                + (report.wasFinished ? ", completed an interrupted rotation" : "")
        ]
        // The copy was made by the interrupted rotation.
        if report.pages > 0 {
            lines += [
                "  copied       \(CountText.text(report.pages, "page")), \(report.bytes) bytes at "
                    + CountText.speed(bytesPerSecond: Double(report.copyBytesPerSecond)),
                "  carried over \(CountText.text(report.carriedPages, "page")) in \(CountText.text(report.rounds, "round"))",
                "  paused       \(pause) ms at the longest, asked \(CountText.text(report.attempts, "time"))",
            ]
        }
        lines += report.removedSlots.map { "  removed      \(SlotReport.name($0)): its key opens the store no longer" }
        lines.append("  took         \(CountText.shortSeconds(report.duration))")
        if let backup = report.backupPath { lines.append("  backup       \(backup): it opens with the former keys") }
        return lines
    }

    // MARK: For programs

    var json: JSON {
        var members: [JSON.Member] = [
            .init(name: "store", value: .string(path)), .init(name: "result", value: .string(name)),
            .init(name: "exit_code", value: .int(exitCode.rawValue)),
        ]
        switch result {
        case .rotated(let report): members += Self.members(report)
        case .skipped(let age): members.append(.init(name: "data_key_age_seconds", value: .int(age)))
        case .planned(let plan): members += PlanReport.members(plan, path)
        case .impossible(let obstacle, let epoch):
            members += [
                .init(name: "can_begin", value: .bool(false)), .init(name: "epoch", value: .int(epoch)),
                .init(
                    name: "obstacles",
                    value: .array([.object(["what": .string(obstacle.what), "remedy": .string(obstacle.remedy)])])),
            ]
        case .notChecked(let created): members.append(.init(name: "data_key_created", value: .int(created)))
        case .pending(let status): members += RotationStatusReport.members(status)
        case .leftover(let copy): members.append(.init(name: "leftover", value: .string(copy)))
        case .abandoned, .nothingPending: break
        case .failed(let error):
            if case .object(let error) = ErrorReport(error).json { members += error }
        }
        return .object(members)
    }

    private static func members(_ report: RotationReport) -> [JSON.Member] {
        [
            .init(name: "from_epoch", value: .int(report.fromEpoch)),
            .init(name: "to_epoch", value: .int(report.toEpoch)),
            .init(name: "was_finished", value: .bool(report.wasFinished)),
            .init(name: "pages", value: .int(report.pages)), .init(name: "bytes", value: .int(report.bytes)),
            .init(name: "rounds", value: .int(report.rounds)),
            .init(name: "carried_pages", value: .int(report.carriedPages)),
            .init(name: "attempts", value: .int(report.attempts)),
            .init(name: "longest_pause_seconds", value: .real(report.longestPause / .seconds(1))),
            .init(name: "bytes_per_second", value: .int(report.copyBytesPerSecond)),
            .init(name: "seconds", value: .real(report.duration / .seconds(1))),
            .init(name: "removed_slots", value: .array(report.removedSlots.map(SlotReport.json))),
            .init(name: "backup", value: .optional(report.backupPath, JSON.string)),
            .init(name: "notices", value: .array(report.notices.map(JSON.string))),
        ]
    }
}

/// The outcome for all stores of one call, and its one exit code.
struct FleetReport {
    private(set) var outcomes: [RotationOutcome] = []
    /// Whether errors are printed as JSON.
    private let isJSON: Bool

    init(isJSON: Bool = false) { self.isJSON = isJSON }

    /// From best to worst.
    private static let order: [ExitCode] = [
        .ok, .needsAttention, .tryAgain, .storeInUse, .interrupted, .usage, .noSuchStore, .notPermitted, .unsupported,
        .failed, .inputOutput, .damagedData,
    ]

    mutating func add(_ outcome: RotationOutcome) {
        outcomes.append(outcome)
        // Printed at once: the next store may take an hour.
        if case .failed(let error) = outcome.result { Self.tell(error, of: outcome.path, isJSON: isJSON) }
    }

    /// Prints an error of one store among several to standard error.
    static func tell(_ error: any Error, of path: String, isJSON: Bool) {
        Console.talk(ErrorReport(error).text(of: path, isJSON: isJSON))
    }

    /// The worst of all.
    var exitCode: ExitCode { Self.worst(of: outcomes.map(\.exitCode)) }

    /// The worst of the codes of several stores.
    static func worst(of codes: [ExitCode]) -> ExitCode { codes.max { rank($0) < rank($1) } ?? .ok }

    private static func rank(_ code: ExitCode) -> Int { order.firstIndex(of: code) ?? order.count }

    /// - Parameter count: How many stores were named; the others were not begun.
    func report(of count: Int, _ console: Console) throws {
        let groups = [
            "rotated", "skipped", "not-checked", "planned", "pending", "abandoned", "nothing-pending", "failed",
        ].map { name in
            (name, outcomes.filter { $0.name == name }.count)
        }
        let left = count - outcomes.count
        if console.isJSON {
            let counts = groups.map { JSON.Member(name: $0.0.replacing("-", with: "_"), value: .int($0.1)) }
            try console.output.line(
                JSON.object(
                    [JSON.Member(name: "stores", value: .array(outcomes.map(\.json)))] + counts + [
                        .init(name: "not_begun", value: .int(left)),
                        .init(name: "exit_code", value: .int(exitCode.rawValue)),
                    ]
                ).text)
        } else if count > 1 {
            let parts = groups.filter { $0.1 > 0 }.map { "\($0.1) \($0.0.replacing("-", with: " "))" }
            try console.output.line(
                "\(count) stores: " + (parts + (left > 0 ? ["\(left) not begun"] : [])).joined(separator: ", "))
        }
    }
}
