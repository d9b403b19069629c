import StoreCrypto
import StorePlatform
import Synchronization

/// A passphrase, stretched by a derivation before it is used.
///
/// It is in locked memory that all copies share, and is wiped after the last of them is destroyed.
public struct Passphrase: Sendable {
    let bytes: SecretBytes

    /// Copies a text's UTF-8 bytes.
    ///
    /// - Throws: `StoreError` `invalidKey` when it is empty, begins with `x'`, or is longer than 64 KiB.
    public init(_ text: String) throws(StoreError) { try self.init(SecretBytes(copying: text.utf8)) }

    /// Copies bytes; the caller wipes the array.
    ///
    /// - Throws: `StoreError` `invalidKey` when there are none, when they begin with `x'`, or are more than 64 KiB.
    public init(bytes: [UInt8]) throws(StoreError) { try self.init(SecretBytes(copying: bytes)) }

    /// Uses a secret that is in locked memory already.
    package init(_ bytes: SecretBytes) throws(StoreError) {
        if let reason = bytes.withBytes({ Self.objection(to: $0) }) {
            throw StoreError(
                .invalidKey, what: "The passphrase cannot be used.", why: reason,
                remedy: "Choose another passphrase, or give a raw key as such.")
        }
        self.bytes = bytes
    }

    private static func objection(to bytes: UnsafeRawBufferPointer) -> String? {
        if bytes.isEmpty { return "It is empty." }
        if bytes.count > CustodyLimits.keySourceBytes { return "It is longer than 64 KiB." }
        // SQLCipher would read it as a raw key in hexadecimal, or silently as a mixture of both.
        let isKeyspec = bytes.count >= 2 && [0x78, 0x58].contains(bytes[0]) && bytes[1] == UInt8(ascii: "'")
        return isKeyspec ? "It begins with x', which SQLCipher takes for a raw key." : nil
    }
}

/// A full-strength key of 32 bytes, used as it is and never stretched.
///
/// It is in locked memory that all copies share, and is wiped after the last of them is destroyed.
public struct RawKey: Sendable {
    /// Number of bytes of every key.
    public static let byteCount = 32

    package let bytes: SecretBytes

    /// Copies 32 bytes; the caller wipes the array.
    ///
    /// - Throws: `StoreError` `invalidKey` when there are more or fewer.
    public init(bytes: [UInt8]) throws(StoreError) { try self.init(SecretBytes(copying: bytes)) }

    /// Uses a secret of 32 bytes that is in locked memory already.
    package init(_ bytes: SecretBytes) throws(StoreError) {
        guard bytes.count == Self.byteCount else {
            throw StoreError(
                .invalidKey, what: "The raw key has the wrong length.",
                why: "It has \(CountText.text(bytes.count, "byte")) instead of \(Self.byteCount).",
                remedy: "Give exactly 32 random bytes, or use a passphrase.")
        }
        self.bytes = bytes
    }

    /// Makes a new key with the system's random generator.
    public static func random() throws -> RawKey { try RawKey(SecretBytes.random(count: byteCount)) }
}

