import Foundation
import TestKit
import Testing

/// Calls to the system that fail while a program runs: in its own files, in the libraries', in SQLite's. Linux only.
struct CallFault: CustomStringConvertible, Sendable {
    /// The kinds of calls that are counted: `open`, `write`, `sync`, `truncate`, `name` (rename and link, by the new
    /// name), `unlink`, `read`, `mkdir`.
    var kinds = "open,write,sync,truncate,name,unlink"
    var error = EIO
    /// Whether all later calls fail as well.
    var isLasting = false
    /// Whether a write that fails has written half of it.
    var isTorn = false
    /// Whether a rename or link that fails is done nevertheless, as if a network filesystem loses the answer.
    var isLost = false

    /// With which call counting begins: number `number` of these kinds on files that match `pattern` (fnmatch).
    struct Start: Sendable {
        let pattern: String
        let kinds: String
        let number: Int
    }

    var description: String {
        "\(error == ENOSPC ? "ENOSPC" : "EIO") \(isLasting ? "always" : "once")\(isTorn ? ", torn" : "")\(isLost ? ", done" : "") of \(kinds)"
    }

    /// A full disk: what makes nothing longer goes on.
    static let fullDisk = CallFault(kinds: "open,write,truncate,name", error: ENOSPC, isLasting: true)
    static let all = [
        CallFault(), CallFault(isLasting: true), CallFault(kinds: fullDisk.kinds, error: ENOSPC), fullDisk,
        CallFault(kinds: "read"),
    ]

    /// Whether each call fails, instead of a sample of them.
    static let judgesAll = Sweep.isWhole
    /// A number that differs between the faults of ``all``, from 0.
    var ordinal: Int { (kinds == "read" ? 4 : 0) + (error == ENOSPC ? 2 : 0) + (isLasting ? 1 : 0) }

    /// The library that makes calls fail; nil where there is none.
    static let library: String? = {
        let path = try? BuiltProducts.executable("cipherctl").deletingLastPathComponent()
            .appendingPathComponent("libFaultShimPreload.so").path
        return path.flatMap { FileManager.default.fileExists(atPath: $0) ? $0 : nil }
    }()
}

/// A run of cipherctl, one of whose calls failed.
struct FaultyRun {
    let outcome: CommandRun.Outcome
    /// The calls that counted, as `open /some/path`.
    let calls: [String]
    /// The number of the call that failed first, from 1.
    let number: Int
    /// How long it took.
    let duration: Duration

    /// Whether there was such a call.
    var wasHit: Bool { calls.count >= number }
    /// The call that failed first.
    var call: String { wasHit ? calls[number - 1] : "none" }
}

extension Workplace {
    /// Runs cipherctl and lets call `number` on files of this folder fail.
    ///
    /// - Parameters:
    ///   - number: From 1, counted from `start` on; 0 lets none fail, and counts.
    ///   - pattern: Which names in the folder count.
    func run(
        _ arguments: [String], failing fault: CallFault, at number: Int, of pattern: String = "*",
        from start: CallFault.Start? = nil, input: String? = nil
    ) throws -> FaultyRun {
        let report = TemporaryFolder()
        var environment = [
            "LD_PRELOAD": try #require(CallFault.library, "the library FaultShimPreload was not built"),
            "FAULT_FILES": folder.url.path + pattern, "FAULT_CALLS": fault.kinds, "FAULT_NUMBER": "\(number)",
            "FAULT_ERRNO": "\(fault.error)", "FAULT_ALWAYS": fault.isLasting ? "1" : "0",
            "FAULT_TORN": fault.isTorn ? "1" : "0", "FAULT_LOST": fault.isLost ? "1" : "0",
            "FAULT_REPORT": report.path("calls"),
        ]
        if let start {
            environment["FAULT_START_FILES"] = folder.url.path + start.pattern
            environment["FAULT_START_CALLS"] = start.kinds
            environment["FAULT_START_NUMBER"] = "\(start.number)"
        }
        let begin = ContinuousClock.now
        let outcome = try run(arguments, input: input, environment: environment)
        let duration = ContinuousClock.now - begin
        let text = try String(contentsOfFile: report.path("calls"), encoding: .utf8)
        let calls = text.split(separator: "\n").map { line in
            String(line.drop { $0 != " " }.dropFirst()).replacingOccurrences(of: folder.url.path, with: "")
        }
        return FaultyRun(outcome: outcome, calls: calls, number: number, duration: duration)
    }

    /// Lets calls fail, one in each run: calls `body` with the number of the call, until its run has no such call.
    ///
    /// That takes a process for each call, so `make test` judges a sample; `CIPHERSTORE_FAULTS=all`, which `make soak` sets,
    /// lets each call fail.
    ///
    /// - Parameters:
    ///   - step: In a sample one call in so many fails.
    ///   - offset: A number of the case. Cases that differ in it judge different calls; ``CallFault/ordinal`` is one. The seed
    ///     (``Sweep``) moves all of them.
    /// - Returns: How many calls there are.
    @discardableResult
    static func forEachCall(
        oneIn step: Int = 1, offset: Int = 0, _ body: (_ number: Int) throws -> FaultyRun
    ) throws -> Int {
        let first = Sweep.first(oneIn: step, offset: offset)
        let step = Sweep.stride(step)
        var number = 1 + first
        while true {
            let run = try body(number)
            guard run.wasHit else {
                // If there are fewer calls than the first of the sample, one of them fails nevertheless.
                if number <= step, !run.calls.isEmpty { _ = try body(1 + first % run.calls.count) }
                return run.calls.count
            }
            number += step
        }
    }
}
