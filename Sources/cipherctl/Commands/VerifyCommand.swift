import CipherStore
import Foundation
import KeyCustody

/// `verify STORE`: authenticates every page, then asks SQLite whether the content holds together.
struct VerifyCommand: Command {
    static let syntax = CommandSyntax(
        name: "verify",
        summary: "authenticate every page and check the content",
        operands: [OperandSyntax("STORE", "the store; it may be in use. Or the folder of a backup")],
        options: [.json] + KeyOptions.all,
        examples: [
            "cipherctl verify app.db --key-file app.key",
            "cipherctl verify app.db --key-file app.key --json",
        ],
        notes: [
            "Checked are the authentication code of each page of the file and of each committed frame of the write-ahead "
                + "log, header, length, integrity_check and foreign_key_check. Anything wrong is named, and the exit code "
                + "is 65. The log cannot grow shorter meanwhile, since one read transaction spans it all.",
            "A backup is read where it lies, without a lock and without a file beside it; its manifest is verified by "
                + "`cipherctl backup verify`.",
            "No check can tell an older version of the whole file set from the present one.",
        ])

    private let path: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
    }

    func run(_ console: Console) throws -> ExitCode {
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let choice = try SidecarUnlocking.choose(path, key, console)
        let progress = ProgressBar("verifying", isAllowed: !console.isJSON)
        defer { progress.end() }
        let result = try StoreVerification(path: path, choice: choice, progress: progress).run(console)
        let pageBytes = choice.sidecar.settings.pageBytes
        for line in result.scan.supersededPages.lines("damaged in the file", pageBytes: pageBytes) {
            console.note("\(line), but the write-ahead log holds a sound image")
        }
        for note in result.notes { console.note(note) }
        try console.report(json: json(result), lines: lines(result))
        guard result.problems.isEmpty else {
            try console.output.flush()
            throw CommandFailure(
                .damagedData, "damaged", what: "\"\(path)\" is damaged.",
                why: "\(result.problems.count) problem\(result.problems.count == 1 ? "" : "s"): \(result.problems[0]).",
                hint: "Keep the file as it is, and restore the store from a backup.")
        }
        return .ok
    }

    private func json(_ result: StoreVerification.Result) -> JSON {
        let scan = result.scan
        return .object([
            "store": .string(path), "sound": .bool(result.problems.isEmpty),
            "problems": .array(result.problems.map(JSON.string)), "pages_checked": .int(scan.pagesChecked),
            "damaged_pages": scan.damagedPages.json, "missing_pages": scan.missingPages.json,
            "zero_pages": scan.zeroPages.json, "superseded_damaged_pages": scan.supersededPages.json,
            "wal_frames_checked": .int(scan.framesChecked),
            "damaged_wal_frames": .array(
                scan.damagedFrames.map { .object(["frame": .int($0.number), "page": .int($0.page)]) }),
            "integrity_check": .optional(result.integrity) { .array($0.map(JSON.string)) },
            "foreign_key_violations": .optional(result.foreignKeyViolations) { .int($0) },
            "seconds": .real(scan.seconds), "mb_per_second": .real(scan.megabytesPerSecond),
        ])
    }

    private func lines(_ result: StoreVerification.Result) -> [String] {
        let scan = result.scan
        let megabytes = String(format: "%.1f MB in %.2f s", Double(scan.checkedBytes) / 1_000_000, scan.seconds)
        let integrity = result.integrity.map { $0 == ["ok"] ? "ok" : "\($0.count) messages" }
        let violations = result.foreignKeyViolations.map { $0 == 0 ? "ok" : "\($0) violations" }
        return [
            "pages         \(scan.pagesChecked) checked, \(scan.damagedPages.count) damaged, "
                + "\(scan.missingPages.count) missing",
            "log frames    \(scan.framesChecked) checked, \(scan.damagedFrames.count) damaged",
            "speed         \(megabytes), \(Int(scan.megabytesPerSecond)) MB/s",
            "integrity     \(integrity ?? "not checked")", "foreign keys  \(violations ?? "not checked")",
        ] + result.problems.map { "problem       \($0)" } + [
            "result        \(result.problems.isEmpty ? "sound" : "damaged")"
        ]
    }
}
