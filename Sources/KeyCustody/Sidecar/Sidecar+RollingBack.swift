import StorePlatform

extension Sidecar {
    /// Whether this version is older than the one that the store has recorded: an older sidecar was restored.
    package func isRolledBack(storeRemembersGeneration generation: UInt64) -> Bool { self.generation < generation }

    /// Refuses a version that is older than the one that the store has recorded.
    ///
    /// - Throws: ``StoreError`` `sidecarRolledBack`.
    package func requireCurrent(storeRemembersGeneration remembered: UInt64, of path: String) throws(StoreError) {
        guard isRolledBack(storeRemembersGeneration: remembered) else { return }
        throw StoreError(
            .sidecarRolledBack, what: "The sidecar of \"\(path)\" is older than the one that the store has recorded.",
            why:
                "Both copies are at generation \(generation), but the store has recorded generation "
                + "\(remembered): keys that were removed or changed since would open it again.",
            remedy: "Restore the newest sidecar from a backup of the store. If this one was put back on purpose "
                + "because newer ones are lost, accept it with `cipherctl key accept` (StoreKeys.acceptSidecar in a "
                + "program).")
    }
}
