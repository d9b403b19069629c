import Synchronization

// What other threads tell an access under way; asked before each of its statements.

/// Whether the task behind an access was cancelled; set from any thread.
final class CancellationFlag: Sendable {
    private let flag = Atomic<Bool>(false)
    var isSet: Bool { flag.load(ordering: .acquiring) }
    func set() { flag.store(true, ordering: .releasing) }
}

/// Why an access is to end that somebody else has no time to wait for; set from any thread.
final class AccessWithdrawal: Sendable {
    private let flag = Atomic<Bool>(false)
    private let error = Mutex<(any Error)?>(nil)

    @inline(__always)
    var isSet: Bool { flag.load(ordering: .relaxed) }

    /// What the access throws; nil where it goes on.
    var reason: (any Error)? { isSet ? error.withLock { $0 } : nil }

    /// Lets the access end with an error, or go on.
    func set(_ reason: (any Error)?) {
        error.withLock { $0 = reason }
        flag.store(reason != nil, ordering: .releasing)
    }
}
