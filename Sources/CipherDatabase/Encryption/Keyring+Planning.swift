import KeyCustody
import StoreCrypto
import StorePlatform

/// What a connection does with the key that it was given.
extension Keyring {
    enum Plan {
        /// The sidecar tells everything.
        case known(DataKey, Salt, CipherSettings)
        /// Salt and settings are still to be gathered.
        case pending(PendingKey)
    }

    /// Decides how a key is used: by the sidecar, by the salt in the file, or with a new salt.
    ///
    /// - Parameter settings: For a store that is created when there is none; nil for a database by hand.
    func plan(for secret: Secret, file: ConnectionHandle, creatingWith settings: CipherSettings?) throws -> Plan {
        guard let paths else { throw keyMissing() }
        if let known = knownPlan(for: secret) { return known }
        let files = SidecarFiles(databasePath: paths.database)
        var copies = files.read()
        if try copies.announceOnly && FileDiagnosis(file, path: paths.database).mayBeStandard() {
            // An adoption was cut before the store took this file's place. The file is what it was, and the sidecar is
            // that of a store which never came.
            return try planWithoutSidecar(secret, file: file, creatingWith: settings)
        }
        let isEmpty = try FileDiagnosis(file, path: paths.database).isEmpty()
        if !isReadonly && (copies.areAbsent ? isEmpty : copies.mayBeCreating) {
            // Another process may be creating the store at this moment: what counts is what it leaves behind.
            try holdOpeningLock()
            copies = files.read()
        }
        notePlanned(copies)
        let choice: SidecarChoice
        do {
            guard let found = try files.choose(copies, unlock: { try unlock($0, with: secret) }) else {
                return try planWithoutSidecar(secret, file: file, creatingWith: settings)
            }
            choice = found
        } catch let error as StoreError {
            // By hand only: a shared store needs the master key.
            guard error.code == .wrongKey, settings == nil,
                let (key, salt, settings) = try planWithDataKey(secret, copies, file: file)
            else { throw error }
            return .known(key, salt, settings)
        }
        try take(choice, paths, file)
        return .known(choice.dataKey, choice.sidecar.salt, choice.sidecar.settings)
    }

    /// Takes in which copy of the sidecar counts.
    func take(_ choice: SidecarChoice, _ paths: StorePaths, _ file: ConnectionHandle) throws {
        for note in choice.notes where !(isImmutable && note == .missing(.backup)) {
            notice("\"\(paths.database)\": \(note).")
        }
        if choice.sidecar.state == .switching { throw switching(paths.database) }
        if try FileDiagnosis(file, path: paths.database).isEmpty() {
            if choice.sidecar.state != .creating { throw FileDiagnosis.emptyFile(paths.database) }
            if isReadonly { throw FileDiagnosis.notYetCreated(paths.database) }
        }
        state.withLock { state in
            state.sidecar = choice.sidecar
            state.keys = choice.keys
            state.unmended = choice.notes.isEmpty || isReadonly ? nil : choice
        }
    }

    /// What the first connection found out, for the others of the same pool.
    private func knownPlan(for secret: Secret) -> Plan? {
        state.withLock { state in
            guard let settled = state.settled, state.isVerified, let sidecar = state.sidecar,
                sidecar.state != .creating, settled.secret?.isEqual(to: secret) == true
            else { return nil }
            return .known(settled.key, settled.salt, settled.settings)
        }
    }

    private func planWithoutSidecar(
        _ secret: Secret, file: ConnectionHandle, creatingWith settings: CipherSettings?
    ) throws -> Plan {
        guard let paths else { throw keyMissing() }
        switch try FileDiagnosis(file, path: paths.database).kindWithoutSidecar() {
        case .new:
            guard !isReadonly else {
                if settings != nil { throw FileDiagnosis.notYetCreated(paths.database) }
                // Its salt is the affair of whoever writes the first page.
                return .pending(PendingKey(isNewFile: true, salt: nil, saltOrigin: .unknown))
            }
            let salt = try Salt.random()
            guard let settings else {
                return .pending(PendingKey(isNewFile: true, salt: salt, saltOrigin: .generated))
            }
            return .known(try recordNew(secret, salt: salt, settings: settings), salt, settings)
        case .standard(let salt):
            // A store always has a plaintext header; a file with its salt inside is for the by-hand form.
            if settings != nil { throw standardFile() }
            return .pending(PendingKey(isNewFile: false, salt: salt, saltOrigin: .file))
        case .plaintextHeader:
            if settings != nil { throw saltMissing() }
            return .pending(PendingKey(isNewFile: false, salt: nil, saltOrigin: .unknown))
        }
    }
}

extension SidecarCopies {
    /// Whether every copy that can be read says that its store is still to come.
    var announceOnly: Bool {
        let sidecars = SidecarCopy.allCases.compactMap { self[$0].parsed?.claimed }
        return !sidecars.isEmpty && sidecars.allSatisfy { $0.state == .creating }
    }

    /// Whether a copy says that the store is still being created.
    fileprivate var mayBeCreating: Bool {
        SidecarCopy.allCases.contains { self[$0].parsed?.claimed.state == .creating }
    }
}
