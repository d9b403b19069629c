import Foundation
import StorePlatform

/// Shows a result that is longer than the screen in the program that PAGER names, or in `less`.
///
/// The pager gets the result through a pipe as it is read, so that a result of any length needs little memory. `less` runs
/// in its secure mode: it starts no program, writes no file and keeps no history of what was searched.
final class Pager {
    /// The user has ended the pager before the end of the result.
    struct Ended: Error {}

    private let command: String
    private let rows: Int
    private let columns: Int
    /// The lines that fit the screen so far.
    private var kept: [UInt8] = []
    private var stream: UnsafeMutablePointer<FILE>?

    /// - Returns: nil if the output is no terminal, or PAGER is empty.
    init?(environment: (String) -> [UInt8]? = { ProcessInspector.environmentValue($0) }) {
        var size = winsize()
        guard Terminal.isTerminal(1), ioctl(1, UInt(TIOCGWINSZ), &size) == 0, size.ws_row > 1, size.ws_col > 0 else {
            return nil
        }
        let chosen = environment("PAGER").map { String(decoding: $0, as: UTF8.self) } ?? "less"
        guard !chosen.allSatisfy(\.isWhitespace) else { return nil }
        command = "export LESSHISTFILE=- LESSSECURE=1 LESS=\"${LESS-FRX}\"; \(chosen)"
        rows = Int(size.ws_row)
        columns = Int(size.ws_col)
    }

    deinit { if let stream { pclose(stream) } }

    /// - Throws: ``Ended``; `SystemError` if the terminal or the pager cannot be written.
    func write(_ bytes: [UInt8]) throws {
        guard stream == nil else { return try send(bytes) }
        kept += bytes
        guard needsPager else { return }
        let text = kept
        kept = []
        stream = popen(command, "w")
        if let stream { _ = fcntl(fileno(stream), F_SETFD, FD_CLOEXEC) }
        // Without a process the terminal itself shows the result.
        try send(text)
    }

    private var needsPager: Bool {
        var (lines, width) = (0, 0)
        for byte in kept {
            // Bytes that continue a character have no width.
            if byte == UInt8(ascii: "\n") || width == columns { (lines, width) = (lines + 1, 0) }
            if byte != UInt8(ascii: "\n"), byte & 0xc0 != 0x80 { width += 1 }
            if lines >= rows - 1 { return true }
        }
        return false
    }

    private func send(_ bytes: [UInt8]) throws {
        guard let stream else { return try FileDescriptor.write(bytes, toStandard: 1, path: "standard output") }
        do {
            try FileDescriptor.write(bytes, toStandard: fileno(stream), path: "the pager")
        } catch {
            if error.isReaderGone { throw Ended() }
            throw error
        }
    }

    /// Shows what fits the screen, or waits for the end of the pager.
    func end() throws {
        let text = kept
        kept = []
        if let stream {
            pclose(stream)
            self.stream = nil
        } else if !text.isEmpty {
            try send(text)
        }
    }
}
