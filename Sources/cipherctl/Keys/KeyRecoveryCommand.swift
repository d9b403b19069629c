import CipherStore
import KeyCustody
import StoreCrypto
import StorePlatform
import StoreSharing
import StoreTools

/// `key recovery STORE`: adds a random key to be printed and kept.
struct KeyRecoveryCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "key recovery",
        summary: "make a recovery key, show it once, and let it open the store",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: [.label]
            + RecoveryOutput.options + [
                OptionSyntax(
                    "--yes", "do not ask for a line to be typed back; also write to a file that others may read"),
                .json, .quiet,
            ] + KeyOptions.all,
        examples: [
            "cipherctl key recovery app.db --key-file app.key",
            "cipherctl key recovery app.db --key-file app.key --label safe | lpr",
            "cipherctl key recovery app.db --key-file app.key --output recovery.txt",
            "cipherctl key recovery app.db --key-file app.key --shares 5 --threshold 3 --output-dir /media/keys",
        ],
        notes: [
            "256 random bits in four lines of 16 characters, each with a check of its own. Write them down or print "
                + "them, and keep them away from the store: anybody who has them can open it, and they cannot be shown "
                + "again.",
            "On a terminal one line must be typed back before the key becomes valid. Use it as a passphrase: type it "
                + "at the prompt, or give a file of it with --key-file.",
            "With --shares the key is split and not shown. Any K of the N shares open the store, with "
                + "--key-recovery-shares once for each, or typed with --key-recovery-prompt. Fewer say nothing of the key.",
        ])

    private let path: String
    private let label: SlotLabel
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        label = try NewKey.label(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let output = try RecoveryOutput(arguments)
        let access = try KeyAccess(path, arguments, console)
        try access.requireRoom()
        let recovery = try output.split.map { try NewRecovery(split: $0) } ?? NewRecovery()
        // Printed before it opens anything: a key that could not be printed must not be added.
        let slot: Keyslot
        do {
            if console.isJSON, !output.hasFolder {
                try output.print(json: json(recovery, access), recovery.sheets, at: console)
            } else {
                try output.print(recovery.sheets, confirms: !arguments.has("--yes"), at: console)
            }
            slot = try access.change { try recovery.add(to: $0, label) }
        } catch {
            if !mayOpen(recovery, after: error) { output.takeBack() }
            throw error
        }
        try prove(recovery, slot)
        try output.report(at: console)
        console.note("\(SlotReport.name(slot)) of \"\(path)\" opens with \(recovery.noun), which was tried")
        return .ok
    }

    private func json(_ recovery: NewRecovery, _ access: KeyAccess) -> SecretText {
        let next = access.sidecar.slotted?.table.nextID ?? 0
        let beginning = "{\"store\": \(JSON.string(path).text), "
        let end = ", \"expected_slot\": \(next)}\n"
        return recovery.json(between: beginning, and: end)
    }

    /// Whether the recovery key may open the store although adding it failed: the new sidecar may be in place.
    private func mayOpen(_ recovery: NewRecovery, after error: any Error) -> Bool {
        guard let error = error as? StoreError, error.code == .sidecarDamaged else { return false }
        // The second copy is the former version then, and proves nothing.
        if case .unreadable = SidecarFiles(databasePath: StorePaths(path).database).read().main { return true }
        do {
            return try NewKey(recovery.key, .recovery, arguments).test(path) != nil
        } catch let error as StoreError where error.code == .wrongKey {
            return false
        } catch {
            return true
        }
    }

    /// Opens the store with the printed key, from the files.
    private func prove(_ recovery: NewRecovery, _ slot: Keyslot) throws {
        let found: Keyslot?
        do {
            found = try NewKey(recovery.key, .recovery, arguments).test(path)
        } catch {
            let report = ErrorReport(error)
            throw CommandFailure(
                report.exitCode, "notProved",
                what: "\(SlotReport.name(slot).capitalizedFirst) was added, but \(recovery.noun) could not be tried.",
                why: report.message, hint: "Try what was printed with `cipherctl key test`; do not rely on it before.")
        }
        guard found?.id == slot.id else {
            throw CommandFailure(
                .failed, "notProved", what: "\(recovery.noun.capitalizedFirst) did not open \(SlotReport.name(slot)).",
                why: "The sidecar was read again after the change, and the key did not open that keyslot.",
                hint: "Do not rely on it: remove the slot, and make another one.")
        }
    }
}
