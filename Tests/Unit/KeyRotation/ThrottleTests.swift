import Synchronization
import Testing

@testable import KeyRotation

/// A clock that advances only by sleeping.
final class StillClock: Sendable {
    private let time = Mutex(Duration.zero)
    var clock: Throttle.Clock { Throttle.Clock(now: { self.now }, sleep: { self.pass($0) }) }
    func pass(_ span: Duration) { time.withLock { $0 += span } }
    var now: Duration { time.withLock { $0 } }
}

@Suite struct ThrottleTests {
    @Test("so many bytes take so long, but for a little at the beginning")
    func keepsTheRate() {
        let still = StillClock()
        let throttle = Throttle(bytesPerSecond: 1_000_000, clock: still.clock)
        for _ in 0..<100 { throttle.take(100_000) }
        #expect(still.now > .seconds(9.7))
        #expect(still.now <= .seconds(10))
    }

    @Test("time that went by unused is not saved up")
    func savesNothing() {
        let still = StillClock()
        let throttle = Throttle(bytesPerSecond: 1_000_000, clock: still.clock)
        throttle.take(100_000)
        still.pass(.seconds(3600))
        let start = still.now
        for _ in 0..<20 { throttle.take(100_000) }
        #expect(still.now - start > .seconds(1.8))
    }

    @Test("a cancellation ends the wait")
    func cancels() {
        let still = StillClock()
        let throttle = Throttle(bytesPerSecond: 1, clock: still.clock)
        throttle.take(1_000_000)
        throttle.take(1, isCancelled: { still.now > .seconds(2) })
        #expect(still.now < .seconds(3))
    }
}
