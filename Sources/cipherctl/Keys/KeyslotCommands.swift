import CipherStore
import KeyCustody

/// `key add STORE`: adds a key that opens a store.
struct KeyAddCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "key add",
        summary: "let another key open a store as well",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: [.label, .kdf, .json, .quiet] + KeyOptions.all + KeyOptions.new,
        examples: [
            "cipherctl key add app.db --key-file app.key",
            "cipherctl key add app.db --key-file app.key --new-raw-key-file server.key --label server",
            "cipherctl key add app.db --key-file app.key --new-key-command 'pass show app' --label laptop",
            "cipherctl key add app.db --key-file app.key --new-key-plugin age --plugin-option identity=/etc/age.key",
        ],
        notes: [
            "The store is opened with one of its keys; the new one comes from the options that begin with --new-, or is "
                + "asked for twice at the terminal. A raw key file of 32 random bytes makes a key-file slot: "
                + "head -c 32 /dev/urandom > server.key. A store has at most 32 slots.",
            "The new keyslot is opened as a test before it is written.",
        ])

    private let path: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        _ = try NewKey.label(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let access = try KeyAccess(path, arguments, console)
        try access.requireRoom()
        let new = try NewKey(arguments, console)
        try new.requireUnused(in: access)
        let slot = try access.change(bringing: new) { try $0.add(new.slot()) }
        try console.report(
            json: .object(["store": .string(path), "added": SlotReport.json(slot)]),
            lines: ["added \(SlotReport.name(slot))"])
        return .ok
    }
}

/// `key change STORE`: replaces a secret that opens a store.
struct KeyChangeCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "key change",
        summary: "give a keyslot another passphrase or key",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: [
            OptionSyntax("--slot", value: "N", "the slot to change; without it the one that the given key opens"),
            .label, .kdf, FleetOptions.dryRun, .yes, .json, .quiet,
        ] + KeyOptions.all + KeyOptions.new,
        examples: [
            "cipherctl key change app.db",
            "cipherctl key change app.db --key-file old.key --new-key-file new.key",
            "cipherctl key change app.db --slot 2 --key-file admin.key --new-raw-key-file server2.key",
        ],
        notes: [
            "No page is re-encrypted, however large the store is. When the command returns, the former secret opens "
                + "neither copy of the sidecar. The slot keeps its number, and its label unless --label gives another.",
            "This is not enough if others may know the secret: a person who opened its slot may know the master key, "
                + "and copies of sidecar and store that were taken before still open with it. Afterwards run: "
                + "cipherctl rotate STORE --compromised",
        ])

    private let path: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        _ = try KeyAccess.slot(arguments)
        _ = try NewKey.label(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let access = try KeyAccess(path, arguments, console)
        try access.requireSlots(changesKey: true)
        guard let id = try KeyAccess.slot(arguments) ?? access.openedBy?.id else { throw KeyAccess.missingSlot }
        try access.requireSlot(id)
        let new = try NewKey(arguments, console)
        try new.requireUnused(in: access)
        if new.isDevice {
            let others = access.sidecar.slots.filter { $0.id != id }.map(\.kind)
            try KeyAccess.requireKeyBesidesDevices(path, others, arguments)
        }
        if arguments.has("--dry-run") { return try rehearse(id, access) }
        let slot = try access.change(bringing: new) { try $0.change(id, to: new.slot()) }
        try console.report(
            json: .object(["store": .string(path), "changed": SlotReport.json(slot)]),
            lines: [
                "changed \(SlotReport.name(slot)): its former secret opens neither copy of the sidecar",
                SuggestedCommand.completing(
                    "if others may know that secret: cipherctl rotate --compromised (cipherctl help keys)",
                    hasKey: access.openedBy?.id != id),
            ])
        return .ok
    }
}

