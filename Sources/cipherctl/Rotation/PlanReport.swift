import CipherStore
import KeyRotation
import StorePlatform
import StoreSharing

/// The output of `--dry-run`.
enum PlanReport {
    static func lines(_ plan: RotationPlan, _ path: String) -> [String] {
        let speed = CountText.speed(bytesPerSecond: Double(plan.sampleBytesPerSecond))
        let time = CountText.shortSeconds(plan.expectedDuration)
        var lines = [
            "\(path): a rotation \(plan.canBegin ? "can begin" : "cannot begin")",
            "  scheme       \(plan.hasSlots ? "slots" : "direct"), epoch \(plan.epoch)",
            "  database     \(plan.databaseBytes) bytes, \(CountText.text(plan.pages, "page")); WAL \(plan.walBytes) bytes",
            "  space        \(plan.freeBytes) bytes are free; the WAL may have \(plan.walLimitBytes) bytes meanwhile",
            "  time         about \(time), at \(speed) on \(CountText.text(plan.workers, "thread"))",
            "  filesystem   \(plan.filesystem)", "  library      \(plan.library)",
            "  last backup  \(plan.lastBackup.map(SlotReport.moment) ?? "none known")",
        ]
        if let hasRecovery = plan.hasRecoverySlot {
            lines.append("  recovery     \(hasRecovery ? "there is a recovery key" : "there is no recovery key")")
        }
        if let damage = plan.damage {
            lines.append("  integrity    \(damage.isEmpty ? "ok" : "\(CountText.text(damage.count, "problem"))")")
            lines += damage.map { "               \($0)" }
        }
        lines += plan.notChecked.map { "  not checked  \($0)" }
        lines += others(plan).map { "  holder       \($0)" }
        let remedy = { (finding: RotationPlan.Finding) in
            "               -> \(SuggestedCommand.completing(finding.remedy, store: path))"
        }
        lines += plan.warnings.flatMap { ["  warning      \($0.what)", remedy($0)] }
        return lines + plan.obstacles.flatMap { ["  obstacle     \($0.what)", remedy($0)] }
    }

    static func members(_ plan: RotationPlan, _ path: String) -> [JSON.Member] {
        [
            .init(name: "can_begin", value: .bool(plan.canBegin)),
            .init(name: "scheme", value: .string(plan.hasSlots ? "slots" : "direct")),
            .init(name: "epoch", value: .int(plan.epoch)), .init(name: "pages", value: .int(plan.pages)),
            .init(name: "database_bytes", value: .int(plan.databaseBytes)),
            .init(name: "wal_bytes", value: .int(plan.walBytes)),
            .init(name: "wal_limit_bytes", value: .int(plan.walLimitBytes)),
            .init(name: "free_bytes", value: .int(plan.freeBytes)),
            .init(name: "bytes_per_second", value: .int(plan.sampleBytesPerSecond)),
            .init(name: "workers", value: .int(plan.workers)),
            .init(name: "expected_seconds", value: .real(plan.expectedDuration / .seconds(1))),
            .init(name: "filesystem", value: .string(plan.filesystem)),
            .init(name: "library", value: .string(plan.library)),
            .init(name: "backup_verified", value: .optional(plan.lastBackup) { .int($0) }),
            .init(name: "has_recovery_slot", value: .optional(plan.hasRecoverySlot, JSON.bool)),
            .init(name: "integrity_check", value: .optional(plan.damage) { .array($0.map(JSON.string)) }),
            .init(name: "not_checked", value: .array(plan.notChecked.map(JSON.string))),
            .init(name: "holders", value: .array(others(plan).map { .int($0.process) })),
            .init(name: "warnings", value: .array(plan.warnings.map { json($0, path) })),
            .init(name: "obstacles", value: .array(plan.obstacles.map { json($0, path) })),
        ]
    }

    /// The other processes that have the store open.
    private static func others(_ plan: RotationPlan) -> [StoreHolder] {
        plan.holders.filter { $0.isIdentified && $0.process != ProcessInspector.currentProcess }
    }

    private static func json(_ finding: RotationPlan.Finding, _ path: String) -> JSON {
        .object([
            "what": .string(finding.what),
            "remedy": .string(SuggestedCommand.completing(finding.remedy, store: path)),
        ])
    }
}
