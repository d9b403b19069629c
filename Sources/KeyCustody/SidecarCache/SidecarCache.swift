import StoreCrypto
import StorePlatform
import Synchronization

/// The key material that a store keeps in its sidecar, for the openings of the store: they read, verify, cache, repair and
/// write it here. Changes of keys and rotations use ``SidecarFiles``, which this type uses as well.
///
/// It acquires no lock. A caller that writes must hold the opening lock and say so with ``setGuarded(_:)``. While that
/// lock is held no other process changes the sidecar, so what was read under it is not read again.
package final class SidecarCache: Sendable {
    private let files: SidecarFiles
    private let state = Mutex(State())
    /// Separate from the state, because it stays locked while a key is derived: another request for the same key waits
    /// for it.
    private let derived = Mutex<[(secret: Secret, keys: DerivedKeys)]>([])

    private struct State {
        /// Both copies as they were last read, unverified.
        var copies: SidecarCopies?
        /// Both copies as they were last verified.
        var verified: SidecarCopies?
        var isGuarded = false
        /// The sidecar as it was last accepted or written, and the keys that authenticate and seal it.
        var sidecar: Sidecar?
        var keys: SidecarKeys?
        /// The keys with which differing copies are repaired after page 1 has authenticated them.
        var unrepaired: SidecarKeys?
    }

    package init(databasePath: String) { files = SidecarFiles(databasePath: databasePath) }

    // MARK: Reading

    /// The sidecar as it was last accepted or written; nil before.
    package var sidecar: Sidecar? { state.withLock { $0.sidecar } }

    /// The keys of the accepted sidecar.
    package var keys: SidecarKeys? { state.withLock { $0.keys } }

    /// The accepted sidecar and its keys, of one moment.
    package var accepted: (sidecar: Sidecar, keys: SidecarKeys)? {
        state.withLock { state in
            guard let sidecar = state.sidecar, let keys = state.keys else { return nil }
            return (sidecar, keys)
        }
    }

    /// Both copies, unverified: as they are now, or as they were read first under the opening lock.
    package func read() -> SidecarCopies {
        if let copies = state.withLock({ $0.isGuarded ? $0.copies : nil }) { return copies }
        let copies = files.read()
        state.withLock { $0.copies = copies }
        return copies
    }

    /// Records that the opening lock was acquired, or is about to be released.
    package func setGuarded(_ isGuarded: Bool) {
        state.withLock { state in
            if isGuarded { state.copies = nil }
            state.isGuarded = isGuarded
        }
    }

    /// Makes the next ``read()`` read both files again: a recovery may have written them.
    package func reread() { state.withLock { $0.copies = nil } }

    /// Discards the sidecar and its keys after the database file was replaced. Derived keys stay.
    package func forget() {
        state.withLock { $0 = State(isGuarded: $0.isGuarded) }
    }

    /// Whether the copies differ from those that were last read.
    package var hasChanged: Bool {
        guard let last = state.withLock({ $0.copies }) else { return false }
        return files.read() != last
    }

    /// Whether the accepted sidecar was replaced by one of another store, epoch or salt.
    ///
    /// The claims of a copy are not verified here. Copies are therefore considered only if they differ from those that
    /// were verified last.
    package var isSuperseded: Bool {
        let (sidecar, verified) = state.withLock { ($0.sidecar, $0.verified) }
        guard let sidecar, let verified else { return false }
        let copies = files.read()
        guard copies != verified, let newest = copies.newestClaimed else { return false }
        return newest.storeID != sidecar.storeID || newest.epoch != sidecar.epoch || newest.salt != sidecar.salt
    }

    /// Whether both copies contain this version.
    package func bothCopies(are sidecar: Sidecar) -> Bool {
        let claimed = files.read().claimed
        return claimed.count == SidecarCopy.allCases.count && claimed.allSatisfy { $0 == sidecar }
    }

    // MARK: Unlocking

    /// Opens the keys of the store with a secret. Each key is derived once.
    ///
    /// - Parameter copies: The copies to verify; nil reads them.
    /// - Returns: nil when there is no sidecar.
    /// - Throws: What choosing a sidecar throws (`SidecarFiles.choose`).
    package func unlock(_ secret: Secret, _ copies: SidecarCopies? = nil) throws -> AuthenticatedSidecar? {
        let copies = copies ?? read()
        let store = try withDerivedKeys(of: secret) { derived in
            try files.choose(copies, &derived, unlock: secret.unlock)
        }
        state.withLock { $0.verified = copies }
        return store
    }

    /// Opens the keys of the store with keys that are known already.
    package func unlock(holding keys: SidecarKeys, _ copies: SidecarCopies? = nil) throws -> AuthenticatedSidecar? {
        let copies = copies ?? read()
        let store = try files.choose(copies, unlock: { _ in keys })
        state.withLock { $0.verified = copies }
        return store
    }

    /// Whether unlocking the copies with the secret needs a derivation that was not done yet.
    package func needsDerivation(_ secret: Secret, _ copies: SidecarCopies) -> Bool {
        withDerivedKeys(of: secret) { derived in
            var (trial, isUnderived) = (derived, false)
            _ = try? files.choose(copies, &trial) { _ in
                isUnderived = true
                return nil
            }
            return isUnderived
        }
    }

    /// The keys of what a copy claims, unverified; nil when the secret opens no slot of it.
    package func keys(of claimed: Sidecar, for secret: Secret) throws -> SidecarKeys? {
        try withDerivedKeys(of: secret) { try $0.keys(of: claimed, secret.unlock) }
    }

    /// The page key of a direct store, or of a database without a sidecar.
    package func pageKey(_ secret: Secret, salt: Salt, settings: CipherSettings) throws -> PageKey {
        let key = try withDerivedKeys(of: secret) { try $0.dataKey(of: secret, salt: salt, settings: settings) }
        return PageKey(key, salt: salt, settings: settings)
    }

    private func withDerivedKeys<Result: Sendable>(
        of secret: Secret, _ body: (inout DerivedKeys) throws -> Result
    ) rethrows -> Result {
        try derived.withLock { known in
            var position = known.count
            if let found = known.firstIndex(where: { $0.secret.isEqual(to: secret) }) {
                position = found
            } else {
                known.append((secret, DerivedKeys()))
            }
            return try body(&known[position].keys)
        }
    }

    // MARK: The accepted sidecar

    /// Makes an unlocked sidecar the accepted one.
    ///
    /// - Parameter repairs: Whether differing copies are to be repaired after page 1 has authenticated the keys.
    package func accept(_ store: AuthenticatedSidecar, repairs: Bool) {
        state.withLock { state in
            state.sidecar = store.sidecar
            state.keys = store.keys
            state.unrepaired = store.notes.isEmpty || !repairs ? nil : store.keys
        }
    }

    /// Makes the sidecar that a change of the keys has written the accepted one.
    package func accept(_ sidecar: Sidecar, _ keys: SidecarKeys) {
        state.withLock { state in
            state.sidecar = sidecar
            state.keys = keys
        }
    }

    // MARK: Writing, under the opening lock

    /// Makes the sidecar of a new store with keyslots durable, in state `creating`, before its first page exists.
    ///
    /// - Returns: The key of its pages.
    package func create(_ secret: Secret, salt: Salt, settings: CipherSettings) throws -> PageKey {
        guard !secret.isDevice else { throw Self.deviceAlone(files.databasePath) }
        let (sidecar, made) = try Sidecar.creating(settings: settings, salt: salt, slots: [NewSlot(secret)])
        // The new slot opens to these keys, so they are not derived again.
        let keys = made.opened(by: sidecar.slots.first)
        withDerivedKeys(of: secret) { $0.remember(keys, of: sidecar) }
        guard let dataKey = try keys.dataKey(of: sidecar) else {
            throw StoreError(
                .invalidKey, what: "\"\(files.databasePath)\" was not created.",
                why: "The key that was made for its pages cannot be unwrapped again.", remedy: "Check the machine.")
        }
        try write(sidecar, keys)
        return PageKey(dataKey, salt: salt, settings: settings)
    }

    private static func deviceAlone(_ databasePath: String) -> StoreError {
        StoreError(
            .keyMissing, what: "\"\(databasePath)\" was not created.",
            why: "A device alone would keep its only key: the store would be lost with the device.",
            remedy: "Create the store with a passphrase or key file, add a recovery key, and then add the device.")
    }

    /// Writes salt and settings of a direct store durably to both copies.
    package func record(_ key: PageKey, state newState: Sidecar.State) throws {
        var sidecar: Sidecar
        if let known = self.sidecar {
            if known.salt == key.salt && known.settings == key.settings && known.state == newState { return }
            sidecar = known.next(newState)
            sidecar.salt = key.salt
            sidecar.settings = key.settings
        } else {
            sidecar = try Sidecar.creating(settings: key.settings, salt: key.salt)
            sidecar.state = newState
        }
        try write(sidecar, .direct(key.dataKey))
    }

    /// Records the salt of a file that page 1 authenticated, unless another process has done so meanwhile.
    package func recordFound(_ key: PageKey) throws {
        let keys = SidecarKeys.direct(key.dataKey)
        if let store = try unlock(holding: keys) { return accept(store.sidecar, store.keys) }
        try record(key, state: .ready)
    }

    /// Records that the creation of the store is complete.
    package func recordCreated() throws {
        guard let sidecar, sidecar.state == .creating, let keys else { return }
        try write(sidecar.next(.ready), keys)
    }

    /// Whether the copies were found to differ and were not repaired yet.
    package var needsRepair: Bool { state.withLock { $0.unrepaired != nil } }

    /// Rewrites a missing or stale copy. Another process may have done so, or written a newer version, since the copies
    /// were read.
    ///
    /// - Parameter keyOpensDatabase: Whether page 1 was authenticated.
    package func repair(keyOpensDatabase: Bool) throws {
        guard let keys = state.withLock({ $0.unrepaired.take() }), let now = try unlock(holding: keys) else { return }
        try FileOwnership.requireKept(files.databasePath, what: "They were left as they are.")
        defer { reread() }
        try files.repair(now, keyOpensDatabase: keyOpensDatabase)
    }

    private func write(_ sidecar: Sidecar, _ keys: SidecarKeys) throws {
        defer { reread() }
        try files.write(sidecar, keys: keys)
        accept(sidecar, keys)
    }
}

