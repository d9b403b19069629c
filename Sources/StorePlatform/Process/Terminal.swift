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

    /// Asks a question at the process's terminal, whatever its standard input is, and reads a line that is not shown.
    ///
    /// The terminal shows what is typed again afterwards, also when a signal arrives meanwhile; the signal then takes
    /// its course.
    ///
    /// - Returns: The line without its end.
    /// - Throws: ``SystemError``: `ENXIO` or `ENOTTY` when there is no terminal, `EINTR` when a signal or the end of
    ///   input came before the end of the line, `EFBIG` when the line is too long.
    package static func readWithoutEcho(prompt: String) throws(SystemError) -> WipedBuffer {
        try read(prompt, isShown: false)
    }

    /// Asks a question in the same way, and shows what is typed.
    package static func ask(prompt: String) throws(SystemError) -> String {
        let line = try read(prompt, isShown: true)
        return line.withBytes { String(decoding: $0, as: UTF8.self) }
    }

    private static func read(_ prompt: String, isShown: Bool) throws(SystemError) -> WipedBuffer {
        signalWatch.wait()
        defer { signalWatch.signal() }
        let terminal = try FileDescriptor(opening: "/dev/tty", .readWrite)
        return try readLine(at: terminal, prompt, isShown: isShown)
    }

    private static func readLine(
        at terminal: borrowing FileDescriptor, _ prompt: String, isShown: Bool
    ) throws(SystemError) -> WipedBuffer {
        var former = termios()
        guard tcgetattr(terminal.number, &former) == 0 else { throw SystemError("tcgetattr", terminal.path) }
        let failure = cplatform_signal_watch_begin()
        guard failure == 0 else { throw SystemError(call: "sigaction", path: nil, errorNumber: failure) }
        var silent = former
        if !isShown { silent.c_lflag &= ~tcflag_t(ECHO) }
        silent.c_lflag |= tcflag_t((isShown ? ECHO : ECHONL) | ICANON)
        defer {
            // Also what was typed and not read is dropped: it may be part of the secret.
            tcsetattr(terminal.number, TCSAFLUSH, &former)
            cplatform_signal_watch_end()
        }
        guard tcsetattr(terminal.number, TCSAFLUSH, &silent) == 0 else {
            throw SystemError("tcsetattr", terminal.path)
        }
        try terminal.write(Array(prompt.utf8))
        var line = WipedBuffer(capacity: Limits.typedLineBytes)
        while true {
            // Not a plain read: the signal may be taken by another thread, and this one would go on waiting.
            var request = pollfd(fd: terminal.number, events: Int16(POLLIN), revents: 0)
            let ready = poll(&request, 1, 100)
            if cplatform_signal_watch_has_caught() { throw interrupted(terminal.path) }
            if ready <= 0 { continue }
            if try line.append(readingFrom: terminal) == 0 {
                if line.remaining > 0 { throw interrupted(terminal.path) }
                throw SystemError(call: "read", path: terminal.path, errorNumber: EFBIG)
            }
            if line.withBytes({ $0.last == UInt8(ascii: "\n") }) {
                line.removeLast(1)
                return line
            }
        }
    }

    private static func interrupted(_ path: String) -> SystemError {
        SystemError(call: "read", path: path, errorNumber: EINTR)
    }
}
