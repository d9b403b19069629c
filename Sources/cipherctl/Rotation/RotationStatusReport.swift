import CipherStore
import KeyRotation
import StorePlatform
import StoreTools

/// The output of `rotate --status`: for every named store, also for those whose state cannot be read.
struct RotationStatusReport {
    private let path: String
    private let found: Result<RotationStatus, any Error>

    init(_ path: String) {
        self.path = path
        found = Result {
            try StoreOpening.refuseForeignFile(path)
            return try KeyRotation.status(of: path)
        }
    }

    static func run(_ paths: [String], _ console: Console) throws -> ExitCode {
        let reports = paths.map { path in
            let report = RotationStatusReport(path)
            if case .failure(let error) = report.found { FleetReport.tell(error, of: path, isJSON: console.isJSON) }
            return report
        }
        let code = FleetReport.worst(of: reports.map(\.exitCode))
        try console.report(
            json: .object(["stores": .array(reports.map(\.json)), "exit_code": .int(code.rawValue)]),
            lines: reports.map(\.line))
        return code
    }

    private var exitCode: ExitCode {
        switch found {
        case .success(let status): Self.exitCode(status)
        case .failure(let error): ExitCode(error)
        }
    }

    /// One that runs needs no attention.
    static func exitCode(_ status: RotationStatus) -> ExitCode { status.isInterrupted ? .needsAttention : .ok }

    // MARK: For people

    private var line: String {
        switch found {
        case .success(let status): Self.line(path, status)
        case .failure(let error): "\(path): status not available, \(ErrorReport(error).name)"
        }
    }

    static func line(_ path: String, _ status: RotationStatus) -> String {
        guard status.state != .none else { return "\(path): no rotation is pending, epoch \(status.epoch)" }
        let copied = status.copyBytes.map { ", \($0) of \(status.databaseBytes) bytes copied" } ?? ""
        let to = "from epoch \(status.epoch) to \(status.epoch + 1)"
        if status.isRunning {
            let process = status.process.map { " by \($0)" } ?? ""
            return "\(path): a rotation \(to) runs\(process), \(status.state.rawValue)\(copied)"
        }
        return "\(path): a rotation \(to) was interrupted: "
            + (status.state == .switching
                ? "--resume or the next opening for writing completes it, and so does cipherctl backup"
                : "--resume completes it, --abort or the next opening for writing undoes it, and so does cipherctl backup")
    }

    // MARK: For programs

    private var json: JSON {
        let store = JSON.Member(name: "store", value: .string(path))
        switch found {
        case .success(let status): return .object([store] + Self.members(status))
        case .failure(let error):
            guard case .object(let members) = ErrorReport(error).json else { return .object([store]) }
            return .object([store] + members)
        }
    }

    static func members(_ status: RotationStatus) -> [JSON.Member] {
        [
            .init(name: "state", value: .string(status.state.rawValue)),
            .init(name: "running", value: .bool(status.isRunning)),
            .init(name: "interrupted", value: .bool(status.isInterrupted)),
            .init(name: "pid", value: .optional(status.process) { .int($0.process) }),
            .init(name: "epoch", value: .int(status.epoch)),
            .init(name: "database_bytes", value: .int(status.databaseBytes)),
            .init(name: "copy_bytes", value: .optional(status.copyBytes) { .int($0) }),
            .init(name: "wal_bytes", value: .int(status.walBytes)),
        ]
    }
}