/// A secret that opens a store, as a key source returned it: a passphrase or a raw key, or the device that keeps it.
package struct Secret: Sendable {
    /// Of a device: random bytes that open nothing.
    let bytes: SecretBytes
    /// Whether it is a passphrase, from which a key is derived; otherwise it is a raw key.
    package let isPassphrase: Bool
    /// The kind of keyslot that is made for it; nil derives the kind from its form.
    let slotKind: Keyslot.Kind?
    /// Receives the trials on keyslots with a slow derivation.
    private(set) var onTrial: (@Sendable (KeyslotTrial) -> Void)?

    /// The device that keeps the secrets of its keyslots, and what it has given; nil for a passphrase or raw key.
    let session: TokenSession?

    private init(_ bytes: SecretBytes, isPassphrase: Bool, slotKind: Keyslot.Kind?, session: TokenSession? = nil) {
        self.bytes = bytes
        self.isPassphrase = isPassphrase
        self.slotKind = slotKind
        self.session = session
    }

    /// A device that keeps the secrets of its keyslots.
    static func device(_ session: TokenSession) -> Secret {
        Secret(session.placeholder, isPassphrase: false, slotKind: session.device.kind, session: session)
    }

    /// Whether a device keeps the secret.
    package var isDevice: Bool { session != nil }

    /// Whether the device was asked for a secret since its source was read, and threw an error.
    package var wasRefusedByDevice: Bool { session?.hasRefused ?? false }

    package static func passphrase(_ passphrase: Passphrase) -> Secret {
        Secret(passphrase.bytes, isPassphrase: true, slotKind: nil)
    }

    package static func rawKey(_ key: RawKey) -> Secret { Secret(key.bytes, isPassphrase: false, slotKind: nil) }

    /// A data key as a raw key of SQLCipher.
    package static func rawKey(_ key: DataKey) -> Secret { Secret(key.secret, isPassphrase: false, slotKind: nil) }

    /// The same secret for a keyslot of another kind.
    package func with(slotKind: Keyslot.Kind?) -> Secret {
        Secret(bytes, isPassphrase: isPassphrase, slotKind: slotKind, session: session).reporting(onTrial)
    }

    /// The same secret, which reports its trials on keyslots; nil leaves the present receiver.
    func reporting(_ onTrial: (@Sendable (KeyslotTrial) -> Void)?) -> Secret {
        var secret = self
        if let onTrial { secret.onTrial = onTrial }
        return secret
    }

    /// The data key of a direct store: derived from a passphrase (about 100 ms with SQLCipher 4's settings), or the raw
    /// key itself.
    ///
    /// - Throws: ``StoreError`` `modeConflict` for a device, which opens keyslots alone.
    package func dataKey(salt: Salt, settings: CipherSettings) throws -> DataKey {
        try requireBytes("A store without keyslots")
        guard isPassphrase else { return try DataKey(bytes) }
        return try DataKey(
            bytes.withBytes { bytes throws(CryptoError) in
                try settings.deriveDataKey(passphrase: bytes, salt: salt.bytes)
            })
    }

    /// The raw key, as the data key that it may be; nil for a passphrase.
    package var rawDataKey: DataKey? { isPassphrase || isDevice ? nil : try? DataKey(bytes) }

    /// Refuses a device, for what is opened by a passphrase or raw key.
    ///
    /// - Parameter subject: The beginning of the sentence, such as "An invitation".
    /// - Throws: ``StoreError`` `modeConflict`.
    func requireBytes(_ subject: String) throws(StoreError) {
        guard let session else { return }
        throw StoreError(
            .modeConflict, what: "\(subject) cannot have the key of a \(session.device.name).",
            why: "The device keeps the secret of a keyslot, and gives no other key.",
            remedy: "Give a passphrase or a raw key. A store gets keyslots by `cipherctl key convert --to slots`.")
    }

    /// The key of a printed recovery key, if the secret has that form.
    var recoveryKey: Secret? {
        guard isPassphrase, let key = withBytes({ try? RecoveryKey(reading: $0) })?.key else { return nil }
        return .rawKey(key)
    }

    /// Passes the bytes of the passphrase or key to `body`; the pointer must not outlive the call.
    package func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try bytes.withBytes(body)
    }

    /// The bytes of a raw key in the form that SQLCipher reads, with its salt if one is known.
    package func keyspec(salt: Salt?) -> SecretBytes { bytes.keyspec(salt: salt) }

    /// Whether both are equal, in constant time.
    package func isEqual(to other: Secret) -> Bool {
        isPassphrase == other.isPassphrase && (bytes === other.bytes || bytes.isEqual(to: other.bytes))
    }
}

// The descriptions contain no bytes of the secret, and of a passphrase not even its length.

