import CipherStore
import Foundation
import KeyRotation
import StoreBackups
import StoreSharing
import StoreTools

/// `backup verify DIR`: whether a backup, or a repository of backups, is complete and unchanged, and opens with a key.
struct BackupVerifyCommand: Command {
    static let syntax = CommandSyntax(
        name: "backup verify",
        summary: "verify a backup in place, without restoring it",
        operands: [OperandSyntax("DIR", "the folder of the backup, or a repository as --to names it; it is only read")],
        options: [
            OptionSyntax(
                "--sample", value: "SHARE", "in a repository: read the pages of this share of its packs, as 10%"),
            .json, .quiet, .progress,
        ] + RepositoryPlace.options + KeyOptions.all,
        examples: [
            "cipherctl backup verify /backup/app-2026-11-21 --key-file app.key",
            "cipherctl backup verify /mnt/readonly/app-2026-11-21 --key-file app.key --json",
        ],
        notes: [
            "It verifies the key, the authentication codes of manifest and sidecar, the hash of each file, and every "
                + "page; then SQLite opens the database read-only and reads its schema. Nothing is locked, created or "
                + "changed, so the backup may be on a read-only medium, and read permission is enough.",
            "A -wal or -journal in the folder is no part of the backup. No command reads it; the exit code is 2, and a note "
                + "says what to do.",
            "The key is one that opened the store when the backup was made. `cipherctl verify DIR` runs "
                + "integrity_check and "
                + "foreign_key_check as well, and `cipherctl sql DIR` reads rows.",
            "A repository is verified by its hashes without a key: nothing is asked. With a key the records of its stores "
                + "are authenticated as well. The exit code is 65 if anything is damaged.",
            "A store whose name is \"verify\" is backed up as `cipherctl backup ./verify DIR`.",
        ])

    private let folder: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        folder = arguments.operands[0]
    }

    func run(_ console: Console) throws -> ExitCode {
        if RepositoryPlace.isRepository(folder) { return try RepositoryWork.verify(folder, arguments, console) }
        if arguments.value("--sample") != nil {
            throw UsageError("--sample is for repositories.", hint: "The folder is verified as a whole.")
        }
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let watch = TransferWatch("verifying")
        defer { watch.end() }
        let report = try watch.run { progress, isCancelled in
            try key.explainingRefusal {
                try SharedStore.verifyBackup(
                    at: folder, unlockedBy: key.source, progress: progress, isCancelled: isCancelled)
            }
        }
        for notice in report.notices { console.note(notice) }
        try console.report(
            json: .object(
                [JSON.Member(name: "backup", value: .string(folder))] + report.members + [
                    JSON.Member(name: "foreign_files", value: .array(report.foreignFiles.map(JSON.string)))
                ]),
            lines: ["verified     \(folder)"] + report.lines)
        return report.foreignFiles.isEmpty ? .ok : .needsAttention
    }
}
