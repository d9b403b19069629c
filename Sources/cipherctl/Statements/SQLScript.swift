import CipherStore
import StorePlatform

/// A part of a script: whole statements, up to the end of a line.
struct SQLPiece {
    let text: String
    /// The line of the script in which the text begins, from 1 on.
    let line: Int
}

/// Cuts a script into pieces, so that a script of any length needs the memory of its longest statement.
struct SQLAssembly {
    /// The longest text of a statement, as of SQLite (SQLITE_MAX_SQL_LENGTH).
    private static let mostBytes = 1_000_000_000

    private var bytes: [UInt8] = []
    private var end = StatementEnd()
    private var firstLine = 1
    private var nextLine = 1

    /// Whether no statement has begun.
    var isBlank: Bool { end.isBlank }

    /// The number of the line that comes next, from 1 on.
    var lineNumber: Int { nextLine }

    /// Appends a line with its end.
    ///
    /// - Returns: What is complete with it.
    /// - Throws: ``UsageError`` for text that is no text, and for a statement that is too long.
    mutating func append(_ line: [UInt8]) throws(UsageError) -> SQLPiece? {
        if bytes.isEmpty { firstLine = nextLine }
        nextLine += 1
        guard bytes.count + line.count <= Self.mostBytes else {
            throw UsageError(
                "Line \(firstLine): a statement is longer than SQLite accepts.",
                hint: "Check the quotes of the script: one may be missing.")
        }
        bytes += line
        return end.read(line) ? try take() : nil
    }

    /// Takes what has come, complete or not; nil where no statement has begun.
    mutating func finish() throws(UsageError) -> SQLPiece? {
        let isBlank = bytes.isEmpty || end.isBlank
        let piece = try take()
        return isBlank ? nil : piece
    }

    /// Skips a line that is no SQL, between statements.
    mutating func skipLine() {
        drop()
        nextLine += 1
    }

    /// Forgets the statement that has begun.
    mutating func drop() {
        bytes = []
        end = StatementEnd()
    }

    private mutating func take() throws(UsageError) -> SQLPiece {
        defer { drop() }
        if let nul = bytes.firstIndex(of: 0) {
            let line = firstLine + bytes[..<nul].count { $0 == UInt8(ascii: "\n") }
            throw UsageError("Line \(line): the SQL text holds a NUL byte.", hint: "Give plain text.")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UsageError(
                "The SQL text that begins in line \(firstLine) is not UTF-8.",
                hint: "Convert it, as with iconv -t utf-8.")
        }
        return SQLPiece(text: text, line: firstLine)
    }
}

/// Reads lines from bytes that come in pieces.
struct LineReader {
    private let read: (UnsafeMutableRawBufferPointer) throws -> Int
    private var buffer = [UInt8](repeating: 0, count: 64 * 1024)
    private var next = 0
    private var end = 0
    private static let mostBytes = 1_000_000_000

    /// - Parameter read: Fills a buffer from its beginning; returns the number of bytes, 0 at the end.
    init(read: @escaping (UnsafeMutableRawBufferPointer) throws -> Int) { self.read = read }

    /// The lines of a text.
    init(_ text: String) {
        let bytes = Array(text.utf8)
        var position = 0
        self.init { buffer in
            let count = min(buffer.count, bytes.count - position)
            buffer.copyBytes(from: bytes[position..<(position + count)])
            position += count
            return count
        }
    }

    /// The next line with its end; nil after the last.
    ///
    /// - Throws: The error of `read`; ``UsageError`` for a line that is longer than a statement may be.
    mutating func nextLine() throws -> [UInt8]? {
        var line: [UInt8] = []
        while true {
            if next == end {
                let read = read
                end = try buffer.withUnsafeMutableBytes { try read($0) }
                next = 0
                if end == 0 { return line.isEmpty ? nil : line }
            }
            let rest = buffer[next..<end]
            if let newline = rest.firstIndex(of: UInt8(ascii: "\n")) {
                line += buffer[next...newline]
                next = newline + 1
                return line
            }
            line += rest
            next = end
            if line.count > Self.mostBytes {
                throw UsageError(
                    "A line of the script is longer than SQLite accepts.", hint: "Write the script in several lines.")
            }
        }
    }
}

/// A file that several readers of pieces hold.
final class InputFile {
    /// The longest script, in bytes: it is read as a whole.
    private static let mostBytes = 1_000_000_000

    private let file: FileDescriptor

    /// - Parameter path: `-` for standard input.
    init(_ path: String) throws {
        if path == "-" {
            file = try FileDescriptor(duplicating: 0, path: "standard input")
        } else {
            try OtherUserLink.refuse(path)
            try Self.refusePipe(ofOtherUser: path)
            file = try FileDescriptor(opening: path, .readOnly)
        }
    }

    /// Refuses a named pipe of another user, who could let the command wait for ever.
    private static func refusePipe(ofOtherUser path: String) throws {
        guard let status = try Files.status(of: path), status.kind == .other, status.owner != 0,
            status.owner != ProcessInspector.effectiveUser
        else { return }
        throw UsageError(
            "\"\(path)\" is no regular file, and belongs to user \(status.owner).",
            hint: "Copy its content into a file of your own, or give it on standard input (-).")
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws -> Int { try file.read(into: buffer) }

    /// The rest of the file as text.
    ///
    /// - Throws: ``UsageError`` if it is not UTF-8, or too long; `SystemError`.
    func text() throws -> String {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while case let count = try piece.withUnsafeMutableBytes({ try read(into: $0) }), count > 0 {
            bytes += piece[..<count]
            if bytes.count > Self.mostBytes {
                throw UsageError("The SQL text is longer than 1 GB.", hint: "Give it in several files.")
            }
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UsageError("The SQL text is not UTF-8.", hint: "Convert it, as with iconv -t utf-8.")
        }
        return text
    }
}

/// An error of a statement or of an instruction, with its line in the script.
struct StatementFailure: Error {
    let error: any Error
    /// The line in which the statement begins, from 1 on.
    let line: Int
    /// The line, in front of a message; empty for a text of one line, where it would say nothing.
    let place: String

    /// - Parameter position: Where the text of the statement begins, with blanks and comments before it, in bytes.
    init(_ error: DatabaseError, at position: Int, in text: String) {
        self.init(
            error, at: position, in: SQLPiece(text: text, line: 1), isScript: text.hasSeveralLines, file: nil)
    }

    /// - Parameters:
    ///   - isScript: Whether the whole script has several lines.
    ///   - file: The path of the script; nil for standard input and for an argument.
    init(_ error: any Error, at position: Int, in piece: SQLPiece, isScript: Bool, file: String?) {
        let text = piece.text
        let start = text.utf8.index(text.startIndex, offsetBy: position)
        let rest = text[start...]
        let skipped = rest.utf8.count - String(rest).droppingLeadingComments().utf8.count
        let before = text.utf8.prefix(position + skipped)
        self.init(error, line: piece.line + before.count { $0 == UInt8(ascii: "\n") }, isScript: isScript, file: file)
    }

    init(_ error: any Error, line: Int, isScript: Bool, file: String?) {
        self.error = error
        self.line = line
        place = isScript ? "Line \(line)\(file.map { " of \"\($0)\"" } ?? ""): " : ""
    }
}

extension String {
    /// Whether there is more than one line. The end of the only line begins no further one.
    var hasSeveralLines: Bool {
        let ends: Set<UInt8> = [UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: " "), UInt8(ascii: "\t")]
        return utf8.drop { ends.contains($0) }.reversed().drop { ends.contains($0) }.contains(UInt8(ascii: "\n"))
    }
}
