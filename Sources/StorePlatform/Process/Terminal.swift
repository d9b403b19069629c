import CPlatform
import Dispatch

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The terminal of this process.
package enum Terminal {
    /// Whether a descriptor is a terminal.
    package static func isTerminal(_ descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

    /// The width of the terminal behind a descriptor, in characters; nil when it is none or does not say.
    package static func columns(of descriptor: Int32) -> Int? {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// Held while signals are watched: the watch is one for the whole process.
    static let signalWatch = DispatchSemaphore(value: 1)

    /// Why a question got no answer, as a sentence for whoever was asked.
    package enum Failure: Error, Hashable, Sendable, CustomStringConvertible {
        /// There is no terminal (`ENXIO`, `ENOTTY`), or it cannot be used.
        case cannotAsk(SystemError)
        /// The end of input (Ctrl-D) came before the end of a line.
        case inputEnded
        /// A signal came that does not end the process.
        case interrupted
        /// The terminal cuts lines of this many bytes or more without saying so.
        case lineTooLong(limitBytes: Int)

        package var description: String {
            switch self {
            case .cannotAsk(let error): "Nothing could be asked at the terminal: \(error)."
            case .inputEnded: "The input ended at the prompt, before the end of a line."
            case .interrupted: "A signal came at the prompt, before the end of the line."
            case .lineTooLong(let limitBytes):
                "The terminal cuts lines of \(limitBytes) bytes and more, so a part of what was typed may be missing."
            }
        }
    }

    /// Asks a question at the process's terminal, whatever its standard input is, and reads a line that is not shown.
    ///
    /// The terminal shows what is typed again afterwards, and while the process is stopped by Ctrl-Z; when it goes on, the
    /// question is asked anew. So it is behind a stop of which nobody was told (SIGSTOP). Other signals take their course
    /// once the terminal is as it was.
    ///
    /// - Returns: The line without its end.
    package static func readWithoutEcho(prompt: String) throws(Failure) -> WipedBuffer {
        try read(prompt, isShown: false)
    }

    /// Asks a question in the same way, and shows what is typed.
    package static func ask(prompt: String) throws(Failure) -> String {
        let line = try read(prompt, isShown: true)
        return line.withBytes { String(decoding: $0, as: UTF8.self) }
    }

    private static func read(_ prompt: String, isShown: Bool) throws(Failure) -> WipedBuffer {
        signalWatch.wait()
        defer { signalWatch.signal() }
        let question = try TerminalQuestion(prompt, isShown: isShown)
        while true {
            let stops = JobControl.stops
            if let line = try question.ask() { return line }
            JobControl.waitForEnd(ofStopBehind: stops)
        }
    }
}

/// A question at the terminal of the process, and how the terminal is set while it is open.
private struct TerminalQuestion: ~Copyable {
    private let terminal: FileDescriptor
    private let prompt: [UInt8]
    private let former: termios
    private let asking: termios

    /// Takes note of how the terminal is set. A process in the background is stopped here until it may use the terminal,
    /// which is set as the shell likes it till then.
    init(_ prompt: String, isShown: Bool) throws(Terminal.Failure) {
        let terminal = try Self.open()
        guard retryingInterrupts({ tcflush(terminal.number, TCIFLUSH) }) == 0 else {
            throw Self.failed("tcflush", terminal.path)
        }
        var settings = termios()
        guard tcgetattr(terminal.number, &settings) == 0 else { throw Self.failed("tcgetattr", terminal.path) }
        former = settings
        if !isShown { settings.c_lflag &= ~tcflag_t(ECHO) }
        settings.c_lflag |= tcflag_t((isShown ? ECHO : ECHONL) | ICANON)
        asking = settings
        self.prompt = Array(prompt.utf8)
        self.terminal = terminal
    }

    private static func open() throws(Terminal.Failure) -> FileDescriptor {
        do {
            return try FileDescriptor(opening: "/dev/tty", .readWrite)
        } catch {
            throw .cannotAsk(error)
        }
    }

    /// Asks, and reads a line.
    ///
    /// - Returns: The line without its end; nil when the process was asked to stop: the terminal is as it was, and the signal
    ///   was sent on.
    borrowing func ask() throws(Terminal.Failure) -> WipedBuffer? {
        let failure = cplatform_signal_watch_begin()
        guard failure == 0 else {
            throw .cannotAsk(SystemError(call: "sigaction", path: nil, errorNumber: failure))
        }
        defer {
            restore()
            cplatform_signal_watch_end()
        }
        try show()
        var line = WipedBuffer(capacity: Limits.typedLineBytes)
        while true {
            // Not a plain read: the signal may be taken by another thread, and this one would go on waiting.
            var request = pollfd(fd: terminal.number, events: Int16(POLLIN), revents: 0)
            let ready = poll(&request, 1, 100)
            switch cplatform_signal_watch_caught() {
            case 0: break
            case SIGTSTP: return nil
            default: throw .interrupted
            }
            if cplatform_signal_watch_take_continued() {
                // Nobody was told of the stop, and whoever had the terminal meanwhile has set it as he likes it.
                line.removeLast(line.count)
                try show()
            } else if ready > 0, try take(&line) {
                return line
            }
        }
    }

    /// Sets the terminal and prints the prompt, once, however often the process is stopped meanwhile.
    private borrowing func show() throws(Terminal.Failure) {
        var settings = asking
        while true {
            _ = cplatform_signal_watch_take_continued()
            let isSet = tcsetattr(terminal.number, TCSAFLUSH, &settings) == 0
            guard isSet || errno == EINTR else { throw Self.failed("tcsetattr", terminal.path) }
            if cplatform_signal_watch_caught() != 0 { return }
            if isSet, !cplatform_signal_watch_take_continued() { break }
        }
        write(prompt)
    }

    /// Sets the terminal as it was. What was typed and not read is dropped: it may be a part of the secret.
    private borrowing func restore() {
        // One that others use by now is theirs.
        guard tcgetpgrp(terminal.number) == getpgrp() else { return }
        var settings = former
        _ = retryingInterrupts { tcsetattr(terminal.number, TCSAFLUSH, &settings) }
    }

    /// Takes what was typed; true behind the end of the line, which is dropped.
    private borrowing func take(_ line: inout WipedBuffer) throws(Terminal.Failure) -> Bool {
        let tooLong = Terminal.Failure.lineTooLong(limitBytes: Limits.typedLineBytes - 1)
        guard line.remaining > 0 else { throw tooLong }
        let count: Int
        do {
            count = try line.append(readingFrom: terminal)
        } catch {
            throw .cannotAsk(error)
        }
        if count == 0 {
            write([UInt8(ascii: "\n")])
            throw .inputEnded
        }
        guard line.withBytes({ $0.last == UInt8(ascii: "\n") }) else { return false }
        line.removeLast(1)
        // The terminal keeps so many bytes of a line and no more, and there is no telling how many were typed.
        guard line.count < Limits.typedLineBytes - 1 else { throw tooLong }
        return true
    }

    /// There is nobody to tell when that fails.
    private borrowing func write(_ text: [UInt8]) { try? terminal.write(text) }

    private static func failed(_ call: String, _ path: String) -> Terminal.Failure {
        .cannotAsk(SystemError(call, path))
    }
}
