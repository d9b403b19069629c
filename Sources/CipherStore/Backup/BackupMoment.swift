import CipherDatabase
import KeyCustody
import StorePlatform
import StoreSharing

/// One moment of a store in use: its pages, and the sidecar that belongs to them.
package struct BackupMoment: Sendable {
    package let view: PageSnapshot
    package let sidecar: Sidecar
    package let sidecarBytes: [UInt8]
}

extension SharedStore {
    /// Runs a backup as one access: a switch to a new key waits for its end, as for that of any long read.
    package func withBackupKeys<T>(_ body: (DatabasePool, SidecarKeys) throws -> T) throws -> T {
        try connections.keeper.requireInPlace()
        guard let keys = fileKey.keys else { throw StoreError.noBackupKeys(path) }
        return try access { try body($0, keys) }
    }

    /// Keeps the present moment while a block copies its pages. The sidecar is read *after* the moment began, so that it
    /// is never older than the database.
    ///
    /// - Parameter body: Gets the moment, and the callbacks that also end the work for a switch to a new key.
    /// - Throws: `StoreError` `rotationPending`, `keyRotated` when a switch ended the work; `DatabaseError`;
    ///   ``SystemError``; what `body` throws.
    package func withBackupMoment<T>(
        of pool: DatabasePool, _ keys: SidecarKeys, _ watch: BackupWatch,
        _ body: (BackupMoment, BackupWatch) throws -> T
    ) throws -> T {
        let view = try pool.makePageSnapshot(watch.lockWait)
        defer { try? view.close() }
        let sidecar = try Self.sidecar(keys, of: view, at: paths.database)
        let moment = BackupMoment(view: view, sidecar: sidecar, sidecarBytes: try sidecar.encoded(keys: keys))
        let result: T
        do {
            result = try body(moment, watch.until { [connections] in connections.endsAccesses })
        } catch is CancellationError {
            try watch.check()
            throw StoreError.endedForRotation(path, from: sidecar.epoch)
        }
        // From here on the WAL may be reset.
        try view.close()
        return result
    }

    /// The sidecar that belongs to the frozen pages: the present one, without a rotation that is in progress.
    private static func sidecar(_ keys: SidecarKeys, of view: PageSnapshot, at database: String) throws -> Sidecar {
        let files = SidecarFiles(databasePath: database)
        guard let choice = try files.choose(files.read(), unlock: { _ in keys }) else {
            throw StoreError.noBackupKeys(database)
        }
        switch choice.sidecar.state {
        case .switching: throw switching(database)
        case .ready, .creating, .rotating: break
        }
        guard choice.sidecar.salt == view.key.salt, choice.dataKey.isEqual(to: view.key.dataKey) else {
            throw switching(database)
        }
        return choice.sidecar.state == .rotating ? try choice.sidecar.abandoningRotation() : choice.sidecar
    }

    private static func switching(_ database: String) -> StoreError {
        StoreError(
            .rotationPending, what: "\"\(database)\" is being switched to a new key.",
            why: "A backup needs the database and the sidecar of one key.",
            remedy: "Make the backup after the rotation has ended. If it was interrupted, the next opening for writing "
                + "completes or undoes it.")
    }
}

extension StoreError {
    fileprivate static func noBackupKeys(_ path: String) -> StoreError {
        StoreError(
            .saltMissing, what: "\"\(path)\" has no sidecar that its key opens.",
            why: "A backup holds the sidecar too; without it a passphrase opens nothing.",
            remedy: "Call `store.keys.restoreSidecar()` in a program that has the store open, before it closes the "
                + "store. If a copy of the sidecar is there, an opening for writing repairs the other one.")
    }
}

extension StoreConnections {
    /// Whether running accesses must end, because a switch to a new key no longer waits for them.
    fileprivate var endsAccesses: Bool { state.withLock { $0.hasEndedAccesses } }
}
