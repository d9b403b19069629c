import CipherDatabase
import Foundation
import KeyCustody
import StoreCrypto
import StorePlatform
import StoreSharing

/// The keys of an open store: its slots are listed, added, changed and removed here, while it stays in use.
///
/// ```swift
/// try store.keys.change(1, to: .prompt("New passphrase: ", confirmation: "Once more: "))
/// let recovery = try store.keys.addRecoveryKey(label: "safe")
/// try recovery.show { FileHandle.standardOutput.write(Data($0)) }
/// ```
///
/// A change takes the time of its key derivations, and a few milliseconds in which no process can open the store.
/// Processes that have it open are not interrupted. When the call returns, the change is durable in both copies of the
/// sidecar. A crash at any instant leaves a store that opens with the former keys or with the new ones.
///
/// From the first change on that removes a key, the store remembers the version of its sidecar in a row of its own
/// (`cipherstore_custody`), and refuses former versions (`sidecarRolledBack`). If that row cannot be written, the
/// change is still made, and a notice reports it. Inside a write access the row is a part of its transaction.
///
/// A change of slots does **not** undo a leak: a person who opened a slot may know the keys in it, and copies of the
/// sidecar open with the slots that they have. After a leak the keys must be rotated.
public struct StoreKeys: Sendable {
    let store: SharedStore

    // MARK: Listing

    /// How the store keeps its key, and which slots open it.
    ///
    /// - Throws: `StoreError`: `wrongKey` when another process has set another master key; the error of reading the
    ///   sidecar.
    public func summary() throws -> Summary { Summary(try administration().sidecar()) }

    /// The slots in the order of their numbers; none in a direct store.
    ///
    /// - Throws: As ``summary()``.
    public func list() throws -> [Slot] { try summary().slots }

    /// Tries a key.
    ///
    /// - Parameter source: Read once.
    /// - Returns: The slot that it opens; nil in a direct store, which has none.
    /// - Throws: `StoreError.wrongKey` when it does not open the store; the error of the source.
    @discardableResult
    public func test(_ source: KeySource) throws -> Slot? {
        try store.requireOpen()
        try store.connections.keeper.requireInPlace()
        let opened = try KeyAdministration.unlock(databasePath: databasePath, with: source.read())
        return opened.keys.openedBy.map(Slot.init)
    }

    /// The key of the pages, with the settings that any SQLCipher 4 needs to open the database.
    ///
    /// A person who has it can read and write the store without any slot, until the data key is rotated. The key log
    /// records that it was revealed.
    /// - Throws: As ``summary()``.
    public func reveal() throws -> RevealedKey {
        let administration = try administration()
        let sidecar = try administration.sidecar()
        guard let key = try administration.keys.dataKey(of: sidecar) else { throw notOpened() }
        administration.record([.keyRevealed])
        return RevealedKey(key: key, sidecar: sidecar)
    }

    // MARK: Changing slots

    /// Adds a slot, so that one more key opens the store.
    ///
    /// - Parameters:
    ///   - source: The source of the new key. It is read once; a prompt with a confirmation asks for both.
    ///   - label: The owner's label for it: up to 64 characters of printable ASCII without `"` and `\`.
    ///   - derivation: How it is derived; nil selects HKDF for random keys and scrypt for all others.
    /// - Returns: The slot with its number.
    /// - Throws: `StoreError`: `slotNotFound` in a direct store, `tooManySlots`, `invalidKey`, `rotationPending`,
    ///   `storeInUse` when another change of keys or an opening takes too long; `CancellationError` when the store is
    ///   suspended meanwhile; the error of the source.
    @discardableResult
    public func add(_ source: KeySource, label: String = "", derivation: Derivation? = nil) throws -> Slot {
        let administration = try administration(changing: true)
        return Slot(try administration.add(newSlot(source, label, derivation)))
    }

    /// Replaces the key of a slot; its number stays. From then on the former key opens no file that the library keeps
    /// next to the store.
    ///
    /// - Parameters:
    ///   - number: The slot.
    ///   - source: The source of the new key. It is read once; a prompt with a confirmation asks for both.
    ///   - label: A new label; the former one stays when it is empty.
    ///   - derivation: How it is derived; nil selects HKDF for random keys and scrypt for all others.
    /// - Throws: As ``add(_:label:derivation:)``; `slotNotFound` when the slot does not exist.
    @discardableResult
    public func change(
        _ number: UInt64, to source: KeySource, label: String = "", derivation: Derivation? = nil
    ) throws -> Slot {
        let administration = try administration(changing: true)
        return Slot(try administration.change(number, to: newSlot(source, label, derivation)))
    }

