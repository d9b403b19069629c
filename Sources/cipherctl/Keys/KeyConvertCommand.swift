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
            OptionSyntax("--to", value: "slots|direct", "how the data key is to be kept"), .label, .kdf,
            FleetOptions.dryRun, .yes, .json, .quiet,
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
        let isRehearsal = arguments.has("--dry-run")
        if toSlots {
            let new = try firstKey(key, source, console)
            if isRehearsal { return try rehearse(access, ["\(path) would have one keyslot"]) }
            let converted = try access.change { try $0.convertToSlots([new.slot()]) }
            return try report(converted, console) { slots in
                ["\(path) has keyslots now"] + SlotReport.lines(slots, openedBy: nil) + [
                    SuggestedCommand.completing(
                        "until the data key is rotated, the former key opens the database with any SQLCipher: "
                            + "cipherctl rotate")
                ]
            }
        }
        let new = try OnlyKey(KeyOptions.newSource(arguments), console)
        if isRehearsal {
            try new.explainingProof(of: path) { try access.administration.requireDataKey(from: new.key.secret) }
            return try rehearse(access, ["\(path) would be a direct store: its one key would be \(new.name)"])
        }
        try Confirmation.require(
            "Every keyslot of \"\(path)\" is removed (\(access.sidecar.slots.count)); only \(new.name) opens it then.",
            arguments)
        let converted = try access.change { administration in
            try new.explainingProof(of: path) { try administration.convertToDirect(provedBy: new.key.secret) }
        }
        return try report(converted, console) { _ in ["\(path) is a direct store now: its one key is \(new.name)"] }
    }

    /// Says what the conversion would do to the keyslots, after the keys were read and proved. The keys stay as they are.
    private func rehearse(_ access: KeyAccess, _ lines: [String]) throws -> ExitCode {
        let slots = access.sidecar.slots
        try access.console.report(
            json: .object([
                "store": .string(path), "dry_run": .bool(true), "scheme": .string(toSlots ? "slots" : "direct"),
                "would_remove": .array(slots.map(SlotReport.json)),
            ]),
            lines: lines + slots.map { "would remove \(SlotReport.name($0))" })
        return .ok
    }

    /// - Parameter lines: Returns the lines of the report from the keyslots, as far as they could be read.
    private func report(
        _ converted: KeyAdministration, _ console: Console, _ lines: ([Keyslot]) -> [String]
    ) throws -> ExitCode {
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
            lines: lines(sidecar?.slots ?? []))
        return .ok
    }

    private func requireOtherScheme(_ access: KeyAccess) throws {
        guard (access.sidecar.slotted != nil) == toSlots else { return }
        throw CommandFailure(
            .usage, "sameScheme", what: "\"\(path)\" was not changed.",
            why: toSlots ? "It has keyslots already." : "It is a direct store already.",
            hint: toSlots ? "Add a key with: cipherctl key add" : "Nothing needs to be done.")
    }

    /// The key of the first keyslot.
    ///
    /// - Parameter source: Where the given key came from.
    private func firstKey(_ key: UnlockedKey, _ source: KeySource, _ console: Console) throws -> NewKey {
        let new =
            try KeyOptions.isNewGiven(arguments)
            ? NewKey(arguments, console) : NewKey(key, source.slotKind, arguments)
        if new.isDevice { try KeyAccess.requireKeyBesidesDevices(path, [], arguments) }
        return new
    }
}

/// The one key of a direct store.
private struct OnlyKey {
    let source: KeySource
    let key: UnlockedKey

    init(_ source: KeySource, _ console: Console) throws {
        self.source = source
        key = try UnlockedKey(source, console)
    }

    var name: String { key.isPassphrase ? "the passphrase (\(source))" : "the data key (\(source))" }

    /// Says how to get the data key where the key has proved to be another one.
    func explainingProof<Success>(of path: String, _ prove: () throws -> Success) throws -> Success {
        do {
            return try prove()
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
}
