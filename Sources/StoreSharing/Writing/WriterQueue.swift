import StorePlatform

/// The queue of all connections that are about to write to a store, in all processes: at most one of them holds the
/// write turn, and none waits for it forever.
///
/// A writer that finds the write turn free acquires it before the waiting writers. So one process writes several times
/// in succession with warm caches. This lasts only until the first waiting writer has waited ``SharingLimits/overtakingTime``; then the
/// turn is handed to that writer, in the order of arrival. It may write several times in succession for
/// ``SharingLimits/holdTime`` before the turn is handed over again. Otherwise, once all waiting writers have waited that long,
/// each write would change the holder. Strict order alone costs more than half of the throughput; without any order some
/// writers wait for a second.
///
/// Entering and leaving without contention are one atomic operation each and make no system call. Waiters detect a dead
/// holder by its holder row. A stopped holder keeps the write turn, as it keeps SQLite's lock. A writer that is stopped
/// *while it waits* is skipped: the write turn is only offered, and counts once the writer accepts.
///
/// Only one thread at a time, the one that uses the connection, may enter and leave; any thread may call ``call()``.
package final class WriterQueue: Sendable {
    /// How a wait ended.
    package enum Outcome: Sendable {
        case entered
        /// The deadline passed.
        case timedOut
        case interrupted
    }

    package let holderRow: HolderRow
    private let table: SharedTable
    private let mine: OwnerWord
    private let offer: OwnerWord
    private let overtakingNanoseconds: UInt64
    private let holdNanoseconds: UInt64

    package convenience init(_ holderRow: HolderRow) {
        self.init(holderRow, overtaking: SharingLimits.overtakingTime, hold: SharingLimits.holdTime)
    }

    /// - Parameters:
    ///   - overtaking: How long newcomers may overtake waiting writers.
    ///   - hold: How long a writer may keep a write turn that was handed to it while others wait.
    init(_ holderRow: HolderRow, overtaking: Duration, hold: Duration) {
        self.holderRow = holderRow
        overtakingNanoseconds = overtaking.wholeNanoseconds
        holdNanoseconds = hold.wholeNanoseconds
        table = holderRow.table
        mine = OwnerWord(row: holderRow.number, generation: holderRow.generation)
        offer = OwnerWord(row: holderRow.number, generation: holderRow.generation, isOffer: true)
    }

    // MARK: Entering

    /// Acquires the write turn if it is free.
    @inline(__always)
    package func enterIfFree() -> Bool { table.replaceOwner(.free, with: mine) }

    /// Acquires the write turn if it is free, or if its holder is dead.
    package func tryToEnter() -> Bool { enterIfFree() || takeFromDead(table.owner) }

    /// Waits for the write turn.
    ///
    /// - Parameters:
    ///   - deadline: When to give up, as ``MonotonicTime``.
    ///   - isInterrupted: Called before each sleep; ``call()`` ends a sleep.
    package func enter(until deadline: UInt64, isInterrupted: () -> Bool) -> Outcome {
        if enterIfFree() { return .entered }
        enqueue()
        var wait = WriterWait(now: MonotonicTime.now)
        while true {
            let now = MonotonicTime.now
            let word = wait.word(at: now)
            holderRow.row.words.store32(TableLayout.Row.wake, word)
            // A process that skips this writer clears the bit.
            table.setWaiting(holderRow.number)
            if take() { return .entered }
            if isInterrupted() { return giveUp(.interrupted) }
            if now >= deadline { return giveUp(.timedOut) }
            if wait.isTimeToPoll(at: now) {
                let owner = table.owner
                if takeFromDead(owner) || takeUnanswered(wait.poll(at: owner, now: now, position: position)) {
                    table.clearWaiting(holderRow.number)
                    return .entered
                }
            }
            let canSleep = holderRow.row.words.sleep(
                on: TableLayout.Row.wake, while: word, forNanoseconds: min(deadline, wait.wakeTime) - now)
            guard canSleep else { return giveUp(.timedOut) }
            if holderRow.row.words.load32(TableLayout.Row.wake) == WakeWord.notified {
                if take() { return .entered }
                wait.cameTooLate(at: MonotonicTime.now)
            }
        }
    }

    /// Joins the queue.
    func enqueue() {
        holderRow.row.words.store64(TableLayout.Row.ticket, table.takeTicket())
        holderRow.row.words.store64(TableLayout.Row.waitingSince, MonotonicTime.now)
        holderRow.row.words.store32(TableLayout.Row.wake, WakeWord.armed)
        table.setWaiting(holderRow.number)
    }

    /// Acquires the write turn if it is free or offered to this holder.
    private func take() -> Bool {
        let owner = table.owner
        guard owner == .free || owner == offer, table.replaceOwner(owner, with: mine) else { return false }
        table.clearWaiting(holderRow.number)
        return true
    }

    private func takeFromDead(_ owner: OwnerWord) -> Bool {
        guard owner != .free, owner != mine, !isAlive(owner) else { return false }
        return table.replaceOwner(owner, with: mine)
    }

    /// Acquires a write turn whose offer is not answered. The writer that did not answer joins the queue again when it
    /// runs.
    private func takeUnanswered(_ owner: OwnerWord?) -> Bool {
        guard let owner, let idle = owner.row, table.replaceOwner(owner, with: mine) else { return false }
        table.clearWaiting(idle)
        return true
    }

    private func giveUp(_ outcome: Outcome) -> Outcome {
        table.clearWaiting(holderRow.number)
        // After the bit is cleared: the process that offers the write turn checks again whether this writer still
        // waits.
        guard table.replaceOwner(offer, with: mine) else { return outcome }
        if case .timedOut = outcome { return .entered }
        leave()
        return outcome
    }

    private func isAlive(_ owner: OwnerWord) -> Bool {
        guard let number = owner.row else { return false }
        return holderRow.isHeld(number) && owner.belongs(to: table.row(number).generation)
    }

    /// The number of writers that wait and came earlier.
    private var position: Int {
        var count = 0
        let ticket = holderRow.row.ticket
        table.forEachWaiter { if Self.isEarlier(table.row($0).ticket, than: ticket) { count += 1 } }
        return count
    }

    // MARK: Leaving

    /// Whether this holder has the write turn.
    package var isHeld: Bool { table.owner == mine }

    /// Hands the write turn to the first waiting writer, if it has waited long enough, or frees it.
    @inline(__always)
    package func leave() {
        if table.hasWaiters && handOver() { return }
        guard table.replaceOwner(mine, with: .free) else { return }
        // Checked again after the release: a writer may have begun to wait in between.
        if table.hasWaiters { notifyFirst() }
    }

    /// - Returns: Whether another holder has the write turn now.
    private func handOver() -> Bool {
        while let first = firstWaiter() {
            // A time in the future comes from another clock, as in another time namespace: order matters more than
            // speed.
            let now = MonotonicTime.now
            guard now &- table.row(first).waitingSince >= overtakingNanoseconds,
                now &- table.handedOverAt >= holdNanoseconds
            else { return false }
            guard holderRow.isHeld(first) else {
                table.clearWaiting(first)
                continue
            }
            let offered = OwnerWord(row: first, generation: table.row(first).generation, isOffer: true)
            guard table.replaceOwner(mine, with: offered) else { return true }
            if table.isWaiting(first) {
                table.handedOverAt = now
                table.row(first).call()
                return true
            }
            // The waiting writer gave up in the meantime.
            guard table.replaceOwner(offered, with: mine) else { return true }
        }
        return false
    }

    private func notifyFirst() {
        while let first = firstWaiter() {
            guard table.row(first).prepareNotification() else { return }
            guard holderRow.isHeld(first) else {
                table.clearWaiting(first)
                continue
            }
            return table.row(first).wake()
        }
    }

    private func firstWaiter() -> Int? {
        var first: (row: Int, ticket: UInt64)?
        table.forEachWaiter { candidate in
            guard candidate != holderRow.number else { return }
            let ticket = table.row(candidate).ticket
            if let known = first, !Self.isEarlier(ticket, than: known.ticket) { return }
            first = (candidate, ticket)
        }
        return first?.row
    }

    private static func isEarlier(_ ticket: UInt64, than other: UInt64) -> Bool {
        Int64(bitPattern: ticket &- other) < 0
    }

    // MARK: From other threads

    /// Ends the sleep of the waiting thread, so that it checks whether it was interrupted.
    package func call() { holderRow.row.call() }

    // MARK: Contents of the table

    /// The WAL at the last checkpoint that any process made or tried, as one word; 0 before the first. It saves work
    /// and proves nothing.
    package var checkpointed: UInt64 {
        get { table.checkpointed }
        set { table.checkpointed = newValue }
    }

    /// Replaces that word, unless another process has written its own since.
    ///
    /// - Returns: Whether the word was the expected one.
    @discardableResult
    package func replaceCheckpointed(_ expected: UInt64, with word: UInt64) -> Bool {
        table.replaceCheckpointed(expected, with: word)
    }

    /// Publishes since when this holder has the write turn.
    @inline(__always)
    package func showBegin(at time: UInt64) { holderRow.row.words.storeRelaxed64(TableLayout.Row.writingSince, time) }

    /// Publishes the cost of this holder's writes so far.
    package func showEnd(_ figures: WriteFigures) {
        let row = holderRow.row.words
        row.storeRelaxed64(TableLayout.Row.writingSince, 0)
        row.storeRelaxed64(TableLayout.Row.writeCount, figures.count)
        row.storeRelaxed64(TableLayout.Row.writeTotal, figures.heldNanoseconds)
        row.storeRelaxed64(TableLayout.Row.longestWrite, figures.longestNanoseconds)
        row.storeRelaxed64(TableLayout.Row.waitTotal, figures.waitedNanoseconds)
    }

    /// The holder of the write turn; nil when it is free, when it is this holder, and when it cannot be known.
    package func otherHolder(lockFile path: String) -> StoreHolder? {
        let owner = table.owner
        guard owner != mine, let row = owner.row else { return nil }
        return StoreHolders.holder(of: row, lockFile: path)
    }
}

