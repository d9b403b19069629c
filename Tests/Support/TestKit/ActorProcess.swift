import Foundation

/// A `StoreActor` process under a test's command. It is killed when the object goes away.
// Safe because: a test uses each process from one thread at a time.
public final class ActorProcess: @unchecked Sendable {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    private var buffer = Data()

    /// Starts a process.
    ///
    /// - Parameters:
    ///   - crashPoint: The named place at which it dies by SIGKILL; nil for none.
    ///   - variables: Environment variables beside the test's own.
    ///   - errorFile: Takes what it writes to standard error.
    public init(
        crashAt crashPoint: String? = nil, environment variables: [String: String] = [:], errorFile: String? = nil
    ) throws {
        process.executableURL = try BuiltProducts.executable("StoreActor")
        process.standardInput = input
        process.standardOutput = output
        var environment = ProcessInfo.processInfo.environment
        environment["CIPHERSTORE_CRASH_AT"] = crashPoint
        environment["CIPHERSTORE_CHEAP_SLOTS"] = "1"
        environment.merge(variables) { $1 }
        if let errorFile {
            _ = FileManager.default.createFile(atPath: errorFile, contents: nil)
            process.standardError = FileHandle(forWritingAtPath: errorFile)
        }
        process.environment = environment
        try process.run()
    }

    deinit {
        end()
        // Left to the objects' own end, thousands of descriptors would pile up in a run of all tests.
        try? output.fileHandleForReading.close()
        try? input.fileHandleForWriting.close()
    }

    public var processIdentifier: Int32 { process.processIdentifier }

    /// Sends a command without waiting for the answer.
    public func send(_ command: String) {
        try? input.fileHandleForWriting.write(contentsOf: Data((command + "\n").utf8))
    }

    /// The next answer; nil when the process has ended.
    public func answer() -> String? {
        while true {
            if let end = buffer.firstIndex(of: 10) {
                let line = String(decoding: buffer[buffer.startIndex..<end], as: UTF8.self)
                buffer.removeSubrange(buffer.startIndex...end)
                return line.hasSuffix(" ") ? String(line.dropLast()) : line
            }
            endIfSilent()
            let chunk = output.fileHandleForReading.availableData
            if chunk.isEmpty { return nil }
            buffer.append(chunk)
        }
    }

    /// The longest time without an answer: a test that waits for ever would stop all others.
    private static let patience: TimeInterval = {
        let bank = ProcessInfo.processInfo.environment["CIPHERSTORE_BANK_SECONDS"].flatMap(TimeInterval.init) ?? 0
        return TimeInterval(slowness) * (300 + 2 * bank)
    }()

    /// Kills a process that does not answer, so that its test fails and says so.
    private func endIfSilent() {
        let descriptor = output.fileHandleForReading.fileDescriptor
        let deadline = Date() + Self.patience
        while Date() < deadline {
            var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            if poll(&wait, 1, 1000) > 0 { return }
        }
        print("a process gave no answer for \(Int(Self.patience)) s, and is killed")
        Foundation.kill(process.processIdentifier, SIGKILL)
    }

    /// Whether there is an answer to read, or the process has ended. It does not wait.
    public var hasAnswered: Bool {
        var look = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
        return !buffer.isEmpty || poll(&look, 1, 0) > 0
    }

    /// Sends a command and waits for its answer; nil when the process died of it.
    @discardableResult
    public func ask(_ command: String) -> String? {
        send(command)
        return answer()
    }

    /// Kills the process at a random moment of the time given.
    public func kill(within longest: Duration) {
        let microseconds = longest / .microseconds(1)
        usleep(UInt32.random(in: 0...UInt32(microseconds)))
        kill()
    }

    /// Kills the process after a time.
    public func kill(after time: Duration) {
        usleep(UInt32(max(0, time / .microseconds(1))))
        kill()
    }

    /// Stops the process, as ^Z or a debugger does; it continues with ``go()``.
    public func stop() {
        Foundation.kill(process.processIdentifier, SIGSTOP)
        _ = waitUntil { isStopped }
    }

    /// Stops the process for a time.
    public func pause(for time: Duration) {
        stop()
        usleep(UInt32(max(0, time / .microseconds(1))))
        go()
    }

    /// Lets a stopped process go on.
    public func go() { Foundation.kill(process.processIdentifier, SIGCONT) }

    /// All answers until the process has ended.
    public func remainingAnswers() -> [String] {
        var answers: [String] = []
        while let next = answer() { answers.append(next) }
        return answers
    }

    /// Kills the process as if the machine had lost it.
    public func kill() {
        Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// Whether the process ended by a signal; waits for its end.
    public func diedBySignal() -> Bool {
        process.waitUntilExit()
        return process.terminationReason == .uncaughtSignal
    }

    /// Whether the process is stopped, for example by Ctrl-Z.
    public var isStopped: Bool { Self.isStopped(process.processIdentifier) }

    /// Whether a process is stopped.
    public static func isStopped(_ process: Int32) -> Bool {
        let status = (try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)) ?? ""
        // The state stands behind the name, which may hold anything but ends with the last parenthesis.
        return status.split(separator: ")").last?.split(separator: " ").first == "T"
    }

    /// Lets the process end by itself, and kills it when it does not.
    public func end() {
        guard process.isRunning else { return }
        try? input.fileHandleForWriting.close()
        let deadline = Date(timeIntervalSinceNow: 10)
        while process.isRunning && Date() < deadline { usleep(2000) }
        if process.isRunning { kill() }
    }
}

/// Where the build put the executables.
public enum BuiltProducts {
    /// The path of an executable of this package.
    public static func executable(_ name: String) throws -> URL {
        // The tests' own executable lies in the same folder.
        var folder = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        for _ in 0..<5 {
            let candidate = folder.appendingPathComponent(name)
            if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate }
            folder.deleteLastPathComponent()
        }
        throw CocoaError(.fileNoSuchFile, userInfo: [NSFilePathErrorKey: name])
    }
}
