import CipherStore
import KeyCustody
import StorePlatform
import StoreSharing
import StoreTools

/// The keys of a store, opened with one of them, for the commands that show or change them.
///
/// Only the sidecar is opened: the database may be in use, or damaged. The generation that the store records is read
/// from its pages (``SidecarAge``).
struct KeyAccess {
    let path: String
    let console: Console
    /// The sidecar, authenticated by the key.
    let sidecar: Sidecar
    let keys: SidecarKeys
    let administration: KeyAdministration
    private let key: UnlockedKey
    private let choice: AuthenticatedSidecar

    /// - Throws: What opening the store with this key would throw; ``UsageError``.
    init(_ path: String, _ arguments: ParsedArguments, _ console: Console) throws {
        try self.init(path, UnlockedKey(KeyOptions.source(arguments), console), console)
    }

    /// - Throws: What opening the store with this key would throw.
    init(_ path: String, _ key: UnlockedKey, _ console: Console) throws {
        self.path = path
        self.console = console
        self.key = key
        let choice = try StoreOpening.sidecar(path, key, onNotice: console.note)
        // A backup has one copy of the sidecar.
        let isBackup = BackupBundle(holding: path) != nil
        for note in choice.notes where !(isBackup && note == .missing(.backup)) { console.note("\(note)") }
        self.choice = choice
        sidecar = choice.sidecar
        keys = choice.keys
        var administration = KeyAdministration(databasePath: StorePaths(path).database, keys: choice.keys)
        administration.isCancelled = { Interruption.shared.isSet }
        administration.onNotice = Console.note
        administration.onWait = Console.note
        self.administration = administration
    }

    /// Whether the sidecar is the newest one. Read before the store is opened in this process.
    var age: SidecarAge { SidecarAge(path, choice) }

    /// The keyslot that the key opened; nil in a direct store.
    var openedBy: Keyslot? { keys.openedBy }

    /// The keyslot that another key opens; nothing is derived when it is the same key.
    func slot(openedBy other: UnlockedKey) throws -> Keyslot? {
        try other.secret.openedSlot(of: sidecar, knowing: key.secret, opened: openedBy)
    }

    /// - Parameter changesKey: Whether a rotation of a direct store does what the command was to do.
    /// - Throws: ``CommandFailure`` for a direct store.
    func requireSlots(changesKey: Bool = false) throws {
        guard sidecar.slotted == nil else { return }
        throw CommandFailure(
            .usage, "noSlots", what: "\"\(path)\" has no keyslots.",
            why: "It is a direct store: its data key is its one key, or comes from its one passphrase.",
            hint: "Give it slots with `cipherctl key convert --to slots`"
                + (changesKey ? ", or another key with `cipherctl rotate --backup DIR --new-key-file F`." : "."))
    }

    /// Refuses a change after which devices alone keep the keys of the store.
    ///
    /// - Throws: ``CommandFailure`` without `--yes`.
    static func requireKeyBesidesDevices(
        _ path: String, _ kindsAfterwards: [Keyslot.Kind], _ arguments: ParsedArguments
    ) throws {
        guard kindsAfterwards.allSatisfy(\.isToken), !arguments.has("--yes") else { return }
        throw CommandFailure(
            .usage, "deviceAlone", what: "The keys of \"\(path)\" were not changed.",
            why: "Devices alone would keep its keys: with the last of them the store would be lost.",
            hint: "Add a recovery key first (cipherctl key recovery). To do it without one, add --yes.")
    }

    /// Called before the command makes or prompts for a key for which there could be no keyslot.
    ///
    /// - Throws: ``CommandFailure`` for a direct store; `StoreError` `tooManySlots`.
    func requireRoom() throws {
        try requireSlots()
        try sidecar.slotted?.table.requireRoom()
    }

