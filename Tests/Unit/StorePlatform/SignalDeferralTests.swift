import Foundation
import StorePlatform
import Synchronization
import Testing

/// In processes of their own: signals and what they do belong to a whole process, also to the threads of other tests.
@Suite struct SignalDeferralTests {
    private static let caught = Atomic<Int>(0)

    @Test("a signal that comes while signals are put off takes its course at the end, and once")
    func putsOff() async {
        await #expect(processExitsWith: .success) {
            signal(SIGHUP) { _ in _ = SignalDeferralTests.caught.add(1, ordering: .relaxed) }
            let deferral = SignalDeferral()
            kill(getpid(), SIGHUP)
            #expect(Self.caught.load(ordering: .relaxed) == 0)
            deferral.end()
            #expect(Self.comesTo(1))
            deferral.end()
            kill(getpid(), SIGHUP)
            #expect(Self.comesTo(2))
        }
    }

    @Test("none is lost, whatever thread the system gives it to, and whenever that comes to it")
    func amongThreads() async {
        await #expect(processExitsWith: .success) {
            signal(SIGHUP) { _ in _ = SignalDeferralTests.caught.add(1, ordering: .relaxed) }
            // More threads than processors: some have been given the signal and do not run yet.
            for _ in 0..<16 { Thread.detachNewThread { while true { sched_yield() } } }
            // This one takes none itself.
            var hangUp = sigset_t()
            sigemptyset(&hangUp)
            sigaddset(&hangUp, SIGHUP)
            pthread_sigmask(SIG_BLOCK, &hangUp, nil)
            for round in 1...200 {
                let deferral = SignalDeferral()
                kill(getpid(), SIGHUP)
                deferral.end()
                #expect(Self.comesTo(round))
                guard Self.caught.load(ordering: .relaxed) == round else { return }
            }
        }
    }

    /// Waits for a signal, which any thread of the process may take: so many were caught, and no more.
    private static func comesTo(_ count: Int) -> Bool {
        let deadline = ContinuousClock.now + .seconds(10)
        while caught.load(ordering: .relaxed) < count, ContinuousClock.now < deadline { sched_yield() }
        return caught.load(ordering: .relaxed) == count
    }
}
