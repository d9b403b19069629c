import KeyRotation
import StorePlatform
import Synchronization

/// Shows the progress of a rotation: a bar at a terminal, or lines of JSON on standard error.
final class RotationWatch: Sendable {
    private let path: String
    private let bar: ProgressBar
    private let form = ProgressBar.Form.chosen
    private let state = Mutex(State())

    private struct State {
        var phase: RotationProgress.Phase?
        var lastTime: ContinuousClock.Instant?
    }

    init(_ path: String) {
        self.path = path
        bar = ProgressBar("rotating")
    }

    func end() { bar.end() }

    func show(_ progress: RotationProgress) {
        switch form {
        case .bar where progress.pagesTotal == 0: bar.show(Self.detail(progress))
        case .bar: bar.show(progress.pagesDone, of: progress.pagesTotal, detail: Self.detail(progress))
        case .json:
            if isDue(progress.phase) { Console.talk(Self.json(progress, path).text + "\n") }
        case .nothing: break
        }
    }

    private func isDue(_ phase: RotationProgress.Phase) -> Bool {
        let now = ContinuousClock.now
        return state.withLock { state in
            if state.phase == phase, let last = state.lastTime, now - last < form.interval { return false }
            state.phase = phase
            state.lastTime = now
            return true
        }
    }

    static func detail(_ progress: RotationProgress) -> String {
        var parts = [progress.phase.rawValue]
        if progress.bytesPerSecond > 0 {
            parts.append(CountText.speed(bytesPerSecond: Double(progress.bytesPerSecond)))
        }
        if let remaining = progress.remaining {
            parts.append(CountText.shortSeconds(remaining, digits: 0) + " left")
        }
        return parts.joined(separator: ", ")
    }

    static func json(_ progress: RotationProgress, _ path: String) -> JSON {
        .object([
            "progress": .object([
                "store": .string(path), "phase": .string(progress.phase.rawValue), "pages": .int(progress.pagesDone),
                "pages_total": .int(progress.pagesTotal), "bytes_per_second": .int(progress.bytesPerSecond),
                "seconds_left": .optional(progress.remaining) { .real($0 / .seconds(1)) },
            ])
        ])
    }
}
