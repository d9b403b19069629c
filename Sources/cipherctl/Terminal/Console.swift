import CipherStore
import ServicePlatform
import StorePlatform
import StoreSharing
import Synchronization

/// The two outputs: results on standard output, messages on standard error.
struct Console {
    let output = Output()
    /// Whether results and errors are JSON.
    let isJSON: Bool

    /// The messages on standard error beside errors, and their form. It is that of the whole run.
    struct Manner: Equatable {
        /// Whether notes and warnings are JSON, one object on a line.
        var isJSON = false
        /// Whether notes and progress are left out.
        var isQuiet = false
        /// Whether progress is printed as JSON; a bar, and only at a terminal, otherwise.
        var reportsProgress = false
    }

    private static let chosen = Mutex(Manner())

    static var manner: Manner {
        get { chosen.withLock { $0 } }
        set { chosen.withLock { $0 = newValue } }
    }

    /// Prints what happens and is no result.
    func note(_ text: String) { Self.note(text) }

    /// Prints what looked risky.
    func warn(_ text: String) { Self.warn(text) }

    static func note(_ text: String) {
        if !manner.isQuiet { say("note", text) }
    }

    static func warn(_ text: String) { say("warning", text) }

    /// Notes that texts which were printed may not be those of the store.
    static func noteReplacements(in values: some Sequence<DatabaseValue>) {
        guard values.contains(where: \.hasReplacements) else { return }
        note(
            "a text has the character U+FFFD, which also stands for bytes that are not UTF-8: `cipherctl sql` shows them"
        )
    }

    private static func say(_ kind: String, _ sentence: String) {
        let text = SuggestedCommand.completing(sentence)
        if sendsToJournal, report(text, kind == "warning" ? .warning : .information, []) { return }
        guard manner.isJSON else { return talk("cipherctl: \(kind): \(text.withoutControls())\n") }
        let message = JSON.object(["message": .string(text)])
        talk(JSON.object([JSON.Member(name: kind, value: message)]).text + "\n")
    }

    /// Prints an error to standard error.
    static func tell(_ error: ErrorReport) {
        let fields = [("CIPHERSTORE_ERROR", error.name), ("CIPHERSTORE_EXIT_CODE", "\(error.exitCode.rawValue)")]
        if sendsToJournal, report(String(error.text.dropLast()), .error, fields) { return }
        talk(manner.isJSON ? error.json.text + "\n" : error.text)
    }

    /// Whether messages have fields of their own in the journal. A program that reads JSON gets JSON.
    private static var sendsToJournal: Bool { !manner.isJSON && Journal.receives(2) }

    /// - Returns: Whether the journal has taken the message.
    private static func report(
        _ message: String, _ priority: Journal.Priority, _ fields: [(name: String, value: String)]
    ) -> Bool {
        (try? Journal().send(message, priority, fields)) != nil
    }

    /// Names the process for whose write lock a command waits: otherwise the command would seem to hang.
    static func longWait(
        for path: String, _ lock: String = "the write lock"
    ) -> @Sendable (StoreHolder?) -> Void {
        { holder in
            let blocker = holder.map(\.description) ?? "another process"
            note("waiting for \(lock) of \"\(path)\", which \(blocker) holds; Ctrl-C ends the wait")
        }
    }

    /// Prints a line of a result. A name from outside that is part of it cannot control the terminal.
    func line(_ text: String) throws { try output.line(text.withoutControls()) }

    /// Prints a result in the requested form.
    ///
    /// - Parameters:
    ///   - json: The same as an object with stable names.
    ///   - lines: The result for people.
    func report(json: @autoclosure () -> JSON, lines: @autoclosure () -> [String]) throws {
        if isJSON {
            try output.line(json().text)
        } else {
            for text in lines() { try line(text) }
        }
    }

    /// Writes to standard error. A failure is ignored: it could not be reported.
    static func talk(_ text: String) {
        try? FileDescriptor.write(Array(text.utf8), toStandard: 2, path: "standard error")
    }
}

extension Console.Manner {
    /// - Throws: ``UsageError`` for an unknown form of progress, and for progress together with `--quiet`.
    init(_ arguments: ParsedArguments, isJSON: Bool) throws(UsageError) {
        self.isJSON = isJSON
        isQuiet = arguments.has("--quiet")
        switch arguments.value("--progress") {
        case nil, "bar": break
        case "json": reportsProgress = true
        default: throw UsageError("There is no such form of progress.", hint: "Give --progress bar or --progress json.")
        }
        if isQuiet, arguments.value("--progress") != nil {
            throw UsageError("--quiet and --progress were given.", hint: "Leave one of them out.")
        }
    }
}

extension String {
    /// The text with an escape in place of each character that would control a terminal or hide text: control
    /// characters, and those that change the direction of writing. File names, labels and programs' names may contain
    /// them.
    ///
    /// - Parameter keepsLines: Whether line ends and tabs stay, as in SQL.
    func withoutControls(keepsLines: Bool = false) -> String {
        guard unicodeScalars.contains(where: \.steersTerminal) else { return self }
        var result = ""
        for scalar in unicodeScalars {
            switch scalar {
            case "\n", "\t":
                result += keepsLines ? String(scalar) : scalar == "\n" ? "\\n" : "\\t"
            case "\r": result += "\\r"
            case _ where scalar.steersTerminal:
                result += "\\u{\(String(scalar.value, radix: 16))}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}

/// Standard output, written in large blocks, for results.
final class Output {
    private var buffer: [UInt8] = []
    private static let pieceBytes = 64 * 1024
    /// Whether everything is written at the end. A command that changes files must not fail in the middle because its
    /// report cannot be written.
    var isKeptUntilEnd = false
    /// The program that gets the output in the place of standard output; nil for none.
    var pager: Pager?

    /// - Throws: `SystemError` when it cannot be written.
    func write(_ text: String) throws {
        buffer += text.utf8
        if buffer.count >= Self.pieceBytes && !isKeptUntilEnd { try flush() }
    }

    func line(_ text: String) throws { try write(text + "\n") }

    /// Removes and returns what could not be written.
    func takeUnwritten() -> String {
        defer { buffer.removeAll() }
        return String(decoding: buffer, as: UTF8.self)
    }

    /// Writes the rest. Called at the end of each command, so that a full disk is an error and not a loss.
    func flush() throws {
        guard !buffer.isEmpty else { return }
        defer { if pager != nil { buffer.removeAll(keepingCapacity: true) } }
        if let pager { return try pager.write(buffer) }
        try FileDescriptor.write(buffer, toStandard: 1, path: "standard output")
        buffer.removeAll(keepingCapacity: true)
    }

    /// Forgets what is not written yet: the rest of a result that was interrupted.
    func discard() { buffer.removeAll(keepingCapacity: true) }
}
