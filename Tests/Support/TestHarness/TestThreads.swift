import Foundation
import Synchronization

/// Runs test bodies on threads of their own.
///
/// Most tests block their thread: they wait for processes, locks and other threads. Swift's cooperative pool has one thread
/// for each core, so a few tests in parallel would take all of them, and no task of the library would run. Tasks that a
/// test or the library creates with `Task` do not inherit this executor: they run on the cooperative pool, as in a program.
/// - SeeAlso: <https://github.com/swiftlang/swift-evolution/blob/main/proposals/0417-task-executor-preference.md>
public final class TestThreads: TaskExecutor {
    public static let shared = TestThreads()

    private struct State {
        var jobs: [UnownedJob] = []
        /// Threads that wait for a job, those included that were signalled and did not wake yet.
        var idle = 0
    }

    private let state = Mutex(State())
    private let available = DispatchSemaphore(value: 0)

    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let needsThread = state.withLock { state in
            state.jobs.append(job)
            return state.jobs.count > state.idle
        }
        // The number of threads is that of the tests that run at the same time: TestRun bounds it.
        if needsThread {
            Thread.detachNewThread { self.runJobs() }
        } else {
            available.signal()
        }
    }

    private func runJobs() -> Never {
        // As on the threads of Dispatch: signals to the process go to the threads that the program made for them.
        var signals = sigset_t()
        sigfillset(&signals)
        for synchronous in [SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS] {
            sigdelset(&signals, synchronous)
        }
        pthread_sigmask(SIG_SETMASK, &signals, nil)
        while true { nextJob().runSynchronously(on: asUnownedTaskExecutor()) }
    }

    private func nextJob() -> UnownedJob {
        while true {
            let next: UnownedJob? = state.withLock { state in
                guard !state.jobs.isEmpty else {
                    state.idle += 1
                    return nil
                }
                return state.jobs.removeFirst()
            }
            if let next { return next }
            available.wait()
            state.withLock { $0.idle -= 1 }
        }
    }
}