/// Totals over the writes of a holder.
package struct WriteFigures: Sendable, Equatable {
    package var count: UInt64 = 0
    package var heldNanoseconds: UInt64 = 0
    package var longestNanoseconds: UInt64 = 0
    package var waitedNanoseconds: UInt64 = 0

    package init() {}
}

/// When a waiting writer sleeps, what wakes it, and when it checks the holder of the write turn.
///
/// Normally it is woken. It checks by itself for events that no process reports: that the holder was killed, also
/// between releasing the write turn and waking the next writer; and that the writer to which it was offered does not
/// run. The first in the queue checks often, the others seldom, so that a thousand of them cost nothing.
private struct WriterWait {
    private var nextPoll: UInt64
    private var quietUntil: UInt64 = 0
    /// The offer that was found at the last check.
    private var unanswered: OwnerWord?

    init(now: UInt64) { nextPoll = now + SharingLimits.holderLookNanoseconds }

    /// The word on which to sleep.
    func word(at now: UInt64) -> UInt32 { now < quietUntil ? WakeWord.quiet : WakeWord.armed }

    /// When to wake up if no process wakes it.
    var wakeTime: UInt64 { quietUntil != 0 ? min(quietUntil, nextPoll) : nextPoll }

    /// The write turn was already acquired by another writer when this one tried: for a moment it need not be woken
    /// again.
    mutating func cameTooLate(at now: UInt64) { quietUntil = now + SharingLimits.quietNanoseconds }

    mutating func isTimeToPoll(at now: UInt64) -> Bool {
        if now >= quietUntil { quietUntil = 0 }
        return now >= nextPoll
    }

    /// Records what was found.
    ///
    /// - Parameter position: The number of writers that wait and came earlier.
    /// - Returns: The offer to withdraw: it was already there at the last check.
    mutating func poll(at owner: OwnerWord, now: UInt64, position: Int) -> OwnerWord? {
        nextPoll =
            now
            + min(SharingLimits.holderLookNanoseconds * UInt64(position + 1), SharingLimits.seldomHolderLookNanoseconds)
        defer { unanswered = owner.isOffer ? owner : nil }
        return owner.isOffer && owner == unanswered ? owner : nil
    }
}
