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

    /// Whether this process has a controlling terminal, at which a program that it starts may prompt.
    package static var isControlling: Bool { (try? FileDescriptor(opening: "/dev/tty", .readOnly)) != nil }

    /// The width of the terminal of a descriptor, in characters; nil when it is not a terminal or does not report it.
    package static func columns(of descriptor: Int32) -> Int? {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// Held while signals are watched: the watch is one for the whole process.
    static let signalWatch = DispatchSemaphore(value: 1)

    /// Why a prompt got no answer, as a sentence for the user.
    package enum Failure: Error, Hashable, Sendable, CustomStringConvertible {
        /// There is no terminal (`ENXIO`, `ENOTTY`), or it cannot be used.
        case cannotAsk(SystemError)
        /// The end of input (Ctrl-D) came before the end of a line.
        case inputEnded
        /// A signal arrived that does not end the process.
        case interrupted
        /// The terminal silently truncates lines of this many bytes or more.
        case lineTooLong(limitBytes: Int)

        package var description: String {
            switch self {
            case .cannotAsk(let error): "Nothing could be asked at the terminal: \(error)."
            case .inputEnded: "The input ended at the prompt, before the end of a line."
            case .interrupted: "A signal arrived at the prompt, before the end of the line."
            case .lineTooLong(let limitBytes):
                "The terminal truncates lines of \(limitBytes) bytes and more, so a part of what was typed may be "
                    + "missing."
            }
        }
    }

    /// Prompts at the process's terminal, whatever its standard input is, and reads a line without echo.
    ///
    /// Echo is on again afterwards, and while the process is stopped by Ctrl-Z; when the process continues, it prompts
    /// again. So it does after a stop without notice (SIGSTOP). Other signals take effect once the terminal has its
    /// former settings.
    ///
    /// - Returns: The line without its end.
    package static func readWithoutEcho(prompt: String) throws(Failure) -> WipedBuffer {
        try read(prompt, isShown: false)
    }

    /// Prompts in the same way, with echo.
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

/// A prompt at the terminal of the process, and the terminal's settings while it is open.
private struct TerminalQuestion: ~Copyable {
    private let terminal: FileDescriptor
    private let prompt: [UInt8]
    private let former: termios
    private let asking: termios

    /// Records the settings of the terminal. A process in the background is stopped here until it may use the terminal;
    /// until then the terminal has the shell's settings.
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

    /// Prompts, and reads a line.
    ///
    /// - Returns: The line without its end; nil when the process was asked to stop: the terminal has its former
    ///   settings, and the signal was sent on.
    borrowing func ask() throws(Terminal.Failure) -> WipedBuffer? {
        let failure = cplatform_signal_watch_begin(false)
        guard failure == 0 else {
            throw .cannotAsk(SystemError(call: "sigaction", path: nil, errorNumber: failure))
        }
        defer {
            restore()
            cplatform_signal_watch_end()
        }
        try show()
        var line = WipedBuffer(capacity: PlatformLimits.typedLineBytes)
        while true {
            // Not a plain read: another thread may receive the signal, and this one would continue to wait.
            var request = pollfd(fd: terminal.number, events: Int16(POLLIN), revents: 0)
            let ready = poll(&request, 1, 100)
            switch cplatform_signal_watch_caught() {
            case 0: break
            case SIGTSTP: return nil
            case SIGQUIT: throw .interrupted
            default:
                // The program's output about the signal begins on a line of its own.
                write([UInt8(ascii: "\n")])
                throw .interrupted
            }
            if cplatform_signal_watch_take_continued() {
                // The process did not see the stop, and another user of the terminal may have changed its settings.
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

    /// Restores the settings of the terminal. Unread input is discarded: it may be a part of the secret.
    private borrowing func restore() {
        // Another process group may use the terminal by now: leave its settings.
        guard tcgetpgrp(terminal.number) == getpgrp() else { return }
        var settings = former
        _ = retryingInterrupts { tcsetattr(terminal.number, TCSAFLUSH, &settings) }
    }

    /// Appends the typed bytes; true after the end of the line, which is dropped.
    private borrowing func take(_ line: inout WipedBuffer) throws(Terminal.Failure) -> Bool {
        let tooLong = Terminal.Failure.lineTooLong(limitBytes: PlatformLimits.typedLineBytes - 1)
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
        // The terminal keeps this many bytes of a line and no more; how many were typed is not known.
        guard line.count < PlatformLimits.typedLineBytes - 1 else { throw tooLong }
        return true
    }

    /// A failure is ignored: it could not be reported.
    private borrowing func write(_ text: [UInt8]) { try? terminal.write(text) }

    private static func failed(_ call: String, _ path: String) -> Terminal.Failure {
        .cannotAsk(SystemError(call, path))
    }
}
