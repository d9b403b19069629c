import StorePlatform

/// Standard output, written in large pieces: where results go.
final class Output {
    private var buffer: [UInt8] = []
    private static let pieceBytes = 64 * 1024
    /// Whether everything is written at the end. A command that changes files must not fail in the middle because nobody
    /// takes its report.
    var isKeptUntilEnd = false

    /// - Throws: `SystemError` when it cannot be written.
    func write(_ text: String) throws {
        buffer += text.utf8
        if buffer.count >= Self.pieceBytes && !isKeptUntilEnd { try flush() }
    }

    func line(_ text: String) throws { try write(text + "\n") }

    /// Takes back what could not be written.
    func takeUnwritten() -> String {
        defer { buffer.removeAll() }
        return String(decoding: buffer, as: UTF8.self)
    }

    /// Hands over what is left. Called at the end of each command, so that a full disk is an error, not a loss.
    func flush() throws {
        guard !buffer.isEmpty else { return }
        let stream = try FileDescriptor(duplicating: 1, path: "standard output")
        try stream.write(buffer)
        buffer.removeAll(keepingCapacity: true)
    }
}
