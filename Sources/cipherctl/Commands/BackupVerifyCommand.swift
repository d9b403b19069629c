import CipherStore

/// `backup verify DIR`: whether a backup is complete and unchanged, and opens with a key.
struct BackupVerifyCommand: Command {
    static let syntax = CommandSyntax(
        name: "backup verify",
        summary: "verify a backup where it lies, without restoring it",
        operands: [OperandSyntax("DIR", "the folder of the backup; it is only read")],
        options: [.json] + KeyOptions.all,
        examples: [
            "cipherctl backup verify /backup/app-2026-11-21 --key-file app.key",
            "cipherctl backup verify /mnt/readonly/app-2026-11-21 --key-file app.key --json",
        ],
        notes: [
            "Verified are the key, the authentication codes of manifest and sidecar, the hash of each file, and every page; "
                + "then SQLite opens the database read-only and reads its schema. Nothing is locked, made or changed, so the "
                + "backup may lie on a read-only medium, and the right to read is enough.",
            "The key is one that opened the store when the backup was made. `cipherctl verify DIR` runs integrity_check and "
                + "foreign_key_check as well, and `cipherctl sql DIR` reads rows.",
            "A store whose name is \"verify\" is backed up as `cipherctl backup ./verify DIR`.",
        ])

    private let folder: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        folder = arguments.operands[0]
    }

    func run(_ console: Console) throws -> ExitCode {
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let watch = TransferWatch("verifying", console)
        defer { watch.end() }
        let report = try watch.run { progress, isCancelled in
            try key.explainingRefusal {
                try SharedStore.verifyBackup(
                    at: folder, unlockedBy: key.source, progress: progress, isCancelled: isCancelled)
            }
        }
        try console.report(
            json: .object([JSON.Member(name: "backup", value: .string(folder))] + report.members),
            lines: ["verified     \(folder)"] + report.lines)
        return .ok
    }
}
