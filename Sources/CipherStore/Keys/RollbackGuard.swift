import CipherDatabase
import KeyCustody
import StorePlatform

/// Stores in the database which version its sidecar has reached by changes of keys (``RollbackTable``).
package struct RollbackGuard: SidecarRollbackGuard {
    /// The store, open for writing; or why it could not be opened.
    private let store: Result<SharedStore, any Error>
    private let onNotice: @Sendable (String) -> Void

    package init(_ store: Result<SharedStore, any Error>, onNotice: @escaping @Sendable (String) -> Void) {
        self.store = store
        self.onNotice = onNotice
    }

    package func remembering(
        removesSecrets: Bool, present: () throws -> Sidecar, _ change: () throws -> Sidecar
    ) throws {
        let isBegun = try begin(removesSecrets: removesSecrets, present)
        let changed = try change()
        guard removesSecrets || isBegun else { return }
        do {
            try store.get().remember(changed)
        } catch {
            onNotice(Self.notice(of: changed, because: error, isBegun: isBegun))
        }
    }

    /// Compares the sidecar with the remembered version. Before the first change that removes a secret it writes the
    /// present version: if the next version cannot be written, because of an error or a crash, the next opening for
    /// writing finds a row that it must raise.
    ///
    /// - Returns: Whether a row exists.
    private func begin(removesSecrets: Bool, _ present: () throws -> Sidecar) throws -> Bool {
        do {
            let store = try store.get()
            // The row is read first: a change in between must not look like a sidecar that was put back.
            let remembered = try store.rememberedGeneration()
            let sidecar = try present()
            if let remembered {
                if sidecar.slotted != nil {
                    try sidecar.requireCurrent(storeRemembersGeneration: remembered, of: store.path)
                }
                return true
            }
            if removesSecrets { try store.remember(sidecar) }
            return removesSecrets
        } catch let error as StoreError {
            if error.code == .sidecarRolledBack { throw error }
            return false
        } catch {
            return false
        }
    }

    /// Raises the remembered version of a store that was just opened for writing, if it is older than the sidecar.
    static func catchUp(_ pool: DatabasePool, _ fileKey: FileKey) {
        guard !fileKey.opening.suspension.isSuspended, let sidecar = fileKey.unremembered else { return }
        do {
            try pool.write { try RollbackTable.raise(to: sidecar.generation, of: sidecar.storeID, in: $0) }
            if fileKey.hasInvalidGeneration {
                fileKey.opening.notice(
                    "the row of \(RollbackTable.name), by which the store detects an older sidecar, had no valid "
                        + "generation, which another program has written: an older sidecar may have been put back. The row "
                        + "has generation \(sidecar.generation) again. See with `cipherctl key list` whether a removed "
                        + "key is back")
            }
        } catch {
            fileKey.opening.notice(notice(of: sidecar, because: error, isBegun: true))
        }
    }

    private static func notice(of sidecar: Sidecar, because error: any Error, isBegun: Bool) -> String {
        let what =
            "generation \(sidecar.generation) of the sidecar could not be recorded in the store, which detects older "
            + "sidecars by it (\(error)): "
        return isBegun
            ? what + "the next opening for writing records it"
            : what + "until `cipherctl key accept` or the next change of keys records it, an older sidecar that is put "
                + "back in both copies makes removed keys valid again"
    }
}

extension SharedStore {
    /// The version of the sidecar that the store remembers; nil where it remembers none.
    func rememberedGeneration() throws -> UInt64? {
        try unsafeReentrantRead { try RollbackTable.generation(of: storeID, in: $0) }
    }

    /// Remembers a version of the sidecar that is durable in both copies.
    ///
    /// Keys may be changed inside a write access: the row is then a part of its transaction.
    func remember(_ sidecar: Sidecar) throws {
        try unsafeReentrantWrite { db in
            func raise() throws { try RollbackTable.raise(to: sidecar.generation, of: sidecar.storeID, in: db) }
            if db.isInsideTransaction { return try raise() }
            try db.inTransaction(.immediate) {
                try raise()
                return .commit
            }
        }
    }
}
