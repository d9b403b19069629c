import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing
import Synchronization

/// The key of one database file, shared by all connections of a pool: the first of them finds and verifies it, the
/// others use it.
package final class FileKey: Sendable {
    /// Opens and locks the file, and reports notices about it.
    package let opening: FileOpening
    /// Whether a sidecar is accepted that is older than the one that the store has recorded.
    private let acceptsFormerSidecar: Bool
    /// How a store that is created with a key source keeps its key.
    private let scheme: KeyScheme
    /// The keys of a former opening, used instead of a secret.
    private let held: HeldKeys?
    private let state = Mutex(State())

    private struct State {
        /// The key that the first connection was given, and its secret; the secret is nil when only the keys of the
        /// sidecar were known.
        var settled: (secret: Secret?, key: PageKey)?
        var isVerified = false
        /// Whether the generation of the sidecar was compared with the one that the store has recorded.
        var isSidecarCurrent = false
        /// The generation that the store has recorded; nil when it has recorded none, and before it was read.
        var remembered: UInt64?
        /// Whether the store's record of the generation is a row that no version of this library writes.
        var hasInvalidRow = false
        /// Whether the secret no longer opens the file, because all keyslots were removed.
        var isSecretFormer = false
        /// Whether a store was created that is not in the key log yet.
        var hasCreated = false
        /// Whether a connection of this file key has created the store.
        var didCreate = false
        /// Whether the file had no byte when a key was given, so that a salt was generated.
        var hasSeenNewFile = false
        /// The keys that the secret has opened before the first connection, for ``resolve(_:file:creatingWith:)``.
        var unlocked: Unlocked?
    }

    /// The sidecar that a secret has opened, and the copies from which it was chosen.
    private struct Unlocked {
        let secret: Secret
        let copies: SidecarCopies
        let store: AuthenticatedSidecar

        func isOf(_ secret: Secret, _ copies: SidecarCopies) -> Bool {
            self.copies == copies && self.secret.isEqual(to: secret)
        }
    }

    /// The keys that a file key inherits from another one of the same file.
    private struct HeldKeys {
        let keys: SidecarKeys
        /// The secret that opened them. It is compared with keys from preparing functions, and used for copies of the
        /// database.
        var secret: Secret?
        /// The sidecar at that time.
        var sidecar: Sidecar?
    }

    /// - Parameters:
    ///   - path: The database file, or a path that ``MemoryPath`` recognizes as a database without a file.
    ///   - keys: Keys of its sidecar that are known already; connections are given them by ``KeyOrigin/knownKeys``.
    ///   - acceptsFormerSidecar: Whether a sidecar is accepted that is older than the one that the store has recorded.
    package init(
        path: String, configuration: Configuration, holding keys: SidecarKeys? = nil, acceptsFormerSidecar: Bool = false
    ) {
        opening = FileOpening(path: path, configuration: configuration)
        self.acceptsFormerSidecar = acceptsFormerSidecar
        scheme = configuration.keyScheme
        held = keys.map { HeldKeys(keys: $0) }
    }

    private init(after former: FileKey) {
        opening = FileOpening(after: former.opening)
        acceptsFormerSidecar = former.acceptsFormerSidecar
        scheme = former.scheme
        held =
            former.sidecarCache?.accepted.map { HeldKeys(keys: $0.keys, secret: former.secret, sidecar: $0.sidecar) }
            ?? former.held
    }

    /// A new file key of the same file with the same suspension, notices and keys, and nothing else. It is for reopening
    /// a store whose file was replaced, without a derivation and without reading its key source.
    ///
    /// Its connections are opened with ``KeyOrigin/knownKeys``. They read the sidecar again. The master key of a store with
    /// slots opens the data key of any later epoch, even if slots were added or removed, until a rotation renews the
    /// master key. A direct store has only the former data key. If the keys do not fit then, opening throws
    /// `keyRotated`.
    package func successor() -> FileKey { FileKey(after: self) }

    /// Discards the results of verifying a file that lost its name.
    func forgetFile() {
        state.withLock { $0 = State(isSecretFormer: $0.isSecretFormer, hasCreated: $0.hasCreated) }
        sidecarCache?.forget()
    }

    package var paths: StorePaths? { opening.paths }
    var isInMemory: Bool { paths == nil }
    package var sidecarCache: SidecarCache? { opening.sidecarCache }

    /// The sidecar as it was last read or written.
    package var sidecar: Sidecar? { sidecarCache?.sidecar }

    /// The keys that authenticated the sidecar; nil until a connection was opened, and when there is no sidecar.
    package var keys: SidecarKeys? { sidecarCache?.keys }

    /// Stores the keys and the sidecar after a change of the keys.
    package func changeKeys(_ keys: SidecarKeys, _ sidecar: Sidecar) {
        // A passphrase of a keyslot is not the one from which a direct store derives its key.
        let becomesDirect = self.sidecar?.slotted != nil && sidecar.slotted == nil
        if becomesDirect { state.withLock { $0.isSecretFormer = true } }
        sidecarCache?.accept(sidecar, keys)
    }

    /// The settled key of the first connection; nil until then.
    package var pageKey: PageKey? { state.withLock { $0.settled?.key } }

    /// The secret that opened the file, now or in a former opening; nil when only keys are known.
    package var secret: Secret? {
        state.withLock { $0.isSecretFormer ? nil : $0.settled?.secret ?? held?.secret }
    }

    /// The origin of the key of a copy of the database: when the file key has only keys, the secret that opened them.
    ///
    /// - Throws: `StoreError` `wrongKey` when that secret was changed or removed since: it would open the copy alone.
    func originOfCopies(_ key: KeyOrigin) throws -> KeyOrigin {
        let isFormer = state.withLock { $0.isSecretFormer }
        // The accepted sidecar may be older than a change of the keys.
        if sidecar != nil, let newest = sidecarCache?.read().newestClaimed,
            isFormer || (newest.slotted != nil && secret != nil)
        {
            guard !isFormer, let secret, try sidecarCache?.keys(of: newest, for: secret) != nil else {
                throw StoreError(
                    .wrongKey, what: "The database was not copied.",
                    why: "The key with which it was opened was changed or removed since, and the copy would have "
                        + "that key.",
                    remedy: "Open it again with a key that is valid, and copy it then.")
            }
        }
        guard case .knownKeys = key, let secret, let pageKey else { return key }
        return .secret(secret, creatingWith: pageKey.settings)
    }

    /// The keys for what a sidecar claims, before there is a connection; nil when the secret opens no slot of it.
    ///
    /// The secret of a former opening is tried before its keys. It may open what those do not, such as the slots of a
    /// new master key.
    package func keys(of claimed: Sidecar, given origin: KeyOrigin) throws -> SidecarKeys? {
        if case .secret(let secret, _) = origin { return try sidecarCache?.keys(of: claimed, for: secret) }
        if let secret = held?.secret, let keys = try sidecarCache?.keys(of: claimed, for: secret) { return keys }
        return held?.keys
    }

    // MARK: Finding the key

    /// Opens the sidecar with a secret, then acquires the opening lock. The first connection that is given the secret
    /// uses what it has opened.
    ///
    /// Processes that open a store at the same time derive in parallel, and hold the lock only for the steps that must
    /// be done one after another. If no store exists yet, nothing is derived in advance: the first process makes a slot
    /// with a new salt, and the others derive the key of that slot.
    package func lock(unlocking secret: Secret) throws {
        guard let sidecarCache, !opening.isReadonly, !opening.isLocked else { return }
        let deadline = ContinuousClock.now + DatabaseLimits.openingWait
        while true {
            let copies = sidecarCache.read()
            // An error in the sidecar or in a slot is reported by the connection, which meets it again.
            let unlocked = (try? sidecarCache.unlock(secret, copies)).map {
                Unlocked(secret: secret, copies: copies, store: $0)
            }
            try opening.lock(deadline: deadline)
            // The store may have been created, or its keys changed, during the wait.
            let present = sidecarCache.read()
            if present == copies || !sidecarCache.needsDerivation(secret, present) {
                return state.withLock { $0.unlocked = unlocked }
            }
            opening.release()
        }
    }

    /// Opens the sidecar with a secret, unless ``lock(unlocking:)`` has opened these copies with it.
    private func unlock(_ secret: Secret, _ copies: SidecarCopies, _ sidecarCache: SidecarCache) throws
        -> AuthenticatedSidecar?
    {
        if let unlocked = state.withLock({ $0.unlocked.take() }), unlocked.isOf(secret, copies) {
            return unlocked.store
        }
        return try sidecarCache.unlock(secret, copies)
    }

    enum Resolution {
        /// The sidecar contains salt and settings.
        case known(PageKey)
        /// Salt and settings are still to be collected.
        case pending(PendingCipherSettings)
    }

    /// Decides how a secret is used: with the sidecar, with the salt in the file, or with a new salt.
    ///
    /// - Parameter settings: The settings of a store that is created if none exists; nil without SharedStore.
    func resolve(_ secret: Secret, file: ConnectionHandle, creatingWith settings: CipherSettings?) throws -> Resolution
    {
        guard let paths, let sidecarCache else { throw keyMissing() }
        if let known = knownKey(of: secret) { return .known(known) }
        let diagnosis = FileDiagnosis(file, path: paths.database)
        var copies = sidecarCache.read()
        if try copies.isAnnouncement && diagnosis.mayBeStandard() {
            // An adoption was interrupted before the store replaced this file. The file is unchanged, and the sidecar
            // is that of a store that was never completed.
            return try resolveWithoutSidecar(secret, diagnosis, creatingWith: settings)
        }
        let isEmpty = try diagnosis.isEmpty()
        if !opening.isReadonly, copies.areAbsent ? isEmpty : copies.claimed.contains(where: { $0.state == .creating }) {
            // Another process may be creating the store at this moment: its result is read after it has ended.
            try opening.lock()
            copies = sidecarCache.read()
        }
        do {
            guard let store = try unlock(secret, copies, sidecarCache) else {
                return try resolveWithoutSidecar(secret, diagnosis, creatingWith: settings)
            }
            return .known(try accept(store, diagnosis))
        } catch let error as StoreError {
            // Only without SharedStore: a shared store needs the master key.
            guard error.code == .wrongKey, settings == nil, let key = try dataKeyItself(secret, copies, diagnosis)
            else { throw error }
            return .known(key)
        }
    }

    /// The key that the first connection has verified, for the others of the same pool.
    private func knownKey(of secret: Secret) -> PageKey? {
        guard let sidecar, sidecar.state != .creating else { return nil }
        return state.withLock { state in
            guard let settled = state.settled, state.isVerified, settled.secret?.isEqual(to: secret) == true else {
                return nil
            }
            return settled.key
        }
    }

    /// Accepts the valid copy of the sidecar.
    private func accept(_ store: AuthenticatedSidecar, _ diagnosis: FileDiagnosis) throws -> PageKey {
        for note in store.notes where !(opening.isImmutable && note == .missing(.backup)) {
            opening.report(["\(note)."])
        }
        if store.sidecar.state == .switching { throw switching(diagnosis.path) }
        if try diagnosis.isEmpty() {
            if store.sidecar.state != .creating { throw FileDiagnosis.emptyFile(diagnosis.path) }
            if opening.isReadonly { throw FileDiagnosis.notYetCreated(diagnosis.path) }
        }
        sidecarCache?.accept(store, repairs: !opening.isReadonly)
        return store.pageKey
    }

    private func resolveWithoutSidecar(
        _ secret: Secret, _ diagnosis: FileDiagnosis, creatingWith settings: CipherSettings?
    ) throws -> Resolution {
        guard let sidecarCache else { throw keyMissing() }
        switch try diagnosis.kindWithoutSidecar() {
        case .new:
            guard !opening.isReadonly else {
                if settings != nil { throw FileDiagnosis.notYetCreated(diagnosis.path) }
                // The connection that writes the first page chooses its salt.
                return .pending(PendingCipherSettings(isNewFile: true, salt: nil, saltOrigin: .unknown))
            }
            let salt = try Salt.random()
            guard let settings else {
                state.withLock { $0.hasSeenNewFile = true }
                return .pending(PendingCipherSettings(isNewFile: true, salt: salt, saltOrigin: .generated))
            }
            try StorePaths(diagnosis.path).requireNoRemains()
            // The sidecar is made durable, in state `creating`, before the first page exists.
            return scheme == .slots
                ? .known(try sidecarCache.create(secret, salt: salt, settings: settings))
                : .known(try recordNew(secret, salt: salt, settings: settings))
        case .standard(let salt):
            // A store always has a plaintext header; a file that contains its salt can only be opened without
            // SharedStore.
            if settings != nil { throw standardFile() }
            return .pending(PendingCipherSettings(isNewFile: false, salt: salt, saltOrigin: .file))
        case .plaintextHeader:
            if settings != nil {
                // A second name of a store has no sidecar beside it.
                try diagnosis.requireOneName()
                throw saltMissing()
            }
            return .pending(PendingCipherSettings(isNewFile: false, salt: nil, saltOrigin: .unknown))
        }
    }

    /// The page key when the secret belongs to no slot but is the data key itself, as `cipherctl key reveal` prints it;
    /// nil otherwise.
    ///
    /// Page 1 proves it: only the right key with the right salt and settings authenticates that page. Nothing else
    /// authenticates the sidecar here. Therefore no other value of it is used, and it is not written.
    private func dataKeyItself(
        _ secret: Secret, _ copies: SidecarCopies, _ diagnosis: FileDiagnosis
    ) throws -> PageKey? {
        // A page 1 that a rollback journal will restore proves nothing.
        guard let dataKey = secret.rawDataKey, paths != nil, try !diagnosis.isEmpty(), try !diagnosis.mayBePlayedBack()
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

    /// The page key from the present sidecar and the keys of a former opening.
    ///
    /// - Throws: `StoreError` `keyRotated` if they do not fit it then.
    func keyByHeldKeys(file: ConnectionHandle) throws -> PageKey {
        guard let paths, let sidecarCache, let held else { throw keyMissing() }
        let diagnosis = FileDiagnosis(file, path: paths.database)
        let copies = sidecarCache.read()
        // The keys are those of a store that an interrupted adoption announced; the file is what it was.
        if try copies.isAnnouncement && diagnosis.mayBeStandard() { throw standardFile() }
        do {
            guard let store = try sidecarCache.unlock(holding: held.keys, copies) else {
                return try keyWithoutSidecar(held, sidecarCache)
            }
            return try accept(store, diagnosis)
        } catch let error as StoreError where error.code == .wrongKey {
            guard let former = held.sidecar else { throw error }
            return try keyAfterConversion(copies.newestClaimed, of: former, sidecarCache, held.keys)
        }
    }

    /// The page key of a store that lost both copies of its sidecar while this process had its keys. Page 1 proves it.
    private func keyWithoutSidecar(_ held: HeldKeys, _ sidecarCache: SidecarCache) throws -> PageKey {
        guard let former = held.sidecar, former.state == .ready, let dataKey = try held.keys.dataKey(of: former) else {
            throw saltMissing()
        }
        sidecarCache.accept(former, held.keys)
        opening.report([
            "both copies of its sidecar are gone, and this process has the keys in memory. Call `store.keys.restoreSidecar()` "
                + "before it closes the store"
        ])
        return PageKey(dataKey, salt: former.salt, settings: former.settings)
    }

    /// The page key of a store that was converted from direct to slots: its sidecar keys have changed, its page key has
    /// not.
    private func keyAfterConversion(
        _ newest: Sidecar?, of former: Sidecar, _ sidecarCache: SidecarCache, _ keys: SidecarKeys
    ) throws -> PageKey {
        guard let newest, newest.storeID == former.storeID, newest.epoch == former.epoch, newest.slotted != nil,
            case .direct(let dataKey) = keys
        else { throw StoreError.hasOtherKey(name, from: former.epoch, to: newest?.epoch ?? former.epoch) }
        // Page 1 proves the key; nothing else of the sidecar is used, or could be authenticated.
        sidecarCache.accept(newest, keys)
        return PageKey(dataKey, salt: newest.salt, settings: newest.settings)
    }

    // MARK: Verifying and recording the key

    /// Makes the key of a connection the one of all connections, after the header and page 1 were verified.
    func confirm(_ key: PageKey, of secret: Secret?, _ file: ConnectionHandle) throws {
        try verify(file, key)
        state.withLock { $0.settled = (secret, key) }
    }

    /// Whether page 1 has proved this key: a connection may have been given another one.
    private func isVerified(_ key: PageKey) -> Bool {
        state.withLock { state in
            state.isVerified && state.settled.map { $0.key.dataKey.isEqual(to: key.dataKey) } ?? true
        }
    }

    private func verify(_ file: ConnectionHandle, _ key: PageKey) throws {
        guard let paths, let sidecarCache, !isVerified(key) else { return }
        let diagnosis = FileDiagnosis(file, path: paths.database)
        // A file without a sidecar is not a store yet; during its adoption it has a second name for a moment. A file
        // that is never written, such as a backup, has no WAL under any of its names.
        if sidecar != nil && !opening.isImmutable { try diagnosis.requireOneName() }
        try diagnosis.verifyFirstPage(key, sidecar: sidecar)
        state.withLock { $0.isVerified = true }
        guard sidecarCache.needsRepair else { return }
        do {
            try opening.locked(deadline: .now) { try sidecarCache.repair(keyOpensDatabase: file.fileBytes != 0) }
        } catch let error as StoreError where error.code == .storeInUse {
            // Another process opens, changes or rotates the store. It or the next opening does the same.
        } catch is CancellationError {
            // The opening is no longer needed; the next one tries again.
        } catch is DatabaseError where opening.suspension.isSuspended {
            opening.report(["its sidecar has one good copy. The next opening of the store writes the other one"])
        } catch {
            // The store opens nevertheless; the next opening tries again.
            opening.report(["the copies of the sidecar could not be made identical: \(error)"])
        }
    }

    /// The page key of a database whose salt and settings were collected.
    func pageKey(of secret: Secret, salt: Salt, settings: CipherSettings) throws -> PageKey {
        guard let sidecarCache else { throw keyMissing() }
        return try sidecarCache.pageKey(secret, salt: salt, settings: settings)
    }

    /// Makes salt and settings of a new direct store durable, before its first page exists.
    @discardableResult
    func recordNew(_ secret: Secret, salt: Salt, settings: CipherSettings) throws -> PageKey {
        let key = try pageKey(of: secret, salt: salt, settings: settings)
        if !opening.isReadonly { try sidecarCache?.record(key, state: .creating) }
        return key
    }

    /// Records the salt of an existing file that had no sidecar. Two processes that find the same file must not write
    /// two sidecars with two store identifiers.
    func recordFound(_ key: PageKey) throws {
        guard !opening.isReadonly else { return }
        try opening.locked { try sidecarCache?.recordFound(key) }
    }

    /// Records that the store is created, once page 1 is on disk.
    func recordCreated() throws {
        guard sidecar?.state == .creating else { return }
        try sidecarCache?.recordCreated()
        state.withLock { $0.hasCreated = true }
    }

    /// Whether a connection of this file key has created the store, as ``logCreation()`` has found.
    var hasSeenNewFile: Bool { state.withLock { $0.hasSeenNewFile } }

    package var hasCreatedStore: Bool { state.withLock { $0.didCreate } }

    /// Records in the key log, once, a creation that a connection of this file key has completed. If that fails, the
    /// store opens nevertheless, with a notice.
    package func logCreation() {
        let hasCreated = state.withLock { state in
            defer { state.hasCreated = false }
            if state.hasCreated { state.didCreate = true }
            return state.hasCreated
        }
        guard hasCreated, let paths, let sidecar else { return }
        let scheme: KeyScheme = sidecar.slotted == nil ? .direct : .slots
        let text = KeyLog(databasePath: paths.database).note(
            .storeCreated(scheme: scheme.rawValue, store: sidecar.storeID))
        if let text { opening.notice(text) }
    }

    // MARK: The recorded generation of the sidecar

    /// Refuses a sidecar with slots that is older than the one that the store has recorded; once for all connections.
    ///
    /// - Throws: `StoreError` `sidecarRolledBack`.
    func requireCurrentSidecar(_ db: Database) throws {
        guard let paths, let sidecarCache, let sidecar, let keys, !state.withLock({ $0.isSidecarCurrent }) else {
            return
        }
        // The data key of a store that was direct proves its pages, but not its slots.
        if case .direct = keys, sidecar.slotted != nil { return }
        // The schema is parsed by now, so a store without the table only costs a look-up in it.
        let remembered =
            db.handle.hasTable(RollbackTable.name, column: "store")
            ? try RollbackTable.rowOfExistingTable(of: sidecar.storeID, in: db) : nil
        let hasInvalidRow =
            try remembered == nil && db.handle.hasTable(RollbackTable.name, column: "store")
            && RollbackTable.isRowInvalid(of: sidecar.storeID, in: db)
        // A direct sidecar that was restored opens nothing that its key does not open anyway.
        if let remembered, !acceptsFormerSidecar, sidecar.slotted != nil,
            sidecar.isRolledBack(storeRemembersGeneration: remembered)
        {
            // Another process may have changed the keys since the sidecar was read. A change writes the row after both
            // copies, so copies that are read after the row are new enough.
            sidecarCache.reread()
            let newest = try sidecarCache.unlock(holding: keys)?.sidecar ?? sidecar
            try newest.requireCurrent(storeRemembersGeneration: remembered, of: paths.database)
            sidecarCache.accept(newest, keys)
        }
        state.withLock { state in
            state.remembered = remembered
            state.hasInvalidRow = hasInvalidRow
            state.isSidecarCurrent = true
        }
    }

    /// The sidecar, if the store has recorded an older one and both copies contain this one; nil otherwise.
    package var unremembered: Sidecar? {
        guard let sidecar, let sidecarCache else { return nil }
        let (remembered, hasInvalidRow) = state.withLock { ($0.remembered, $0.hasInvalidRow) }
        let generation = min(sidecar.generation, UInt64(RollbackTable.generations.upperBound))
        guard hasInvalidRow || remembered.map({ $0 < generation }) == true else { return nil }
        return sidecarCache.bothCopies(are: sidecar) ? sidecar : nil
    }

    /// Whether the store has a row for the generation that has no valid content, so that no sidecar could be compared.
    package var hasInvalidGeneration: Bool { state.withLock { $0.hasInvalidRow } }

    // MARK: Errors of a file that was replaced

    /// Whether an error was found with a sidecar that no longer belongs to the store: a sidecar of another store, epoch
    /// or salt has replaced it since it was read.
    func isSuperseded(_ error: any Error) -> Bool {
        guard let error = error as? StoreError else { return false }
        return switch error.code {
        case .notEncrypted, .headerDamaged, .pageDamaged, .truncated, .emptyFile, .foreignSidecar, .wrongKey:
            sidecarCache?.isSuperseded ?? false
        default: false
        }
    }
}

// Missing or contradictory keys and settings, as errors.

extension FileKey {
    private var name: String { "\"\(paths?.database ?? ":memory:")\"" }

    func keyMissing() -> StoreError {
        StoreError(
            .keyMissing,
            what: "No key was given for \(name).",
            why: "A database file without a key would be written in readable form.",
            remedy: "Call usePassphrase or useRawKey first in Configuration.prepareDatabase, or open it as a "
                + "SharedStore with a key source; set allowsUnencrypted = true if it is meant to be readable."
        )
    }

    func saltMissing() -> StoreError {
        if let interrupted = paths.flatMap({ InterruptedRestoration.error(.saltMissing, $0) }) { return interrupted }
        return StoreError(
            .saltMissing,
            what: "The salt of \(name) is not known.",
            why:
                "The file has a plaintext header, so it does not hold its salt, and neither \"\(paths?.sidecar ?? "")\" "
                + "nor its .bak is there.",
            remedy: "Restore the sidecar from a backup. A program can also set the salt with PRAGMA cipher_salt after "
                + "the key. Without the salt a passphrase cannot open the file."
        )
    }

    func standardFile() -> StoreError {
        StoreError(
            .settingsConflict,
            what: "\(name) has no plaintext header, as every store has.",
            why: "It looks like a standard SQLCipher file, whose first 16 bytes are its salt.",
            remedy:
                "Convert it to a store with `cipherctl adopt` (SQLCipher 1 to 3 with --compatibility). A program can "
                + "open it as it is, without PRAGMA cipher_plaintext_header_size in prepareDatabase."
        )
    }

    func settingsConflict(_ why: String) -> StoreError {
        StoreError(
            .settingsConflict,
            what: "The requested cipher settings do not match \(name).",
            why: why + ".",
            remedy:
                "Omit the settings: the recorded ones are used. For a new file set them directly after the key, before "
                + "any statement that uses it."
        )
    }

    func switching(_ path: String) -> StoreError {
        StoreError(
            .rotationPending,
            what: "\"\(path)\" cannot be opened at this moment.",
            why: "A rotation of its data key is replacing the file, or was interrupted while it did.",
            remedy:
                "Try again. If the error persists, open the store once for writing with `cipherctl sql --write` "
                + "(SharedStore.open in a program): that completes the rotation.")
    }
}
