import KeyCustody
import StoreCrypto
import StorePlatform

/// From a secret to the keys of the store, each derived once.
extension Keyring {
    /// The data key of a passphrase or raw key in a direct store.
    func dataKey(for secret: Secret, salt: Salt, settings: CipherSettings) throws -> DataKey {
        // Derived under the lock: a second connection that asks for the same key waits for it.
        try derived.withLock { try $0.dataKey(for: secret, salt: salt, settings: settings) }
    }

    /// The keys of what a sidecar claims; nil when the secret opens no slot of it.
    func unlock(_ claimed: Sidecar, with secret: Secret) throws -> SidecarKeys? {
        try derived.withLock { try $0.keys(for: secret, of: claimed) }
    }

    /// Takes the opening lock with the keys for the sidecar on record derived already.
    ///
    /// Processes that open a store at the same time derive side by side, and hold the lock only for what must be done
    /// one after another. Where there is no store yet nothing is derived ahead: the one that comes first makes a slot with
    /// a salt of its own, and the others derive the key of that one.
    package func holdOpeningLock(derivingAhead secret: Secret) throws {
        guard let paths else { return }
        let files = SidecarFiles(databasePath: paths.database)
        let deadline = ContinuousClock.now + Limits.openingWait
        while true {
            let copies = files.read()
            // What is wrong with the sidecar, or with a slot, is told by the opening itself.
            _ = try? files.choose(copies) { try unlock($0, with: secret) }
            try holdOpeningLock(deadline: deadline)
            // The store may have been created, or its keys changed, while this process waited.
            let present = files.read()
            if present == copies || needsNoDerivation(files, present, secret) { return }
            releaseOpeningLock()
        }
    }

    private func needsNoDerivation(_ files: SidecarFiles, _ copies: SidecarCopies, _ secret: Secret) -> Bool {
        var isComplete = true
        _ = try? files.choose(copies) { claimed in
            switch derived.withLock({ $0.known(for: secret, of: claimed) }) {
            case .keys(let keys): return keys
            case .none: return nil
            case .underived:
                isComplete = false
                return nil
            }
        }
        return isComplete
    }

    // MARK: Keys of a former opening

    /// The secret behind the keys of a former opening.
    var heldSecret: Secret? { settledKey?.secret ?? held?.secret }

    /// How a copy of the database gets its key: where the keyring holds keys, by the secret that gave them once.
    func provisionOfCopies(_ key: KeyProvision) -> KeyProvision {
        guard case .held = key, let heldSecret, let settings = settledKey?.settings else { return key }
        return .material(heldSecret, creatingWith: settings)
    }

    /// Key, salt and settings by the sidecar as it is now and the keys of a former opening.
    ///
    /// - Throws: `StoreError` `keyRotated` when they do not fit it any more.
    func planWithHeldKeys(file: ConnectionHandle) throws -> (DataKey, Salt, CipherSettings) {
        guard let paths, let held else { throw keyMissing() }
        let files = SidecarFiles(databasePath: paths.database)
        let copies = files.read()
        // The keys are those of a store that an interrupted adoption announced; the file is what it was.
        if try copies.announceOnly && FileDiagnosis(file, path: paths.database).mayBeStandard() { throw standardFile() }
        notePlanned(copies)
        let choice: SidecarChoice
        do {
            guard let found = try files.choose(copies, unlock: { _ in held.keys }) else { throw saltMissing() }
            choice = found
        } catch let error as StoreError {
            guard error.code == .wrongKey, let former = held.sidecar else { throw error }
            return try planAfterChange(copies, of: former, keys: held.keys)
        }
        try take(choice, paths, file)
        return (choice.dataKey, choice.sidecar.salt, choice.sidecar.settings)
    }

    /// Goes on with the data key of a store that was direct and has got slots; its keys are others, its pages are not.
    private func planAfterChange(
        _ copies: SidecarCopies, of former: Sidecar, keys: SidecarKeys
    ) throws -> (DataKey, Salt, CipherSettings) {
        let newest = SidecarCopy.allCases.compactMap { copies[$0].parsed?.claimed }
            .max { $0.generation < $1.generation }
        guard let newest, newest.storeID == former.storeID, newest.epoch == former.epoch, newest.slotted != nil,
            case .direct(let dataKey) = keys
        else { throw keyRotated(from: former.epoch, to: newest?.epoch ?? former.epoch) }
        // Page 1 proves the key; nothing else of the sidecar is used, or could be authenticated.
        state.withLock { state in
            state.sidecar = newest
            state.keys = keys
        }
        return (dataKey, newest.salt, newest.settings)
    }

    // MARK: The data key itself

    /// Key, salt and settings when the secret is no slot's, but the data key itself, as `cipherctl key reveal` prints it;
    /// nil when it is not.
    ///
    /// Page 1 is the proof: only the right key under the right salt and settings authenticates it. Of the sidecar, which
    /// nothing else proves here, no other value is used, and it is not written.
    func planWithDataKey(
        _ secret: Secret, _ copies: SidecarCopies, file: ConnectionHandle
    ) throws -> (DataKey, Salt, CipherSettings)? {
        guard let paths, let key = secret.rawDataKey else { return nil }
        let diagnosis = FileDiagnosis(file, path: paths.database)
        // Behind a rollback journal page 1 proves nothing.
        guard try !diagnosis.isEmpty(), try Files.byteCount(paths.journal) ?? 0 == 0 else { return nil }
        for copy in SidecarCopy.allCases {
            guard let claimed = copies[copy].parsed?.claimed, claimed.slotted != nil else { continue }
            do {
                try diagnosis.verifyFirstPage(
                    key: key, salt: claimed.salt, settings: claimed.settings, sidecar: nil)
            } catch is StoreError {
                continue
            }
            if !isImmutable { try diagnosis.requireOneName() }
            return (key, claimed.salt, claimed.settings)
        }
        return nil
    }
}