    /// Changes the label of a slot.
    ///
    /// - Throws: As ``change(_:to:label:derivation:)``.
    public func label(_ number: UInt64, _ label: String) throws {
        try administration(changing: true).label(number, SlotLabel(label))
    }

    /// Removes a slot: from then on its key opens no file that the library keeps next to the store.
    ///
    /// - Throws: `StoreError.lastSlot` when no other slot could be used; as ``change(_:to:label:derivation:)``.
    public func remove(_ number: UInt64) throws { try administration(changing: true).remove(number) }

    /// Generates a random key to print, and adds a slot for it.
    ///
    /// - Returns: The key, whose text can be shown once. If it could not be shown, remove its slot.
    /// - Throws: As ``add(_:label:derivation:)``.
    public func addRecoveryKey(label: String = "") throws -> NewRecoveryKey {
        let administration = try administration(changing: true)
        let key = try RecoveryKey.random()
        let slot = try administration.add(key, label: SlotLabel(label))
        return NewRecoveryKey(slot: Slot(slot), text: key.text())
    }

    // MARK: Changing the scheme

    /// Adds keyslots to a direct store. No page is re-encrypted.
    ///
    /// **The former passphrase still opens the database** with any SQLCipher until the data key is rotated, because the
    /// pages stay encrypted with the key derived from it (``Summary/formerPassphraseOpensPages``).
    /// - Parameters: As ``add(_:label:derivation:)``, for the first slot.
    /// - Throws: `StoreError.settingsConflict` when it has slots already; as ``add(_:label:derivation:)``.
    public func convertToSlots(
        _ source: KeySource, label: String = "", derivation: Derivation? = nil
    ) throws {
        let administration = try administration(changing: true)
        try take(administration.convertToSlots([newSlot(source, label, derivation)]))
    }

    /// Converts a store with slots to a direct one. Its data key stays, so from then on the data key itself opens it,
    /// or the passphrase from which that key was once derived.
    ///
    /// - Parameter source: The source of that key, which is verified before the slots are removed.
    /// - Throws: `StoreError`: `wrongKey` when it is not the key of the pages, `settingsConflict` when the store is direct
    ///   already; as ``change(_:to:label:derivation:)``.
    public func convertToDirect(provedBy source: KeySource) throws {
        let administration = try administration(changing: true)
        try take(administration.convertToDirect(provedBy: source.read()))
    }

    // MARK: Restoring the sidecar

    /// Writes both copies of the sidecar again, from the keys that this open store has in memory, after both files were
    /// lost. Until then no process can open the store. If this process closes the store before that, its keys are lost.
    ///
    /// The slots are those that this process knew last. The version is above all former ones, so that a lost copy that
    /// comes back does not count. The key log records it as an accepted sidecar.
    ///
    /// - Returns: The keys that open the store.
    /// - Throws: `StoreError`: `alreadyExists` where a copy is there, `sidecarRolledBack` where another process has changed
    ///   the keys since, `storeMoved` where the path names another file, `rotationPending`, `storeInUse`,
    ///   `storeClosed`; `SystemError`.
    @discardableResult
    public func restoreSidecar() throws -> Summary {
        let administration = try administration(changing: true)
        guard let accepted = store.fileKey.sidecar, accepted.state == .ready else { throw notOpened() }
        // A write proves that the connections are those of the file at the path, and that the keys are its own.
        let remembered = try store.write { db in try RollbackTable.generation(of: store.storeID, in: db) } ?? 0
        let written = try administration.restore(accepted, remembered: remembered)
        store.fileKey.changeKeys(administration.keys, written)
        try store.remember(written)
        return Summary(written)
    }

    // MARK: Steps

    private var databasePath: String { store.paths.database }

    private func administration(changing: Bool = false) throws -> KeyAdministration {
        try store.requireOpen()
        try store.connections.keeper.requireInPlace()
        if changing && store.configuration.readonly {
            throw DatabaseError(
                resultCode: .SQLITE_READONLY,
                message: "the keys of a store that was opened for reading cannot be changed")
        }
        guard let keys = store.fileKey.keys else { throw notOpened() }
        var administration = KeyAdministration(databasePath: databasePath, keys: keys)
        administration.isCancelled = { [suspension = store.suspension] in suspension.isSuspended }
        // The present file key: the store may reopen its connections meanwhile, with another one.
        let notice: @Sendable (String) -> Void = { [store] in store.fileKey.opening.notice($0) }
        administration.onNotice = notice
        if changing { administration.memory = RollbackGuard(.success(store), onNotice: notice) }
        return administration
    }

