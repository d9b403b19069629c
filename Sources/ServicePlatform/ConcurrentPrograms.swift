#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

import StorePlatform

/// Programs that run beside each other, a bounded number at a time. The output of each is captured.
///
/// Each has `/dev/null` as its input and a process group of its own. A signal of the terminal reaches this process alone,
/// which then ends them all. If this process is killed by SIGKILL, they complete their work: a rotation that is killed
/// costs more than one that completes.
///
/// | event | effect |
/// |---|---|
/// | the time limit of a program | SIGTERM to its group, SIGKILL after ``ServiceLimits/endingGrace`` |
/// | a cancellation | the same for each, and no other one begins |
/// | too much output | SIGKILL |
/// | it does not end after SIGKILL | it is left behind after ``ServiceLimits/killGrace`` |
package struct ConcurrentPrograms {
    package struct Program: Sendable {
        /// The program by its path, and its arguments.
        package let arguments: [String]
        package let timeLimit: Duration

        package init(arguments: [String], timeLimit: Duration) {
            (self.arguments, self.timeLimit) = (arguments, timeLimit)
        }
    }

    package enum Ending: Hashable, Sendable {
        case exited(Int32)
        case killed(signal: Int32)
        case timedOut(Duration)
        /// A cancellation ended it.
        case cancelled
        case outputTooLong
        case notStarted(SystemError)
    }

    package struct Outcome: Sendable {
        package let ending: Ending
        package let output: [UInt8]
        package let errors: [UInt8]
        package let duration: Duration
        /// Whether the system could not end it.
        package let isLeftBehind: Bool
    }

    /// How many run at a time.
    private let limit: Int
    private let grace: Duration

    package init(limit: Int, grace: Duration = ServiceLimits.endingGrace) {
        self.limit = max(1, limit)
        self.grace = grace
    }

    /// Runs programs until there is no other one.
    ///
    /// - Parameters:
    ///   - next: Called when a program may begin: its number, and the program. Nil where none is left.
    ///   - isCancelled: Called about twenty times a second.
    ///   - onEnd: Called for each program that ended, in the order of their ends.
    package func run(
        next: () -> (number: Int, program: Program)?, isCancelled: () -> Bool, onEnd: (Int, Outcome) -> Void
    ) {
        var running: [RunningProgram] = []
        var hasMore = true
        while true {
            while hasMore, running.count < limit, !isCancelled() {
                guard let (number, program) = next() else {
                    hasMore = false
                    break
                }
                do throws(SystemError) {
                    running.append(try RunningProgram(number, program))
                } catch {
                    onEnd(
                        number,
                        Outcome(
                            ending: .notStarted(error), output: [], errors: [], duration: .zero, isLeftBehind: false))
                }
            }
            if running.isEmpty { return }
            Self.wait(running)
            let isCancelled = isCancelled()
            running.removeAll { program in
                guard let outcome = program.advance(isCancelled: isCancelled, grace: grace) else { return false }
                onEnd(program.number, outcome)
                return true
            }
        }
    }

    /// Waits until a program has written something, or for a moment.
    private static func wait(_ running: [RunningProgram]) {
        var files = running.flatMap(\.openDescriptors).map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        poll(&files, nfds_t(files.count), ServiceLimits.pollMilliseconds)
    }
}

/// One program that runs. Used by one thread.
private final class RunningProgram {
    let number: Int
    private let process: pid_t
    private let timeLimit: Duration
    private let start = ContinuousClock.now
    private var output: CapturedStream
    private var errors: CapturedStream
    private var state = State.running

    private enum State {
        case running
        /// It was asked to end, for this reason.
        case ending(ConcurrentPrograms.Ending, since: ContinuousClock.Instant)
        case killed(ConcurrentPrograms.Ending, since: ContinuousClock.Instant)
    }

    init(_ number: Int, _ program: ConcurrentPrograms.Program) throws(SystemError) {
        self.number = number
        timeLimit = program.timeLimit
        let (output, outputEnd) = try CapturedStream.make()
        let (errors, errorEnd) = try CapturedStream.make()
        (self.output, self.errors) = (output, errors)
        process = try Self.spawn(program.arguments, output: outputEnd.number, errors: errorEnd.number)
    }

    var openDescriptors: [Int32] { [output.source, errors.source].compactMap { $0?.number } }

