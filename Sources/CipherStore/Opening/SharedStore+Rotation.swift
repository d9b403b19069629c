import CipherDatabase
import KeyCustody
import RotationCore
import StorePlatform
import StoreSharing

// The parts of an open store that a rotation uses.
extension SharedStore {
    /// The keys of the store, and the sidecar that they opened.
    ///
    /// - Throws: `StoreError` `storeMoved` where the path names another store, or none; `saltMissing` without a sidecar,
    ///   which no opened store is.
    package func requireRotationKeys() throws -> (SidecarKeys, Sidecar) {
        guard let keys = fileKey.keys, let sidecar = fileKey.sidecar else {
            throw StoreError(
                .saltMissing, what: "\"\(path)\" has no sidecar that its key opens.",
                why: "A shared store always has one.", remedy: "Restore it from a backup of the store.")
        }
        // Another store may have taken the name: its keys, and its pages, are not those of this one.
        try connections.keeper.requireInPlace()
        return (keys, sidecar)
    }

    /// Refuses to copy the files that have the names now where the open connections have other ones.
    ///
    /// - Throws: `StoreError` `storeMoved`; as an access.
    package func requireFilesInPlace() throws {
        try access { [connections] _ in try connections.fileKey.opening.requireSameFiles() }
    }

    /// The secret that opened the store; nil if only its keys are known, and if it has lost its keyslot.
    package func rotationSecret() throws -> Secret? {
        guard let secret = fileKey.secret,
            let sidecar = SidecarFiles(databasePath: paths.database).read().newestClaimed
        else { return nil }
        return try fileKey.sidecarCache?.keys(of: sidecar, for: secret) == nil ? nil : secret
    }

    /// Adopts the keys of the next epoch, which may not be derivable from the former ones. So the rotated store can be
    /// used further when its master key was renewed.
    package func adoptRotatedKeys(_ keys: RotationKeys) {
        let files = SidecarFiles(databasePath: paths.database)
        guard let choice = try? files.choose(files.read(), unlock: { _ in keys.next }) else { return }
        fileKey.changeKeys(choice.keys, choice.sidecar)
    }
}

// The callers, besides an opening (`SharedStore.open`), that recover an interrupted rotation.
extension RotationRecovery {
    /// Completes or undoes a switch for a caller that has its keys and does not open the store. Waits as an opening
    /// does.
    ///
    /// - Throws: As an opening; `storeInUse` when other processes hold the store's
    ///   locks for too long.
    package static func settle(
        _ paths: StorePaths, isCancelled: (() -> Bool)? = nil, onStatus: @escaping (CommitStatus) -> Void,
        unlock: @escaping @Sendable (Sidecar) throws -> SidecarKeys?
    ) throws -> Outcome {
        let lockFile = try LockFile(path: paths.lock, likeFile: paths.database)
        let deadline = ContinuousClock.now + StoreLimits.switchWait
        func attempt() throws -> Outcome? {
            let opening = try lockFile.lock(.opening, .exclusive, deadline: deadline, isCancelled: isCancelled)
            defer { opening.release() }
            let lease: Lease?
            switch try Lease.attempt(for: paths, label: nil, readonly: false) {
            case .busy: return nil
            case .taken(let taken): lease = taken
            }
            // The lease is released first: a restoration that holds the opening lock must find no lease.
            defer { lease?.release() }
            return try run(paths, isCancelled: isCancelled, onStatus: onStatus, unlock: unlock)
        }
        while true {
            if let outcome = try attempt() { return outcome }
            try Lease.take(for: paths, label: nil, readonly: false, deadline: deadline, isCancelled: isCancelled)?
                .release()
            try waitForAdmin(paths, until: deadline, isCancelled: isCancelled)
        }
    }
}

extension StoreConnections {
    /// Completes a switch whose process has ended. The stores that yielded the file for the switch are the first to
    /// reopen it, and the file at the path may be another store by then.
    ///
    /// A store that is open for reading only leaves the switch to other processes.
    func completeSwitch(with fileKey: FileKey, isOvertaken: @escaping () -> Bool) throws {
        guard let paths = fileKey.paths else { return }
        let deadline = ContinuousClock.now + StoreLimits.switchWait
        while RotationRecovery.isSwitchClaimed(paths) {
            try fileKey.opening.lock()
            guard fileKey.opening.isLocked else { return }
            let outcome = try RotationRecovery.run(
                paths, isCancelled: isOvertaken, unlock: { try fileKey.keys(of: $0, given: .knownKeys) })
            if let outcome { return fileKey.opening.report(outcome.notices) }
            fileKey.opening.release()
            try RotationRecovery.waitForAdmin(paths, until: deadline, isCancelled: isOvertaken)
        }
    }
}
