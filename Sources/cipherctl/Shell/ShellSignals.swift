import Foundation
import StorePlatform
import Synchronization

/// The signals of a shell at a terminal.
///
/// | signal | effect |
/// |---|---|
/// | SIGINT (Ctrl-C) | ends the statement that runs, or the line that is typed |
/// | SIGTERM, SIGHUP | end the same, and then the shell; a second one ends the process at once |
enum ShellSignals {
    private static let wasInterrupted = Atomic<Bool>(false)
    private static let mustEnd = Atomic<Bool>(false)
    /// The descriptor that wakes the thread below; -1 before ``begin()``.
    private static let bell = Atomic<Int32>(-1)
    /// Interrupts the statement that runs; nil while none does.
    private static let running = Mutex(Running())

    private struct Running {
        var interrupt: (@Sendable () -> Void)?
    }

    /// From here on the three signals are handled as the table says, for the rest of the process.
    ///
    /// - Throws: `SystemError` when there is no descriptor left.
    static func begin() throws {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw SystemError(call: "pipe", path: nil, errorNumber: errno) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // A handler must never block.
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        bell.store(ends[1], ordering: .releasing)
        let reader = ends[0]
        let thread = Thread {
            var byte: UInt8 = 0
            while true {
                let count = Foundation.read(reader, &byte, 1)
                if count < 0, errno == EINTR { continue }
                guard count == 1 else { return }
                let interrupt = running.withLock(\.interrupt)
                interrupt?()
            }
        }
        thread.name = "cipherctl.ShellSignals"
        thread.start()
        // The constants exist by now, so that the handlers only load and store.
        _ = (wasInterrupted.load(ordering: .relaxed), mustEnd.load(ordering: .relaxed))
        signal(SIGINT) { _ in
            ShellSignals.wasInterrupted.store(true, ordering: .releasing)
            ShellSignals.ring()
        }
        for number in [SIGTERM, SIGHUP] {
            signal(number) { _ in
                if ShellSignals.mustEnd.exchange(true, ordering: .acquiringAndReleasing) {
                    _exit(ExitCode.interrupted.rawValue)
                }
                ShellSignals.ring()
            }
        }
    }

    /// Called by handlers: `write` may be.
    private static func ring() {
        let former = errno
        var byte: UInt8 = 1
        _ = Foundation.write(bell.load(ordering: .acquiring), &byte, 1)
        errno = former
    }

    /// Whether a signal asks the shell to end.
    static var endsShell: Bool { mustEnd.load(ordering: .acquiring) }

    /// Whether the present statement or line must end.
    static var hasArrived: Bool { wasInterrupted.load(ordering: .acquiring) || endsShell }

    /// Forgets a SIGINT, before the next statement or line.
    static func forget() { wasInterrupted.store(false, ordering: .releasing) }

    /// Runs a statement, which `interrupt` ends from another thread.
    static func during<T>(_ interrupt: @escaping @Sendable () -> Void, _ body: () throws -> T) rethrows -> T {
        running.withLock { $0.interrupt = interrupt }
        defer { running.withLock { $0.interrupt = nil } }
        // One that came before would find nothing to interrupt.
        if hasArrived { interrupt() }
        return try body()
    }
}
