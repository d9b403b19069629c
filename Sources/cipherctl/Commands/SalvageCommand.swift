import CipherStore
import StorePlatform
import StoreTools

/// `salvage STORE OUT`: every row that can still be authenticated goes into a new store.
struct SalvageCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "salvage",
        summary:
            "copy every row of a damaged store that is still authentic into a new store; exit code 2 when some are lost",
        operands: [
            OperandSyntax("STORE", "the damaged store, which no program may have open, or the folder of a backup"),
            OperandSyntax("OUT", "the store to create; nothing may exist there yet"),
        ],
        options: [
            OptionSyntax(
                "--wal", value: "FILE",
                "read this WAL instead of the store's own, such as the copy that an opening kept of a damaged one"),
            FileMode.option, .json, .quiet, .progress,
        ] + KeyOptions.all,
        examples: [
            "cipherctl salvage app.db salvaged.db --key-file app.key",
            "cipherctl salvage app.db salvaged.db --wal app.db-wal-damaged --key-file app.key",
            "cipherctl salvage app.db salvaged.db --key-file app.key --json",
        ],
        notes: [
            "Each page is authenticated, and each table is read from all of its pages that are authentic, also below "
                + "pages that are lost. The report lists what was lost by table and page. Rows whose table is not certain "
                + "are in tables of their own, salvaged_1 and so on, with the page they were on.",
            "Commits behind a damaged frame of the WAL, which SQLite does not read, are read too: of each page the last "
                + "authentic image counts. Where a frame is damaged, rows may be of different commits. A database file that "
                + "is missing is no obstacle if the WAL has its pages.",
            "The new store has a new sidecar and one keyslot, of the key that was given: add the others again with "
                + "`cipherctl key add`. The damaged store is not changed; its sidecar is needed, because without the "
                + "salt no page can be authenticated.",
            "An index that needs a function or a collation of a program is left out and named, and what could not be "
                + "checked is listed. The exit code is 2 then too: let the program create the index.",
            "If there is a recent backup, prefer it: salvaged rows are authentic, but not complete.",
        ])

    private let source: String
    private let target: String
    private let mode: Int?
    private let wal: String?
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        source = arguments.operands[0]
        target = arguments.operands[1]
        mode = try FileMode.parse(arguments)
        wal = arguments.value("--wal")
    }

    func run(_ console: Console) throws -> ExitCode {
        var tool = StoreSalvage(of: source, to: target, key: ToolKey(arguments))
        tool.fileMode = mode
        tool.wal = wal
        let report = try console.run(tool, "salvaging")
        try console.report(json: json(report), lines: lines(report))
        return report.needsAttention ? .needsAttention : .ok
    }

    // MARK: JSON

    private func json(_ report: StoreSalvage.Report) -> JSON {
        .object([
            "store": .string(source), "salvaged": .string(report.path), "store_id": .string("\(report.storeID)"),
            "complete": .bool(!report.hasLosses), "rows": .int(report.rowCount), "pages": .int(report.pageCount),
            "lost_pages": json(report.lostPages), "index_pages": json(report.indexPages),
            "unknown_pages": json(report.unknownPages), "older_pages": json(report.olderPages),
            "tables": .array(report.tables.map(json)),
            "listings": .array(
                report.listings.map {
                    .object([
                        "name": .string($0.name), "rows": .int($0.rowCount),
                        "candidates": .array($0.candidates.map(JSON.string)), "may_be_entries": .bool($0.mayBeEntries),
                    ])
                }),
            "lost_schema_pages": .array(report.lostSchemaPages.map { .int($0) }),
            "not_created": .array(report.notCreated.map(JSON.string)),
            "left_out": .array(report.leftOut.map { .string($0.name) }),
            "not_checked": .array(report.notChecked.map(JSON.string)),
            "lost_commits": .optional(report.lostCommits, JSON.string),
            "passed_damage": .optional(report.passedDamage, json),
            "rolled_back": .bool(report.isRolledBack),
            "foreign_key_violations": .int(report.foreignKeyViolations),
            "seconds": .real(report.duration / .seconds(1)),
        ])
    }

    private func json(_ damage: PassedDamage) -> JSON {
        .object([
            "commits_before": .int(damage.commitsBefore), "whole_commits": .int(damage.wholeCommits),
            "partial_commits": .int(damage.partialCommits), "lost_frames": .array(damage.lostFrames.map { .int($0) }),
        ])
    }

    private func json(_ pages: PageRanges) -> JSON {
        .array(pages.ranges.map { .object(["first": .int($0.lowerBound), "last": .int($0.upperBound)]) })
    }

    private func json(_ table: StoreSalvage.Table) -> JSON {
        .object([
            "name": .string(table.name), "rows": .int(table.rowCount), "matched_rows": .int(table.matchedRowCount),
            "lost_pages": .array(
                table.lostPages.map { page in
                    .object([
                        "page": .int(page.page), "after_rowid": .optional(page.after, JSON.integer),
                        "up_to_rowid": .optional(page.upTo, JSON.integer),
                        "has_rows": .optional(page.isLeaf, JSON.bool),
                    ])
                }),
            "lost_rows": .int(table.lostRowCount),
            "lost_row_list": .array(
                table.lostRows.map { row in
                    .object([
                        "rowid": .optional(row.rowID, JSON.integer), "page": .int(row.page),
                        "missing_page": .int(row.missingPage),
                    ])
                }),
        ])
    }

    // MARK: Text

    private func lines(_ report: StoreSalvage.Report) -> [String] {
        var lines = ["salvaged  \(source) -> \(report.path)", "rows      \(report.rowCount)"]
        for table in report.tables {
            let matched = table.matchedRowCount > 0 ? ", \(table.matchedRowCount) of them by their content" : ""
            lines.append("table     \(table.name): \(CountText.text(table.rowCount, "row"))\(matched)")
            lines += table.lostPages.map { "  lost    page \($0.page)\(words($0))" }
            lines += table.lostRows.map { row in
                "  lost    \(row.rowID.map { "row \($0)" } ?? "a row") of page \(row.page): its continuation on page "
                    + "\(row.missingPage)"
            }
            let more = table.lostRowCount - table.lostRows.count
            if more > 0 { lines.append("  lost    \(CountText.text(more, "more row"))") }
        }
        for listing in report.listings {
            let tables =
                listing.candidates.isEmpty
                ? "no known table" : "one of: \(listing.candidates.joined(separator: ", "))"
            lines.append(
                listing.mayBeEntries
                    ? "listing   \(listing.name): \(CountText.text(listing.rowCount, "entry", "entries")) of an index, or "
                        + "rows of a table WITHOUT ROWID; they are not counted as rows"
                    : "listing   \(listing.name): \(CountText.text(listing.rowCount, "row")) of \(tables)")
        }
        if !report.indexPages.isEmpty {
            let pages = CountText.text(report.indexPages.count, "page")
            lines.append("indexes   \(pages) lost; the indexes were built again")
        }
        lines += report.unknownPages.lines("lost, and no table names it", pageBytes: report.pageBytes)
            .map { "pages     \($0)" }
        lines += report.olderPages.lines("of an older commit", pageBytes: report.pageBytes).map { "pages     \($0)" }
        lines += report.lostSchemaPages.map { page in
            "schema    page \(page) is lost, with the entries that it had of tables, views, triggers and indexes"
        }
        lines += report.notCreated.map { "missing   \($0)" }
        lines += report.leftOut.map { "left out  \($0.text)" }
        lines += report.notChecked.map { "note      not checked: \($0)" }
        if let damage = report.passedDamage {
            lines.append(
                "WAL       \(CountText.text(damage.commitsBefore, "commit")) before the damage; behind it "
                    + "\(damage.wholeCommits) read whole, \(damage.partialCommits) in part")
        }
        if let note = report.lostCommits { lines.append("commits   \(note)") }
        if report.foreignKeyViolations > 0 {
            let rows = CountText.text(report.foreignKeyViolations, "row refers", "rows refer")
            lines.append("foreign   \(rows) to rows that do not exist: cipherctl verify says which")
        }
        return lines + ["result    \(report.hasLosses ? "something is lost" : "complete")"]
    }

    private func words(_ page: LostPage) -> String {
        let kind = page.isLeaf == false ? ", which had no rows of its own" : ""
        switch (page.after, page.upTo) {
        case (let after?, let upTo?): return " with rows \(after + 1) to \(upTo) at most\(kind)"
        case (let after?, nil): return " with rows after \(after)\(kind)"
        case (nil, let upTo?): return " with rows up to \(upTo)\(kind)"
        case (nil, nil): return kind
        }
    }
}
