import CipherDatabase
import KeyCustody
import StorePlatform
import StoreSharing
import Synchronization

/// The lease of an open store through suspensions and switches to new keys: it is released and acquired again, and the
/// store is compared with its former state.
final class LeaseKeeper: Sendable {
    let paths: StorePaths
    private let isReadonly: Bool
    /// Whether no lease is used: a backup is read without one.
    private let isImmutable: Bool
    private let label: String
    private let state: Mutex<State>

    private struct State {
        var lease: Lease?
        var identity: StoreIdentity
        /// The file that is open, or was open last.
        var file: FileIdentity?
    }

    init(_ configuration: Configuration, paths: StorePaths, identity: StoreIdentity, lease: Lease?) throws {
        self.paths = paths
        label = configuration.holderLabel
        isReadonly = configuration.readonly
        isImmutable = configuration.isImmutable
        state = Mutex(State(lease: lease, identity: identity, file: try Files.identity(paths.database)))
    }

    /// The identity of the store when it was last opened.
    var identity: StoreIdentity { state.withLock { $0.identity } }

    /// Whether the lease is held.
    var isHeld: Bool { state.withLock { $0.lease != nil } }

    /// Removes the lease from the keeper; the caller releases it.
    func detach() -> Lease? { state.withLock { $0.lease.take() } }

    func releaseNow() { detach()?.release() }

    /// Acquires the lease again, unless it is held.
    ///
    /// - Parameter wait: Whether to wait for a switch to a new key to end.
    /// - Throws: As ``verify()``; `storeInUse` while the lease is not available, `CancellationError` when the wait is
    ///   no longer needed.
    func retake(_ wait: DatabaseSuspension.Wait) throws {
        if isHeld { return }
        let taken = try take(label: label, wait)
        let former = state.withLock { state in
            defer { state.lease = taken }
            return state.lease
        }
        former?.release()
    }

    /// Acquires a lease for one access only.
    func takeForAccess(_ wait: DatabaseSuspension.Wait) throws -> Lease? { try take(label: nil, wait) }

    private func take(label: String?, _ wait: DatabaseSuspension.Wait) throws -> Lease? {
        // Without the directory the lock file does not exist either. Checked again once the lock is held.
        guard try Files.identity(paths.database) != nil else { throw StoreError.moved(paths.database) }
        if isImmutable { return nil }
        switch wait {
        case .none: return try Lease.take(for: paths, label: label, readonly: isReadonly, deadline: .now)
        case .unless(let isOvertaken):
            return try Lease.take(for: paths, label: label, readonly: isReadonly, isCancelled: isOvertaken)
        }
    }

    /// Compares the store with its former state; the caller holds a lease.
    ///
    /// - Throws: `StoreError`: `storeMoved` when the path names another file, `keyRotated` when it has a key that this
    ///   process cannot know.
    func verify() throws {
        let (identity, file) = state.withLock { ($0.identity, $0.file) }
        // Copies that cannot be read are left to the opening.
        let sidecar = SidecarFiles(databasePath: paths.database).read().newestClaimed
        if let sidecar, sidecar.storeID != identity.storeID { throw StoreError.moved(paths.database) }
        let epoch = sidecar?.epoch ?? identity.epoch
        // A rotation replaces the store's file and increments the epoch.
        if epoch == identity.epoch {
            guard try Files.identity(paths.database) == file else { throw StoreError.moved(paths.database) }
        } else if identity.isDirect {
            throw StoreError.rotated(paths.database, from: identity.epoch, to: epoch)
        }
    }

    /// Refuses to go on where the path names another file than the one that is open, or was open last: its keys are not those
    /// of the open one. The caller needs no lease.
    ///
    /// - Throws: `StoreError` `storeMoved`.
    func requireInPlace() throws {
        let (identity, file) = state.withLock { ($0.identity, $0.file) }
        // Before the sidecar, in which a switch to a new key is announced before the file is replaced.
        let present = try Files.identity(paths.database)
        if present == file { return }
        guard present != nil, let sidecar = SidecarFiles(databasePath: paths.database).read().newestClaimed,
            sidecar.storeID == identity.storeID, sidecar.state == .switching || sidecar.epoch != identity.epoch
        else { throw StoreError.moved(paths.database) }
    }

    /// Records that this process has changed the scheme of the store.
    func noteScheme(isDirect: Bool) { state.withLock { $0.identity.isDirect = isDirect } }

    /// Records the identity of the store after it was opened again.
    func adopt(_ identity: StoreIdentity) throws {
        let file = try Files.identity(paths.database)
        state.withLock { state in
            state.identity = identity
            state.file = file
        }
    }
}
