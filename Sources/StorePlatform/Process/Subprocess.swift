import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Runs a program for its output, as a key source does.
package enum Subprocess {
    /// Why a run failed.
    package enum Failure: Error, Sendable, Equatable {
        case cannotRun(SystemError)
        /// The program did not end in time and was killed.
        case timedOut(Duration)
        case outputTooLong(limitBytes: Int)
        case exited(status: Int32)
        case killed(signal: Int32)

        /// Whether the program was not waited for; a later kill could hit another process of the same number.
        fileprivate var leavesProgramRunning: Bool {
            switch self {
            case .timedOut, .outputTooLong: true
            case .cannotRun(let error): error.call != "waitpid"
            case .exited, .killed: false
            }
        }
    }

    /// Runs a program and returns what it wrote to its standard output until it ended.
    ///
    /// No shell is involved, unless the program is a script without an interpreter line. It is found by `PATH`, its
    /// standard input is `/dev/null`, its standard error is this process's, and it inherits no other descriptor.
    ///
    /// | | without a terminal | at a terminal |
    /// |---|---|---|
    /// | process group | its own | that of this process: it may prompt, and is stopped and continued with this process |
    /// | killed when it ends | the processes of its group | the processes of this session that have its mark |
    ///
    /// A process that it leaves in a session of its own, as an agent does, is not killed. When the program is killed at
    /// its deadline, its descendants are killed too. If this process is killed, Linux kills the program, and no other.
    ///
    /// - Parameters:
    ///   - arguments: The program and its arguments.
    ///   - environment: The names of the environment variables that it gets; nil for all of them, without a mark.
    ///   - limitBytes: The longest output that is accepted.
    ///   - timeout: The longest time until the end of the program.
    package static func output(
        of arguments: [String], environment: [String]? = nil, limitBytes: Int, timeout: Duration
    ) throws(Failure) -> WipedBuffer {
        let deadline = ContinuousClock.now + timeout
        var output = WipedBuffer(capacity: limitBytes + 1)
        let running = try start(arguments, environment)
        cplatform_interruption_ends_child(running.leadsGroup ? -running.process : running.process)
        defer { cplatform_interruption_ends_child(0) }
        do {
            try collect(from: running, into: &output, limitBytes: limitBytes, deadline: deadline, timeout)
            try waitForEnd(of: running.process, deadline: deadline, timeout)
        } catch {
            if error.leavesProgramRunning { end(running) }
            throw error
        }
        // Until the program is waited for, no other process gets its number or that of its group.
        running.killLeftovers()
        try finish(running.process)
        return output
    }

    private static func end(_ running: borrowing Running) {
        for each in ProcessInspector.stopTree(of: running.process) { kill(each, SIGKILL) }
        running.killLeftovers()
        _ = retryingInterrupts { waitpid(running.process, nil, 0) }
    }

    private struct Running: ~Copyable {
        let process: pid_t
        let output: FileDescriptor
        /// Whether it leads a process group of its own.
        let leadsGroup: Bool
        let mark: ProcessMark

        /// Kills what the program has left, also in the background and without a living parent.
        func killLeftovers() {
            if leadsGroup { kill(-process, SIGKILL) } else { mark.killProcesses() }
        }
    }

    private static func start(_ arguments: [String], _ environment: [String]?) throws(Failure) -> Running {
        guard let program = arguments.first, !program.isEmpty else {
            throw .cannotRun(SystemError(call: "exec", path: nil, errorNumber: ENOENT))
        }
        do throws(SystemError) {
            let input = try FileDescriptor(opening: "/dev/null", .readOnly)
            let (reading, writing) = try pipeEnds()
            let readEnd = FileDescriptor(owning: reading, path: program)
            let writeEnd = FileDescriptor(owning: writing, path: program)
            let leadsGroup = !Terminal.isControlling
            let mark = ProcessMark()
            var given: [[UInt8]]?
            if let environment { given = variables(environment) + (leadsGroup ? [] : [mark.variable]) }
            let process = try spawn(
                arguments, given, program, input: input.number, output: writeEnd.number, leadsGroup: leadsGroup)
            return Running(process: process, output: readEnd, leadsGroup: leadsGroup, mark: mark)
        } catch {
            throw .cannotRun(error)
        }
    }

    static func spawn(
        _ arguments: [String], _ environment: [[UInt8]]?, _ program: String, input: Int32, output: Int32,
        leadsGroup: Bool
    ) throws(SystemError) -> pid_t {
        var process: pid_t = 0
        var vector: [UnsafeMutablePointer<CChar>?] = arguments.map { copy(Array($0.utf8)) }
        vector.append(nil)
        defer { vector.forEach { free($0) } }
        let failure: Int32
        if let environment {
            var variables: [UnsafeMutablePointer<CChar>?] = environment.map { copy($0) }
            variables.append(nil)
            defer { variables.forEach { free($0) } }
            failure = cplatform_spawn(program, vector, variables, input, output, leadsGroup, &process)
        } else {
            failure = cplatform_spawn(program, vector, nil, input, output, leadsGroup, &process)
        }
        guard failure == 0 else { throw SystemError(call: "exec", path: program, errorNumber: failure) }
        return process
    }

    /// A C string on the heap.
    private static func copy(_ bytes: [UInt8]) -> UnsafeMutablePointer<CChar>? {
        let text = (bytes + [0]).map { CChar(bitPattern: $0) }
        return text.withUnsafeBufferPointer { buffer in buffer.baseAddress.flatMap { strdup($0) } }
    }

    /// The variables of these names that are set, as `NAME=value`.
    static func variables(_ names: [String]) -> [[UInt8]] {
        names.compactMap { name in
            ProcessInspector.environmentValue(name).map { Array(name.utf8) + [UInt8(ascii: "=")] + $0 }
        }
    }

    static func pipeEnds() throws(SystemError) -> (reading: Int32, writing: Int32) {
        var ends: [Int32] = [-1, -1]
        let failure = cplatform_pipe(&ends)
        guard failure == 0 else { throw SystemError(call: "pipe", path: nil, errorNumber: failure) }
        return (ends[0], ends[1])
    }

    /// Reads until no process has the standard output open, or the program has ended: a process in the background may keep
    /// it open for ever.
    private static func collect(
        from running: borrowing Running, into output: inout WipedBuffer, limitBytes: Int,
        deadline: ContinuousClock.Instant, _ timeout: Duration
    ) throws(Failure) {
        var pause = PlatformLimits.firstExitPause
        while true {
            // Before the pipe is tried: what the program has printed is there once it has ended.
            let hasEnded = try hasEnded(running.process)
            let wait = hasEnded ? .now + PlatformLimits.firstExitPause : min(deadline, .now + pause)
            if running.output.waitUntilReadable(deadline: wait) {
                do {
                    if try output.append(readingFrom: running.output) == 0 { return }
                } catch {
                    throw .cannotRun(error)
                }
                if output.count > limitBytes { throw .outputTooLong(limitBytes: limitBytes) }
            } else if hasEnded {
                return
            } else if ContinuousClock.now >= deadline {
                throw .timedOut(timeout)
            } else {
                pause = min(pause * 2, PlatformLimits.longestExitPause)
            }
        }
    }

    /// Whether a child has ended. It is not waited for, so that it keeps its number.
    private static func hasEnded(_ process: pid_t) throws(Failure) -> Bool {
        var information = siginfo_t()
        let result = retryingInterrupts {
            waitid(P_PID, id_t(process), &information, WEXITED | WNOHANG | WNOWAIT)
        }
        if result != 0 { throw .cannotRun(SystemError("waitpid", nil)) }
        return information.si_signo != 0
    }

    /// Waits for the end of a program that has closed its standard output.
    private static func waitForEnd(
        of process: pid_t, deadline: ContinuousClock.Instant, _ timeout: Duration
    ) throws(Failure) {
        var polling = Polling(
            first: PlatformLimits.firstExitPause, longest: PlatformLimits.longestExitPause, until: deadline)
        while try !hasEnded(process) {
            guard polling.sleep() else { throw .timedOut(timeout) }
        }
    }

    /// Takes the status of a program that has ended.
    private static func finish(_ process: pid_t) throws(Failure) {
        var status: Int32 = 0
        if retryingInterrupts({ waitpid(process, &status, 0) }) == -1 {
            throw .cannotRun(SystemError("waitpid", nil))
        }
        let signal = status & 0x7f
        guard signal == 0 else { throw .killed(signal: signal) }
        let code = (status >> 8) & 0xff
        guard code == 0 else { throw .exited(status: code) }
    }
}

