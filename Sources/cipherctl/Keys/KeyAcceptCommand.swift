import CipherStore
import KeyCustody

/// `key accept STORE`: accepts a former sidecar that was put back on purpose.
struct KeyAcceptCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "key accept",
        summary: "accept an older sidecar that was put back and that opening refuses",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: [.yes, .json, .quiet] + KeyOptions.all,
        examples: ["cipherctl key accept app.db --key-file app.key --yes"],
        notes: [
            "Use it if a store is refused with sidecarRolledBack and every newer copy of its sidecar is lost. If a newer copy "
                + "exists, restore that copy. Keys that were removed or changed since open the store again; all keys are "
                + "listed.",
            "The newest sidecar is never changed. If the store has not recorded its version yet, the command does so.",
        ])

    private let path: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
    }

    func run(_ console: Console) throws -> ExitCode {
        let access = try KeyAccess(path, arguments, console)
        try Confirmation.require(
            "The sidecar of \"\(path)\" is accepted at generation \(access.sidecar.generation), with every key "
                + "that it has.",
            arguments)
        Interruption.beginWork()
        let accepted = try access.accept()
        let sidecar = try access.administration.sidecar()
        try console.report(
            json: .object([
                "store": .string(path), "rolled_back": .bool(accepted.wasRolledBack), "found": .int(accepted.found),
                "remembered": .optional(accepted.remembered) { .int($0) }, "generation": .int(accepted.generation),
                "slots": .array(sidecar.slots.map(SlotReport.json)),
            ]),
            lines: lines(accepted, sidecar, openedBy: access.openedBy))
        return .ok
    }

    private func lines(_ accepted: StoreKeys.Acceptance, _ sidecar: Sidecar, openedBy: Keyslot?) -> [String] {
        guard accepted.wasRolledBack else {
            return ["the sidecar is the newest one; the store remembers its generation \(accepted.generation)"]
        }
        return [
            "accepted: the sidecar of generation \(accepted.found) is generation \(accepted.generation) now; "
                + "these open the "
                + "store:"
        ] + SlotReport.lines(sidecar.slots, openedBy: openedBy) + [
            "remove what should not: cipherctl key remove"
        ]
    }
}

extension KeyAccess {
    /// Accepts the sidecar although the store records a newer one.
    fileprivate func accept() throws -> StoreKeys.Acceptance {
        try JobControlSuspension.withoutStopping {
            try StoreKeys.acceptSidecar(at: path, holding: keys, configuration: .ofTool(), onNotice: Console.note)
        }
    }
}
