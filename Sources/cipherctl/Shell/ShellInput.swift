import StorePlatform

/// The next thing that a shell does.
enum ShellEntry {
    case sql(SQLPiece)
    /// A line that begins with a point, with its number.
    case instruction(String, line: Int)
}

/// Where the statements of a shell come from.
protocol ShellInput: AnyObject {
    /// The path of the script; nil for standard input.
    var file: String? { get }

    /// - Returns: nil at the end.
    func next(_ session: ShellSession) throws -> ShellEntry?
}

/// A file, or standard input that is no terminal: read as a script, without a prompt.
final class ScriptInput: ShellInput {
    let file: String?
    private var lines: LineReader
    private var assembly = SQLAssembly()

    /// - Parameter path: `-` for standard input.
    init(_ path: String) throws {
        file = path == "-" ? nil : path
        let input = try InputFile(path)
        lines = LineReader(read: input.read)
    }

    func next(_ session: ShellSession) throws -> ShellEntry? {
        while let line = try lines.nextLine() {
            if assembly.isBlank, line.first == UInt8(ascii: ".") {
                let text = String(decoding: line.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
                defer { assembly.skipLine() }
                return .instruction(text, line: assembly.lineNumber)
            }
            if let piece = try assembly.append(line) { return .sql(piece) }
        }
        return try assembly.finish().map { .sql($0) }
    }
}

/// The lines that a user types.
final class TerminalInput: ShellInput {
    let file: String? = nil
    private let editor: LineEditor
    private let history: ShellHistory
    private var assembly = SQLAssembly()
    /// The lines of the statement that is typed.
    private var typed: [String] = []

    init(_ history: ShellHistory) throws {
        editor = try LineEditor()
        self.history = history
        for line in history.load() { editor.remember(line) }
    }

    func next(_ session: ShellSession) throws -> ShellEntry? {
        editor.complete = { text in ShellCompletion(of: text, names: session.schemaNames()) }
        while true {
            ShellSignals.forget()
            let isNew = typed.isEmpty
            switch editor.readLine(prompt: isNew ? session.prompt : session.continuation) {
            case .interrupted:
                forget()
                if ShellSignals.endsShell { return nil }
            case .ended:
                if !assembly.isBlank {
                    Console.warn("the statement without a semicolon at its end did not run")
                }
                return nil
            case .line(let line):
                if assembly.isBlank, isNew, line.hasPrefix(".") {
                    remember([line])
                    return .instruction(line, line: 1)
                }
                typed.append(line)
                do {
                    if let piece = try assembly.append(Array((line + "\n").utf8)) {
                        remember(typed)
                        typed = []
                        return .sql(SQLPiece(text: piece.text, line: 1))
                    }
                } catch {
                    forget()
                    throw error
                }
                if assembly.isBlank { forget() }
            }
        }
    }

    private func forget() {
        typed = []
        assembly.drop()
    }

    private func remember(_ lines: [String]) {
        guard history.add(lines) else { return }
        for line in lines where !line.isEmpty { editor.remember(line) }
    }
}
