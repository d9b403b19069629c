import CipherDatabase
import CipherStore
import StorePlatform

/// `destroy STORE`: removes a store with every file that belongs to it.
struct DestroyCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "destroy",
        summary: "remove a store with every file that belongs to it",
        operands: [OperandSyntax("STORE", "the store; no process may have it open")],
        options: [FleetOptions.dryRun, .yes, .json, .quiet],
        examples: ["cipherctl destroy app.db", "cipherctl destroy app.db --yes --json"],
        notes: [
            "Removes the database, its WAL, both copies of the sidecar, what interrupted work left, the lock file "
                + "and, last, the key log. No key is needed, only the right to write the directory. Backups are not "
                + "touched.",
            "Nothing is removed while a process has the store open, or where the file is not known to be a store. A "
                + "destruction that was interrupted is completed by the same command; until then no process can open "
                + "the store. If another database was put there meanwhile, the command refuses to run until "
                + "STORE-destroying is moved away.",
            "Files are removed, not overwritten: what a disk, a snapshot or a backup keeps opens with the keys "
                + "of its time.",
        ])

    private let path: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
    }

    func run(_ console: Console) throws -> ExitCode {
        if arguments.has("--dry-run") { return try rehearse(console) }
        try Confirmation.require("Every row of \"\(path)\" is lost, unless there is a backup.", arguments)
        // A signal does not end it in the middle: it is short.
        Interruption.beginWork()
        let report = try explainingInterruption {
            try JobControlSuspension.withoutStopping { try SharedStore.destroy(at: path) }
        }
        for notice in report.notices { console.note(notice) }
        try console.report(
            json: .object([
                "store": .string(path), "removed": .array(report.removed.map(JSON.string)),
                "notices": .array(report.notices.map(JSON.string)),
            ]),
            lines: ["destroyed \(path)"] + report.removed.map { "removed   \($0)" })
        return .ok
    }

    /// Checks what a destruction checks, and names the files that it would remove.
    private func rehearse(_ console: Console) throws -> ExitCode {
        let files = try SharedStore.filesToDestroy(at: path)
        try console.report(
            json: .object([
                "store": .string(path), "dry_run": .bool(true), "would_remove": .array(files.map(JSON.string)),
            ]),
            lines: ["would destroy \(path)"] + files.map { "would remove  \($0)" })
        return .ok
    }

    /// Says that the store is gone where a destruction failed after its commit point.
    private func explainingInterruption<Success>(_ destroy: () throws -> Success) throws -> Success {
        let paths = StorePaths(path)
        let wasThere = Files.exists(paths.database) || Files.exists(paths.destroying)
        do {
            return try destroy()
        } catch let error as SystemError where wasThere && !Files.exists(paths.database) {
            throw CommandFailure(
                ExitCode(error), "destructionInterrupted",
                what: "The store \"\(path)\" is destroyed, but not all of its files were removed.",
                why: "\(error).",
                hint: "Free space, repair the disk or get the right to write the folder; then run the same command "
                    + "again: it removes the rest.")
        }
    }
}
