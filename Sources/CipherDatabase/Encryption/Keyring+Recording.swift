import KeyCustody
import StoreCrypto
import StorePlatform

/// The sidecar as connections write it, and the first page that proves it.
extension Keyring {
    /// Makes the sidecar of a new store durable, in state `creating`, before its first page exists.
    ///
    /// - Returns: Its data key.
    func recordNew(_ secret: Secret, salt: Salt, settings: CipherSettings) throws -> DataKey {
        guard scheme == .slots else {
            let key = try dataKey(for: secret, salt: salt, settings: settings)
            try record(salt: salt, settings: settings, key: key, state: .creating)
            return key
        }
        let (sidecar, keys) = try Sidecar.creating(settings: settings, salt: salt, slots: [NewSlot(secret)])
        guard let key = try keys.dataKey(of: sidecar) else { throw keyMissing() }
        // The slot that was just made opens to these keys: no need to derive it once more.
        let opening = keys.opening(sidecar.slots.first)
        derived.withLock { $0.remember(opening, for: secret, of: sidecar.storeID) }
        try write(sidecar, opening)
        return key
    }

    /// Makes salt and settings of a direct store durable in both copies of the sidecar.
    func record(salt: Salt, settings: CipherSettings, key: DataKey, state newState: Sidecar.State) throws {
        var sidecar: Sidecar
        if let known = self.sidecar {
            if known.salt == salt && known.settings == settings && known.state == newState { return }
            sidecar = known.next(newState)
            sidecar.salt = salt
            sidecar.settings = settings
        } else {
            sidecar = try Sidecar.creating(settings: settings, salt: salt)
            sidecar.state = newState
        }
        try write(sidecar, .direct(key))
    }

    private func write(_ sidecar: Sidecar, _ keys: SidecarKeys) throws {
        guard let paths, !isReadonly else { return }
        try SidecarFiles(databasePath: paths.database).write(sidecar, keys: keys)
        changeKeys(keys, sidecar)
    }

    /// Keeps the salt of an existing file that had no sidecar, unless another process has done so meanwhile.
    func recordFound(salt: Salt, settings: CipherSettings, key: DataKey) throws {
        guard let paths, !isReadonly else { return }
        let held = holdsOpeningLock
        // Two processes that find the same file must not write two sidecars with two store identifiers.
        try holdOpeningLock()
        defer { if !held { releaseOpeningLock() } }
        let files = SidecarFiles(databasePath: paths.database)
        if let known = try files.choose(files.read(), deriveKey: { _, _ in key }) {
            changeKeys(known.keys, known.sidecar)
        } else {
            try record(salt: salt, settings: settings, key: key, state: .ready)
        }
    }

    /// Marks the store as created, once page 1 is on disk.
    func recordCreated() throws {
        guard let sidecar, sidecar.state == .creating, let keys else { return }
        try write(sidecar.next(.ready), keys)
        state.withLock { $0.hasCreated = true }
    }

    /// Tells the key log of a creation that a connection of this keyring has completed, once. Where that fails the store
    /// opens all the same, with a notice.
    package func logCreation() {
        let created = state.withLock { state in
            defer { state.hasCreated = false }
            return state.hasCreated ? state.sidecar : nil
        }
        guard let paths, let created else { return }
        let scheme: KeyScheme = created.slotted == nil ? .direct : .slots
        if let text = KeyLog(databasePath: paths.database).note(.storeCreated(scheme: scheme.rawValue)) { notice(text) }
    }

    // MARK: Verifying

    /// Checks header and page 1 of an existing file, once for all connections.
    func verify(_ file: ConnectionHandle, key: DataKey, salt: Salt, settings: CipherSettings) throws {
        guard let paths, !state.withLock({ $0.isVerified }) else { return }
        let diagnosis = FileDiagnosis(file, path: paths.database)
        // A file without a sidecar is not ours yet; its adoption keeps it by a second name for a moment. A file that is never
        // written, as a backup, has no WAL under any of its names.
        if sidecar != nil && !isImmutable { try diagnosis.requireOneName() }
        try diagnosis.verifyFirstPage(key: key, salt: salt, settings: settings, sidecar: sidecar)
        let unmended = state.withLock { state in
            state.isVerified = true
            return state.unmended.take()
        }
        if let unmended { mend(unmended, keyOpensDatabase: file.fileBytes != 0) }
    }

    /// Writes a missing or stale copy of the sidecar anew, now that page 1 has proved the key.
    private func mend(_ choice: SidecarChoice, keyOpensDatabase: Bool) {
        guard let paths else { return }
        let files = SidecarFiles(databasePath: paths.database)
        let held = holdsOpeningLock
        do {
            try holdOpeningLock()
            defer { if !held { releaseOpeningLock() } }
            // Another process may have mended it, or gone on, since it was read.
            let now = try files.choose(files.read()) { _ in choice.keys }
            guard let now else { return }
            try FileOwnership.requireKept(paths.database, what: "They were left as they are.")
            try files.repair(now, keyOpensDatabase: keyOpensDatabase)
        } catch is CancellationError {
            // The opening is not wanted any more; the next one tries again.
        } catch {
            // The store opens all the same; the next opening tries again.
            notice("\"\(paths.database)\": the copies of the sidecar could not be made the same: \(error)")
        }
    }
}

extension SidecarKeys {
    /// The same keys, as a slot gives them.
    fileprivate func opening(_ slot: KeySlot?) -> SidecarKeys {
        switch self {
        case .direct: self
        case .slots(let master, _): .slots(master, openedBy: slot)
        }
    }
}