    /// Adopts the keys that a change of the scheme has made.
    private func take(_ administration: KeyAdministration) throws {
        let sidecar = try administration.sidecar()
        store.fileKey.changeKeys(administration.keys, sidecar)
        store.connections.keeper.noteScheme(isDirect: sidecar.slotted == nil)
    }

    private func newSlot(_ source: KeySource, _ label: String, _ derivation: Derivation?) throws -> NewSlot {
        // Checked before the key source is read.
        let label = try SlotLabel(label)
        return try NewSlot(source.read(), label: label, derivation: derivation?.slotDerivation)
    }

    private func notOpened() -> StoreError {
        StoreError(
            .wrongKey, what: "The keys of \"\(store.path)\" are not known.",
            why: "The store was opened without the keys of its sidecar.", remedy: "Open it again.")
    }
}

extension SharedStore {
    /// The keys of the store.
    public var keys: StoreKeys { StoreKeys(store: self) }
}

extension StoreKeys {
    /// The result of accepting a sidecar.
    public struct Acceptance: Hashable, Sendable {
        /// The generation of the sidecar that was found.
        public let found: UInt64
        /// The generation that the store remembered; nil where it remembered none.
        public let remembered: UInt64?
        /// The generation of the sidecar now, which the store remembers.
        public let generation: UInt64
        /// The keys that open the store now. Slots that were removed or changed since the sidecar was the newest are
        /// included again.
        public let summary: Summary

        /// Whether the sidecar was older than what the store remembered; otherwise nothing was changed in it.
        public var wasRolledBack: Bool { generation != found }
    }

    /// Accepts a sidecar that was put back to a former generation, which an opening refuses with `sidecarRolledBack`.
    /// For users who did so on purpose, because all newer copies are lost.
    ///
    /// The sidecar is written again, with a generation above the remembered one, and the key log records it. **Keys
    /// that were removed or changed since it was the newest open the store again**: check the slots in the result. A
    /// sidecar that is the newest stays as it is, and is remembered by the store from then on.
    ///
    /// - Parameters:
    ///   - path: The database file.
    ///   - source: A key that the sidecar knows; read once.
    ///   - configuration: As for `SharedStore.open`.
    /// - Throws: As `SharedStore.open`; `StoreError`: `rotationPending`, `storeInUse`; `DatabaseError` where the store could
    ///   not be written. It can be repeated then.
    @discardableResult
    public static func acceptSidecar(
        at path: String, unlockedBy source: KeySource, configuration: Configuration = Configuration()
    ) throws -> Acceptance {
        try OtherUserLink.refuse(path)
        let administration = try KeyAdministration.unlock(databasePath: StorePaths(path).database, with: source.read())
        return try acceptSidecar(at: path, holding: administration.keys, configuration: configuration)
    }

    /// The same, with the keys of the sidecar, which are known already.
    package static func acceptSidecar(
        at path: String, holding keys: SidecarKeys, configuration: Configuration = Configuration(),
        onNotice: (@Sendable (String) -> Void)? = nil
    ) throws -> Acceptance {
        let store = try SharedStore.open(
            at: path, holding: keys, configuration: configuration, acceptsFormerSidecar: true)
        defer { try? store.close() }
        var administration = KeyAdministration(databasePath: StorePaths(path).database, keys: keys)
        administration.onNotice = onNotice ?? configuration.onNotice
        let remembered = try store.rememberedGeneration()
        let found = try administration.sidecar()
        let isRolledBack = remembered.map { found.isRolledBack(storeRemembersGeneration: $0) } ?? false
        let accepted = isRolledBack ? try administration.accept(over: remembered ?? 0) : found
        try store.remember(accepted)
        return Acceptance(
            found: found.generation, remembered: remembered, generation: accepted.generation, summary: Summary(accepted)
        )
    }
}

