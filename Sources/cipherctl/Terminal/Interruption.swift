import StorePlatform

/// Turns SIGINT, SIGTERM and SIGHUP into an error at the next check, so that work under way can be taken back.
final class Interruption: Sendable {
    /// From here on the three signals no longer end the process by themselves. There is one for the whole program.
    static let shared = Interruption()

    private init() { InterruptionSignals.begin() }

    var isSet: Bool { InterruptionSignals.isRequested }

    /// - Throws: ``CommandFailure`` with exit code 130 once a signal has come.
    func check() throws {
        guard isSet else { return }
        throw CommandFailure(
            .interrupted, "interrupted", what: "The command was interrupted.", why: "A signal asked it to end.",
            hint: "Run it again; what it had begun was taken back.")
    }
}