extension Subprocess {
    /// Splits a command line into words, without a shell: nothing is expanded, piped or substituted.
    ///
    /// Words are separated by blanks. `'...'` is literal; in `"..."` a backslash escapes `"` and `\`; outside quotes a
    /// backslash escapes any character.
    ///
    /// - Returns: The words, or nil when a quote is left open or a backslash ends the line.
    package static func words(of line: String) -> [String]? {
        var splitter = WordSplitter()
        for character in line { splitter.take(character) }
        return splitter.finish()
    }
}

/// The words of a command line, character by character.
private struct WordSplitter {
    private enum State {
        case between
        case word
        case literal
        case quoted
        case escaped(inQuotes: Bool)
    }

    private var state = State.between
    private var words: [String] = []
    private var current = ""

    mutating func take(_ character: Character) {
        switch (state, character) {
        case (.between, " "), (.between, "\t"), (.between, "\n"): break
        case (.word, " "), (.word, "\t"), (.word, "\n"): endWord()
        case (.between, "'"), (.word, "'"): state = .literal
        case (.between, "\""), (.word, "\""): state = .quoted
        case (.between, "\\"), (.word, "\\"): state = .escaped(inQuotes: false)
        case (.quoted, "\\"): state = .escaped(inQuotes: true)
        case (.literal, "'"), (.quoted, "\""): state = .word
        case (.escaped(true), _):
            if character != "\"", character != "\\" { current.append("\\") }
            current.append(character)
            state = .quoted
        case (.between, _), (.escaped(false), _):
            current.append(character)
            state = .word
        case (.word, _), (.literal, _), (.quoted, _): current.append(character)
        }
    }

    private mutating func endWord() {
        words.append(current)
        current = ""
        state = .between
    }

    mutating func finish() -> [String]? {
        switch state {
        case .between: break
        case .word: endWord()
        case .literal, .quoted, .escaped: return nil
        }
        return words
    }
}
