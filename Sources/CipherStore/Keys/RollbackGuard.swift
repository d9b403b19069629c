import CipherDatabase
import KeyCustody
import StorePlatform

/// Keeps in the database of a store how far its sidecar has come, by changes of its keys (``RollbackTable``).
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

    /// Compares, and before the first change that takes a secret away writes the present version down: if the next one
    /// cannot be, by an error or a crash, the next opening for writing finds a row that it has to raise.
    ///
    /// - Returns: Whether there is a row.
    private func begin(removesSecrets: Bool, _ present: () throws -> Sidecar) throws -> Bool {
        do {
            let store = try store.get()
            // The row first: a change that comes between must not look like a sidecar that was put back.
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

    /// Raises what a store remembers that was just opened for writing, where it is behind the sidecar.
    static func catchUp(_ pool: DatabasePool, _ keyring: Keyring) {
        guard !keyring.opening.suspension.isSuspended, let sidecar = keyring.unremembered else { return }
        do {
            try pool.write { try RollbackTable.raise(to: sidecar.generation, of: sidecar.storeID, in: $0) }
        } catch {
            keyring.opening.notice(notice(of: sidecar, because: error, isBegun: true))
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
    /// How far the sidecar had come, as the store remembers it; nil where it remembers nothing.
    func rememberedGeneration() throws -> UInt64? {
        try unsafeReentrantRead { try RollbackTable.generation(of: storeID, in: $0) }
    }

    /// Remembers a version of the sidecar that is durable in both copies.
    ///
    /// Keys may be changed inside of a write access: then the row belongs to its transaction.
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
