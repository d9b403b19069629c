import Foundation
import ServicePlatform
import StoreFleet
import StorePlatform
import StoreTools

/// The outcome of a work on one store of a fleet.
struct FleetResult {
    enum Verdict: String, CaseIterable {
        case ok
        case attention
        case notDue = "not due"
        case refused
        case failed

        /// In JSON, and as a member of the summary.
        var word: String { rawValue.replacing(" ", with: "_") }
    }

    /// An error as the program of the store has reported it.
    struct Failure {
        let code: String
        let message: String
        let hint: String?
    }

    let store: String
    private(set) var exitCode: ExitCode
    private(set) var duration: Duration?
    private(set) var failure: Failure?
    private(set) var attention: [String] = []
    private(set) var messages: [String] = []
    /// The JSON that the program has printed, as it is.
    private(set) var answer: String?
    /// The same, read. That of a rotation is the part about the store.
    private(set) var members: [String: Any] = [:]
    private var isRefused = false

    /// A store for which no program was begun.
    init(_ store: String, refused failure: CommandFailure) {
        self.store = store
        exitCode = failure.exitCode
        self.failure = Failure(code: failure.name, message: "\(failure.what) \(failure.why)", hint: failure.hint)
        isRefused = failure.name == "outsideWindow"
    }

    init(_ store: String, _ outcome: ConcurrentPrograms.Outcome) {
        self.store = store
        duration = outcome.duration
        exitCode = .failed
        read(outcome)
        switch outcome.ending {
        case .exited(let code):
            exitCode = ExitCode(rawValue: code) ?? .failed
            if ExitCode(rawValue: code) == nil, failure == nil {
                fail("ended", "The process ended with the unknown code \(code).")
            }
        case .killed(let signal): fail("crashed", "The process was ended by signal \(signal).")
        case .timedOut(let limit):
            let time = AgeText.text(UInt64(limit / .seconds(1)))
            fail(
                "timedOut",
                "The work on the store took longer than \(time) and was ended."
                    + (outcome.isLeftBehind ? " The system could not end the process: a filesystem may hang." : ""),
                "Find out what the store waits for: cipherctl status STORE --no-key. A longer limit: --time-limit.")
        case .cancelled:
            exitCode = .interrupted
            failure = Failure(code: "interrupted", message: "A signal ended the work.", hint: nil)
        case .outputTooLong: fail("outputTooLong", "The process printed too much and was ended.")
        case .notStarted(let error):
            fail("notStarted", "The process could not be started: \(error).")
            exitCode = .inputOutput
        }
        if failure == nil, ![.ok, .needsAttention].contains(exitCode) {
            failure = Failure(
                code: "failed", message: messages.last ?? "It ended with code \(exitCode.rawValue).", hint: nil)
        }
    }

    private mutating func fail(_ code: String, _ message: String, _ hint: String? = nil) {
        failure = Failure(code: code, message: message, hint: hint)
        exitCode = .failed
    }

    /// Adds what the fleet has found about the store.
    mutating func needAttention(_ sentence: String) {
        attention.append(sentence)
        if exitCode == .ok { exitCode = .needsAttention }
    }

    var verdict: Verdict {
        if isRefused { return .refused }
        if failure != nil { return .failed }
        if members["result"] as? String == "skipped" { return .notDue }
        return exitCode == .ok ? .ok : .attention
    }

    // MARK: Reading what the program has written

    private mutating func read(_ outcome: ConcurrentPrograms.Outcome) {
        let text = String(decoding: outcome.output, as: UTF8.self).trimmingCharacters(in: .newlines)
        if let object = Self.object(text) {
            // A line of JSON Lines has no line end in it.
            if !text.contains("\n") { answer = text }
            members = (object["stores"] as? [[String: Any]])?.first ?? object
            attention = object["attention"] as? [String] ?? []
            attention += (object["findings"] as? [[String: Any]] ?? []).compactMap { finding in
                finding["severity"] as? String == "note" ? nil : finding["what"] as? String
            }
            takeError(members)
        }
        for line in String(decoding: outcome.errors, as: UTF8.self).split(separator: "\n") {
            guard let object = Self.object(String(line)) else {
                messages.append(String(line.prefix(500)))
                continue
            }
            takeError(object)
            for kind in ["note", "warning"] {
                if let message = (object[kind] as? [String: Any])?["message"] as? String { messages.append(message) }
            }
        }
    }

    private mutating func takeError(_ object: [String: Any]) {
        guard let error = object["error"] as? [String: Any] else { return }
        failure = Failure(
            code: error["code"] as? String ?? "failed", message: error["message"] as? String ?? "",
            hint: error["hint"] as? String)
    }

    static func object(_ text: String) -> [String: Any]? {
        (try? JSONSerialization.jsonObject(with: Data(text.utf8))) as? [String: Any]
    }

    // MARK: Printing

    var json: JSON {
        .object([
            "store": .string(store), "verdict": .string(verdict.word), "exit_code": .int(exitCode.rawValue),
            "seconds": .optional(duration) { .real($0 / .seconds(1)) },
            "attention": .array(attention.map(JSON.string)), "messages": .array(messages.map(JSON.string)),
            "error": .optional(failure) { failure in
                .object([
                    "code": .string(failure.code), "message": .string(failure.message),
                    "hint": .optional(failure.hint, JSON.string),
                ])
            },
            "result": .optional(answer, JSON.verbatim),
        ])
    }

    /// The last column of the table.
    func details(_ work: FleetWork) -> String {
        if let failure { return "\(failure.code): \(failure.message)" }
        if let first = attention.first {
            return attention.count == 1 ? first : "\(first) (and \(attention.count - 1) more)"
        }
        func number(_ name: String) -> Int? { members[name] as? Int }
        switch work {
        case .status:
            let age = number("data_key_age_seconds").map { ", key \(AgeText.text(UInt64(clamping: $0))) old" } ?? ""
            let state = members["state"] as? String ?? "no sidecar"
            return "\(state), \(CountText.text(number("pages") ?? 0, "page"))\(age)"
        case .verify: return "\(CountText.text(number("pages_checked") ?? 0, "page")) authentic"
        case .backup:
            if members["dry_run"] as? Bool == true { return "can be backed up" }
            return "\(CountText.text(number("pages") ?? 0, "page")), \(number("new_pages") ?? 0) of them new"
        case .rotate:
            switch members["result"] as? String {
            case "rotated": return "epoch \(number("from_epoch") ?? 0) -> \(number("to_epoch") ?? 0)"
            case "skipped":
                return "its data key is \(AgeText.text(UInt64(clamping: number("data_key_age_seconds") ?? 0))) old"
            case "planned": return members["can_begin"] as? Bool == true ? "can begin" : "cannot begin"
            case let other: return other ?? members["state"] as? String ?? ""
            }
        case .doctor: return "nothing needs attention"
        }
    }
}
