import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import Synchronization

/// The keys of one database file, shared by all connections of a pool: what was derived, what the sidecar says, and
/// the opening lock while it is held.
package final class Keyring: Sendable {
    /// A key in use, with all that a further connection needs.
    typealias SettledKey = (box: KeyMaterialBox, key: DataKey, salt: Salt, settings: CipherSettings)

    /// What a connection does with a key that it was given.
    enum Plan {
        /// The sidecar tells everything.
        case known(DataKey, Salt, CipherSettings)
        /// Salt and settings are still to be gathered.
        case pending(PendingKey)
    }

    package let paths: StorePaths?
    /// The suspension of every connection to the file.
    package let suspension: DatabaseSuspension
    let isReadonly: Bool
    private let onNotice: (@Sendable (String) -> Void)?
    private let state: Mutex<State>

    private struct State {
        var derivations: [Derivation] = []
        var settled: SettledKey?
        var isVerified = false
        var sidecar: Sidecar?
        /// A choice between copies of the sidecar that are not the same, to be mended when page 1 has proved the key.
        var unmended: SidecarChoice?
        var openingLock: HeldLock?
        var notices: [String] = []
    }

    private struct Derivation {
        let box: KeyMaterialBox
        let salt: Salt
        let settings: CipherSettings
        let key: DataKey
    }

    /// - Parameter path: The database file, or what ``MemoryPath`` knows as a database without one.
    package init(path: String, configuration: Configuration) {
        paths = MemoryPath.names(path) ? nil : StorePaths(path)
        isReadonly = configuration.readonly
        onNotice = configuration.onNotice
        suspension = DatabaseSuspension()
        state = Mutex(State())
        if configuration.observesSuspensionNotifications { SuspensionCenter.shared.add(suspension) }
    }

    private init(successorOf former: Keyring) {
        paths = former.paths
        isReadonly = former.isReadonly
        onNotice = former.onNotice
        suspension = former.suspension
        state = Mutex(
            former.state.withLock { State(derivations: $0.derivations, notices: $0.notices) })
    }

    /// A keyring for the file that has the name now, after a rotation or a pause: it has the keys in memory, the suspension
    /// and the notices of this one, and looks at sidecar and file anew.
    package func successor() -> Keyring { Keyring(successorOf: self) }

    /// Forgets what was found out about a file that lost its name.
    func forgetFile() {
        state.withLock { state in
            state.settled = nil
            state.isVerified = false
            state.sidecar = nil
            state.unmended = nil
        }
    }

    var isInMemory: Bool { paths == nil }

    /// The key that the first connection settled on.
    var settledKey: SettledKey? {
        get { state.withLock { $0.settled } }
        set { state.withLock { $0.settled = newValue } }
    }

    /// The sidecar as it was last read or written.
    package var sidecar: Sidecar? { state.withLock { $0.sidecar } }

    /// What was mended or looked risky so far.
    package var notices: [String] { state.withLock { $0.notices } }

    func notice(_ text: String) {
        let isNew = state.withLock { state in
            guard !state.notices.contains(text) else { return false }
            state.notices.append(text)
            return true
        }
        if isNew { onNotice?(text) }
    }

    // MARK: Opening

    /// Refuses a path at which no store can be, before a lock file is made beside it.
    package func requirePossiblePlace() throws {
        guard let paths else { return }
        let directory = try Files.kind(Files.directory(of: paths.database))
        guard try Files.kind(paths.database) == .directory || directory != .directory else { return }
        if let reason = FileDiagnosis.reasonNotOpened(paths.database, readonly: isReadonly) { throw reason }
    }

    /// Opens a connection to the file, telling apart what SQLite calls "unable to open".
    func open(_ path: String, readonly: Bool) throws -> ConnectionHandle {
        do {
            return try ConnectionHandle.open(path, readonly: readonly)
        } catch {
            guard let paths else { throw error }
            throw FileDiagnosis.reasonNotOpened(paths.database, readonly: readonly) ?? error
        }
    }

    /// Takes the opening lock, which excludes every other process that creates, migrates or opens; once is enough.
    package func holdOpeningLock(deadline: ContinuousClock.Instant? = nil) throws {
        guard let paths, !isReadonly, state.withLock({ $0.openingLock == nil }) else { return }
        if suspension.isSuspended { throw DatabaseError.suspended() }
        let lock: HeldLock
        do {
            lock = try LockFile(path: paths.lock, likeFile: paths.database).lock(
                .opening, .exclusive, deadline: deadline ?? .now + Limits.openingWait,
                isCancelled: { [suspension] in suspension.isSuspended })
        } catch is CancellationError {
            throw DatabaseError.suspended()
        }
        state.withLock { $0.openingLock = lock }
        CrashPoint.reach(.openingLockTaken)
    }

    package func releaseOpeningLock() {
        guard let paths, let lock = state.withLock({ $0.openingLock.take() }) else { return }
        // The lock file may be older than the database, whose mode, owner and group it is to have.
        try? LockFile.matchAttributes(of: paths.lock, to: paths.database)
        lock.release()
    }

    package var holdsOpeningLock: Bool { state.withLock { $0.openingLock != nil } }

    // MARK: Planning

    /// Decides how a key is used: by the sidecar, by the salt in the file, or with a new salt.
    func plan(for box: KeyMaterialBox, file: ConnectionHandle, creatingWith settings: CipherSettings?) throws -> Plan {
        guard let paths else { throw keyMissing() }
        if let known = knownPlan(for: box) { return known }
        let files = SidecarFiles(databasePath: paths.database)
        var copies = files.read()
        if try copies.announceOnly && FileDiagnosis(file, path: paths.database).mayBeStandard() {
            // An adoption was cut before the store took this file's place. The file is what it was, and the sidecar is
            // that of a store which never came.
            return try planWithoutSidecar(box, file: file, creatingWith: settings)
        }
        let isEmpty = try FileDiagnosis(file, path: paths.database).isEmpty()
        if !isReadonly && (copies.areAbsent ? isEmpty : copies.mayBeCreating) {
            // Another process may be creating the store at this moment: what counts is what it leaves behind.
            try holdOpeningLock()
            copies = files.read()
        }
        let choice = try files.choose(copies) { try self.dataKey(for: box, salt: $0, settings: $1) }
        guard let choice else { return try planWithoutSidecar(box, file: file, creatingWith: settings) }
        for note in choice.notes { notice("\"\(paths.database)\": \(note).") }
        if try FileDiagnosis(file, path: paths.database).isEmpty() {
            if choice.sidecar.state != .creating { throw FileDiagnosis.emptyFile(paths.database) }
            if isReadonly { throw FileDiagnosis.notYetCreated(paths.database) }
        }
        state.withLock { state in
            state.sidecar = choice.sidecar
            state.unmended = choice.notes.isEmpty || isReadonly ? nil : choice
        }
        return .known(choice.dataKey, choice.sidecar.salt, choice.sidecar.settings)
    }

    /// What the first connection found out, for the others of the same pool.
    private func knownPlan(for box: KeyMaterialBox) -> Plan? {
        state.withLock { state in
            guard let settled = state.settled, state.isVerified, let sidecar = state.sidecar,
                sidecar.state != .creating, settled.box.isEqual(to: box)
            else { return nil }
            return .known(settled.key, settled.salt, settled.settings)
        }
    }

    private func planWithoutSidecar(
        _ box: KeyMaterialBox, file: ConnectionHandle, creatingWith settings: CipherSettings?
    ) throws -> Plan {
        guard let paths else { throw keyMissing() }
        switch try FileDiagnosis(file, path: paths.database).kindWithoutSidecar() {
        case .new:
            if isReadonly { throw FileDiagnosis.notYetCreated(paths.database) }
            let salt = try Salt.random()
            guard let settings else {
                return .pending(PendingKey(material: box, isNewFile: true, salt: salt, saltOrigin: .generated))
            }
            let key = try dataKey(for: box, salt: salt, settings: settings)
            try record(salt: salt, settings: settings, key: key, state: .creating)
            return .known(key, salt, settings)
        case .standard(let salt):
            // A store always has a plaintext header; a file with its salt inside is for the by-hand form.
            if settings != nil { throw standardFile() }
            return .pending(PendingKey(material: box, isNewFile: false, salt: salt, saltOrigin: .file))
        case .plaintextHeader:
            if settings != nil { throw saltMissing() }
            return .pending(PendingKey(material: box, isNewFile: false, salt: nil, saltOrigin: .unknown))
        }
    }

    // MARK: Deriving

    /// The data key of a passphrase or raw key; each derivation is done once for all connections.
    func dataKey(for box: KeyMaterialBox, salt: Salt, settings: CipherSettings) throws -> DataKey {
        try state.withLock { state in
            for known in state.derivations
            where known.salt == salt && known.settings.derivesAs(settings) && known.box.isEqual(to: box) {
                return known.key
            }
            // Derived under the lock: a second connection that asks for the same key waits for it.
            let key = try box.material.dataKey(salt: salt, settings: settings)
            state.derivations.append(Derivation(box: box, salt: salt, settings: settings, key: key))
            return key
        }
    }

    /// Takes the opening lock with the key for the salt on record derived already.
    ///
    /// Processes that open a store at the same time derive side by side, and hold the lock only for what must be done
    /// one after another.
    package func holdOpeningLock(derivingAhead box: KeyMaterialBox) throws {
        let deadline = ContinuousClock.now + Limits.openingWait
        while true {
            for sidecar in recordedSidecars() {
                _ = try dataKey(for: box, salt: sidecar.salt, settings: sidecar.settings)
            }
            try holdOpeningLock(deadline: deadline)
            // The store may have been created while this process waited.
            if recordedSidecars().allSatisfy({ hasDerived(box, $0) }) { return }
            releaseOpeningLock()
        }
    }

    private func recordedSidecars() -> [Sidecar] {
        guard let paths else { return [] }
        let copies = SidecarFiles(databasePath: paths.database).read()
        return SidecarCopy.allCases.compactMap { copies[$0].parsed?.claimed }
    }

    private func hasDerived(_ box: KeyMaterialBox, _ sidecar: Sidecar) -> Bool {
        state.withLock { state in
            state.derivations.contains {
                $0.salt == sidecar.salt && $0.settings.derivesAs(sidecar.settings) && $0.box.isEqual(to: box)
            }
        }
    }

    // MARK: Recording

    /// Makes salt and settings durable in both copies of the sidecar.
    func record(salt: Salt, settings: CipherSettings, key: DataKey, state newState: Sidecar.State) throws {
        guard let paths, !isReadonly else { return }
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
        try SidecarFiles(databasePath: paths.database).write(sidecar, dataKey: key)
        state.withLock { $0.sidecar = sidecar }
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
            state.withLock { $0.sidecar = known.sidecar }
        } else {
            try record(salt: salt, settings: settings, key: key, state: .ready)
        }
    }

    /// Marks the store as created, once page 1 is on disk.
    func recordCreated() throws {
        guard let sidecar, sidecar.state == .creating, let settled = settledKey else { return }
        try record(salt: sidecar.salt, settings: sidecar.settings, key: settled.key, state: .ready)
    }

    // MARK: Verifying

    /// Checks header and page 1 of an existing file, once for all connections.
    func verify(_ file: ConnectionHandle, key: DataKey, salt: Salt, settings: CipherSettings) throws {
        guard let paths, !state.withLock({ $0.isVerified }) else { return }
        let diagnosis = FileDiagnosis(file, path: paths.database)
        // A file without a sidecar is not ours yet; its adoption keeps it by a second name for a moment.
        if sidecar != nil { try diagnosis.requireOneName() }
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
            let now = try files.choose(files.read()) { _, _ in choice.dataKey }
            if let now { try files.repair(now, keyOpensDatabase: keyOpensDatabase) }
        } catch {
            // The store opens all the same; the next opening tries again.
            notice("\"\(paths.database)\": the copies of the sidecar could not be made the same: \(error)")
        }
    }
}

extension SidecarCopies {
    /// Whether every copy that can be read says that its store is still to come.
    fileprivate var announceOnly: Bool {
        let sidecars = SidecarCopy.allCases.compactMap { self[$0].parsed?.claimed }
        return !sidecars.isEmpty && sidecars.allSatisfy { $0.state == .creating }
    }

    /// Whether a copy says that the store is still being created.
    fileprivate var mayBeCreating: Bool {
        SidecarCopy.allCases.contains { self[$0].parsed?.claimed.state == .creating }
    }
}

extension CipherSettings {
    /// Whether both derive the same key from the same passphrase and salt.
    fileprivate func derivesAs(_ other: CipherSettings) -> Bool {
        kdfRounds == other.kdfRounds && kdfHash == other.kdfHash
    }
}
