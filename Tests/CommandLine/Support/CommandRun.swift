import Foundation
import TestKit

/// A program under test, run to its end or killed; what it wrote goes through files, so that it can never block.
// Safe because: each run is used by the one test that made it.
final class CommandRun: @unchecked Sendable {
    private let process = Process()
    private let folder = TemporaryFolder()

    /// The leftover of a run.
    struct Outcome {
        /// The exit code; 128 plus the number of the signal that ended it.
        let status: Int32
        let output: String
        let errors: String
    }

    private static let patience = Duration.seconds(120)

    /// The children inherit ignored signals from the test process: a shell lets its background jobs ignore SIGINT and
    /// SIGQUIT, and `nohup` SIGHUP.
    private static let restoreDefaultSignals: Void = {
        for number in [SIGINT, SIGQUIT, SIGHUP, SIGTERM] {
            var action = sigaction()
            guard sigaction(number, nil, &action) == 0 else { continue }
            #if canImport(Darwin)
                let handler = action.__sigaction_u.__sa_handler
            #else
                let handler = action.__sigaction_handler.sa_handler
            #endif
            if unsafeBitCast(handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self) { signal(number, SIG_DFL) }
        }
    }()

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - input: What it reads on standard input; nil for nothing at all.
    ///   - environment: Variables beside those of the test. `CIPHERSTORE_CHEAP_SLOTS=0` derives new keyslots with the work of
    ///     real ones.
    init(
        _ program: URL, _ arguments: [String], input: String? = nil, environment: [String: String] = [:],
        directory: String? = nil
    ) throws {
        Self.restoreDefaultSignals
        process.executableURL = program
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(["CIPHERSTORE_CHEAP_SLOTS": "1"]) { $1 }
            .merging(environment) { $1 }
        if let directory { process.currentDirectoryURL = URL(fileURLWithPath: directory) }
        for name in ["in", "out", "err"] {
            // Its owner's alone: keys are printed to no other file.
            try Workplace.write(Array((name == "in" ? input ?? "" : "").utf8), to: folder.path(name))
        }
        process.standardInput = try FileHandle(forReadingFrom: folder.url.appendingPathComponent("in"))
        process.standardOutput = try FileHandle(forWritingTo: folder.url.appendingPathComponent("out"))
        process.standardError = try FileHandle(forWritingTo: folder.url.appendingPathComponent("err"))
        try Self.withoutBlockedSignals { try process.run() }
    }

    /// Dispatch blocks signals on its threads, on which tests run, and a child inherits that: no signal would end it.
    private static func withoutBlockedSignals(_ run: () throws -> Void) rethrows {
        var (none, former) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, &former)
        defer { pthread_sigmask(SIG_SETMASK, &former, nil) }
        try run()
    }

    deinit { if process.isRunning { send(SIGKILL) } }

    var processIdentifier: Int32 { process.processIdentifier }
    var isRunning: Bool { process.isRunning }

    /// Its output on standard error up to now.
    var errorsSoFar: String { text("err") }

    /// Its output on standard output up to now.
    var outputSoFar: String { text("out") }

    func send(_ signal: Int32) { kill(process.processIdentifier, signal) }

    /// Waits for the end.
    func finish() -> Outcome {
        if !waitUntil(within: Self.patience, { !process.isRunning }) { send(SIGKILL) }
        process.waitUntilExit()
        let signalled = process.terminationReason == .uncaughtSignal
        return Outcome(
            status: (signalled ? 128 : 0) + process.terminationStatus, output: text("out"), errors: text("err"))
    }

    private func text(_ name: String) -> String {
        String(decoding: (try? Data(contentsOf: folder.url.appendingPathComponent(name))) ?? Data(), as: UTF8.self)
    }
}

extension CommandRun.Outcome {
    /// Standard output as a JSON object.
    var json: [String: Any] { Self.object(output) }

    /// The ranges of pages under a name of the result of `verify`; nil when it is not there.
    func pages(_ name: String) -> [ClosedRange<Int>]? {
        (json[name] as? [[String: Int]])?.map { ($0["first"] ?? 0)...($0["last"] ?? 0) }
    }

    /// The `error` object of standard error.
    var errorJSON: [String: Any] {
        let objects = errors.split(separator: "\n").map { Self.object(String($0)) }
        // Notes and warnings may come before it.
        return objects.lazy.compactMap { $0["error"] as? [String: Any] }.first ?? [:]
    }

    private static func object(_ text: String) -> [String: Any] {
        (try? JSONSerialization.jsonObject(with: Data(text.utf8))) as? [String: Any] ?? [:]
    }
}

/// A program that the machine may have.
enum SystemProgram {
    static func find(_ name: String) -> URL? {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
        return folders.map { URL(fileURLWithPath: "\($0)/\(name)") }
            .first { FileManager.default.isExecutableFile(atPath: $0.path) }
    }
}
