import KeyCustody

/// `key change STORE`: another secret in the place of one that opens a store.
struct KeyChangeCommand: Command {
    static let changesFiles = true
    static let syntax = CommandSyntax(
        name: "key change",
        summary: "give a key slot another passphrase or key",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: [
            OptionSyntax("--slot", value: "N", "the slot to change; without it the one that the given key opens"),
            .label, .kdf, .json,
        ] + KeyOptions.all + KeyOptions.new,
        examples: [
            "cipherctl key change app.db",
            "cipherctl key change app.db --key-file old.key --new-key-file new.key",
            "cipherctl key change app.db --slot 2 --key-file admin.key --new-raw-key-file server2.key",
        ],
        notes: [
            "No page is encrypted anew, however large the store is. When the command returns, the former secret opens "
                + "neither copy of the sidecar. The slot keeps its number, and its label unless --label gives another.",
            "A secret that others may know is not made harmless by this: whoever opened its slot may know the master key, "
                + "and copies of sidecar and store that were taken before still open with it. Afterwards run: "
                + "cipherctl rotate STORE --compromised",
        ])

    private let path: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = arguments.operands[0]
        _ = try KeyAccess.slot(arguments)
        _ = try NewKey.label(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let access = try KeyAccess(path, arguments, console)
        try access.requireSlots()
        guard let id = try KeyAccess.slot(arguments) ?? access.openedBy?.id else {
            throw UsageError("--slot is missing.", hint: "See the numbers with: cipherctl key list STORE")
        }
        try access.requireSlot(id)
        let new = try NewKey(arguments, console)
        try new.requireUnused(in: access)
        let slot = try access.change(bringing: new) { try $0.change(id, to: new.slot()) }
        try console.report(
            json: .object(["store": .string(path), "changed": SlotReport.json(slot)]),
            lines: [
                "changed \(SlotReport.name(slot)): its former secret opens nothing beside the store",
                "if others may know that secret: cipherctl rotate --compromised (cipherctl help keys)",
            ])
        return .ok
    }
}

extension KeyAccess {
    /// Told before a new key is asked for.
    ///
    /// - Throws: `StoreError` `slotNotFound`.
    func requireSlot(_ id: UInt64) throws { _ = try sidecar.slotted?.table.find(id) }
}
