import Foundation

/// The state of a connection's transaction: its date, and the callbacks for its end.
struct TransactionTracker {
    /// A pair of functions of ``Database/afterNextTransaction(onCommit:onRollback:)``.
    struct Completion {
        let onCommit: (Database) -> Void
        let onRollback: (Database) -> Void
    }

    /// The date of the transaction under way, or the error of its clock; nil before the first request.
    var date: Result<Date, any Error>?
    /// Called at the end of the transaction under way, or of the next one.
    var completions: [Completion] = []
    /// Whether a transaction was under way since the completions were added.
    var sawTransaction = false
    /// Whether a statement was about to commit by itself.
    var sawCommit = false
    var sawRollback = false

    /// How the transaction ended, for the pending completions; nil while it is under way or has not begun.
    var ending: Database.TransactionCompletion? {
        if sawRollback { return .rollback }
        return sawTransaction || sawCommit ? .commit : nil
    }

    /// Removes the pending completions and returns them.
    mutating func takeCompletions() -> [Completion] {
        defer { self = TransactionTracker() }
        return completions
    }
}

/// What must be done for the transaction of a connection. Where the set is empty, statements and transactions skip the
/// work.
struct PendingCallbacks: OptionSet {
    let rawValue: UInt8
    /// The schema cache depends on the transaction under way.
    static let schema = PendingCallbacks(rawValue: 1)
    /// The transaction has a date.
    static let date = PendingCallbacks(rawValue: 2)
    /// Completions wait for the end of a transaction.
    static let completions = PendingCallbacks(rawValue: 4)
}

extension Database {
    // MARK: The date

    /// The date of the transaction: the same while it lasts, so that rows written together can have one date. Outside
    /// of transactions, the date of the call.
    ///
    /// ``Configuration/transactionClock`` provides it as a transaction begins. With the default clock, a transaction
    /// that begins deferred has the date of the first call.
    /// - Throws: The error of the clock.
    public var transactionDate: Date {
        get throws {
            requireAccess()
            guard isInsideTransaction else { return try configuration.transactionClock.now(self) }
            if let date = transaction.date { return try date.get() }
            return try setTransactionDate().get()
        }
    }

    @discardableResult
    private func setTransactionDate() -> Result<Date, any Error> {
        let date = Result { try configuration.transactionClock.now(self) }
        transaction.date = date
        pendingCallbacks.insert(.date)
        return date
    }

    /// Called when a transaction has begun.
    ///
    /// - Parameter dates: Whether its date is read now; otherwise at the first request.
    func didBeginTransaction(dates: Bool) {
        transaction.date = nil
        if dates { setTransactionDate() }
        if pendingCallbacks.contains(.completions) { transaction.sawTransaction = true }
    }

    // MARK: The end

    /// Calls a function after the end of the transaction that is under way, or else of the next one.
    ///
    /// Only one of the two functions is called, once, outside of any transaction, on this connection. Rolling back to a
    /// savepoint does not count: the transaction decides. Closing the connection rolls back; a function that still
    /// waits for a transaction to begin is then never called.
    ///
    /// - Parameters:
    ///   - onCommit: Called when the transaction has been committed.
    ///   - onRollback: Called when it has been rolled back, for whatever reason.
    public func afterNextTransaction(
        onCommit: @escaping (Database) -> Void, onRollback: @escaping (Database) -> Void = { _ in }
    ) {
        requireAccess()
        if isClosed { return }
        if transaction.completions.isEmpty {
            transaction.sawTransaction = isInsideTransaction
            transaction.sawCommit = false
            transaction.sawRollback = false
            hooks.willCommit = { [unowned self] in transaction.sawCommit = true }
            hooks.didRollback = { [unowned self] in transaction.sawRollback = true }
            handle.installTransactionHooks(hooks)
            pendingCallbacks.insert(.completions)
        }
        transaction.completions.append(TransactionTracker.Completion(onCommit: onCommit, onRollback: onRollback))
    }

    /// Calls the functions that wait for the end of a transaction, when it has ended.
    func completeTransactionIfEnded() {
        guard pendingCallbacks.contains(.completions), !isClosed else { return }
        guard handle.isInAutocommit else {
            transaction.sawTransaction = true
            return
        }
        guard let ending = transaction.ending else { return }
        handle.installTransactionHooks(nil)
        let completions = transaction.takeCompletions()
        pendingCallbacks.subtract([.completions, .date])
        // The functions run after the transaction, so they may use the connection freely.
        let outer = (expectsTransaction, cancellation)
        (expectsTransaction, cancellation) = (false, nil)
        defer { (expectsTransaction, cancellation) = outer }
        for completion in completions {
            switch ending {
            case .commit: completion.onCommit(self)
            case .rollback: completion.onRollback(self)
            }
        }
    }
}