extension Passphrase: CustomStringConvertible, CustomReflectable {
    public var description: String { "Passphrase(hidden)" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension RawKey: CustomStringConvertible, CustomReflectable {
    public var description: String { "RawKey(32 bytes)" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension Secret: CustomStringConvertible, CustomReflectable {
    package var description: String { "Secret(hidden)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension Secret {
    /// Makes the keys of a sidecar from what it claims: by the derivation of a direct store, or by the first slot that
    /// opens.
    ///
    /// - Returns: The keys, or nil when no slot opens. Nothing is authenticated yet.
    package func unlock(_ claimed: Sidecar) throws -> SidecarKeys? {
        switch claimed.scheme {
        case .direct: .direct(try dataKey(salt: claimed.salt, settings: claimed.settings))
        case .slots(let slotted): try unlock(slotted.table.slots, claimed.storeID)
        }
    }

    private func unlock(_ slots: [Keyslot], _ storeID: StoreID) throws -> SidecarKeys? {
        let keys = try unlock(slots, storeID: storeID, first: OpenedSlots.last(of: storeID))
        if let slot = keys?.openedBy, slot.derivation.isMemoryHard { OpenedSlots.note(slot.id, of: storeID) }
        return keys
    }

    /// The slot that this secret opens in a store that another secret has opened; nil when it opens none.
    ///
    /// A slot with a slow derivation opens by the bytes of one passphrase only. For the slot that is open already the
    /// bytes are therefore compared, and nothing is derived.
    ///
    /// - Parameters:
    ///   - known: The secret that opened the store.
    ///   - opened: The slot that it opened.
    package func openedSlot(of sidecar: Sidecar, knowing known: Secret, opened: Keyslot?) throws -> Keyslot? {
        if isEqual(to: known) { return opened }
        return try openedSlot(of: sidecar, among: sidecar.slots.filter { $0 != opened || !$0.derivation.isMemoryHard })
    }

    /// The slot among those given that this secret opens; nil when it opens none of them.
    package func openedSlot(of sidecar: Sidecar, among slots: [Keyslot]) throws -> Keyslot? {
        try unlock(slots, storeID: sidecar.storeID)?.openedBy
    }

    /// Tries the slots that may fit, in this order: those without a slow derivation, the one that is likely, those of the
    /// source's kind, and the newest first within each group.
    ///
    /// A device is tried on the slots of its kind alone. A raw key is tried on the slots of key files and recovery keys.
    /// A passphrase is tried on all others, but those of devices. When it has
    /// the form of a printed recovery key, it is tried on those slots as well.
    ///
    /// - Parameter first: The number of the slot that is likely.
    private func unlock(_ slots: [Keyslot], storeID: StoreID, first: UInt64? = nil) throws -> SidecarKeys? {
        if let session { return try session.unlock(slots, storeID) }
        guard isPassphrase else { return try firstSlot(of: slots.filter(\.kind.isAlwaysRandom), storeID) }
        if let keys = try recoveryKey?.firstSlot(of: slots.filter { $0.kind == .recovery }, storeID) { return keys }
        let candidates = slots.filter { !$0.kind.isAlwaysRandom && !$0.kind.isToken }.sorted {
            $0.rank(first: first, kind: slotKind) < $1.rank(first: first, kind: slotKind)
        }
        return try firstSlot(of: candidates, storeID)
    }

    /// The first of the slots that the secret opens.
    ///
    /// - Throws: ``StoreError`` `unsupportedLibrary` when none opens and one could not be tried.
    private func firstSlot(of slots: [Keyslot], _ storeID: StoreID) throws -> SidecarKeys? {
        let trials = KeyslotTrials(slots, report: onTrial)
        defer { trials.end() }
        for slot in slots where slot.derivation.isAvailable {
            trials.begin(slot)
            if let master = try slot.open(self, storeID) { return .slots(master, openedBy: slot) }
        }
        if slots.contains(where: { !$0.derivation.isAvailable }) { throw SlotDerivation.missingArgon2id() }
        return nil
    }
}

/// The slot with a slow derivation that opened each store last in this process, by its number: the next opening, as after
/// a rotation, is likely to have the same passphrase. It says nothing of a secret.
private enum OpenedSlots {
    private static let slots = Mutex<[StoreID: UInt64]>([:])

    static func last(of store: StoreID) -> UInt64? { slots.withLock { $0[store] } }

    static func note(_ slot: UInt64, of store: StoreID) {
        slots.withLock { slots in
            if slots.count >= CustodyLimits.rememberedSlots { slots.removeAll() }
            slots[store] = slot
        }
    }
}

extension Keyslot {
    /// Its place among the slots on which a passphrase is tried: the lowest is tried first.
    fileprivate func rank(first: UInt64?, kind source: Keyslot.Kind?) -> Rank {
        Rank(
            isSlow: derivation.isMemoryHard, isLikely: id == first, isOfSource: kind == source, created: created, id: id
        )
    }

    fileprivate struct Rank: Comparable {
        let isSlow: Bool
        let isLikely: Bool
        let isOfSource: Bool
        let created: UInt64
        let id: UInt64

        static func < (one: Rank, other: Rank) -> Bool {
            if one.isSlow != other.isSlow { return !one.isSlow }
            if one.isLikely != other.isLikely { return one.isLikely }
            if one.isOfSource != other.isOfSource { return one.isOfSource }
            return (one.created, one.id) > (other.created, other.id)
        }
    }

    /// The master key, or nil when the secret does not belong to this slot.
    func open(_ secret: Secret, _ storeID: StoreID) throws -> MasterKey? {
        if let session = secret.session { return try session.open(self, storeID) }
        return try master(of: secret.bytes, storeID)
    }

    /// The same for the bytes of a secret.
    func master(of secret: SecretBytes, _ storeID: StoreID) throws -> MasterKey? {
        let wrappingKey = try derivation.wrappingKey(secret: secret, salt: salt)
        return try wrapped.unwrap(with: wrappingKey, context(storeID)).map { MasterKey($0) }
    }
}
