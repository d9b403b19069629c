import CipherDatabase
import KeyCustody
import StorePlatform
import Synchronization

/// The lease of an open store through suspensions: given back, taken again, and the store compared with what it was.
final class LeaseKeeper: Sendable {
    private let paths: StorePaths
    private let isReadonly: Bool
    private let label: String
    private let identity: StoreIdentity
    /// The file that is open.
    private let file: FileIdentity?
    private let lease: Mutex<Lease?>
    /// Who may take the lease now; counts suspensions, so that a late end of reads gives nothing back that is new.
    private let wanted = Mutex(0)

    init(paths: StorePaths, isReadonly: Bool, label: String, identity: StoreIdentity, lease: Lease?) throws {
        self.paths = paths
        self.label = label
        self.isReadonly = isReadonly
        self.identity = identity
        self.lease = Mutex(lease)
        file = try Files.identity(paths.database)
    }

    /// Gives the lease back when `reads` says that no read needs it any more.
    func release(after reads: (@escaping @Sendable () -> Void) -> Void) {
        let turn = wanted.withLock { turn in
            turn += 1
            return turn
        }
        reads { [self] in
            let isCurrent = wanted.withLock { $0 == turn }
            if isCurrent { releaseNow() }
        }
    }

    func releaseNow() {
        let lease = lease.withLock { $0.take() }
        lease?.release()
    }

    /// Whether the lease is held.
    var isHeld: Bool { lease.withLock { $0 != nil } }

    /// Takes the lease again, unless it is there, and compares the store with what it was.
    ///
    /// - Parameter wait: Whether to wait for a switch to a new key to end.
    /// - Throws: As ``verify()``; `storeInUse` while the lease is not to be had, `CancellationError` when it was overtaken.
    func retake(_ wait: DatabaseSuspension.Wait) throws {
        wanted.withLock { $0 += 1 }
        if lease.withLock({ $0 == nil }) {
            let taken = try take(label: label, wait)
            let former = lease.withLock { lease in
                defer { lease = taken }
                return lease
            }
            former?.release()
        }
        do {
            try verify()
        } catch {
            releaseNow()
            throw error
        }
    }

    /// Runs a read with a lease of its own.
    func withLease<T>(_ body: () throws -> T) throws -> T {
        let own = try take(label: nil, .unless { false })
        defer { own?.release() }
        try verify()
        return try body()
    }

    private func take(label: String?, _ wait: DatabaseSuspension.Wait) throws -> Lease? {
        // Where the directory is gone there is no lock file either; behind the lock it is asked again.
        try verifyFile()
        switch wait {
        case .none: return try Lease.take(for: paths, label: label, readonly: isReadonly, deadline: .now)
        case .unless(let isOvertaken):
            return try Lease.take(for: paths, label: label, readonly: isReadonly, isCancelled: isOvertaken)
        }
    }

    /// - Throws: `StoreError.storeMoved` when another file has the store's name, or none.
    func verifyFile() throws {
        guard try Files.identity(paths.database) == file else { throw StoreError.moved(paths.database) }
    }

    /// Compares the store with what it was when it was opened.
    ///
    /// - Throws: `StoreError`: `storeMoved` when another file has its name, `keyRotated` when it has another key.
    private func verify() throws {
        try verifyFile()
        let copies = SidecarFiles(databasePath: paths.database).read()
        let sidecars = SidecarCopy.allCases.compactMap { copies[$0].parsed?.claimed }
        // Copies that cannot be read are a matter of the next opening.
        guard let sidecar = sidecars.max(by: { $0.generation < $1.generation }) else { return }
        guard sidecar.storeID == identity.storeID else { throw StoreError.moved(paths.database) }
        if sidecar.epoch != identity.epoch {
            throw StoreError.rotated(paths.database, from: identity.epoch, to: sidecar.epoch)
        }
    }
}

extension StoreError {
    /// The store has another key than the one it was opened with.
    static func rotated(_ path: String, from: UInt64, to: UInt64) -> StoreError {
        StoreError(
            .keyRotated(from: from, to: to),
            what: "\"\(path)\" was re-encrypted by another process (epoch \(from) -> \(to)).",
            why: "This process was suspended meanwhile, and holds the old key.",
            remedy: "Reopen the store; the key source will be asked again.")
    }
}
