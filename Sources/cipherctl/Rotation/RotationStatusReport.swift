import CipherStore
import KeyRotation

/// What `rotate --status` prints.
enum RotationStatusReport {
    static func run(_ paths: [String], _ console: Console) throws -> ExitCode {
        let found = try paths.map { ($0, try KeyRotation.status(of: $0)) }
        try console.report(
            json: .object(["stores": .array(found.map(json))]), lines: found.flatMap(lines))
        return found.contains { $0.1.wasCut } ? .needsAttention : .ok
    }

    private static func lines(_ path: String, _ status: RotationStatus) -> [String] {
        guard status.state != .none else { return ["\(path): no rotation is pending, epoch \(status.epoch)"] }
        let copied = status.copyBytes.map { ", \($0) of \(status.databaseBytes) bytes copied" } ?? ""
        let to = "from epoch \(status.epoch) to \(status.epoch + 1)"
        if status.isRunning {
            let process = status.process.map { " by \($0)" } ?? ""
            return ["\(path): a rotation \(to) runs\(process), \(status.state.rawValue)\(copied)"]
        }
        let what =
            status.state == .switching
            ? "finishes it, and so does --resume" : "undoes it; --resume goes on with it"
        return ["\(path): a rotation \(to) was cut: the next opening \(what)"]
    }

    private static func json(_ path: String, _ status: RotationStatus) -> JSON {
        .object([
            "store": .string(path), "state": .string(status.state.rawValue), "running": .bool(status.isRunning),
            "cut": .bool(status.wasCut), "pid": .optional(status.process) { .int($0.process) },
            "epoch": .int(status.epoch), "database_bytes": .int(status.databaseBytes),
            "copy_bytes": .optional(status.copyBytes) { .int($0) }, "wal_bytes": .int(status.logBytes),
        ])
    }
}
