import KeyCustody

/// `key remove STORE`: a secret that opens a store no longer.
struct KeyRemoveCommand: Command {
    static let changesFiles = true
    static let syntax = CommandSyntax(
        name: "key remove",
        summary: "remove a key slot, so that its secret opens the store no longer",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: [.slot, .yes, .json] + KeyOptions.all,
        examples: ["cipherctl key remove app.db --slot 2 --key-file app.key --yes"],
        notes: [
            "The slot is gone from both copies of the sidecar, and from what crashes left of them, before the command "
                + "returns. The last slot that could open the store is not removed.",
            "This does not answer a secret that others know: whoever opened its slot may know the master key, and copies of "
                + "sidecar and store that were taken before still open with it. Run: cipherctl rotate STORE --compromised",
        ])

    private let path: String
    private let slot: UInt64
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = arguments.operands[0]
        slot = try KeyAccess.requiredSlot(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let access = try KeyAccess(path, arguments, console)
        try access.requireSlots()
        guard let found = try access.sidecar.slotted?.table.find(slot) else { return .failed }
        let isOwn = access.openedBy?.id == slot
        if isOwn { console.warn("this is the slot of the key that you gave: afterwards it takes another key") }
        try Confirmation.require("\(SlotReport.name(found).capitalizedFirst) of \"\(path)\" is removed.", arguments)
        try access.change { try $0.remove(slot) }
        try console.report(
            json: .object(["store": .string(path), "removed": SlotReport.json(found)]),
            lines: [
                "removed \(SlotReport.name(found))",
                "copies of sidecar and store that were taken before still open with its secret; if others may know it:",
                "cipherctl rotate --compromised (cipherctl help keys)",
            ])
        return .ok
    }
}

extension String {
    var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}
