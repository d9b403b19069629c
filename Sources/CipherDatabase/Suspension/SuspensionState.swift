/// Where a database stands between running and suspended. It does nothing itself: it answers what is to be done.
///
/// Only `running` lets writes in. Events may come from any thread and in any order, also late ones of a step that another
/// event has overtaken.
enum SuspensionState: Equatable, Sendable {
    /// Everything goes on.
    case running
    /// Locks are being given back; what needs one is refused.
    case suspending
    /// No lock is held that could be in another process's way.
    case suspended
    /// Locks are being taken back, and the store is being compared with what it was.
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
        /// Somebody asks for a suspension; again and again if he likes.
        case suspend
        /// Every lock was given back.
        case released
        /// Somebody asks for the end of the suspension.
        case resume
        /// The locks are there again; with what was found to be different.
        case rechecked(Loss?)
        /// The locks could not be taken back yet: the next access tries again.
        case postponed
        case close
    }

    enum Action: Equatable, Sendable {
        /// Refuse writes, interrupt what runs, roll back what is open, end every wait, give locks back.
        case release
        /// Take the locks again, and compare the store with what it was.
        case recheck
        /// Let writes in, and wake those who wait for that.
        case admit
        /// Wake those who wait for the end of the suspension: it will not come.
        case disappoint
    }

    mutating func handle(_ event: Event) -> Action? {
        switch (self, event) {
        case (.closed, _): return nil
        case (_, .close):
            self = .closed
            return .disappoint
        case (.running, .suspend), (.resuming, .suspend):
            self = .suspending
            return .release
        case (.suspending, .released):
            self = .suspended
            return nil
        case (.suspending, .resume), (.suspended, .resume), (.resuming, .resume), (.lost, .resume):
            self = .resuming
            return .recheck
        // Overtaken by a suspension: what was taken again is given back.
        case (.suspending, .rechecked), (.suspended, .rechecked): return .release
        case (.resuming, .rechecked(nil)):
            self = .running
            return .admit
        case (.resuming, .rechecked(let loss?)):
            self = .lost(loss)
            return .disappoint
        case (.running, .released), (.running, .resume), (.running, .rechecked), (.running, .postponed): return nil
        case (.suspending, .suspend), (.suspending, .postponed): return nil
        case (.suspended, .suspend), (.suspended, .released), (.suspended, .postponed): return nil
        case (.resuming, .released), (.resuming, .postponed): return nil
        case (.lost, .suspend), (.lost, .released), (.lost, .rechecked), (.lost, .postponed): return nil
        }
    }
}
