import Dispatch
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

    // A rotation's pause sent SIGCONT on and then SIGTSTP: the process stayed stopped.
    @Test("a stop that was taken back takes no effect at the end, and one that came after that does")
    func takenBack() async {
        await #expect(processExitsWith: .success) {
            Self.unblockSignals()
            signal(SIGTSTP) { _ in _ = SignalDeferralTests.caught.add(1, ordering: .relaxed) }
            let taken = SignalDeferral()
            raise(SIGTSTP)
            raise(SIGCONT)
            taken.end()
            #expect(Self.comesTo(0))
            let later = SignalDeferral()
            raise(SIGTSTP)
            raise(SIGCONT)
            raise(SIGTSTP)
            later.end()
            #expect(Self.comesTo(1))
        }
    }

    // Another thread's read failed with EINTR, after which `readLine()` never ended.
    @Test("a signal that is put off ends no system call of another thread")
    func systemCalls() async {
        await #expect(processExitsWith: .success) {
            signal(SIGQUIT) { _ in _ = SignalDeferralTests.caught.add(1, ordering: .relaxed) }
            var ends: [Int32] = [0, 0]
            #expect(pipe(&ends) == 0)
            let reader = Mutex<pthread_t?>(nil)
            let isRead = DispatchSemaphore(value: 0)
            let count = Atomic<Int>(0)
            let deferral = SignalDeferral()
            Thread.detachNewThread { [end = ends[0]] in
                Self.unblockSignals()
                reader.withLock { $0 = pthread_self() }
                var byte: UInt8 = 0
                count.store(read(end, &byte, 1), ordering: .relaxed)
                isRead.signal()
            }
            while reader.withLock({ $0 }) == nil { sched_yield() }
            // One of them comes in the system call.
            for _ in 0..<30 {
                if let thread = reader.withLock({ $0 }) { pthread_kill(thread, SIGQUIT) }
                #expect(isRead.wait(timeout: .now() + 0.01) == .timedOut)
            }
            #expect(write(ends[1], "x", 1) == 1)
            #expect(isRead.wait(timeout: .now() + 10) == .success && count.load(ordering: .relaxed) == 1)
            deferral.end()
            #expect(Self.comesTo(1))
        }
    }

    /// Lets this thread take signals: those of a thread pool block them.
    private static func unblockSignals() {
        var none = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, nil)
    }

    /// Waits for a signal, which any thread of the process may take: so many were caught, and no more.
    private static func comesTo(_ count: Int) -> Bool {
        let deadline = ContinuousClock.now + .seconds(10)
        while caught.load(ordering: .relaxed) < count, ContinuousClock.now < deadline { sched_yield() }
        return caught.load(ordering: .relaxed) == count
    }
}
