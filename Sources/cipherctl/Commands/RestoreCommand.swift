import CipherStore
import Foundation

/// `restore DIR STORE`: a store from a backup.
struct RestoreCommand: Command {
    static let changesFiles = true
    static let syntax = CommandSyntax(
        name: "restore",
        summary: "make a store from a backup",
        operands: [
            OperandSyntax("DIR", "the folder of the backup; it is only read"),
            OperandSyntax("STORE", "the store to make; nothing may be there, unless --replace says so"),
        ],
        options: [
            OptionSyntax(
                "--replace", "put the backup in the place of the store that is there; nobody may have it open"),
            .yes, .json,
        ] + KeyOptions.all,
        examples: [
            "cipherctl restore /backup/app-2026-11-21 app.db --key-file app.key",
            "cipherctl restore /backup/app-2026-11-21 app.db --replace --yes --key-file app.key",
        ],
        notes: [
            "The key is one that opened the store when the backup was made. The whole backup is verified before anything "
                + "is changed; then the copy is read back and takes its place in one step.",
            "With --replace the former files are kept in a folder beside the store, STORE-replaced-<time>: remove it "
                + "yourself when you do not need it any more. A restoration that was killed leaves a store that does not "
                + "open, or the former one: run it again.",
        ])

    private let folder: String
    private let storePath: String
    private let arguments: ParsedArguments
    private var replaces: Bool { arguments.has("--replace") }

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        folder = arguments.operands[0]
        storePath = arguments.operands[1]
    }

    func run(_ console: Console) throws -> ExitCode {
        try confirm(console)
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let watch = TransferWatch("restoring", console)
        defer { watch.end() }
        let report = try watch.run { progress, isCancelled in
            try explainingInterruption {
                try SharedStore.restore(
                    from: folder, to: storePath, unlockedBy: key.source, replacing: replaces, progress: progress,
                    isCancelled: isCancelled)
            }
        }
        for notice in report.notices { console.note(notice) }
        try console.report(
            json: .object(
                [
                    JSON.Member(name: "backup", value: .string(folder)),
                    JSON.Member(name: "store", value: .string(storePath)),
                ] + report.backup.members + [
                    JSON.Member(name: "former_files", value: .optional(report.formerFiles) { .string($0) })
                ]),
            lines: ["restored     \(folder) -> \(storePath)"] + report.backup.lines
                + (report.formerFiles.map { ["former files \($0)"] } ?? []))
        return .ok
    }

    /// Says where the former store is when a restoration failed and could not put it back, now or earlier.
    private func explainingInterruption<Success>(_ restore: () throws -> Success) throws -> Success {
        let before = formerFiles
        do {
            return try restore()
        } catch {
            guard !(error is CancellationError), let kept = formerFiles else { throw error }
            let report = ErrorReport(error)
            // One that is still interrupted, and is refused for another reason: a wrong key, another backup that is damaged.
            if before != nil, !(error is SystemError) {
                throw CommandFailure(
                    report.exitCode, report.name, what: report.message,
                    why: "An earlier restoration of \"\(storePath)\" was interrupted: those files of the former store "
                        + "that are not in their place are in \"\(kept)\".",
                    hint: report.hint ?? "Run the restoration again: it goes on from there.")
            }
            throw CommandFailure(
                report.exitCode, "restorationInterrupted",
                what:
                    "The restoration of \"\(storePath)\" was interrupted, and nobody can open the store until it is run again.",
                why: "\(report.message) No file is lost: those of the former store that are not in their place are in "
                    + "\"\(kept)\".",
                hint: "Free space or mend the disk, then run the same command again: it goes on from there. To go back "
                    + "instead, move the files of that folder to their former place.")
        }
    }

    /// The folder with the files of a store whose restoration was interrupted.
    private var formerFiles: String? { (try? CutRestoration.folder(of: StorePaths(storePath))) ?? nil }

    private func confirm(_ console: Console) throws {
        guard replaces, !arguments.has("--yes") else { return }
        throw UsageError(
            "The store that is there would be replaced by the backup.",
            hint: "Its files are kept in a folder beside it. If that is what you want, add --yes.")
    }
}
