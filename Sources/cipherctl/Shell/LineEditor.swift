import CEditLine
import Foundation
import StorePlatform

/// Reads lines that are edited at the terminal, with a history and completion.
///
/// Used by one thread.
final class LineEditor {
    /// The end of a read.
    enum Input: Equatable {
        case line(String)
        /// Ctrl-C, or a signal that ends the shell.
        case interrupted
        /// Ctrl-D on an empty line, or a terminal that is gone.
        case ended
    }

    /// The completions of a text up to the cursor.
    var complete: (_ text: String) -> ShellCompletion = { _ in .nothing }
    private var editor: OpaquePointer?
    private var history: OpaquePointer?
    /// The present prompt, in memory that libedit reads whenever it draws the line.
    private var prompt: UnsafeMutablePointer<CChar>?
    private var columns: Int?

    /// - Throws: ``CommandFailure`` if the terminal cannot be used.
    init() throws {
        editor = ceditline_open(
            Unmanaged.passUnretained(self).toOpaque(),
            { editor in LineEditor.owner(of: editor)?.prompt },
            { editor, character in LineEditor.owner(of: editor)?.read(into: character) ?? -1 },
            { editor, _ in LineEditor.owner(of: editor)?.completeName() ?? UInt8(CC_ERROR) })
        guard let editor else {
            throw CommandFailure(
                .inputOutput, "terminal", what: "The shell cannot edit lines at this terminal.",
                why: "libedit did not open it.", hint: "Check TERM, or give the statements to `cipherctl sql`.")
        }
        history = ceditline_open_history(editor, Int32(ShellHistory.keptLines))
    }

    deinit {
        free(prompt)
        if let editor { el_end(editor) }
        if let history { history_end(history) }
    }

    private static func owner(of editor: OpaquePointer?) -> LineEditor? {
        guard let editor, let owner = ceditline_owner(editor) else { return nil }
        return Unmanaged<LineEditor>.fromOpaque(owner).takeUnretainedValue()
    }

    /// Offers a line to later reads.
    func remember(_ line: String) {
        if let history { ceditline_remember(history, line) }
    }

    /// Prompts, and reads a line without its end.
    func readLine(prompt text: String) -> Input {
        guard let editor else { return .ended }
        free(prompt)
        prompt = strdup(text)
        columns = Terminal.columns(of: 1)
        var count: Int32 = 0
        ceditline_prepare_terminal(editor)
        guard let line = el_gets(editor, &count), count > 0 else {
            // The terminal has its former settings for the statement that runs next, and for the program after this one.
            ceditline_restore_terminal(editor)
            Console.talk("\n")
            return ShellSignals.hasArrived ? .interrupted : .ended
        }
        ceditline_restore_terminal(editor)
        let text = String(decoding: UnsafeRawBufferPointer(start: line, count: Int(count)), as: UTF8.self)
        return .line(text.hasSuffix("\n") ? String(text.dropLast()) : text)
    }

    // MARK: Called by libedit

    /// Reads one character.
    ///
    /// - Returns: 1; 0 at the end of the input; -1 when a signal ends the line.
    private func read(into character: UnsafeMutablePointer<wchar_t>?) -> Int32 {
        guard let first = readByte() else { return ShellSignals.hasArrived ? -1 : 0 }
        var bytes = [first]
        let length = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4
        while bytes.count < length {
            guard let next = readByte() else { return ShellSignals.hasArrived ? -1 : 0 }
            bytes.append(next)
        }
        let scalar = String(decoding: bytes, as: UTF8.self).unicodeScalars.first ?? "\u{fffd}"
        character?.pointee = wchar_t(scalar.value)
        return 1
    }

    private func readByte() -> UInt8? {
        while true {
            if ShellSignals.hasArrived { return nil }
            var request = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
            let start = ContinuousClock.now
            // Not a plain read: another thread may receive the signal.
            let ready = poll(&request, 1, Self.pollMilliseconds)
            if ready > 0 {
                var byte: UInt8 = 0
                let count = Foundation.read(0, &byte, 1)
                if count < 0, errno == EINTR { continue }
                return count == 1 ? byte : nil
            }
            followTerminal(wasStopped: ContinuousClock.now - start > Self.longPoll)
        }
    }

    private static let pollMilliseconds: Int32 = 200
    /// A poll that took longer means that the process was stopped, and other programs wrote to the terminal.
    private static let longPoll = Duration.seconds(1)

    /// Draws the line again after a change of the width, and after a stop of this process.
    private func followTerminal(wasStopped: Bool) {
        guard let editor else { return }
        var settings = termios()
        let isForeign = tcgetattr(0, &settings) == 0 && settings.c_lflag & tcflag_t(ICANON) != 0
        let present = Terminal.columns(of: 1)
        guard isForeign || wasStopped || present != columns else { return }
        if isForeign || wasStopped { ceditline_prepare_again(editor) }
        if present != columns { el_resize(editor) }
        columns = present
        ceditline_refresh(editor)
    }

    /// Completes the name before the cursor, or lists the names that are possible.
    private func completeName() -> UInt8 {
        guard let editor, let line = el_line(editor)?.pointee, let start = line.buffer, let cursor = line.cursor else {
            return UInt8(CC_ERROR)
        }
        let before = String(decoding: UnsafeRawBufferPointer(start: start, count: cursor - start), as: UTF8.self)
        let found = complete(before)
        if !found.insertion.isEmpty {
            return el_insertstr(editor, found.insertion) == 0 ? UInt8(CC_REFRESH) : UInt8(CC_ERROR)
        }
        guard found.candidates.count > 1 else { return UInt8(CC_ERROR) }
        let shown = ShellCompletion.columns(found.candidates, width: Terminal.columns(of: 1) ?? 80)
        Console.talk("\n" + shown)
        return UInt8(CC_REDISPLAY)
    }
}