extension StoreKeys {
    /// One way to open a store. It holds no secret.
    public struct Slot: Hashable, Sendable, Identifiable {
        /// The slot's number, from 1; a number is never used twice.
        public let number: UInt64
        /// The source of its key.
        public let kind: Kind
        /// The owner's label for it; may be empty.
        public let label: String
        /// When its key was set, by the clock of the process that set it.
        public let created: Date
        /// How its key is derived.
        public let derivation: Derivation
        /// The name of the plugin that keeps its key, or a description of the token or machine; nil for other kinds.
        public let device: String?

        public var id: UInt64 { number }

        package init(_ slot: Keyslot) {
            number = slot.id
            kind = Kind(slot.kind)
            label = slot.label.text
            created = Date(timeIntervalSince1970: TimeInterval(slot.created))
            derivation = Derivation(slot.derivation)
            device = slot.token?.name.text
        }
    }

    /// The source of the key of a slot.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// A passphrase that a person remembers, from any source.
        case passphrase
        /// A file of 32 random bytes.
        case keyFile = "key-file"
        /// The output of a program.
        case command
        /// A credential that systemd passes to a service.
        case credential
        /// A random key that was printed and stored.
        case recovery
        /// A plugin keeps it.
        case plugin
        /// A PKCS#11 token keeps it.
        case pkcs11
        /// The TPM of a machine keeps it.
        case tpm2

        init(_ kind: Keyslot.Kind) {
            switch kind {
            case .passphrase: self = .passphrase
            case .keyFile: self = .keyFile
            case .command: self = .command
            case .credential: self = .credential
            case .recovery: self = .recovery
            case .plugin: self = .plugin
            case .pkcs11: self = .pkcs11
            case .tpm2: self = .tpm2
            }
        }
    }

    /// How the key of a slot is derived. Parameters outside the bounds of the format are refused (`invalidKey`).
    public enum Derivation: Hashable, Sendable, CustomStringConvertible {
        /// HKDF alone, for random keys of full strength.
        case hkdf
        /// scrypt (RFC 7914) with N = 2^`log2Rounds`, 14 to 20, r = 8 and p = `lanes`, 1 to 4. It uses 2^`log2Rounds`
        /// KiB of memory.
        case scrypt(log2Rounds: Int, lanes: Int)
        /// Argon2id (RFC 9106). OpenSSL before 3.2 cannot open such a slot.
        case argon2id(memoryKiB: Int, iterations: Int, lanes: Int)

        /// scrypt with 128 MiB of memory, about 300 ms.
        public static let standard = Derivation(.standard)
        /// Argon2id with 64 MiB of memory, three passes and four lanes.
        public static let standardArgon2id = Derivation(.standardArgon2id)

        init(_ derivation: SlotDerivation) {
            switch derivation {
            case .hkdf: self = .hkdf
            case .scrypt(let log2Rounds, _, let lanes): self = .scrypt(log2Rounds: log2Rounds, lanes: lanes)
            case .argon2id(let memoryKiB, let iterations, let lanes):
                self = .argon2id(memoryKiB: memoryKiB, iterations: iterations, lanes: lanes)
            }
        }

        var slotDerivation: SlotDerivation {
            switch self {
            case .hkdf: .hkdf
            case .scrypt(let log2Rounds, let lanes): .scrypt(log2Rounds: log2Rounds, blockSize: 8, lanes: lanes)
            case .argon2id(let memoryKiB, let iterations, let lanes):
                .argon2id(memoryKiB: memoryKiB, iterations: iterations, lanes: lanes)
            }
        }

        public var description: String { slotDerivation.description }
    }

    /// How a store keeps its key, and which slots open it.
    public struct Summary: Hashable, Sendable {
        public let scheme: KeyScheme
        /// The epoch of the data key; 1 at first, incremented by each rotation.
        public let epoch: UInt64
        /// In the order of their numbers; none in a direct store.
        public let slots: [Slot]
        /// When the data key was made, or got its slots; nil in a direct store, which does not record it.
        public let dataKeyCreated: Date?
        /// Whether the store was direct once and still has that key: then **its former passphrase still opens the
        /// database**, without any slot, until the data key is rotated.
        public let formerPassphraseOpensPages: Bool

        package init(_ sidecar: Sidecar) {
            scheme = sidecar.slotted == nil ? .direct : .slots
            epoch = sidecar.epoch
            slots = sidecar.slots.map(Slot.init)
            dataKeyCreated = sidecar.slotted.map { Date(timeIntervalSince1970: TimeInterval($0.dataKey.created)) }
            formerPassphraseOpensPages = sidecar.slotted?.dataKey.origin == .direct
        }
    }
}
