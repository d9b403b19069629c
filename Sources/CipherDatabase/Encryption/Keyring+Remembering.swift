import KeyCustody

/// The sidecar, compared with what the store itself remembers of it.
extension Keyring {
    /// Refuses a sidecar with slots that is older than the one the store remembers; once for all connections.
    ///
    /// - Throws: `StoreError` `sidecarRolledBack`.
    func requireCurrentSidecar(_ db: Database) throws {
        guard let paths, let (sidecar, keys) = unchecked else { return }
        // The schema is parsed by now, so a store without the table pays for one look into it.
        let remembered =
            db.handle.hasTable(CustodyTable.name, column: "store")
            ? try CustodyTable.rowOfExistingTable(of: sidecar.storeID, in: db) : nil
        // A direct sidecar that is put back opens nothing that its key does not open anyway.
        if let remembered, !acceptsFormerSidecar, sidecar.slotted != nil,
            sidecar.isRolledBack(storeRemembersGeneration: remembered)
        {
            // Another process may have changed the keys since the sidecar was read. The row comes behind both copies of a
            // change, so what is read behind the row is new enough.
            let files = SidecarFiles(databasePath: paths.database)
            let newest = try files.choose(files.read(), unlock: { _ in keys })?.sidecar ?? sidecar
            try newest.requireCurrent(storeRemembersGeneration: remembered, of: paths.database)
            changeKeys(keys, newest)
        }
        state.withLock { state in
            state.remembered = remembered
            state.isSidecarCurrent = true
        }
    }

    /// What was not compared yet; nil without a sidecar, and where nothing has proved it.
    private var unchecked: (Sidecar, SidecarKeys)? {
        state.withLock { state in
            guard !state.isSidecarCurrent, let sidecar = state.sidecar, let keys = state.keys else { return nil }
            // The data key of a store that was direct proves its pages, and no slots.
            if case .direct = keys, sidecar.slotted != nil { return nil }
            return (sidecar, keys)
        }
    }

    /// The sidecar, where the store remembers an older one and both copies are this one; nil otherwise.
    package var unremembered: Sidecar? {
        let (sidecar, remembered) = state.withLock { ($0.sidecar, $0.remembered) }
        guard let paths, let sidecar, let remembered, remembered < sidecar.generation else { return nil }
        let copies = SidecarFiles(databasePath: paths.database).read()
        return SidecarCopy.allCases.allSatisfy { copies[$0].parsed?.claimed == sidecar } ? sidecar : nil
    }
}
