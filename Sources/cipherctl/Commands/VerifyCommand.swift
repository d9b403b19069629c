import CipherStore
import Foundation
import StoreTools

/// `verify STORE`: authenticates every page, then lets SQLite check the content.
struct VerifyCommand: Command {
    static let syntax = CommandSyntax(
        name: "verify",
        summary: "authenticate every page and check the content",
        operands: [OperandSyntax("STORE", "the store, which may be in use, or the folder of a backup")],
        options: [.json, .quiet, .progress] + FleetOptions.all + KeyOptions.all,
        examples: [
            "cipherctl verify app.db --key-file app.key",
            "cipherctl verify app.db --key-file app.key --json", "cipherctl verify --fleet --jobs 2",
        ],
        notes: [
            "It checks the authentication code of each page of the file and of each committed frame of the WAL, "
                + "header, length, integrity_check and foreign_key_check. It reports every damage, and the exit code "
                + "is then 65. It compares full-text indexes (FTS3, FTS4, FTS5) with their texts, and names those that "
                + "differ, with the command that makes each again; the exit code is then 2, since no row is damaged. The WAL cannot shrink meanwhile, because one read transaction spans the whole check.",
            "A backup is read in place, without a lock and without a file beside it; its manifest is verified by "
                + "`cipherctl backup verify`.",
            "No check can distinguish an older version of all files together from the present one.",
        ])

    private let path: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
    }

    func run(_ console: Console) throws -> ExitCode {
        let progress = ProgressBar("verifying")
        defer { progress.end() }
        // A signal ends the command: nothing was begun that would have to be undone.
        let report = try StoreVerification(path, key: ToolKey(arguments)).run(
            progress: progress.show, onNotice: Console.note)
        progress.end()
        for line in report.supersededPages.lines("damaged in the file", pageBytes: report.pageBytes) {
            console.note("\(line), but the WAL contains an intact image")
        }
        for note in report.unchecked { console.note(note) }
        try console.report(json: json(report), lines: lines(report))
        guard report.isSound else {
            try console.output.flush()
            let count = report.problems.count
            throw CommandFailure(
                .damagedData, "damaged", what: "\"\(path)\" is damaged.",
                why: "\(count) problem\(count == 1 ? "" : "s"): \(report.problems[0]).",
                hint: hint(report))
        }
        return report.needsAttention ? .needsAttention : .ok
    }

    private func hint(_ report: StoreVerification.Report) -> String {
        // The database file may be sound, and a salvage would take the pages of the WAL.
        if let loss = report.walLoss, loss.preventsOpening {
            let remedy = loss.remedy(for: path)
            return "Keep a copy of all files; then \(remedy), and verify again."
        }
        // SQLite is asked only where every page is authentic.
        guard let integrity = report.integrity, integrity != ["ok"] else {
            return "Keep the file as it is, and restore the store from a backup; `cipherctl salvage` copies what is "
                + "still authentic."
        }
        return "Every page is authentic. If only an index is wrong, build it again with REINDEX. If the program "
            + "replaces a function or collation of SQLite (as lower or NOCASE), verify with StoreVerification and its "
            + "prepareDatabase. Otherwise restore a backup."
    }

    private func json(_ report: StoreVerification.Report) -> JSON {
        .object([
            "store": .string(path), "sound": .bool(report.isSound),
            "problems": .array(report.problems.map(JSON.string)),
            "needs_attention": .bool(report.needsAttention),
            "not_checked": .array(report.notChecked.map(JSON.string)),
            "orphans": .array(
                report.orphans.map {
                    .object([
                        "table": .string($0.table), "rowid": .optional($0.rowID, JSON.integer),
                        "parent": .string($0.parent),
                    ])
                }),
            "notes": .array(report.unchecked.map(JSON.string)), "pages_checked": .int(report.pagesChecked),
            "damaged_pages": json(report.damagedPages), "missing_pages": json(report.missingPages),
            "zero_pages": json(report.zeroPages), "superseded_damaged_pages": json(report.supersededPages),
            "wal_frames_checked": .int(report.framesChecked),
            "damaged_wal_frames": .array(
                report.damagedFrames.map { .object(["frame": .int($0.number), "page": .int($0.page)]) }),
            "integrity_check": .optional(report.integrity) { .array($0.map(JSON.string)) },
            "foreign_key_violations": .optional(report.foreignKeyViolations) { .int($0) },
            "full_text_faults": .array(
                report.fullTextFaults.map { fault in
                    .object([
                        "index": .string(fault.index), "damaged": .bool(fault.isDamage), "what": .string(fault.what),
                        "remedy": .string(remedy(fault)),
                    ])
                }),
            "seconds": .real(report.duration / .seconds(1)), "mb_per_second": .real(megabytesPerSecond(report)),
        ])
    }

    private func json(_ pages: PageRanges) -> JSON {
        .array(pages.ranges.map { .object(["first": .int($0.lowerBound), "last": .int($0.upperBound)]) })
    }

    private func megabytesPerSecond(_ report: StoreVerification.Report) -> Double {
        let seconds = report.duration / .seconds(1)
        return seconds > 0 ? Double(report.checkedBytes) / 1_000_000 / seconds : 0
    }

    private func lines(_ report: StoreVerification.Report) -> [String] {
        let amount =
            CountText.decimal(Double(report.checkedBytes) / 1e6, digits: 1) + " MB in "
            + CountText.shortSeconds(report.duration, digits: 2)
        let integrity = report.integrity.map { $0 == ["ok"] ? "ok" : "\($0.count) messages" }
        let violations = report.foreignKeyViolations.map { $0 == 0 ? "ok" : CountText.text($0, "violation") }
        return [
            "pages         \(report.pagesChecked) checked, \(report.damagedPages.count) damaged, "
                + "\(report.missingPages.count) missing",
            "WAL frames    \(report.framesChecked) checked, \(report.damagedFrames.count) damaged",
            "speed         \(amount), \(Int(megabytesPerSecond(report))) MB/s",
            "integrity     \(integrity ?? "not checked")", "foreign keys  \(violations ?? "not checked")",
        ] + report.problems.map { "problem       \($0)" } + findings(report, path) + ["result        \(result(report))"]
    }

    private func remedy(_ fault: FullTextFault) -> String { SuggestedCommand.completing(fault.remedy(path)) }

    private func findings(_ report: StoreVerification.Report, _ path: String) -> [String] {
        let more = (report.foreignKeyViolations ?? 0) - report.orphans.count
        return report.orphans.map { "finding       \($0.text)" }
            + (more > 0 ? ["finding       further rows without a parent: \(more)"] : [])
            + report.fullTextFaults.flatMap { ["index         \($0.what)", "              -> \(remedy($0))"] }
            + report.notChecked.map { "not checked   \($0)" }
            + (report.notChecked.contains { !$0.hasPrefix("foreign keys of ") }
                ? [
                    "              -> the program that has them can verify it, with StoreVerification.configuration"
                ]
                : [])
    }

    private func result(_ report: StoreVerification.Report) -> String {
        guard report.isSound else { return "damaged" }
        if !report.needsAttention { return "sound" }
        return report.hasOnlyFullTextFaults
            ? "sound, but for full-text indexes" : "sound, but something needs attention"
    }
}
