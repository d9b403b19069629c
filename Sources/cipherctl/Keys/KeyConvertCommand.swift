import CipherStore
import KeyCustody
import StoreTools

/// `key convert STORE --to slots|direct`: changes how the data key is kept.
struct KeyConvertCommand: Command {
    let changesFiles = true
    static let syntax = CommandSyntax(
        name: "key convert",
        summary: "give a direct store keyslots, or remove them",
        operands: [OperandSyntax("STORE", "the store; it may be in use")],
        options: [
            OptionSyntax("--to", value: "slots|direct", "how the data key is to be kept"), .label, .kdf, .yes, .json,
            .quiet,
        ] + KeyOptions.all + KeyOptions.new,
        examples: [
            "cipherctl key convert app.db --to slots --key-file app.key",
            "cipherctl key convert app.db --to slots --key-file app.key --new-raw-key-file server.key",
            "cipherctl key convert app.db --to direct --key-file app.key --new-raw-key-file data.key --yes",
        ],
        notes: [
            "No page is re-encrypted: the data key stays. To slots: the key that is given, or the one from the "
                + "options with --new-, opens the first slot. Until the data key is rotated the former key still opens "
                + "the database with any SQLCipher: cipherctl rotate ends that.",
            "To direct: the one key from then on is the data key itself (the 32 bytes that `key reveal` shows as "
                + "hexadecimal digits, in a file given as --new-raw-key-file), or the passphrase from which it was "
                + "once derived, if it was not rotated since. It is verified before the keyslots are removed. All "
                + "slots are lost, recovery keys too.",
        ])

    private let path: String
    private let toSlots: Bool
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        switch arguments.value("--to") {
        case "slots": toSlots = true
        case "direct": toSlots = false
        default: throw UsageError("--to says how the data key is to be kept.", hint: "Give --to slots or --to direct.")
        }
        _ = try NewKey.label(arguments)
    }

    func run(_ console: Console) throws -> ExitCode {
        let source = try KeyOptions.source(arguments)
        let key = try UnlockedKey(source, console)
        let access = try KeyAccess(path, key, console)
        try requireOtherScheme(access)
        let (converted, provedBy) =
            try toSlots ? (giveSlots(access, key, source, console), nil) : takeSlots(access, console)
        // Read again for the report alone: a failure does not undo the conversion.
        let read = Result { try converted.sidecar() }
        if case .failure(let error) = read {
            console.note("\"\(path)\" was converted, but its sidecar could not be read again (\(error))")
        }
        let sidecar = try? read.get()
        try console.report(
            json: .object([
                "store": .string(path), "scheme": .string(toSlots ? "slots" : "direct"),
                "slots": .optional(sidecar) { .array($0.slots.map(SlotReport.json)) },
            ]),
            lines: toSlots
                ? ["\(path) has keyslots now"] + SlotReport.lines(sidecar?.slots ?? [], openedBy: nil) + [
                    SuggestedCommand.completing(
                        "until the data key is rotated, the former key opens the database with any SQLCipher: "
                            + "cipherctl rotate")
                ]
                : ["\(path) is a direct store now: its one key is \(provedBy ?? "the data key")"])
        return .ok
    }

    private func requireOtherScheme(_ access: KeyAccess) throws {
        guard (access.sidecar.slotted != nil) == toSlots else { return }
        throw CommandFailure(
            .usage, "sameScheme", what: "\"\(path)\" was not changed.",
            why: toSlots ? "It has keyslots already." : "It is a direct store already.",
            hint: toSlots ? "Add a key with: cipherctl key add" : "Nothing needs to be done.")
    }

    private func giveSlots(
        _ access: KeyAccess, _ key: UnlockedKey, _ source: KeySource, _ console: Console
    ) throws -> KeyAdministration {
        let new =
            try KeyOptions.isNewGiven(arguments)
            ? NewKey(arguments, console) : NewKey(key, source.slotKind, arguments)
        if new.isDevice { try KeyAccess.requireKeyBesidesDevices(path, [], arguments) }
        return try access.change { try $0.convertToSlots([new.slot()]) }
    }

    /// - Returns: Also the name of the key that the store has afterwards.
    private func takeSlots(_ access: KeyAccess, _ console: Console) throws -> (KeyAdministration, String?) {
        let source = try KeyOptions.newSource(arguments)
        let new = try UnlockedKey(source, console)
        let name = new.isPassphrase ? "the passphrase (\(source))" : "the data key (\(source))"
        try Confirmation.require(
            "Every keyslot of \"\(path)\" is removed (\(access.sidecar.slots.count)); only \(name) opens it then.",
            arguments)
        let converted = try access.change { administration in
            do {
                return try administration.convertToDirect(provedBy: new.secret)
            } catch let error as StoreError where error.code == .wrongKey {
                throw CommandFailure(
                    .notPermitted, error.code.name, what: error.what,
                    why: "The new key (\(source)) is not the data key, with which its pages are encrypted.",
                    hint:
                        "Write the data key into a file and give it with --new-raw-key-file: (umask 077; "
                        + "cipherctl key reveal \(ShellWord.path(path)) --json | jq -r .key | xxd -r -p > data.key). "
                        + "Once the store is direct, `cipherctl rotate --backup DIR --new-key-file F` can give it "
                        + "a passphrase.")
            }
        }
        return (converted, name)
    }
}
