import Foundation
import StorePlatform
import Synchronization

/// Turns SIGINT, SIGTERM and SIGHUP into an error at the next check, so that work under way can be undone.
///
/// | signal | effect after the work has begun |
/// |---|---|
/// | the first | the next check ends the work, which is undone |
/// | none for the grace time after it | the process ends at once, with exit code 130: a call is running that checks nothing, as a function of SQLite |
/// | a second one, after half a second | the same at once |
final class Interruption: Sendable {
    /// From here on the three signals no longer end the process by themselves. There is one for the whole program.
    static let shared = Interruption()

    /// How the process ends when its work does not; nil for a command that a signal ends wherever it is.
    private struct Ending {
        let grace: Duration
        let isJSON: Bool
    }

    private static let ending = Mutex<Ending?>(nil)
    /// Called when a signal arrives; nil once one has arrived.
    private struct Waiting {
        var bodies: [@Sendable () -> Void]? = []
    }

    private let waiting = Mutex(Waiting())

    private init() {
        let ending = Self.ending.withLock { $0 }
        if let ending { Self.sayAtEnd(Self.forced, isJSON: ending.isJSON, untilBegin: true) }
        InterruptionSignals.begin()
        Self.run("cipherctl.Interruption") {
            // Without a free descriptor for the wait the flag is polled.
            while !InterruptionSignals.isRequested {
                do { try InterruptionSignals.wait() } catch { Thread.sleep(forTimeInterval: 0.2) }
            }
            let bodies = self.waiting.withLock { waiting in
                defer { waiting.bodies = nil }
                return waiting.bodies ?? []
            }
            for body in bodies { Self.run("cipherctl.Interruption.body", body) }
            guard let ending else { return }
            Thread.sleep(forTimeInterval: ending.grace / .seconds(1))
            // As a second signal does. Those that the program ignores have no effect.
            for signal in [SIGTERM, SIGINT, SIGHUP] { kill(getpid(), signal) }
        }
    }

    private static func run(_ name: String, _ body: @escaping @Sendable () -> Void) {
        let thread = Thread(block: body)
        thread.name = name
        thread.start()
    }

    /// Lets a signal end the program at once, with exit code 130: for a command that has nothing to take back, wherever it
    /// is, as in a statement of SQLite, at a prompt, or in front of a reader that does not read.
    ///
    /// - Parameters:
    ///   - untilWork: Whether that ends with ``beginWork()``: from then on there is something to take back.
    ///   - grace: The time in which the work must end after a signal.
    static func endProgram(_ hint: String, isJSON: Bool, untilWork: Bool, grace: Duration) {
        if untilWork { ending.withLock { $0 = Ending(grace: grace, isJSON: isJSON) } }
        sayAtEnd(failure(hint: hint), isJSON: isJSON, untilBegin: untilWork)
    }

    private static func sayAtEnd(_ failure: CommandFailure, isJSON: Bool, untilBegin: Bool) {
        let report = ErrorReport(failure)
        // A progress bar may be in the line.
        let start = Terminal.isTerminal(2) ? "\r\u{1b}[K" : ""
        InterruptionSignals.endProcess(
            saying: isJSON ? report.json.text + "\n" : start + report.text, status: report.exitCode.rawValue,
            untilBegin: untilBegin)
    }

    /// The end of a command that did not end by itself.
    private static var forced: CommandFailure {
        CommandFailure(
            .interrupted, "interrupted", what: "The command was ended before it had undone its work.",
            why: "A signal asked it to end, and it did not end in time, or a second signal arrived.",
            hint: "Run it again, or open the store: what a killed command leaves is undone or completed then.")
    }

    /// From here on a signal ends the work of a command that changes files at its next check, and no longer the process.
    /// For other commands it changes nothing.
    static func beginWork() { _ = shared }

    /// Whether a signal has arrived since the work began.
    static var hasArrived: Bool { InterruptionSignals.isRequested }

    /// Runs a prompt, or another reading of a key, which a signal may end although the work has begun.
    ///
    /// - Throws: ``CommandFailure`` with exit code 130 where a signal has arrived; what `body` throws otherwise.
    static func explainingPrompt<Success>(_ body: () throws -> Success) throws -> Success {
        do {
            return try body()
        } catch {
            if hasArrived { try shared.check() }
            throw error
        }
    }

    /// Ends the program as a signal does after ``endProgram(_:isJSON:untilWork:)``.
    static func exit(_ hint: String, isJSON: Bool) -> Never {
        let report = ErrorReport(failure(hint: hint))
        let start = Terminal.isTerminal(2) ? "\r\u{1b}[K" : ""
        Console.talk(isJSON ? report.json.text + "\n" : start + report.text)
        _exit(report.exitCode.rawValue)
    }

    private static func failure(hint: String) -> CommandFailure {
        CommandFailure(
            .interrupted, "interrupted", what: "The command was interrupted.", why: "A signal asked it to end.",
            hint: hint)
    }

    var isSet: Bool { InterruptionSignals.isRequested }

    /// Calls a function when a signal has arrived, on a thread of its own.
    func whenSet(_ body: @escaping @Sendable () -> Void) {
        let isLate = waiting.withLock { waiting in
            waiting.bodies?.append(body)
            return waiting.bodies == nil
        }
        if isLate { Self.run("cipherctl.Interruption.body", body) }
    }

    /// Runs work that checks for a signal and then ends with `CancellationError`.
    ///
    /// - Throws: ``CommandFailure`` with exit code 130 instead.
    static func explaining<Success>(_ work: () throws -> Success) throws -> Success {
        do {
            return try work()
        } catch is CancellationError {
            try shared.check()
            throw CancellationError()
        }
    }

    /// - Throws: ``CommandFailure`` with exit code 130 once a signal has arrived.
    func check() throws {
        guard isSet else { return }
        throw Self.failure(hint: "Run it again; what it had started was undone.")
    }
}

/// Signals that must not end a command in the middle; instead the call fails with an error, and what was begun is
/// undone. Programs that the command starts get the default dispositions (`Subprocess`).
enum IgnoredSignals {
    /// For every command: a file that reaches its size limit (`ulimit -f`) is an error, as a full disk is.
    static func begin() { signal(SIGXFSZ, SIG_IGN) }

    /// For commands that change files: a reader that closes their output must not leave work half done. All others end
    /// with their reader, as filters do.
    static func outliveReaders() { signal(SIGPIPE, SIG_IGN) }
}
