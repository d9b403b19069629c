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
        let deferral = SignalDeferral()
        kill(getpid(), SIGHUP)
        #expect(Self.caught.load(ordering: .relaxed) == 0)
        deferral.end()
        #expect(Self.caught.load(ordering: .relaxed) == 1)
        deferral.end()
        kill(getpid(), SIGHUP)
        #expect(Self.caught.load(ordering: .relaxed) == 2)
    }
}
