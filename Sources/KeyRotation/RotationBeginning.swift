import CipherDatabase
import CipherStore
import KeyCustody
import StorePlatform

/// What comes before a rotation: the lock, what a former one has left, the preflight, the backup, the new keys.
struct RotationBeginning {
    private let store: SharedStore
    private let options: KeyRotation.Options
    private let teller: ProgressTeller
    private let isCancelled: @Sendable () -> Bool

    init(
        _ store: SharedStore, _ options: KeyRotation.Options, _ teller: ProgressTeller,
        isCancelled: @escaping @Sendable () -> Bool
    ) {
        self.store = store
        self.options = options
        self.teller = teller
        self.isCancelled = isCancelled
    }

    func run() throws -> RotationReport {
        let paths = StorePaths(store.path)
        let (storeKeys, _) = try store.requireRotationKeys()
        let admin = try KeyRotation.takeAdmin(paths, isCancelled: isCancelled)
        defer { admin.release() }
        let ledger = RotationLedger(databasePath: paths.database, keys: storeKeys)
        let run = RotationRun(
            paths: paths, storeKeys: storeKeys, ledger: ledger, options: options, epoch: store.epoch, teller: teller,
            isCancelled: isCancelled,
            examine: { run in
                try undoFormer(paths, ledger)
                // Sources are asked, and keys derived, before anything is held for it.
                run.proposal = try prepare(ledger)
                try RotationPreflight(store, options, isCancelled: isCancelled).require(teller)
                run.report.backupPath = try options.backUp(store, teller, isCancelled: isCancelled)
            },
            announce: { run in
                guard let proposal = run.proposal else { throw CancellationError() }
                return try run.withOpeningLock { try ledger.begin(proposal) }
            })
        // The store of this process knows them without being told by the sidecar.
        run.onCompletion = { [store] keys in store.adoptRotatedKeys(keys) }
        let report = try run.run()
        // It opens its connections with the first access; behind this one it tells the new epoch.
        try? store.read { _ in }
        return report
    }

    /// A rotation that was killed while this store was open: no opening has come since that could have undone it.
    private func undoFormer(_ paths: StorePaths, _ ledger: RotationLedger) throws {
        guard try ledger.rotation() != nil else { return }
        let opening = try KeyRotation.takeOpening(
            paths, LockFileWatch(isCancelled: isCancelled, onLongWait: options.onLongOpeningWait))
        defer { opening.release() }
        _ = try KeyRotation.abandonCut(paths, ledger)
    }

    private func prepare(_ ledger: RotationLedger) throws -> RotationProposal {
        switch options.aim {
        case .newDataKey: return try ledger.prepare(.newDataKey)
        case .newKey(let source): return try ledger.prepare(.direct(source.read()))
        case .compromised(let dropsOthers, let sources):
            var kept = try sources.map { try $0.read() }
            if let own = try store.rotationSecret() { kept.append(own) }
            let proposal = try ledger.prepare(.compromised(kept: kept))
            guard dropsOthers || proposal.droppedSlots.isEmpty else {
                throw StoreError.slotsWouldBeDropped(store.path, proposal.droppedSlots.map(\.id))
            }
            return proposal
        }
    }
}

extension KeyRotation.Options {
    /// Makes the way back, if one is asked for: it opens with the keys of now, also while another key is pending.
    ///
    /// - Returns: Where it is.
    func backUp(
        _ store: SharedStore, _ teller: ProgressTeller, isCancelled: @escaping @Sendable () -> Bool
    ) throws -> String? {
        guard let folder = backupFolder else { return nil }
        teller.begin(.backup)
        try store.backup(toFolder: folder, onLongWait: onLongWait, isCancelled: isCancelled)
        return folder
    }
}
