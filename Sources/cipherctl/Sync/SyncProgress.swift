import StorePlatform
import Synchronization

/// How fast something goes.
struct TransferRate: Equatable {
    var objects = 0
    var bytes = 0

    /// `12 objects, 1.5 MB, 300.0 kB/s`; without the rate in the first moment.
    func text(after seconds: Double) -> String {
        guard objects > 0 else { return "" }
        let start = "\(CountText.text(objects, "object")), \(CountText.bytes(Double(bytes)))"
        return seconds >= 0.2 ? start + ", \(CountText.bytes(Double(bytes) / seconds))/s" : start
    }

}

/// Shows the progress of an exchange.
final class SyncProgress: Sendable {
    private let bar = ProgressBar("sync")
    private let state = Mutex(State())

    private struct State {
        var title = ""
        var rate = TransferRate()
        var start = ContinuousClock.now
    }

    /// Begins a part: syncing, fetching, pushing, joining.
    func begin(_ title: String) {
        state.withLock { $0 = State(title: title) }
        bar.show(title)
    }

    /// An object was sent or received.
    func add(bytes: Int) {
        let text = state.withLock { state in
            state.rate.objects += 1
            state.rate.bytes += bytes
            return state.title + " " + state.rate.text(after: (ContinuousClock.now - state.start) / .seconds(1))
        }
        bar.show(text)
    }

    /// Removes the line.
    func end() { bar.end() }
}
