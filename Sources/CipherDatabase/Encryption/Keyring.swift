import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing
import Synchronization

/// The key of one database file, shared by all connections of a pool: the first of them finds and proves it, the others take
/// it.
package final class Keyring: Sendable {
    /// What opens the file, locks it and reports of it.
    package let opening: FileOpening
    /// Whether a sidecar is taken that is older than what the store remembers.
    private let acceptsFormerSidecar: Bool
    /// How a store keeps its key that is created with a key source.
    private let scheme: KeyScheme
    /// The keys of a former opening, used instead of a secret.
    private let held: HeldKeys?
    private let state = Mutex(State())

    private struct State {
        /// The key that the first connection was given, with the secret behind it; that is nil where only the keys of the
        /// sidecar were at hand.
        var settled: (secret: Secret?, key: PageKey)?
        var isVerified = false
        /// Whether the sidecar was compared with what the store remembers of it.
        var isSidecarCurrent = false
        /// The generation that the store remembers; nil where it remembers none, and before it was looked at.
        var remembered: UInt64?
        /// Whether a store was created that the key log does not tell of yet.
        var hasCreated = false
    }

    /// What a keyring takes over from another one of the same file.
    private struct HeldKeys {
        let keys: SidecarKeys
        /// The secret that gave them; compared with what preparing functions give, and for copies of the database.
        var secret: Secret?
        /// The store as it was then.
        var sidecar: Sidecar?
    }

    /// - Parameters:
    ///   - path: The database file, or what ``MemoryPath`` knows as a database without one.
    ///   - keys: Keys of its sidecar that are at hand already; connections are given them by ``KeyOrigin/held``.
    ///   - acceptsFormerSidecar: Whether a sidecar is taken that is older than what the store remembers.
    package init(
        path: String, configuration: Configuration, holding keys: SidecarKeys? = nil, acceptsFormerSidecar: Bool = false
    ) {
        opening = FileOpening(path: path, configuration: configuration)
        self.acceptsFormerSidecar = acceptsFormerSidecar
        scheme = configuration.keyScheme
        held = keys.map { HeldKeys(keys: $0) }
    }

    private init(after former: Keyring) {
        opening = FileOpening(after: former.opening)
        acceptsFormerSidecar = former.acceptsFormerSidecar
        scheme = former.scheme
        held = former.keys.map { HeldKeys(keys: $0, secret: former.secret, sidecar: former.sidecar) } ?? former.held
    }

    /// A new keyring of the same file with the same suspension, notices and the keys in memory, and nothing else: for
    /// reopening a store whose file was exchanged, without a derivation and without asking its source.
    ///
    /// Its connections are opened with ``KeyOrigin/held``. They read the sidecar anew: the master key of a store with
    /// slots opens the data key of whatever epoch it has then, and slots may have come and gone. In a direct store the
    /// former data key is all there is. Where the keys do not fit any more, opening throws `keyRotated`.
    package func successor() -> Keyring { Keyring(after: self) }

    /// Forgets what was found out about a file that lost its name.
    func forgetFile() {
        state.withLock { $0 = State(hasCreated: $0.hasCreated) }
        vault?.forget()
    }

    package var paths: StorePaths? { opening.paths }
    var isInMemory: Bool { paths == nil }
    var vault: Vault? { opening.vault }

    /// The sidecar as it was last read or written.
    package var sidecar: Sidecar? { vault?.sidecar }

    /// The keys that proved the sidecar; nil until a connection was opened, and where there is no sidecar.
    package var keys: SidecarKeys? { vault?.keys }

    /// Takes in what a change of the keys made of the sidecar.
    package func changeKeys(_ keys: SidecarKeys, _ sidecar: Sidecar) { vault?.accept(sidecar, keys) }

    /// The key that the first connection settled on; nil until then.
    package var pageKey: PageKey? { state.withLock { $0.settled?.key } }

    /// The secret that opened the file, now or in a former opening; nil where only keys are at hand.
    package var secret: Secret? { state.withLock { $0.settled?.secret } ?? held?.secret }

    /// How a copy of the database gets its key: where the keyring holds keys, by the secret that gave them once.
    func provisionOfCopies(_ key: KeyOrigin) -> KeyOrigin {
        guard case .held = key, let secret, let pageKey else { return key }
        return .material(secret, creatingWith: pageKey.settings)
    }

    /// The keys for what a sidecar claims, before there is a connection; nil when the secret opens no slot of it.
    ///
    /// Of a former opening there may be the secret as well: it may open what its keys do not, the slots of a new master key
    /// among it.
    package func keys(of claimed: Sidecar, given origin: KeyOrigin) throws -> SidecarKeys? {
        if case .material(let secret, _) = origin { return try vault?.keys(of: claimed, for: secret) }
        if let secret = held?.secret, let keys = try vault?.keys(of: claimed, for: secret) { return keys }
        return held?.keys
    }

    // MARK: Finding the key

    enum Plan {
        /// The sidecar tells everything.
        case known(PageKey)
        /// Salt and settings are still to be gathered.
        case pending(PendingKey)
    }

    /// Decides how a secret is used: by the sidecar, by the salt in the file, or with a new salt.
    ///
    /// - Parameter settings: For a store that is created when there is none; nil for a database by hand.
    func plan(for secret: Secret, file: ConnectionHandle, creatingWith settings: CipherSettings?) throws -> Plan {
        guard let paths, let vault else { throw keyMissing() }
        if let known = knownKey(of: secret) { return .known(known) }
        let diagnosis = FileDiagnosis(file, path: paths.database)
        var copies = vault.read()
        if try copies.isAnnouncement && diagnosis.mayBeStandard() {
            // An adoption was cut before the store took this file's place. The file is what it was, and the sidecar is
            // that of a store which never came.
            return try planWithoutSidecar(secret, diagnosis, creatingWith: settings)
        }
        let isEmpty = try diagnosis.isEmpty()
        if !opening.isReadonly, copies.areAbsent ? isEmpty : copies.claimed.contains(where: { $0.state == .creating }) {
            // Another process may be creating the store at this moment: what counts is what it leaves behind.
            try opening.lock()
            copies = vault.read()
        }
        do {
            guard let store = try vault.unlock(secret, copies) else {
                return try planWithoutSidecar(secret, diagnosis, creatingWith: settings)
            }
            return .known(try accept(store, diagnosis))
        } catch let error as StoreError {
            // By hand only: a shared store needs the master key.
            guard error.code == .wrongKey, settings == nil, let key = try dataKeyItself(secret, copies, diagnosis)
            else { throw error }
            return .known(key)
        }
    }

    /// What the first connection found out, for the others of the same pool.
    private func knownKey(of secret: Secret) -> PageKey? {
        guard let sidecar, sidecar.state != .creating else { return nil }
        return state.withLock { state in
            guard let settled = state.settled, state.isVerified, settled.secret?.isEqual(to: secret) == true else {
                return nil
            }
            return settled.key
        }
    }

    /// Takes the copy of the sidecar that counts.
    private func accept(_ store: AuthenticatedSidecar, _ diagnosis: FileDiagnosis) throws -> PageKey {
        for note in store.notes where !(opening.isImmutable && note == .missing(.backup)) {
            opening.report(["\(note)."])
        }
        if store.sidecar.state == .switching { throw switching(diagnosis.path) }
        if try diagnosis.isEmpty() {
            if store.sidecar.state != .creating { throw FileDiagnosis.emptyFile(diagnosis.path) }
            if opening.isReadonly { throw FileDiagnosis.notYetCreated(diagnosis.path) }
        }
        vault?.accept(store, mends: !opening.isReadonly)
        return store.pageKey
    }

    private func planWithoutSidecar(
        _ secret: Secret, _ diagnosis: FileDiagnosis, creatingWith settings: CipherSettings?
    ) throws -> Plan {
        guard let vault else { throw keyMissing() }
        switch try diagnosis.kindWithoutSidecar() {
        case .new:
            guard !opening.isReadonly else {
                if settings != nil { throw FileDiagnosis.notYetCreated(diagnosis.path) }
                // Its salt is the affair of whoever writes the first page.
                return .pending(PendingKey(isNewFile: true, salt: nil, saltOrigin: .unknown))
            }
            let salt = try Salt.random()
            guard let settings else {
                return .pending(PendingKey(isNewFile: true, salt: salt, saltOrigin: .generated))
            }
            // The sidecar is made durable, in state `creating`, before the first page exists.
            return scheme == .slots
                ? .known(try vault.create(secret, salt: salt, settings: settings))
                : .known(try recordNew(secret, salt: salt, settings: settings))
        case .standard(let salt):
            // A store always has a plaintext header; a file with its salt inside is for the by-hand form.
            if settings != nil { throw standardFile() }
            return .pending(PendingKey(isNewFile: false, salt: salt, saltOrigin: .file))
        case .plaintextHeader:
            if settings != nil { throw saltMissing() }
            return .pending(PendingKey(isNewFile: false, salt: nil, saltOrigin: .unknown))
        }
    }

    /// The page key when the secret is no slot's, but the data key itself, as `cipherctl key reveal` prints it; nil when it
    /// is not.
    ///
    /// Page 1 is the proof: only the right key under the right salt and settings authenticates it. Of the sidecar, which
    /// nothing else proves here, no other value is used, and it is not written.
    private func dataKeyItself(
        _ secret: Secret, _ copies: SidecarCopies, _ diagnosis: FileDiagnosis
    ) throws -> PageKey? {
        // Behind a rollback journal page 1 proves nothing.
        guard let dataKey = secret.rawDataKey, let paths, try !diagnosis.isEmpty(),
            try Files.byteCount(paths.journal) ?? 0 == 0
        else { return nil }
        for claimed in copies.claimed where claimed.slotted != nil {
            let key = PageKey(dataKey, salt: claimed.salt, settings: claimed.settings)
            do {
                try diagnosis.verifyFirstPage(key, sidecar: nil)
            } catch is StoreError {
                continue
            }
            if !opening.isImmutable { try diagnosis.requireOneName() }
            return key
        }
        return nil
    }

    /// The page key by the sidecar as it is now and the keys of a former opening.
    ///
    /// - Throws: `StoreError` `keyRotated` when they do not fit it any more.
    func keyByHeldKeys(file: ConnectionHandle) throws -> PageKey {
        guard let paths, let vault, let held else { throw keyMissing() }
        let diagnosis = FileDiagnosis(file, path: paths.database)
        let copies = vault.read()
        // The keys are those of a store that an interrupted adoption announced; the file is what it was.
        if try copies.isAnnouncement && diagnosis.mayBeStandard() { throw standardFile() }
        do {
            guard let store = try vault.unlock(holding: held.keys, copies) else { throw saltMissing() }
            return try accept(store, diagnosis)
        } catch let error as StoreError where error.code == .wrongKey {
            guard let former = held.sidecar else { throw error }
            return try keyAfterConversion(copies.newestClaimed, of: former, vault, held.keys)
        }
    }

    /// The page key of a store that was direct and has got slots: its keys are others, its pages are not.
    private func keyAfterConversion(
        _ newest: Sidecar?, of former: Sidecar, _ vault: Vault, _ keys: SidecarKeys
    ) throws -> PageKey {
        guard let newest, newest.storeID == former.storeID, newest.epoch == former.epoch, newest.slotted != nil,
            case .direct(let dataKey) = keys
        else { throw keyRotated(from: former.epoch, to: newest?.epoch ?? former.epoch) }
        // Page 1 proves the key; nothing else of the sidecar is used, or could be authenticated.
        vault.accept(newest, keys)
        return PageKey(dataKey, salt: newest.salt, settings: newest.settings)
    }

    // MARK: Proving and recording it

    /// Takes the key that a connection was given for all others, once header and page 1 have proved it.
    func settle(_ key: PageKey, of secret: Secret?, _ file: ConnectionHandle) throws {
        try verify(file, key)
        state.withLock { $0.settled = (secret, key) }
    }

    private func verify(_ file: ConnectionHandle, _ key: PageKey) throws {
        guard let paths, let vault, !state.withLock({ $0.isVerified }) else { return }
        let diagnosis = FileDiagnosis(file, path: paths.database)
        // A file without a sidecar is not ours yet; its adoption keeps it by a second name for a moment. A file that is never
        // written, as a backup, has no WAL under any of its names.
        if sidecar != nil && !opening.isImmutable { try diagnosis.requireOneName() }
        try diagnosis.verifyFirstPage(key, sidecar: sidecar)
        state.withLock { $0.isVerified = true }
        guard vault.needsMending else { return }
        do {
            try opening.locked { try vault.mend(keyOpensDatabase: file.fileBytes != 0) }
        } catch is CancellationError {
            // The opening is not wanted any more; the next one tries again.
        } catch {
            // The store opens all the same; the next opening tries again.
            opening.report(["the copies of the sidecar could not be made identical: \(error)"])
        }
    }

    /// The page key of a database whose salt and settings were gathered.
    func pageKey(of secret: Secret, salt: Salt, settings: CipherSettings) throws -> PageKey {
        guard let vault else { throw keyMissing() }
        return try vault.pageKey(secret, salt: salt, settings: settings)
    }

    /// Makes salt and settings of a new direct store durable, before its first page exists.
    @discardableResult
    func recordNew(_ secret: Secret, salt: Salt, settings: CipherSettings) throws -> PageKey {
        let key = try pageKey(of: secret, salt: salt, settings: settings)
        if !opening.isReadonly { try vault?.record(key, state: .creating) }
        return key
    }

    /// Keeps the salt of an existing file that had no sidecar. Two processes that find the same file must not write two
    /// sidecars with two store identifiers.
    func recordFound(_ key: PageKey) throws {
        guard !opening.isReadonly else { return }
        try opening.locked { try vault?.recordFound(key) }
    }

    /// Marks the store as created, once page 1 is on disk.
    func recordCreated() throws {
        guard sidecar?.state == .creating else { return }
        try vault?.recordCreated()
        state.withLock { $0.hasCreated = true }
    }

    /// Tells the key log of a creation that a connection of this keyring has completed, once. Where that fails the store
    /// opens all the same, with a notice.
    package func logCreation() {
        let hasCreated = state.withLock { state in
            defer { state.hasCreated = false }
            return state.hasCreated
        }
        guard hasCreated, let paths, let sidecar else { return }
        let scheme: KeyScheme = sidecar.slotted == nil ? .direct : .slots
        let text = KeyLog(databasePath: paths.database).note(.storeCreated(scheme: scheme.rawValue))
        if let text { opening.notice(text) }
    }

    // MARK: What the store remembers of its sidecar

    /// Refuses a sidecar with slots that is older than the one the store remembers; once for all connections.
    ///
    /// - Throws: `StoreError` `sidecarRolledBack`.
    func requireCurrentSidecar(_ db: Database) throws {
        guard let paths, let vault, let sidecar, let keys, !state.withLock({ $0.isSidecarCurrent }) else { return }
        // The data key of a store that was direct proves its pages, and no slots.
        if case .direct = keys, sidecar.slotted != nil { return }
        // The schema is parsed by now, so a store without the table pays for one look into it.
        let remembered =
            db.handle.hasTable(RollbackTable.name, column: "store")
            ? try RollbackTable.rowOfExistingTable(of: sidecar.storeID, in: db) : nil
        // A direct sidecar that is put back opens nothing that its key does not open anyway.
        if let remembered, !acceptsFormerSidecar, sidecar.slotted != nil,
            sidecar.isRolledBack(storeRemembersGeneration: remembered)
        {
            // Another process may have changed the keys since the sidecar was read. The row comes behind both copies of a
            // change, so what is read behind the row is new enough.
            vault.reread()
            let newest = try vault.unlock(holding: keys)?.sidecar ?? sidecar
            try newest.requireCurrent(storeRemembersGeneration: remembered, of: paths.database)
            vault.accept(newest, keys)
        }
        state.withLock { state in
            state.remembered = remembered
            state.isSidecarCurrent = true
        }
    }

    /// The sidecar, where the store remembers an older one and both copies are this one; nil otherwise.
    package var unremembered: Sidecar? {
        guard let sidecar, let vault, let remembered = state.withLock({ $0.remembered }),
            remembered < sidecar.generation
        else { return nil }
        return vault.bothCopies(are: sidecar) ? sidecar : nil
    }

    // MARK: Verdicts on a file that was replaced

    /// Whether an error judges a file together with a sidecar that is not the store's any more: another store, another
    /// epoch or another salt took its place since it was read.
    func isSuperseded(_ error: any Error) -> Bool {
        guard let error = error as? StoreError else { return false }
        return switch error.code {
        case .notEncrypted, .headerDamaged, .pageDamaged, .truncated, .emptyFile, .foreignSidecar, .wrongKey:
            vault?.isSuperseded ?? false
        default: false
        }
    }
}
