import Foundation

/// The state of a connection's transaction: its date, its savepoints, and what waits for its end.
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
    /// Whether SQLite's hooks have shown a transaction that has not been completed yet.
    var progress = Progress()
    /// The savepoints that are open, the outermost first.
    var savepoints: [Savepoint] = []
    /// Why an observer has made the commit fail, until the error is thrown.
    var veto: (any Error)?
    /// Whether a statement has just failed for that reason.
    var isVetoed = false
    /// Whether the transaction is one of the library's own, which nobody waits for.
    var isUpkeep = false

    /// The observed events of a transaction, while SQLite's hooks are installed.
    struct Progress {
        /// Whether it began by a statement of its own.
        var sawTransaction = false
        /// Whether a commit of changes was tried.
        var sawCommit = false
        var sawRollback = false

        /// How the transaction ended; nil while it is under way or has not begun.
        var ending: Database.TransactionCompletion? {
            if sawRollback { return .rollback }
            return sawTransaction || sawCommit ? .commit : nil
        }
    }

    /// A savepoint that is open.
    struct Savepoint {
        let name: String
        /// How many changes the observer had kept back when it was opened.
        var keptEvents: Int
    }

    /// Forgets the transaction, which has ended, and returns what waited for that.
    mutating func end() -> (progress: Progress, completions: [Completion]) {
        defer {
            completions = []
            progress = Progress()
            savepoints = []
            date = nil
        }
        return (progress, completions)
    }
}

/// The duties for the transaction of a connection. If the set is empty, statements and transactions skip the work.
struct PendingCallbacks: OptionSet {
    let rawValue: UInt8
    /// The schema cache depends on the transaction under way.
    static let schema = PendingCallbacks(rawValue: 1)
    /// The transaction has a date.
    static let date = PendingCallbacks(rawValue: 2)
    /// Completions wait for the end of a transaction.
    static let completions = PendingCallbacks(rawValue: 4)
    /// An observer is notified of changes, commits and rollbacks.
    static let observer = PendingCallbacks(rawValue: 8)
    /// Savepoints are open, or were.
    static let savepoints = PendingCallbacks(rawValue: 16)
    /// Those who need SQLite's commit and rollback hooks.
    static let transactionEnd: PendingCallbacks = [.completions, .observer]
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
        if !pendingCallbacks.isDisjoint(with: .transactionEnd) { transaction.progress.sawTransaction = true }
    }

    /// Forgets what belongs to a transaction that is over.
    func forgetTransaction() {
        transaction.date = nil
        if pendingCallbacks.contains(.savepoints) { transaction.savepoints = [] }
        pendingCallbacks.subtract([.date, .savepoints])
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
        needHooks(for: .completions)
        transaction.completions.append(TransactionTracker.Completion(onCommit: onCommit, onRollback: onRollback))
    }

    /// Tells those who wait for it of the end of a transaction, when it has ended.
    func completeTransactionIfEnded() {
        guard !pendingCallbacks.isDisjoint(with: .transactionEnd), !isClosed else { return }
        guard handle.isInAutocommit else {
            transaction.progress.sawTransaction = true
            return
        }
        guard let ending = transaction.progress.ending else { return }
        let observer = transaction.isUpkeep ? nil : observer
        if transaction.isUpkeep { return transaction.progress = TransactionTracker.Progress() }
        // The functions run after the transaction, so they may use the connection freely.
        let outer = access.expectsTransaction
        access.expectsTransaction = false
        defer { access.expectsTransaction = outer }
        uncancelled { withRulesOfProgram { completeTransaction(ending, observer) } }
    }

    private func completeTransaction(_ completion: TransactionCompletion, _ observer: (any ConnectionObserver)?) {
        var ending = completion
        let isRead = access.refusesWrites && !transaction.progress.sawCommit
        if let observer, ending == .commit, !transaction.progress.sawCommit, !isRead {
            // Nothing was written, so SQLite has not called the commit hook.
            if !askForCommit(observer) { ending = .rollback }
        }
        let (progress, completions) = transaction.end()
        pendingCallbacks.subtract([.date, .savepoints])
        dropHooks(for: .completions)
        if ending == .rollback || !isRead {
            let isExplicit = !isRead && (progress.sawTransaction || progress.sawCommit)
            observer?.transactionDidEnd(ending, isExplicit: isExplicit, on: self)
        }
        for completion in completions {
            switch ending {
            case .commit: completion.onCommit(self)
            case .rollback: completion.onRollback(self)
            }
        }
    }

    /// The same, for a caller that can throw the error of an observer.
    func completeTransactionOrThrow() throws {
        completeTransactionIfEnded()
        if let veto = transaction.veto.take() { throw veto }
    }

    // MARK: SQLite's hooks

    /// Installs the commit and rollback hooks, which all that wait for transactions share: without them transactions
    /// run faster.
    func needHooks(for user: PendingCallbacks) {
        if pendingCallbacks.isDisjoint(with: .transactionEnd) {
            transaction.progress = TransactionTracker.Progress(sawTransaction: isInsideTransaction)
            hooks.willCommit = { [unowned self] in hookOfCommit() }
            hooks.didRollback = { [unowned self] in transaction.progress.sawRollback = true }
        }
        pendingCallbacks.insert(user)
        updateTransactionHooks()
    }

    /// Removes the hooks once nobody needs them.
    func dropHooks(for user: PendingCallbacks) {
        guard pendingCallbacks.contains(user) else { return }
        pendingCallbacks.remove(user)
        guard pendingCallbacks.isDisjoint(with: .transactionEnd) else { return }
        (hooks.willCommit, hooks.didRollback) = (nil, nil)
        updateTransactionHooks()
    }

    func updateTransactionHooks() {
        if features.moments.isDisjoint(with: .transactionEnd) {
            hooks.noteTransactionEnd = nil
        } else if hooks.noteTransactionEnd == nil {
            hooks.noteTransactionEnd = { [unowned self] in callFeatures(transactionDidEnd: $0) }
        }
        let isNeeded = !pendingCallbacks.isDisjoint(with: .transactionEnd) || hooks.noteTransactionEnd != nil
        handle.installTransactionHooks(isNeeded ? hooks : nil)
    }

    private func hookOfCommit() -> Bool {
        transaction.progress.sawCommit = true
        guard let observer, !transaction.isUpkeep else { return true }
        return askForCommit(observer)
    }

    private func askForCommit(_ observer: any ConnectionObserver) -> Bool {
        do {
            try observer.transactionWillCommit()
            return true
        } catch {
            transaction.veto = error
            return false
        }
    }
}
