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