extension KeyChangeCommand {
    /// Says which secret would be replaced, after both keys were read and checked. The keys stay as they are.
    private func rehearse(_ id: UInt64, _ access: KeyAccess) throws -> ExitCode {
        guard let slot = try access.sidecar.slotted?.table.find(id) else { return .failed }
        try access.console.report(
            json: .object([
                "store": .string(path), "dry_run": .bool(true), "would_change": SlotReport.json(slot),
            ]),
            lines: ["would change \(SlotReport.name(slot)): its present secret would no longer open the store"])
        return .ok
    }
}

extension KeyAccess {
    /// Called before a new key is read.
    ///
    /// - Throws: `StoreError` `slotNotFound`.
    func requireSlot(_ id: UInt64) throws { _ = try sidecar.slotted?.table.find(id) }
}

/// `key label STORE`: renames a keyslot.
struct KeyLabelCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "key label",
        summary: "give a keyslot another label",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: [.slot, .label, .json, .quiet] + KeyOptions.all,
        examples: [
            "cipherctl key label app.db --slot 2 --label \"backup server\" --key-file app.key",
            "cipherctl key label app.db --slot 2 --label= --key-file app.key",
        ],
        notes: ["Everybody who can read the sidecar can read its labels. An empty label removes the present one."])

    private let path: String
    private let slot: UInt64
    private let label: SlotLabel
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
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

/// `key remove STORE`: removes a secret that opens a store.
struct KeyRemoveCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "key remove",
        summary: "remove a keyslot, so that its secret opens the store no longer",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: [.slot, FleetOptions.dryRun, .yes, .json, .quiet] + KeyOptions.all,
        examples: ["cipherctl key remove app.db --slot 2 --key-file app.key --yes"],
        notes: [
            "The slot is gone from both copies of the sidecar, and from what crashes left of them, before the command "
                + "returns. The last slot that could open the store is not removed.",
            "This is not enough if others know the secret: a person who opened its slot may know the master key, and "
                + "copies of sidecar and store that were taken before still open with it. Run: cipherctl rotate STORE "
                + "--compromised",
        ])

    private let path: String
    private let slot: UInt64
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        slot = try KeyAccess.requiredSlot(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let access = try KeyAccess(path, arguments, console)
        try access.requireSlots()
        guard let found = try access.sidecar.slotted?.table.find(slot) else { return .failed }
        let isOwn = access.openedBy?.id == slot
        if access.sidecar.slots.allSatisfy({ $0.id == slot || $0.kind.isToken }) {
            console.warn("devices alone keep the keys of the store afterwards: with the last of them it is lost")
        }
        if isOwn { console.warn("this is the keyslot of the given key: afterwards another key is needed") }
        if arguments.has("--dry-run") { return try rehearse(found, access) }
        try Confirmation.require("\(SlotReport.name(found).capitalizedFirst) of \"\(path)\" is removed.", arguments)
        try access.change { try $0.remove(slot) }
        try console.report(
            json: .object(["store": .string(path), "removed": SlotReport.json(found)]),
            lines: [
                "removed \(SlotReport.name(found))",
                "copies of sidecar and store that were taken before still open with its secret; if others may know it:",
                SuggestedCommand.completing(
                    "cipherctl rotate --compromised (cipherctl help keys)", hasKey: !isOwn),
            ])
        return .ok
    }
}

extension KeyRemoveCommand {
    /// Checks whether the slot can be removed. The keys stay as they are.
    private func rehearse(_ slot: Keyslot, _ access: KeyAccess) throws -> ExitCode {
        try access.sidecar.slotted?.table.requireRemovable(slot.id)
        let others = access.sidecar.slots.filter { $0.id != slot.id }
        try access.console.report(
            json: .object([
                "store": .string(path), "dry_run": .bool(true), "would_remove": SlotReport.json(slot),
                "slots_left": .array(others.map(SlotReport.json)),
            ]),
            lines: ["would remove \(SlotReport.name(slot))"] + others.map { "would keep   \(SlotReport.name($0))" })
        return .ok
    }
}

extension String {
    var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}
