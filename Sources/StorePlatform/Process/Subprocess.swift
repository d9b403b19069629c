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

    /// Runs a program and returns what it wrote to its standard output.
    ///
    /// No shell is involved. The program is found by `PATH`, its standard input is `/dev/null`, its standard error is
    /// this process's, and it inherits no other descriptor. It stays in the process group of this process, so that it
    /// may prompt at the terminal and is stopped and continued with it. When it is killed, its descendants are killed
    /// too; a process whose parent has ended is no descendant.
    ///
    /// - Parameters:
    ///   - arguments: The program and its arguments.
    ///   - environment: The names of the environment variables that it gets; nil for all of them.
    ///   - limitBytes: The longest output that is accepted.
    ///   - timeout: The longest time until the end of the program.
    package static func output(
        of arguments: [String], environment: [String]? = nil, limitBytes: Int, timeout: Duration
    ) throws(Failure) -> WipedBuffer {
        let deadline = ContinuousClock.now + timeout
        var output = WipedBuffer(capacity: limitBytes + 1)
        let running = try start(arguments, environment)
        cplatform_interruption_ends_child(running.process)
        defer { cplatform_interruption_ends_child(0) }
        do {
            try collect(from: running.output, into: &output, limitBytes: limitBytes, deadline: deadline, timeout)
            try finish(running.process, deadline: deadline, timeout)
        } catch {
            if error.leavesProgramRunning { end(running.process) }
            throw error
        }
        return output
    }

    private static func end(_ process: pid_t) {
        for each in ProcessInspector.stopTree(of: process) { kill(each, SIGKILL) }
        _ = retryingInterrupts { waitpid(process, nil, 0) }
    }

    private struct Running: ~Copyable {
        let process: pid_t
        let output: FileDescriptor
    }

    private static func start(_ arguments: [String], _ environment: [String]?) throws(Failure) -> Running {
        guard let program = arguments.first, !program.isEmpty else {
            throw .cannotRun(SystemError(call: "posix_spawn", path: nil, errorNumber: ENOENT))
        }
        do throws(SystemError) {
            let input = try FileDescriptor(opening: "/dev/null", .readOnly)
            let (reading, writing) = try pipeEnds()
            let readEnd = FileDescriptor(owning: reading, path: program)
            let writeEnd = FileDescriptor(owning: writing, path: program)
            let process = try spawn(arguments, environment, program, input: input.number, output: writeEnd.number)
            return Running(process: process, output: readEnd)
        } catch {
            throw .cannotRun(error)
        }
    }

    private static func spawn(
        _ arguments: [String], _ environment: [String]?, _ program: String, input: Int32, output: Int32
    ) throws(SystemError) -> pid_t {
        var process: pid_t = 0
        var vector: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) }
        defer { vector.forEach { free($0) } }
        vector.append(nil)
        let failure: Int32
        if let environment {
            let variables = variables(environment) + [nil]
            defer { variables.forEach { free($0) } }
            failure = cplatform_spawn(program, vector, variables, input, output, &process)
        } else {
            failure = cplatform_spawn(program, vector, nil, input, output, &process)
        }
        guard failure == 0 else { throw SystemError(call: "posix_spawn", path: program, errorNumber: failure) }
        return process
    }

    /// The variables of these names that are set, as `NAME=value`.
    private static func variables(_ names: [String]) -> [UnsafeMutablePointer<CChar>?] {
        names.compactMap { name in
            guard let value = ProcessInspector.environmentValue(name) else { return nil }
            let text = Array(name.utf8) + [UInt8(ascii: "=")] + value + [0]
            return text.map(CChar.init(bitPattern:)).withUnsafeBufferPointer { $0.baseAddress.map { strdup($0) } }
        }
    }

    private static func pipeEnds() throws(SystemError) -> (reading: Int32, writing: Int32) {
        var ends: [Int32] = [-1, -1]
        let failure = cplatform_pipe(&ends)
        guard failure == 0 else { throw SystemError(call: "pipe", path: nil, errorNumber: failure) }
        return (ends[0], ends[1])
    }

    private static func collect(
        from pipe: borrowing FileDescriptor, into output: inout WipedBuffer, limitBytes: Int,
        deadline: ContinuousClock.Instant, _ timeout: Duration
    ) throws(Failure) {
        while true {
            guard pipe.waitUntilReadable(deadline: deadline) else { throw .timedOut(timeout) }
            do {
                if try output.append(readingFrom: pipe) == 0 { return }
            } catch {
                throw .cannotRun(error)
            }
            if output.count > limitBytes { throw .outputTooLong(limitBytes: limitBytes) }
        }
    }

    /// Waits for the end of a program that has closed its standard output.
    private static func finish(
        _ process: pid_t, deadline: ContinuousClock.Instant, _ timeout: Duration
    ) throws(Failure) {
        var pause = Limits.firstExitPause
        while true {
            var status: Int32 = 0
            let ended = retryingInterrupts { waitpid(process, &status, WNOHANG) }
            if ended == -1 { throw .cannotRun(SystemError("waitpid", nil)) }
            if ended == process {
                let signal = status & 0x7f
                guard signal == 0 else { throw .killed(signal: signal) }
                let code = (status >> 8) & 0xff
                guard code == 0 else { throw .exited(status: code) }
                return
            }
            guard ContinuousClock.now < deadline else { throw .timedOut(timeout) }
            Pause.sleep(for: pause)
            pause = min(pause * 2, Limits.longestExitPause)
        }
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