    /// Changes the keys: a signal ends the wait for locks, and a stop by Ctrl-Z waits for the change.
    ///
    /// The store is opened as well, to record the change; if that is impossible, the change is made nevertheless.
    ///
    /// Between the first read of the keyslots and the change another process may have changed them, however long the
    /// prompt for a key took. Then the change is verified again: the given key must still open the keyslot that it
    /// opened, and what is new is checked like the rest.
    /// - Parameter new: The key that the change adds.
    func change<Success>(
        bringing new: NewKey? = nil, _ body: (KeyAdministration) throws -> Success
    ) throws -> Success {
        var administration = administration
        // Before signals are caught: until now there is nothing to undo.
        let store = try openToRemember()
        defer { try? store?.get().close() }
        administration.memory = store.map { RollbackGuard($0, onNotice: Console.note) }
        _ = Interruption.shared
        administration.decidedOn = sidecar.slotted?.table.slots
        while true {
            do {
                return try JobControlSuspension.withoutStopping { try body(administration) }
            } catch let changed as SlotsChanged {
                try requireStillOpen(in: changed.sidecar)
                let known = administration.decidedOn ?? []
                try new?.requireUnused(of: changed.sidecar, among: changed.sidecar.slots.filter { !known.contains($0) })
                administration.decidedOn = changed.sidecar.slots
            }
        }
    }

    /// - Throws: `StoreError` `wrongKey` when the keyslot that was opened is gone, or has another secret.
    private func requireStillOpen(in changed: Sidecar) throws(StoreError) {
        guard let opened = openedBy, !changed.slots.contains(where: { $0.hasSecret(of: opened) }) else { return }
        throw StoreError(
            .wrongKey, what: "The keys of \"\(path)\" were not changed.",
            why: "The key that was given opened slot \(opened.id), which was removed or changed meanwhile.",
            remedy: "Give a key that opens the store now.")
    }

    /// The store, or why it cannot be opened; nil for one that is not complete, whose keys cannot be changed.
    ///
    /// - Throws: `StoreError` `storeInUse`: what blocks an opening blocks a change too; `foreignSidecar`: the keyslots
    ///   are those of another store; `backupReadOnly`.
    private func openToRemember() throws -> Result<SharedStore, any Error>? {
        // A store whose file is complete is completed by this opening: every opening for writing does so.
        let isWhole = try sidecar.state == .creating && Files.byteCount(path) ?? 0 > sidecar.settings.pageBytes
        guard sidecar.state == .ready || isWhole else { return nil }
        let store = Result { try SharedStore.open(at: path, holding: keys, configuration: .ofTool()) }
        if case .failure(let error as StoreError) = store,
            [.storeInUse, .foreignSidecar, .backupReadOnly].contains(error.code)
        {
            throw error
        }
        return store
    }

    /// The value of `--slot`; nil without it.
    ///
    /// - Throws: ``UsageError``.
    static func slot(_ arguments: ParsedArguments) throws(UsageError) -> UInt64? {
        guard let text = arguments.value("--slot") else { return nil }
        guard let number = UInt64(text), number > 0 else {
            throw UsageError("--slot needs the number of a keyslot.", hint: "See: cipherctl key list STORE")
        }
        return number
    }

    static var missingSlot: UsageError {
        UsageError(
            "--slot is missing.",
            hint: "Give the number of a keyslot with --slot N. The numbers are listed by: cipherctl key list STORE")
    }

    /// - Throws: ``UsageError`` when `--slot` is missing.
    static func requiredSlot(_ arguments: ParsedArguments) throws(UsageError) -> UInt64 {
        guard let slot = try slot(arguments) else {
            throw missingSlot
        }
        return slot
    }
}

extension SidecarAge {
    /// For commands that depend on the sidecar.
    ///
    /// - Throws: `StoreError` `sidecarRolledBack`, as opening the store does.
    func requireNewest(_ console: Console) throws {
        switch self {
        case .newest: break
        case .rolledBack(let error): throw error
        case .foreign(let path, let sidecar): throw StoreError.foreignSidecar(StorePaths(path).database, sidecar)
        case .unknown: finding.map { console.note($0.what) }
        }
    }

    /// For programs: null when it is not known.
    var json: JSON {
        switch self {
        case .newest: .bool(false)
        case .rolledBack: .bool(true)
        case .unknown, .foreign: .null
        }
    }
}

extension OptionSyntax {
    static let slot = OptionSyntax("--slot", value: "N", "the number of the slot, as `key list` shows it")
    static let label = OptionSyntax(
        "--label", value: "TEXT", "the name of the slot: up to 64 letters, digits, signs", mayBeEmpty: true)
    static let kdf = OptionSyntax(
        "--kdf", value: "scrypt|argon2id|hkdf",
        "how a passphrase is stretched; scrypt unless given (argon2id: OpenSSL 3.2); hkdf: not, for a random key of "
            + "a command or credential")
}
