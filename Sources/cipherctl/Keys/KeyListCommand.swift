import CipherDatabase
import CipherStore
import KeyCustody
import StoreSharing
import StoreTools

/// `key list STORE`: lists what opens a store.
struct KeyListCommand: Command {
    static let syntax = CommandSyntax(
        name: "key list",
        summary: "show the keyslots of a store",
        operands: [OperandSyntax("STORE", "the store, or the folder of a backup; it may be in use")],
        options: [.json, .quiet] + KeyOptions.all,
        examples: [
            "cipherctl key list app.db",
            "cipherctl key list app.db --key-file app.key",
        ],
        notes: [
            "No key is needed: without one nothing is authenticated, and the output says so. With a key the keyslot "
                + "that it opens is marked. A sidecar that was replaced by an older one, or by that of another store, is "
                + "reported (exit code 2)."
        ])

    private let path: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
    }

    func run(_ console: Console) throws -> ExitCode {
        guard KeyOptions.isGiven(arguments) else {
            let sidecar = try claimed()
            try report(sidecar, nil, console)
            let isBackup = BackupBundle(holding: path) != nil
            if let interrupted { return warn(interrupted, console) }
            guard !isBackup, let foreign = KeyHealth(StorePaths(path), sidecar).foreignSidecar(path) else { return .ok }
            console.warn(foreign.text)
            return .needsAttention
        }
        let access = try KeyAccess(path, arguments, console)
        let age = access.age
        try report(access.sidecar, (access.openedBy, age), console)
        if let interrupted { return warn(interrupted, console) }
        guard let finding = age.finding else { return .ok }
        finding.needsAttention ? console.warn(finding.text) : console.note(finding.text)
        return finding.needsAttention ? .needsAttention : .ok
    }

    /// The restoration that was interrupted: its files are of two states.
    private var interrupted: StoreError? { InterruptedRestoration.error(.saltMissing, StorePaths(path)) }

    private func warn(_ interrupted: StoreError, _ console: Console) -> ExitCode {
        console.warn("\(interrupted.what) \(interrupted.why) \(interrupted.remedy)")
        return .needsAttention
    }

    /// The newest readable copy of the sidecar, not authenticated.
    private func claimed() throws -> Sidecar {
        let files = SidecarFiles(databasePath: StorePaths(path).database)
        let copies = files.read()
        let readable = copies.claimed
        if let newest = readable.max(by: { $0.generation < $1.generation }) { return newest }
        if copies.areAbsent { throw StoreOpening.noSuchStore(path) }
        // Choosing a copy reports precisely what is wrong with both; no key is read for a copy that cannot be read.
        _ = try files.choose(copies) { _ in nil }
        throw StoreOpening.noSuchStore(path)
    }

    /// - Parameter proved: What a key has proved; nil without one.
    private func report(
        _ sidecar: Sidecar, _ proved: (openedBy: Keyslot?, age: SidecarAge)?, _ console: Console
    ) throws {
        let openedBy = proved?.openedBy
        var lines = SlotReport.lines(sidecar.slots, openedBy: openedBy)
        if sidecar.slotted == nil {
            lines = ["a direct store: one key, and no slots (cipherctl key convert --to slots gives it some)"]
        }
        if proved == nil { console.note("nothing was authenticated: give a key to prove the list") }
        try console.report(
            json: .object([
                "store": .string(path), "authenticated": .bool(proved != nil), "scheme": .string(sidecar.scheme.name),
                "epoch": .int(sidecar.epoch),
                "data_key_created": .optional(sidecar.slotted) { .int($0.dataKey.created) },
                "data_key_origin": .optional(sidecar.slotted) { .string($0.dataKey.origin.rawValue) },
                "opened_by": .optional(openedBy) { .int($0.id) },
                "rolled_back": .optional(proved) { $0.age.json },
                "slots": .array(sidecar.slots.map(SlotReport.json)),
            ]),
            lines: lines)
    }
}

/// `key test STORE`: tests whether a key opens a store, and by which keyslot.
struct KeyTestCommand: Command {
    static let syntax = CommandSyntax(
        name: "key test",
        summary: "report which keyslot a key opens; exit code 77 if none",
        operands: [OperandSyntax("STORE", "the store, or the folder of a backup; it may be in use")],
        options: [.json, .quiet] + KeyOptions.all,
        examples: [
            "cipherctl key test app.db",
            "cipherctl key test app.db --key-file recovery.txt --json",
        ],
        notes: [
            "The key is tried on the sidecar. From the database the command reads only the recorded generation, "
                + "because the sidecar must not be older. It locks nothing. A recovery key is typed or read from a "
                + "file like a passphrase, in capital or "
                + "small letters, with hyphens or without."
        ])

    private let path: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
    }

    func run(_ console: Console) throws -> ExitCode {
        let access = try KeyAccess(path, arguments, console)
        try access.age.requireNewest(console)
        let line = access.openedBy.map { "the key opens \(SlotReport.name($0))" } ?? "the key opens the store (direct)"
        try console.report(
            json: .object([
                "store": .string(path), "opens": .bool(true), "scheme": .string(access.sidecar.scheme.name),
                "slot": .optional(access.openedBy, SlotReport.json),
            ]),
            lines: [line])
        return .ok
    }
}
