import CipherStore

/// Lets statements survive a stop of the command by Ctrl-Z, which rolls back open transactions.
final class StoppedStatements {
    private let store: SharedStore
    /// Whether the statement before left a transaction open: a stop may have ended it by now.
    private var wasInside = false

    init(_ store: SharedStore) { self.store = store }

    /// Runs a statement, and again after each stop when it is a transaction by itself.
    ///
    /// - Parameter isRepeatable: Called after a stop: whether no result of the statement has been printed yet.
    /// - Throws: The error of the statement; ``CommandFailure`` when a stop has rolled back a transaction of several
    ///   statements.
    func survive(on db: Database, isRepeatable: () -> Bool, _ body: () throws -> Void) throws {
        let isWhole = !wasInside
        defer { wasInside = db.isInsideTransaction }
        while true {
            let suspensions = store.suspensionCount
            do {
                return try body()
            } catch let error as DatabaseError where error.isInterruptionError {
                guard store.suspensionCount != suspensions || store.isSuspended else { throw error }
                store.waitUntilResumedBlocking()
                guard isWhole, !db.isInsideTransaction, isRepeatable() else { throw Self.failure }
            }
        }
    }

    private static let failure = CommandFailure(
        .tryAgain, "suspended", what: "The transaction was rolled back because the command was stopped.",
        why: "A stopped process must not keep others from writing.",
        hint: "Run the statements again, from the BEGIN of the transaction on.")
}
