import CPlatform
import Synchronization

/// The turn to write: at most one holder has it, whatever its process, and nobody waits for it for ever.
///
/// Whoever comes while the turn is free takes it, before those who wait, so that one process writes several times in a
/// row with what it has in its caches; but only until the first of those who wait has waited
/// ``Limits/overtakingTime``: then the turn is handed to it, in the order of arrival. It may write several times in
/// a row for ``Limits/turnLength`` before the turn is handed on; otherwise, once all who wait have waited that long, the
/// turn would go round write by write. Strict order alone costs more than half of the throughput, no order at all lets some wait for a second.
///
/// Entering and leaving are one atomic operation each while nobody else comes, and make no system call. A holder that
/// dies is noticed by its slot; one that is stopped keeps the turn, as it keeps SQLite's lock. One that is stopped
/// *while it waits* is passed over: a turn is offered, and counts when it was taken.
// Safe because: `mine` and the rest are constants, and all that changes is in shared atomic words. Entering and leaving
// are for one thread at a time, the one that uses the connection; `call` is for all.
package final class Turnstile: @unchecked Sendable {
    /// How a wait ended.
    package enum Outcome: Sendable {
        case entered
        /// The time was over.
        case timedOut
        case interrupted
    }

    package let slot: HolderSlot
    private let table: SharedTable
    private let mine: TurnWord
    private let offer: TurnWord
    private let overtakingNanoseconds: UInt64
    private let lengthNanoseconds: UInt64

    /// - Parameters:
    ///   - overtaking: How long those who wait may be overtaken.
    ///   - length: How long one to whom the turn was handed may keep it from the next.
    package init(
        _ slot: HolderSlot, overtaking: Duration = Limits.overtakingTime, length: Duration = Limits.turnLength
    ) {
        self.slot = slot
        overtakingNanoseconds = overtaking.wholeNanoseconds
        lengthNanoseconds = length.wholeNanoseconds
        table = slot.table
        mine = TurnWord(slot: slot.number, generation: slot.generation)
        offer = TurnWord(slot: slot.number, generation: slot.generation, isOffer: true)
    }

    // MARK: Entering

    /// Takes the turn if it is free.
    @inline(__always)
    package func enterIfFree() -> Bool { table.replaceOwner(.free, with: mine) }

    /// Takes the turn if it is free, or if its holder is dead.
    package func tryToEnter() -> Bool { enterIfFree() || takeFromDead(table.owner) }

    /// Waits for the turn.
    ///
    /// - Parameters:
    ///   - deadline: When to give up, as ``MonotonicTime``.
    ///   - isInterrupted: Asked before each sleep; ``call()`` ends a sleep.
    package func enter(until deadline: UInt64, isInterrupted: () -> Bool) -> Outcome {
        if enterIfFree() { return .entered }
        enqueue()
        var wait = TurnWait(now: MonotonicTime.now)
        while true {
            let now = MonotonicTime.now
            let word = wait.word(at: now)
            slot.row.store32(TableLayout.Row.wake, word)
            // Who passes over us takes it away.
            table.setWaiting(slot.number)
            if take() { return .entered }
            if isInterrupted() { return giveUp(.interrupted) }
            if now >= deadline { return giveUp(.timedOut) }
            if wait.isTimeToLook(at: now) {
                let owner = table.owner
                if takeFromDead(owner) || takeUnanswered(wait.look(at: owner, now: now, position: position)) {
                    table.clearWaiting(slot.number)
                    return .entered
                }
            }
            let failure = cplatform_futex_wait(slot.row.wakeWord, word, min(deadline, wait.wakeTime) - now)
            if failure == ENOSYSNumber.value { return giveUp(.timedOut) }
            if slot.row.load32(TableLayout.Row.wake) == WakeWord.notified {
                if take() { return .entered }
                wait.cameTooLate(at: MonotonicTime.now)
            }
        }
    }

    /// Takes a place in the line.
    func enqueue() {
        slot.row.store64(TableLayout.Row.ticket, table.takeTicket())
        slot.row.store64(TableLayout.Row.waitingSince, MonotonicTime.now)
        slot.row.store32(TableLayout.Row.wake, WakeWord.armed)
        table.setWaiting(slot.number)
    }

    /// Takes the turn if it is free or offered to this holder.
    private func take() -> Bool {
        let owner = table.owner
        guard owner == .free || owner == offer, table.replaceOwner(owner, with: mine) else { return false }
        table.clearWaiting(slot.number)
        return true
    }

    private func takeFromDead(_ owner: TurnWord) -> Bool {
        guard owner != .free, owner != mine, !isAlive(owner) else { return false }
        return table.replaceOwner(owner, with: mine)
    }

    /// Takes a turn that was offered to somebody who does not move; it stands in the line again when it does.
    private func takeUnanswered(_ owner: TurnWord?) -> Bool {
        guard let owner, let idle = owner.slot, table.replaceOwner(owner, with: mine) else { return false }
        table.clearWaiting(idle)
        return true
    }

    private func giveUp(_ outcome: Outcome) -> Outcome {
        table.clearWaiting(slot.number)
        // Behind the clearing: whoever offers the turn looks again whether we still wait.
        guard table.replaceOwner(offer, with: mine) else { return outcome }
        if case .timedOut = outcome { return .entered }
        leave()
        return outcome
    }

    private func isAlive(_ owner: TurnWord) -> Bool {
        guard let number = owner.slot else { return false }
        return slot.isHeld(number) && owner.belongs(to: table.row(number).generation)
    }

    /// How many wait that came earlier.
    private var position: Int {
        var count = 0
        let ticket = slot.row.ticket
        table.forEachWaiter { if Self.isEarlier(table.row($0).ticket, than: ticket) { count += 1 } }
        return count
    }

    // MARK: Leaving

    /// Whether this holder has the turn.
    package var isHeld: Bool { table.owner == mine }

    /// Gives the turn to the first of those who wait, if it has waited long enough, or frees it.
    @inline(__always)
    package func leave() {
        if table.hasWaiters && handOver() { return }
        guard table.replaceOwner(mine, with: .free) else { return }
        // Looked at again, behind the freeing: somebody may have come to wait in between.
        if table.hasWaiters { notifyFirst() }
    }

    /// - Returns: Whether the turn is another's now.
    private func handOver() -> Bool {
        while let first = firstWaiter() {
            // A time in the future is another clock's, as of another time namespace: order matters more than speed.
            let now = MonotonicTime.now
            guard now &- table.row(first).waitingSince >= overtakingNanoseconds,
                now &- table.handedOverAt >= lengthNanoseconds
            else { return false }
            guard slot.isHeld(first) else {
                table.clearWaiting(first)
                continue
            }
            let offered = TurnWord(slot: first, generation: table.row(first).generation, isOffer: true)
            guard table.replaceOwner(mine, with: offered) else { return true }
            if table.isWaiting(first) {
                table.handedOverAt = now
                table.row(first).call()
                return true
            }
            // It gave up meanwhile.
            guard table.replaceOwner(offered, with: mine) else { return true }
        }
        return false
    }

    private func notifyFirst() {
        while let first = firstWaiter() {
            let word = table.row(first).wakeWord
            guard cplatform_replace32(word, WakeWord.armed, WakeWord.notified) else { return }
            guard slot.isHeld(first) else {
                table.clearWaiting(first)
                continue
            }
            return cplatform_futex_wake(word)
        }
    }

    private func firstWaiter() -> Int? {
        var first: (slot: Int, ticket: UInt64)?
        table.forEachWaiter { candidate in
            guard candidate != slot.number else { return }
            let ticket = table.row(candidate).ticket
            if let known = first, !Self.isEarlier(ticket, than: known.ticket) { return }
            first = (candidate, ticket)
        }
        return first?.slot
    }

    private static func isEarlier(_ ticket: UInt64, than other: UInt64) -> Bool {
        Int64(bitPattern: ticket &- other) < 0
    }

    // MARK: From other threads

    /// Ends the sleep of the thread that waits, so that it looks whether it was interrupted.
    package func call() { slot.row.call() }

    // MARK: What others are told

    /// The log at the last checkpoint that anybody made or tried, as one word; 0 before the first. It saves work and
    /// proves nothing.
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

    /// Tells others since when this holder has the turn.
    @inline(__always)
    package func showBegin(at time: UInt64) { slot.row.storeFigure(TableLayout.Row.turnSince, time) }

    /// Tells others what this holder's turns cost so far.
    package func showEnd(_ figures: TurnFigures) {
        let row = slot.row
        row.storeFigure(TableLayout.Row.turnSince, 0)
        row.storeFigure(TableLayout.Row.turnCount, figures.count)
        row.storeFigure(TableLayout.Row.turnTotal, figures.heldNanoseconds)
        row.storeFigure(TableLayout.Row.turnLongest, figures.longestNanoseconds)
        row.storeFigure(TableLayout.Row.waitTotal, figures.waitedNanoseconds)
    }

    /// The slot of who has the turn, this holder left out; nil when nobody has.
    package var otherOwner: Int? {
        let owner = table.owner
        return owner == mine ? nil : owner.slot
    }
}

/// Sums over the turns of a holder.
package struct TurnFigures: Sendable, Equatable {
    package var count: UInt64 = 0
    package var heldNanoseconds: UInt64 = 0
    package var longestNanoseconds: UInt64 = 0
    package var waitedNanoseconds: UInt64 = 0

    package init() {}
}

/// Times in nanoseconds that no setting of the clock moves, for comparison between processes.
package enum MonotonicTime {
    package static var now: UInt64 { cplatform_monotonic_ns() }
    /// A deadline that never comes.
    package static let never = UInt64.max
}