extension SidecarKeys {
    /// The same keys, marked as opened by a slot.
    fileprivate func opened(by slot: Keyslot?) -> SidecarKeys {
        switch self {
        case .direct: self
        case .slots(let master, _): .slots(master, openedBy: slot)
        }
    }
}

/// The copies that one secret has opened so far. Each key is derived once, and again only when its ingredients differ.
struct DerivedKeys {
    private typealias DirectKeys = (salt: Salt, settings: CipherSettings, keys: SidecarKeys?)

    private var dataKeys: [DirectKeys] = []
    /// A slot that is unchanged in a slot table opens the same master key.
    private var opened: [(storeID: StoreID, slot: Keyslot, keys: SidecarKeys)] = []
    private var refused: [(storeID: StoreID, slots: [Keyslot])] = []

    /// The keys of what a copy of a sidecar claims; nil when the secret opens no slot of it.
    ///
    /// - Parameter unlock: Returns the keys; it is not called twice for the same ingredients.
    mutating func keys(
        of claimed: Sidecar, _ unlock: (Sidecar) throws -> SidecarKeys?
    ) rethrows -> SidecarKeys? {
        guard claimed.slotted != nil else {
            if let known = known(claimed.salt, claimed.settings) { return known.keys }
            let keys = try unlock(claimed)
            dataKeys.append((claimed.salt, claimed.settings, keys))
            return keys
        }
        let known = opened.first { $0.storeID == claimed.storeID && claimed.slots.contains($0.slot) }
        if let known { return known.keys }
        if refused.contains(where: { $0.storeID == claimed.storeID && $0.slots == claimed.slots }) { return nil }
        let keys = try unlock(claimed)
        remember(keys, of: claimed)
        return keys
    }

    /// Remembers which slot the secret opens, or that it opens none.
    mutating func remember(_ keys: SidecarKeys?, of claimed: Sidecar) {
        if let keys, let slot = keys.openedBy { opened.append((claimed.storeID, slot, keys)) }
        if keys == nil { refused.append((claimed.storeID, claimed.slots)) }
    }

    /// The data key of a direct store.
    mutating func dataKey(of secret: Secret, salt: Salt, settings: CipherSettings) throws -> DataKey {
        if case .direct(let key)? = known(salt, settings)?.keys { return key }
        let key = try secret.dataKey(salt: salt, settings: settings)
        dataKeys.append((salt, settings, .direct(key)))
        return key
    }

    private func known(_ salt: Salt, _ settings: CipherSettings) -> DirectKeys? {
        // The other settings do not affect the key.
        dataKeys.first {
            $0.salt == salt && $0.settings.kdfRounds == settings.kdfRounds && $0.settings.kdfHash == settings.kdfHash
        }
    }
}
