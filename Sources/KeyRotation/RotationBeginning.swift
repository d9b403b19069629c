import CipherDatabase
import CipherStore
import Dispatch
import KeyCustody
import StorePlatform
import StoreSharing
import Synchronization

/// The steps before a rotation: the admin lock, the leftovers of a former rotation, the preflight, the backup, the new
/// keys.
struct RotationBeginning {
    private let store: SharedStore
    private let options: KeyRotation.Options
    private let reporter: ProgressReporter
    private let isCancelled: @Sendable () -> Bool

    init(
        _ store: SharedStore, _ options: KeyRotation.Options, _ reporter: ProgressReporter,
        isCancelled: @escaping @Sendable () -> Bool
    ) {
        self.store = store
        self.options = options
        self.reporter = reporter
        self.isCancelled = isCancelled
    }

    func run() throws -> RotationReport {
        let paths = store.paths
        let (storeKeys, _) = try store.requireRotationKeys()
        let admin = try KeyRotation.takeAdmin(paths, isCancelled: isCancelled)
        defer { admin.release() }
        let journal = RotationJournal(databasePath: paths.database, keys: storeKeys)
        let report = try RotationRun(
            paths: paths, storeKeys: storeKeys, journal: journal, options: options, epoch: store.epoch,
            reporter: reporter, isCancelled: isCancelled,
            // The store of this process gets the new keys here and need not read them from the sidecar.
            onCompletion: { [store] keys in store.adoptRotatedKeys(keys) },
            examine: { run in
                try undoFormer(paths, journal)
                // Key sources are read and keys derived before the opening lock or the write lock is acquired.
                let proposal = try options.proposal(for: store, journal)
                run.report.notices += try RotationPreflight(store, options, isCancelled: isCancelled)
                    .require(reporter)
                run.report.backupPath = try options.backUp(store, reporter, isCancelled: isCancelled)
                return .new(proposal)
            }
        ).run()
        // The store opens its connections at the first access; after this one it reports the new epoch.
        try? store.read { _ in }
        return report
    }

    /// Undoes a rotation that was killed while this store was open. No opening since then could have undone it.
    private func undoFormer(_ paths: StorePaths, _ journal: RotationJournal) throws {
        guard try journal.rotation() != nil else { return }
        let opening = try KeyRotation.takeOpening(
            paths, LockFileWatch(isCancelled: isCancelled, onLongWait: options.onLongOpeningWait))
        defer { opening.release() }
        _ = try KeyRotation.abandonInterrupted(paths, journal)
    }
}
