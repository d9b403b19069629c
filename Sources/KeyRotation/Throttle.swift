import StorePlatform
import Synchronization

/// Keeps several threads to a number of bytes a second, together: a bucket that fills at that rate.
final class Throttle: Sendable {
    /// The time, as a span since any moment, and a way to wait; tests bring their own.
    struct Clock: Sendable {
        var now: @Sendable () -> Duration
        var sleep: @Sendable (Duration) -> Void

        static let monotonic: Clock = {
            let start = ContinuousClock.now
            return Clock(now: { ContinuousClock.now - start }, sleep: { Pause.sleep(for: $0) })
        }()
    }

    /// What may be taken at once after a rest, as time at the rate.
    private static let burst = Duration.milliseconds(50)
    /// Waits are cut into pieces, so that a cancellation is noticed.
    private static let longestSleep = Duration.milliseconds(100)

    private let bytesPerSecond: Int
    private let clock: Clock
    /// When the bytes that were handed out so far are paid for.
    private let paidUntil: Mutex<Duration>

    /// - Parameter bytesPerSecond: At least 1.
    init(bytesPerSecond: Int, clock: Clock = .monotonic) {
        self.bytesPerSecond = max(1, bytesPerSecond)
        self.clock = clock
        paidUntil = Mutex(clock.now())
    }

    /// Waits until so many bytes may be moved, or until `isCancelled`.
    func take(_ bytes: Int, isCancelled: () -> Bool = { false }) {
        let start = paidUntil.withLock { paidUntil in
            // Time that went by unused is not saved up, but for a little.
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
