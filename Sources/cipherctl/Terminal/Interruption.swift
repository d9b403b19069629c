import Dispatch
import Foundation
import Synchronization

/// Turns SIGINT, SIGTERM and SIGHUP into an error at the next look, so that work under way can be taken back.
// Safe because: the sources are only kept, and the flag is atomic.
final class Interruption: @unchecked Sendable {
    private let isRequested = Atomic<Bool>(false)
    private var sources: [any DispatchSourceSignal] = []

    /// From here on the three signals no longer end the process by themselves. There is one for the whole program.
    static let shared = Interruption()

    private init() {
        let queue = DispatchQueue(label: "cipherctl.signals")
        for number in [SIGINT, SIGTERM, SIGHUP] {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler { [self] in isRequested.store(true, ordering: .releasing) }
            source.resume()
            sources.append(source)
        }
    }

    var isSet: Bool { isRequested.load(ordering: .acquiring) }

    /// - Throws: ``CommandFailure`` with exit code 130 once a signal has come.
    func check() throws {
        guard isSet else { return }
        throw CommandFailure(
            .interrupted, "interrupted", what: "The command was interrupted.", why: "A signal asked it to end.",
            hint: "Run it again; what it had begun was taken back.")
    }
}
