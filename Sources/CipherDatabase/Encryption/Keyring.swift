import Foundation
import KeyCustody
import StoreCrypto
import StorePlatform
import Synchronization

/// The keys of one database file, shared by all connections of a pool: what was derived, what the sidecar says, and
/// the opening lock while it is held.
package final class Keyring: Sendable {
    /// A key in use, with all that a further connection needs. The secret behind it is nil where only the keys of the
    /// sidecar were at hand.
    typealias SettledKey = (secret: Secret?, key: DataKey, salt: Salt, settings: CipherSettings)

    package let paths: StorePaths?
    /// The suspension of every connection to the file.
    package let suspension: DatabaseSuspension
    let isReadonly: Bool
    /// Whether the file cannot change while it is open: a backup, which has one copy of the sidecar, and no WAL.
    let isImmutable: Bool
    /// Whether a sidecar is taken that is older than what the store remembers.
    let acceptsFormerSidecar: Bool
    /// How a store keeps its key that is created with a key source.
    let scheme: KeyScheme
    /// The permissions of files that are created, as they were asked for.
    private let fileMode: Int
    private let onNotice: (@Sendable (String) -> Void)?
    /// The keys of a former opening, used instead of unlocking the sidecar anew.
    let held: HeldKeys?
    let state: Mutex<State>
    /// Kept apart from the state, because it stays locked while a key is derived.
    let derived: Mutex<DerivedKeys>

    struct State {
        var settled: SettledKey?
        var isVerified = false
        var sidecar: Sidecar?
        /// The copies of the sidecar as they were read for the plan; what they say is not proved.
        var copies: SidecarCopies?
        /// What proves and seals the sidecar.
        var keys: SidecarKeys?
        /// A choice between copies of the sidecar that are not the same, to be mended when page 1 has proved the key.
        var unmended: SidecarChoice?
        /// Whether the sidecar was compared with what the store remembers of it.
        var isSidecarCurrent = false
        /// The generation that the store remembers; nil where it remembers none, and before it was looked at.
        var remembered: UInt64?
        var openingLock: HeldLock?
        /// Whether a store was created that the key log has not been told of.
        var hasCreated = false
        var notices: [String] = []
        /// Asked while the opening lock is waited for; true ends the wait.
        var isOvertaken: (@Sendable () -> Bool)?
    }

    /// What a keyring takes over from another one of the same file.
    struct HeldKeys {
        let keys: SidecarKeys
        /// The secret that gave them; compared with what preparing functions give, and for copies of the database.
        let secret: Secret?
        /// The store as it was then.
        let sidecar: Sidecar?
    }

    /// - Parameters:
    ///   - path: The database file, or what ``MemoryPath`` knows as a database without one.
    ///   - keys: Keys of its sidecar that are at hand already; connections are given them by ``KeyProvision/held``.
    ///   - acceptsFormerSidecar: Whether a sidecar is taken that is older than what the store remembers.
    package init(
        path: String, configuration: Configuration, holding keys: SidecarKeys? = nil, acceptsFormerSidecar: Bool = false
    ) {
        paths = MemoryPath.names(path) ? nil : StorePaths(path)
        isReadonly = configuration.readonly
        isImmutable = configuration.readonly && configuration.isImmutable
        self.acceptsFormerSidecar = acceptsFormerSidecar
        scheme = configuration.keyScheme
        fileMode = configuration.fileMode
        onNotice = configuration.onNotice
        suspension = DatabaseSuspension()
        held = keys.map { HeldKeys(keys: $0, secret: nil, sidecar: nil) }
        state = Mutex(State())
        derived = Mutex(DerivedKeys())
        if configuration.observesSuspensionNotifications { SuspensionCenter.shared.add(suspension) }
    }

    private init(after former: Keyring) {
        paths = former.paths
        suspension = former.suspension
        isReadonly = former.isReadonly
        isImmutable = former.isImmutable
        acceptsFormerSidecar = former.acceptsFormerSidecar
        scheme = former.scheme
        fileMode = former.fileMode
        onNotice = former.onNotice
        let (known, notices) = former.state.withLock { state in
            (
                state.keys.map { HeldKeys(keys: $0, secret: state.settled?.secret, sidecar: state.sidecar) },
                state.notices
            )
        }
        held = known ?? former.held
        state = Mutex(State(notices: notices))
        derived = Mutex(DerivedKeys())
    }

    /// A new keyring of the same file with the same suspension, notices and the keys in memory, and nothing else: for
    /// reopening a store whose file was exchanged, without a derivation and without asking its source.
    ///
    /// Its connections are opened with ``KeyProvision/held``. They read the sidecar anew: the master key of a store with
    /// slots opens the data key of whatever epoch it has then, and slots may have come and gone. In a direct store the
    /// former data key is all there is. Where the keys do not fit any more, opening throws `keyRotated`.
    package func successor() -> Keyring { Keyring(after: self) }

    /// Forgets what was found out about a file that lost its name.
    func forgetFile() {
        state.withLock { state in
            state.settled = nil
            state.isVerified = false
            state.sidecar = nil
            state.copies = nil
            state.keys = nil
            state.unmended = nil
            state.isSidecarCurrent = false
            state.remembered = nil
        }
    }

    /// Whether an error judges a file together with a sidecar that is not the store's any more: another store, another
    /// epoch or another salt took its place since it was read.
    ///
    /// What a copy says is not proved here. So a copy counts only if it was not there yet when the keys were planned: one
    /// that lay beside the store before was judged by its seal then.
    func isSuperseded(_ error: any Error) -> Bool {
        guard let paths, let sidecar, let error = error as? StoreError, error.isVerdictOnFile else { return false }
        let copies = SidecarFiles(databasePath: paths.database).read()
        guard copies != state.withLock({ $0.copies }) else { return false }
        let newest = SidecarCopy.allCases.compactMap { copies[$0].parsed?.claimed }
            .max { $0.generation < $1.generation }
        guard let newest else { return false }
        return newest.storeID != sidecar.storeID || newest.epoch != sidecar.epoch || newest.salt != sidecar.salt
    }

    /// Takes down the copies of the sidecar by which the keys are planned.
    func notePlanned(_ copies: SidecarCopies) { state.withLock { $0.copies = copies } }

    /// Whether the sidecar is another one than that by which the keys were planned.
    var hasSidecarChanged: Bool {
        guard let paths, let planned = state.withLock({ $0.copies }) else { return false }
        return SidecarFiles(databasePath: paths.database).read() != planned
    }

    /// Whether a suspension, or whoever asked for the opening, has ended it.
    var isOpeningEnded: Bool { suspension.isSuspended || state.withLock { $0.isOvertaken }?() == true }

    /// Whether a process is alive that rotates the store or changes its keys.
    var isRotating: Bool {
        guard let paths, Files.exists(paths.lock) else { return false }
        let file = try? LockFile(path: paths.lock, likeFile: paths.database, allowsReadOnly: true)
        return (try? file?.isHeld(.admin)) == true
    }

    var isInMemory: Bool { paths == nil }

    /// The key that the first connection settled on.
    var settledKey: SettledKey? {
        get { state.withLock { $0.settled } }
        set { state.withLock { $0.settled = newValue } }
    }

    /// The sidecar as it was last read or written.
    package var sidecar: Sidecar? { state.withLock { $0.sidecar } }

    /// The keys that proved the sidecar; nil until a connection was opened, and where there is no sidecar.
    package var keys: SidecarKeys? { state.withLock { $0.keys } }

    /// Takes in what a change of the keys made of the sidecar.
    package func changeKeys(_ keys: SidecarKeys, _ sidecar: Sidecar) {
        state.withLock { state in
            state.keys = keys
            state.sidecar = sidecar
        }
    }

    /// The data key in use; nil until a connection was opened.
    package var dataKey: DataKey? { settledKey?.key }

    /// What was mended or looked risky so far.
    package var notices: [String] { state.withLock { $0.notices } }

    /// Keeps a notice, and tells it once.
    package func notice(_ text: String) {
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
        let missing = try provideFile(readonly: readonly)
        do {
            let handle = try ConnectionHandle.open(path, readonly: readonly, immutable: isImmutable)
            // SQLite made the file, by the umask.
            if let paths, let missing { try? Files.setPermissions(of: paths.database, missing) }
            return handle
        } catch {
            guard let paths else { throw error }
            throw FileDiagnosis.reasonNotOpened(paths.database, readonly: readonly) ?? error
        }
    }

    /// Makes the file of a new database before SQLite does, which would let the umask decide who may use it; and refuses to
    /// make one in the place of a database that is gone.
    ///
    /// - Returns: The permissions to give to the file that SQLite makes; nil where there is one now.
    private func provideFile(readonly: Bool) throws -> UInt32? {
        guard let paths else { return nil }
        let permissions = try newFilePermissions()
        if let status = try Files.status(of: paths.database), status.kind != .regular || status.byteCount > 0 {
            return nil
        }
        // Other connections of the same pool have the file that was here.
        if settledKey != nil, try Files.kind(paths.database) == nil { throw StoreError.moved(paths.database) }
        if try MissingDatabase.reason(paths) != nil {
            // Another process may be restoring or destroying the store: what counts is what it leaves behind.
            if !readonly { try holdOpeningLock() }
            if let reason = try MissingDatabase.reason(paths) { throw reason }
        }
        guard !readonly, try Files.kind(paths.database) == nil else { return nil }
        // Where it cannot be made SQLite says why, or makes it.
        return Files.makeEmptyUnopened(paths.database, permissions: permissions) ? nil : permissions
    }

    /// - Throws: ``StoreError`` `settingsConflict` for a mode that no store can have.
    private func newFilePermissions() throws(StoreError) -> UInt32 {
        guard Configuration.fileModes.contains(fileMode) else {
            throw StoreError(
                .settingsConflict, what: "fileMode is no mode of a store: \(String(fileMode, radix: 8)).",
                why:
                    "It is 0600, 0640, 0644, 0660 or 0664: the owner reads and writes, nobody executes, and others do not "
                    + "write.",
                remedy: "Set one of these; chmod changes the mode of a store that exists.")
        }
        return UInt32(fileMode)
    }

    /// Runs an opening whose waits for the opening lock end with `CancellationError` when nobody wants it any more.
    package func endingWaits<T>(when isOvertaken: @escaping @Sendable () -> Bool, _ open: () throws -> T) rethrows -> T
    {
        state.withLock { $0.isOvertaken = isOvertaken }
        defer { state.withLock { $0.isOvertaken = nil } }
        return try open()
    }

    /// Takes the opening lock, which excludes every other process that creates, migrates or opens; once is enough.
    ///
    /// - Throws: `StoreError` `storeInUse` at the deadline; `SQLITE_ABORT` when a suspension ended the wait,
    ///   `CancellationError` when it was overtaken (``endingWaits(when:_:)``).
    package func holdOpeningLock(deadline: ContinuousClock.Instant? = nil) throws {
        guard let paths, !isReadonly, state.withLock({ $0.openingLock == nil }) else { return }
        if suspension.isSuspended { throw DatabaseError.suspended() }
        let isOvertaken = state.withLock { $0.isOvertaken }
        let lock: HeldLock
        do {
            let file = try LockFile(path: paths.lock, likeFile: paths.database, permissions: newFilePermissions())
            lock = try file.lock(
                .opening, .exclusive, deadline: deadline ?? .now + Limits.openingWait,
                isCancelled: { [suspension] in suspension.isSuspended || isOvertaken?() == true })
        } catch is CancellationError where suspension.isSuspended {
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
}

extension StoreError {
    /// Whether it says something about the bytes of a file.
    fileprivate var isVerdictOnFile: Bool {
        switch code {
        case .notEncrypted, .headerDamaged, .pageDamaged, .truncated, .emptyFile, .foreignSidecar, .wrongKey: true
        default: false
        }
    }
}
