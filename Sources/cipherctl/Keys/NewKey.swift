import CipherStore
import KeyCustody
import StorePlatform
import StoreSharing
import StoreTools

/// A new key of a store, according to the options, read once.
struct NewKey {
    private let key: UnlockedKey
    private let kind: Keyslot.Kind
    private let label: SlotLabel
    private let derivation: SlotDerivation?

    /// - Throws: ``UsageError``; what the source throws.
    init(_ arguments: ParsedArguments, _ console: Console) throws {
        let source = try KeyOptions.newSource(arguments)
        try self.init(UnlockedKey(new: source, console), source.slotKind, arguments)
    }

    /// A keyslot for a known key.
    init(_ key: UnlockedKey, _ kind: Keyslot.Kind, _ arguments: ParsedArguments) throws {
        self.key = key
        self.kind = kind
        label = try Self.label(arguments)
        derivation = try Self.derivation(arguments, kind, isPassphrase: key.isPassphrase)
    }

    /// The keyslot to be added.
    func slot() throws -> NewSlot { try NewSlot(key.secret, kind: kind, label: label, derivation: derivation) }

    /// Whether a device keeps it.
    var isDevice: Bool { key.isDevice }

    /// Proves by the files that the key opens the store.
    ///
    /// - Returns: The keyslot that it opens.
    func test(_ path: String) throws -> Keyslot? {
        let files = SidecarFiles(databasePath: StorePaths(path).database)
        return try files.choose(files.read(), unlock: key.unlock)?.keys.openedBy
    }

    /// Refuses a secret that already opens a keyslot, which would change nothing.
    ///
    /// - Throws: ``CommandFailure`` that names the keyslot.
    ///
    /// A device is not asked: each keyslot of it has a secret of its own.
    func requireUnused(in store: KeyAccess) throws {
        guard !key.isDevice else { return }
        if let slot = try store.slot(openedBy: key) { throw Self.known(slot) }
    }

    /// The same for keyslots that were added meanwhile.
    func requireUnused(of sidecar: Sidecar, among slots: [Keyslot]) throws {
        guard !key.isDevice else { return }
        let opened = try key.secret.openedSlot(of: sidecar, among: slots)
        if let slot = opened { throw Self.known(slot) }
    }

    private static func known(_ slot: Keyslot) -> CommandFailure {
        CommandFailure(
            .usage, "sameKey", what: "The new key opens the store already.",
            why: "It is that of slot \(slot.id) (\(slot.kind.rawValue)).",
            hint: "Give another key; nothing was changed.")
    }

    /// - Throws: ``UsageError`` for an invalid label.
    static func label(_ arguments: ParsedArguments) throws(UsageError) -> SlotLabel {
        guard let text = arguments.value("--label") else { return .none }
        do {
            return try SlotLabel(text)
        } catch {
            throw UsageError("\(error.what) \(error.why)", hint: error.remedy)
        }
    }

    private static func derivation(
        _ arguments: ParsedArguments, _ kind: Keyslot.Kind, isPassphrase: Bool
    ) throws(UsageError) -> SlotDerivation? {
        guard let name = arguments.value("--kdf") else { return nil }
        guard isPassphrase else {
            throw UsageError(
                "--kdf is for passphrases; a raw key is not stretched.", hint: "Leave --kdf out, or give a passphrase.")
        }
        switch name {
        case "scrypt": return .standard
        case "argon2id": return .standardArgon2id
        case "hkdf":
            guard kind != .passphrase else {
                throw UsageError(
                    "--kdf hkdf is for a random key that a command or credential gives.",
                    hint: "Leave --kdf out: a passphrase must be stretched.")
            }
            return .hkdf
        default:
            throw UsageError(
                "There is no such derivation.", hint: "Give --kdf scrypt, --kdf argon2id or --kdf hkdf.")
        }
    }
}
