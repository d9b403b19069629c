import StorePlatform
import Synchronization

/// Limits several threads together to a number of bytes per second: a token bucket.
final class Throttle: Sendable {
    /// The time since an arbitrary moment, and a way to wait. Tests pass their own clock.
    struct Clock: Sendable {
        var now: @Sendable () -> Duration
        var sleep: @Sendable (Duration) -> Void

        static let monotonic: Clock = {
            let start = ContinuousClock.now
            return Clock(now: { ContinuousClock.now - start }, sleep: { Pause.sleep(for: $0) })
        }()
    }

    /// The burst allowed after an idle period, as time at the rate.
    private static let burst = Duration.milliseconds(50)
    /// Long waits are split, so that a cancellation is noticed.
    private static let longestSleep = Duration.milliseconds(100)

    private let bytesPerSecond: Int
    private let clock: Clock
    /// The time until which the bytes granted so far use up the rate.
    private let paidUntil: Mutex<Duration>

    /// - Parameter bytesPerSecond: At least 1.
    init(bytesPerSecond: Int, clock: Clock = .monotonic) {
        self.bytesPerSecond = max(1, bytesPerSecond)
        self.clock = clock
        paidUntil = Mutex(clock.now())
    }

    /// Waits until this many bytes may be read or written, or until `isCancelled` returns true.
    func take(_ bytes: Int, isCancelled: () -> Bool = { false }) {
        let start = paidUntil.withLock { paidUntil in
            // Unused time is not saved, except for the burst.
            let start = max(paidUntil, clock.now() - Self.burst)
            paidUntil = start + .seconds(1) * Double(bytes) / Double(bytesPerSecond)
            return start
        }
        while !isCancelled() {
            let left = start - clock.now()
            guard left > .zero else { return }
            clock.sleep(min(left, Self.longestSleep))
        }
    }
}
