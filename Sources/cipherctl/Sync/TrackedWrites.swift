import CipherStore
import ChangesetSync
import StorePlatform

/// Finds statements that write rows of tracked tables outside of commits: the next commit, pull or push makes a commit of
/// such rows, and sends them to other devices.
final class TrackedWrites: TransactionObserver {
    private let tracked: Set<String>
    private var inTransaction: Set<String> = []
    private var written: Set<String> = []

    /// - Returns: nil if the store tracks no table.
    init?(_ store: SharedStore) throws {
        tracked = Set(try ChangesetRepository.trackedTables(of: store))
        if tracked.isEmpty { return nil }
        store.add(transactionObserver: self)
    }

    /// SQLite reports no rows of tables without row ids, so the statements that may write count.
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
        let isTracked = tracked.contains(eventKind.tableName)
        if isTracked { inTransaction.insert(eventKind.tableName) }
        return isTracked
    }

    func databaseDidChange(with event: DatabaseEvent) {}

    func databaseDidCommit(_ db: Database) {
        written.formUnion(inTransaction)
        inTransaction = []
    }

    func databaseDidRollback(_ db: Database) { inTransaction = [] }

    func warn(_ console: Console) {
        guard !written.isEmpty else { return }
        console.warn(
            "rows of \(CountText.list(written.sorted())) are tracked for sync, and were written outside of commits: the next "
                + "commit, pull or push makes a commit of them, and other devices get it. For a commit of their own, write "
                + "such rows with: cipherctl sync commit")
    }
}
