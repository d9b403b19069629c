import Foundation
import StorePlatform
import Synchronization
import Testing

/// Changes what signals do in the process, so its tests run one at a time.
@Suite(.serialized) struct SignalDeferralTests {
    private static let caught = Atomic<Int>(0)

    @Test("a signal that comes while signals are put off takes its course at the end, and once")
    func putsOff() {
        let former = signal(SIGHUP) { _ in _ = SignalDeferralTests.caught.add(1, ordering: .relaxed) }
        defer { signal(SIGHUP, former) }
        // The threads of queues block signals; this one takes it at once.
        var hangUp = sigset_t()
        sigemptyset(&hangUp)
        sigaddset(&hangUp, SIGHUP)
        pthread_sigmask(SIG_UNBLOCK, &hangUp, nil)
        let deferral = SignalDeferral()
        kill(getpid(), SIGHUP)
        #expect(Self.caught.load(ordering: .relaxed) == 0)
        deferral.end()
        #expect(Self.comesTo(1))
        deferral.end()
        kill(getpid(), SIGHUP)
        #expect(Self.comesTo(2))
    }

    /// Waits for a signal, which any thread of the process may take: so many were caught, and no more.
    private static func comesTo(_ count: Int) -> Bool {
        let deadline = ContinuousClock.now + .seconds(10)
        while caught.load(ordering: .relaxed) < count, ContinuousClock.now < deadline { sched_yield() }
        return caught.load(ordering: .relaxed) == count
    }
}
