/// The state of a database from running to suspended. It does no I/O: it returns the next action.
///
/// Only `running` admits writes. Events may come from any thread and in any order, also late events of a step that
/// another event has overtaken.
enum SuspensionState: Equatable, Sendable {
    /// No restriction.
    case running
    /// Locks are being released; calls that need one are refused.
    case suspending
    /// No lock is held for which another process could wait.
    case suspended
    /// Locks are being acquired again, and the store is being compared with what it was.
    case resuming
    /// The store is not what it was: it was moved, or has another key.
    case lost(Loss)
    /// The database was closed.
    case closed

    /// Why a store cannot be resumed.
    enum Loss: Equatable, Sendable {
        case moved
        case rotated(from: UInt64, to: UInt64)
    }

    enum Event: Equatable, Sendable {
        /// A suspension is requested; it may be requested repeatedly.
        case suspend
        /// Every lock was released.
        case released
        /// The end of the suspension is requested.
        case resume
        /// The locks are held again; the value says what was found to be different.
        case rechecked(Loss?)
        /// The locks could not be acquired yet: the next access tries again.
        case postponed
        case close
    }

    enum Action: Equatable, Sendable {
        /// Refuse writes, interrupt running statements, roll back open transactions, end every wait, release locks.
        case release
        /// Acquire the locks again, and compare the store with what it was.
        case recheck
        /// Admit writes, and wake the waits for that.
        case admit
        /// Wake the waits for the end of the suspension: it will not come.
        case failWaiters
    }

    mutating func handle(_ event: Event) -> Action? {
        switch (self, event) {
        case (.closed, _): return nil
        case (_, .close):
            self = .closed
            return .failWaiters
        case (.running, .suspend), (.resuming, .suspend):
            self = .suspending
            return .release
        case (.suspending, .released):
            self = .suspended
            return nil
        case (.suspending, .resume), (.suspended, .resume), (.resuming, .resume), (.lost, .resume):
            self = .resuming
            return .recheck
        // Overtaken by a suspension: what was acquired again is released.
        case (.suspending, .rechecked), (.suspended, .rechecked): return .release
        case (.resuming, .rechecked(nil)):
            self = .running
            return .admit
        case (.resuming, .rechecked(let loss?)):
            self = .lost(loss)
            return .failWaiters
        case (.running, .released), (.running, .resume), (.running, .rechecked), (.running, .postponed): return nil
        case (.suspending, .suspend), (.suspending, .postponed): return nil
        case (.suspended, .suspend), (.suspended, .released), (.suspended, .postponed): return nil
        case (.resuming, .released), (.resuming, .postponed): return nil
        case (.lost, .suspend), (.lost, .released), (.lost, .rechecked), (.lost, .postponed): return nil
        }
    }
}