    /// Reads what the program has written, and ends it where it must end.
    ///
    /// - Returns: Its outcome once it has ended.
    func advance(isCancelled: Bool, grace: Duration) -> ConcurrentPrograms.Outcome? {
        // Before the pipes are read: what it has written is there once it has ended.
        let hasEnded = hasEnded
        output.read()
        errors.read()
        if hasEnded { return end() }
        let now = ContinuousClock.now
        switch state {
        case .running:
            if output.isTooLong || errors.isTooLong {
                kill(-process, SIGKILL)
                state = .killed(.outputTooLong, since: now)
            } else if isCancelled {
                ask(.cancelled, now)
            } else if now - start >= timeLimit {
                ask(.timedOut(timeLimit), now)
            }
        case .ending(let why, let since) where now - since >= grace:
            kill(-process, SIGKILL)
            state = .killed(why, since: now)
        case .killed(let why, let since) where now - since >= ServiceLimits.killGrace:
            return outcome(why, isLeftBehind: true)
        case .ending, .killed: break
        }
        return nil
    }

    private func ask(_ why: ConcurrentPrograms.Ending, _ now: ContinuousClock.Instant) {
        kill(-process, SIGTERM)
        // One that is stopped could not end.
        kill(-process, SIGCONT)
        state = .ending(why, since: now)
    }

    /// Whether it has ended. It is not waited for, so that it keeps its number and that of its group.
    private var hasEnded: Bool {
        var information = siginfo_t()
        let result = waitid(P_PID, id_t(process), &information, WEXITED | WNOHANG | WNOWAIT)
        return result == 0 && information.si_signo != 0
    }

    private func end() -> ConcurrentPrograms.Outcome {
        // Programs of its group that it has left behind.
        kill(-process, SIGKILL)
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        let signal = status & 0x7f
        let ending: ConcurrentPrograms.Ending =
            signal == 0 ? .exited((status >> 8) & 0xff) : .killed(signal: signal)
        switch state {
        case .running: return outcome(ending)
        case .ending(let why, _), .killed(let why, _):
            // It may have ended by itself, with an answer, before the signal arrived.
            return outcome(ending == .exited(0) ? ending : why)
        }
    }

    private func outcome(_ ending: ConcurrentPrograms.Ending, isLeftBehind: Bool = false) -> ConcurrentPrograms.Outcome
    {
        ConcurrentPrograms.Outcome(
            ending: ending, output: output.bytes, errors: errors.bytes, duration: ContinuousClock.now - start,
            isLeftBehind: isLeftBehind)
    }

    // MARK: Starting

    private static func spawn(_ arguments: [String], output: Int32, errors: Int32) throws(SystemError) -> pid_t {
        guard let path = arguments.first else { throw SystemError(call: "exec", path: nil, errorNumber: ENOENT) }
        #if canImport(Darwin)
            var actions: posix_spawn_file_actions_t?
            var attributes: posix_spawnattr_t?
        #else
            var actions = posix_spawn_file_actions_t()
            var attributes = posix_spawnattr_t()
        #endif
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        posix_spawn_file_actions_adddup2(&actions, errors, 2)
        var (none, all) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        // A signal that this process ignores must be able to end the program.
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) }
        words.append(nil)
        defer { words.forEach { free($0) } }
        var process: pid_t = 0
        let failure = posix_spawn(&process, path, &actions, &attributes, words, environ)
        guard failure == 0 else { throw SystemError(call: "exec", path: path, errorNumber: failure) }
        return process
    }
}

/// One output of a program, as far as it was read.
private struct CapturedStream {
    private(set) var bytes: [UInt8] = []
    /// Nil at the end of the output.
    private(set) var source: OwnedDescriptor?

    var isTooLong: Bool { bytes.count > ServiceLimits.outputBytes }

    /// A stream, and the end of its pipe to which the program writes.
    static func make() throws(SystemError) -> (CapturedStream, OwnedDescriptor) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw SystemError(call: "pipe", path: nil, errorNumber: errno) }
        let (reading, writing) = (OwnedDescriptor(ends[0]), OwnedDescriptor(ends[1]))
        try reading.setUp()
        guard fcntl(writing.number, F_SETFD, FD_CLOEXEC) == 0 else {
            throw SystemError(call: "fcntl", path: nil, errorNumber: errno)
        }
        return (CapturedStream(source: reading), writing)
    }

    private init(source: OwnedDescriptor) { self.source = source }

    mutating func read() {
        while let source, !isTooLong {
            switch source.read(into: &bytes, limit: 64 * 1024) {
            case .bytes: continue
            case .later: return
            case .end: self.source = nil
            }
        }
    }
}
