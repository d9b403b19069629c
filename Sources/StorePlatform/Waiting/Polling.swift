/// The pauses of a loop that tries again what another process prevents: the pause doubles from one attempt to the next, up
/// to a longest one, and a deadline or a cancellation ends the loop.
///
/// ```swift
/// var polling = Polling(first: .milliseconds(1), longest: .milliseconds(10), until: deadline, isCancelled: isCancelled)
/// while true {
///     if let lock = try attempt() { return lock }
///     guard try polling.next() else { return nil }
/// }
/// ```
package struct Polling {
    private var pause: Duration
    private let longest: Duration
    private let deadline: ContinuousClock.Instant?
    private let isCancelled: (() -> Bool)?
    private var onWait: (() -> Void)?

    /// - Parameters:
    ///   - first: The first pause.
    ///   - longest: The longest pause, and so the longest delay until a change is noticed; nil for the first one.
    ///   - deadline: When to give up; nil polls without limit.
    ///   - isCancelled: Called before each pause; true ends the loop with `CancellationError`.
    ///   - onWait: Called once, before the first pause.
    package init(
        first: Duration, longest: Duration? = nil, until deadline: ContinuousClock.Instant?,
        isCancelled: (() -> Bool)? = nil, onWait: (() -> Void)? = nil
    ) {
        self.pause = first
        self.longest = longest ?? first
        self.deadline = deadline
        self.isCancelled = isCancelled
        self.onWait = onWait
    }

    /// For what looks wrong while another process writes it, such as a page that a checkpoint is copying or two copies of a
    /// sidecar: it is read again for 100 ms before it is believed.
    package static func untilSettled() -> Polling {
        Polling(
            first: PlatformLimits.firstSettlingPause, longest: PlatformLimits.longestSettlingPause,
            until: .now + PlatformLimits.settlingTime)
    }

    /// Sleeps before the next attempt.
    ///
    /// - Returns: False when the deadline has passed.
    /// - Throws: `CancellationError`.
    package mutating func next() throws -> Bool {
        if isCancelled?() == true { throw CancellationError() }
        return sleep()
    }

    /// Sleeps before the next attempt of a loop that nobody cancels.
    ///
    /// - Returns: False when the deadline has passed.
    package mutating func sleep() -> Bool {
        let now = ContinuousClock.now
        if let deadline, now >= deadline { return false }
        onWait?()
        onWait = nil
        Pause.sleep(for: deadline.map { min(pause, now.duration(to: $0)) } ?? pause)
        pause = min(pause * 2, longest)
        return true
    }

    /// Whether a condition holds each time that it is checked within 100 ms (``untilSettled()``).
    package static func holds(_ isSo: () throws -> Bool) rethrows -> Bool {
        var polling = untilSettled()
        while try isSo() {
            if !polling.sleep() { return true }
        }
        return false
    }
}
