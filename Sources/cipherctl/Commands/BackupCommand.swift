import CipherStore
import KeyRotation

/// `backup STORE DIR`: a consistent, verified copy of a store in use.
struct BackupCommand: Command {
    static let changesFiles = true
    static let syntax = CommandSyntax(
        name: "backup",
        summary: "copy a store in use into a folder, consistent and verified",
        operands: [
            OperandSyntax("STORE", "the store; everybody goes on reading and writing"),
            OperandSyntax("DIR", "the folder to make; nothing may be there"),
        ],
        options: [.json] + KeyOptions.all,
        examples: [
            "cipherctl backup app.db /backup/app-2026-11-21 --key-file app.key",
            "cipherctl backup app.db \"/backup/app-$(date +%F)\" --key-credential app --json",
        ],
        notes: [
            "The folder holds store.db, the database as it is encrypted now, with its log folded in; its sidecar; and "
                + "manifest.json with their hashes. Every page is authenticated while it is copied, and the copy is read "
                + "back and opened before the folder gets its name. An interrupted backup leaves nothing.",
            "A rotation of the store that was interrupted is settled first, as by every opening for writing: undone, or "
                + "completed where its switch has begun. The command says which before it does so, and what was done; "
                + "`cipherctl rotate STORE --status` shows it beforehand and changes nothing.",
            "A backup keeps the data key and the salt of its time, and opens with the keys of its time: a passphrase "
                + "that was changed or removed since still opens it. To end that, remove the backup.",
        ])

    private let storePath: String
    private let folder: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        storePath = arguments.operands[0]
        folder = arguments.operands[1]
    }

    func run(_ console: Console) throws -> ExitCode {
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        announceSettlement(console)
        let store = try StoreOpening.writable(storePath, key, console)
        defer { try? store.close() }
        let watch = TransferWatch("backing up", console)
        defer { watch.end() }
        let report = try watch.run { progress, isCancelled in
            try store.backup(
                toFolder: folder, progress: progress, onLongWait: Console.longWait(for: storePath),
                isCancelled: isCancelled)
        }
        for notice in report.notices { console.note(notice) }
        try console.report(
            json: .object(
                [
                    JSON.Member(name: "store", value: .string(storePath)),
                    JSON.Member(name: "backup", value: .string(folder)),
                ] + report.members),
            lines: ["backed up    \(storePath) -> \(folder)"] + report.lines)
        return .ok
    }

    /// Says before it happens what opening the store makes of a rotation that was interrupted; what cannot be looked at,
    /// opening says best.
    private func announceSettlement(_ console: Console) {
        guard let status = try? KeyRotation.status(of: storePath), status.wasCut else { return }
        let next = status.epoch + 1
        console.note(
            "a rotation of \"\(storePath)\" from epoch \(status.epoch) to \(next) was interrupted; the backup needs a settled "
                + "store, so it is \(status.state == .switching ? "completed" : "undone") first")
    }
}
