import KeyCustody

/// `key label STORE`: another name for a slot.
struct KeyLabelCommand: Command {
    static let changesFiles = true
    static let syntax = CommandSyntax(
        name: "key label",
        summary: "call a key slot something else",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: [.slot, .label, .json] + KeyOptions.all,
        examples: [
            "cipherctl key label app.db --slot 2 --label \"backup server\" --key-file app.key",
            "cipherctl key label app.db --slot 2 --label= --key-file app.key",
        ],
        notes: ["Everybody who can read the sidecar can read its labels. An empty label takes the present one away."])

    private let path: String
    private let slot: UInt64
    private let label: SlotLabel
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = arguments.operands[0]
        slot = try KeyAccess.requiredSlot(arguments)
        guard arguments.value("--label") != nil else {
            throw UsageError("--label is missing.", hint: "Usage: \(Self.syntax.usage)")
        }
        label = try NewKey.label(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let access = try KeyAccess(path, arguments, console)
        try access.requireSlots()
        try access.change { try $0.label(slot, label) }
        try console.report(
            json: .object(["store": .string(path), "slot": .int(slot), "label": .string(label.text)]),
            lines: [label == .none ? "slot \(slot) has no label now" : "slot \(slot) is called \"\(label)\""])
        return .ok
    }
}
