import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A program that answers line by line: it writes one line, and the next one only after it was sent a line.
///
/// It has a process group of its own, inherits standard error and no other descriptor, and gets only the given variables
/// of the environment. When the dialogue ends, the processes of its group are killed. If this process is killed, Linux
/// kills the program.
package struct ProgramDialogue: ~Copyable {
    private let process: pid_t
    private let input: FileDescriptor
    private let output: FileDescriptor

    private init(process: pid_t, input: consuming FileDescriptor, output: consuming FileDescriptor) {
        self.process = process
        self.input = input
        self.output = output
        cplatform_interruption_ends_child(-process)
    }

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - program: Its absolute path.
    ///   - environment: The names of the environment variables that it gets.
    package static func start(
        _ program: String, environment: [String]
    ) throws(Subprocess.Failure) -> ProgramDialogue {
        do throws(SystemError) {
            let (reading, writing) = try Subprocess.pipeEnds()
            let output = FileDescriptor(owning: reading, path: program)
            let childOutput = FileDescriptor(owning: writing, path: program)
            let (childReading, toChild) = try Subprocess.pipeEnds()
            let childInput = FileDescriptor(owning: childReading, path: program)
            let input = FileDescriptor(owning: toChild, path: program)
            let process = try Subprocess.spawn(
                [program], Subprocess.variables(environment), program, input: childInput.number,
                output: childOutput.number, leadsGroup: true)
            return ProgramDialogue(process: process, input: input, output: output)
        } catch {
            throw .cannotRun(error)
        }
    }

    deinit {
        cplatform_interruption_ends_child(0)
        // It was not waited for, so no other process has its number or that of its group.
        kill(-process, SIGKILL)
        _ = retryingInterrupts { waitpid(process, nil, 0) }
    }

    /// Sends a line, which ends with `\n`.
    ///
    /// - Throws: `exited` or `killed` when the program has ended.
    package borrowing func send(_ line: borrowing WipedBuffer, deadline: ContinuousClock.Instant)
        throws(Subprocess.Failure)
    {
        do throws(SystemError) {
            try line.withBytes { bytes throws(SystemError) in try Self.withoutPipeSignal(bytes, input) }
        } catch {
            if error.errorNumber == EPIPE { throw endFailure(deadline) }
            throw .cannotRun(error)
        }
    }

    /// Receives a line, without its end.
    ///
    /// - Parameter limit: The time until the deadline, for the error.
    /// - Throws: `timedOut`, `outputTooLong`; `exited` or `killed` when the program has ended instead.
    package borrowing func receive(
        limitBytes: Int, deadline: ContinuousClock.Instant, limit: Duration
    ) throws(Subprocess.Failure) -> WipedBuffer {
        var line = WipedBuffer(capacity: limitBytes + 2)
        while true {
            guard output.waitUntilReadable(deadline: deadline) else { throw .timedOut(limit) }
            let count: Int
            do {
                count = try line.append(readingFrom: output)
            } catch {
                throw .cannotRun(error)
            }
            if line.count > limitBytes + 1 { throw .outputTooLong(limitBytes: limitBytes) }
            if count == 0 { throw endFailure(deadline) }
            if line.withBytes({ $0.last == UInt8(ascii: "\n") }) { break }
        }
        line.removeLast(1)
        return line
    }

    /// Why a program that has closed its output, or does not read, gave no answer.
    private borrowing func endFailure(_ deadline: ContinuousClock.Instant) -> Subprocess.Failure {
        var information = siginfo_t()
        var polling = Polling(
            first: PlatformLimits.firstExitPause, longest: PlatformLimits.longestExitPause,
            until: min(deadline, .now + PlatformLimits.dialogueEndWait))
        while true {
            let result = retryingInterrupts {
                waitid(P_PID, id_t(process), &information, WEXITED | WNOHANG | WNOWAIT)
            }
            if result != 0 { return .cannotRun(SystemError("waitpid", nil)) }
            if information.si_signo != 0 { break }
            guard polling.sleep() else { return .timedOut(PlatformLimits.dialogueEndWait) }
        }
        #if canImport(Darwin)
            let status = information.si_status
        #else
            let status = information._sifields._sigchld.si_status
        #endif
        return information.si_code == Int32(CLD_EXITED) ? .exited(status: status) : .killed(signal: status)
    }

    /// Writes without SIGPIPE, which ends this process if the program does not read.
    private static func withoutPipeSignal(
        _ bytes: UnsafeRawBufferPointer, _ file: borrowing FileDescriptor
    ) throws(SystemError) {
        var (signal, former, pending) = (sigset_t(), sigset_t(), sigset_t())
        sigemptyset(&signal)
        sigaddset(&signal, SIGPIPE)
        sigpending(&pending)
        let wasPending = sigismember(&pending, SIGPIPE) == 1
        pthread_sigmask(SIG_BLOCK, &signal, &former)
        defer {
            sigpending(&pending)
            var taken: Int32 = 0
            if !wasPending, sigismember(&pending, SIGPIPE) == 1 { sigwait(&signal, &taken) }
            pthread_sigmask(SIG_SETMASK, &former, nil)
        }
        try file.write(bytes)
    }
}
