/// The state of a shared store's connections, from open to yielded. It does no I/O: it returns the next action.
///
/// The connections are closed for a process that requests the file, and while the store is suspended and no read is
/// running. Events may come from any thread and in any order, also late events of a step that another event has
/// overtaken.
enum ConnectionState: Equatable, Sendable {
    /// All accesses are admitted.
    case open
    /// Waiting for the running accesses to end; the cause says whether newcomers are admitted.
    case draining(YieldCause)
    /// One thread closes the connections.
    case closing(YieldCause)
    /// No connection exists. When the cause is empty, the next access opens them.
    case away(YieldCause)
    /// One thread opens them.
    case reopening(YieldCause)
    /// The store has a key that this process does not know.
    case failed
    /// The store was closed.
    case closed

    enum Event: Equatable, Sendable {
        /// A process requests the file.
        case ask
        /// The requesting process has replaced the file, has withdrawn the request, or has died.
        case withdraw
        /// The store is suspended: unused connections are closed.
        case suspend
        /// The suspension has ended, and the lease is held again.
        case resume
        /// The last running access has ended.
        case drained
        /// The connections are closed.
        case gone
        /// A connection could not be closed, because a part of it is still in use.
        case stuck
        /// The connections are open.
        case reopened
        /// They could not be opened: the next access tries again.
        case postponed
        /// They can never be opened: the key is another one.
        case lost
        case close
    }

    enum Action: Equatable, Sendable {
        /// Close the connections as soon as no access is running.
        case drain
        /// Close them, on this thread.
        case close
        /// Release the lease.
        case release
        /// Acquire the lease and open the connections, on this thread.
        case reopen
        /// Make the waiters check again.
        case admit
        /// Make the waiters throw.
        case failWaiters
        /// Close the connections that came too late, for good.
        case discard
    }

    /// The decision about an access that arrives while the gate is shut.
    enum Admission: Equatable, Sendable {
        case enter
        case wait
        /// It opens the connections itself.
        case reopen
        case refuse
    }

    mutating func handle(_ event: Event) -> Action? {
        if case .closed = self { return event == .reopened ? .discard : nil }
        switch event {
        case .ask: return add(.request)
        case .suspend: return add(.suspension)
        case .withdraw: return remove(.request)
        case .resume: return remove(.suspension)
        case .drained, .gone, .stuck: return closing(event)
        case .reopened, .postponed, .lost: return reopening(event)
        case .close:
            self = .closed
            return .failWaiters
        }
    }

    private mutating func add(_ new: YieldCause) -> Action? {
        switch self {
        case .open:
            self = .draining(new)
            return .drain
        case .draining(let cause):
            self = .draining(cause.union(new))
            return .drain
        case .closing(let cause): self = .closing(cause.union(new))
        case .away(let cause): self = .away(cause.union(new))
        case .reopening(let cause): self = .reopening(cause.union(new))
        case .failed, .closed: break
        }
        return nil
    }

    private mutating func remove(_ old: YieldCause) -> Action? {
        switch self {
        case .open, .closed: return nil
        case .draining(let cause):
            let rest = cause.subtracting(old)
            self = rest.isEmpty ? .open : .draining(rest)
            // Another cause may admit an access that this one kept waiting.
            return .admit
        case .closing(let cause): self = .closing(cause.subtracting(old))
        case .away(let cause):
            let rest = cause.subtracting(old)
            self = .away(rest)
            if rest.isEmpty {
                self = .reopening([])
                return .reopen
            }
            return rest.contains(.request) ? .release : .admit
        case .reopening(let cause): self = .reopening(cause.subtracting(old))
        case .failed:
            // The caller that resumes a store needs to know whether it can be used.
            guard old == .suspension else { return nil }
            self = .reopening([])
            return .reopen
        }
        return nil
    }

    private mutating func closing(_ event: Event) -> Action? {
        switch (self, event) {
        case (.draining(let cause), .drained):
            self = .closing(cause)
            return .close
        case (.closing(let cause), .gone):
            self = cause.isEmpty ? .reopening([]) : .away(cause)
            return cause.isEmpty ? .reopen : .release
        case (.closing(let cause), .stuck):
            // The requesting process does not get the file: it sees that the lease is still held. While suspended, the
            // next end of an access tries again.
            let rest = cause.subtracting(.request)
            self = rest.isEmpty ? .open : .draining(rest)
            return .admit
        default: return nil
        }
    }

    private mutating func reopening(_ event: Event) -> Action? {
        guard case .reopening(let cause) = self else { return event == .reopened ? .discard : nil }
        switch event {
        case .reopened:
            self = cause.isEmpty ? .open : .draining(cause)
            return cause.isEmpty ? .admit : .drain
        case .postponed:
            self = .away(cause)
            return .failWaiters
        default:
            self = .failed
            return .failWaiters
        }
    }

    /// Decides about an access that arrives while the gate is shut.
    mutating func admit() -> Admission {
        switch self {
        case .open: return .enter
        case .draining(let cause): return cause.contains(.request) ? .wait : .enter
        case .closing, .reopening: return .wait
        case .away(let cause):
            if cause.contains(.request) { return .wait }
            self = .reopening(cause)
            return .reopen
        case .failed, .closed: return .refuse
        }
    }
}

/// Why the connections of a store are closed.
struct YieldCause: OptionSet, Hashable, Sendable {
    let rawValue: UInt8

    /// A process requests the file: no access is admitted.
    static let request = YieldCause(rawValue: 1)
    /// The store is suspended: reads are admitted, and the last of them closes the connections.
    static let suspension = YieldCause(rawValue: 2)
}
