import StorePlatform
import StoreSharing

/// The two outputs: results on standard output, messages on standard error.
struct Console {
    let output = Output()
    /// Whether results and errors are JSON.
    let isJSON: Bool

    /// Prints lines that are not results: what happens, what looked risky.
    func note(_ text: String) { Self.note(text) }

    func warn(_ text: String) { Self.talk("cipherctl: warning: \(text.withoutControls())\n") }

    private static func note(_ text: String) { talk("cipherctl: note: \(text.withoutControls())\n") }

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
        guard let stream = try? FileDescriptor(duplicating: 2, path: "standard error") else { return }
        try? stream.write(Array(text.utf8))
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

extension Unicode.Scalar {
    /// Whether it would control a terminal, or change the direction of the text around it.
    var steersTerminal: Bool {
        switch value {
        case 0..<0x20, 0x7f...0x9f: true
        // Marks, embeddings, overrides and isolates of direction; separators of lines and paragraphs.
        case 0x061c, 0x200e...0x200f, 0x2028...0x202e, 0x2066...0x2069: true
        default: false
        }
    }
}

/// Standard output, written in large blocks, for results.
final class Output {
    private var buffer: [UInt8] = []
    private static let pieceBytes = 64 * 1024
    /// Whether everything is written at the end. A command that changes files must not fail in the middle because its
    /// report cannot be written.
    var isKeptUntilEnd = false

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
        let stream = try FileDescriptor(duplicating: 1, path: "standard output")
        try stream.write(buffer)
        buffer.removeAll(keepingCapacity: true)
    }
}
