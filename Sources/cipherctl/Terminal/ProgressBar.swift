import StorePlatform
import Synchronization

/// A line on a terminal's standard error that shows how far work has come; nothing anywhere else.
final class ProgressBar: Sendable {
    private let title: String
    private let isShown: Bool
    private let state = Mutex(State())

    private struct State {
        var lastTime: ContinuousClock.Instant?
        var isDrawn = false
    }

    private static let interval = Duration.milliseconds(100)

    /// - Parameter isAllowed: False where nothing may be animated, as under `--json`.
    init(_ title: String, isAllowed: Bool) {
        self.title = title
        isShown =
            isAllowed && Terminal.isTerminal(2) && ProcessInspector.environmentValue("NO_COLOR") == nil
            && ProcessInspector.environmentValue("TERM").map { $0 != Array("dumb".utf8) } ?? true
    }

    /// Shows a part of a whole.
    func show(_ done: Int, of total: Int, detail: String = "") {
        draw { width in
            let share = total > 0 ? min(1, Double(done) / Double(total)) : 1
            let cells = max(10, min(40, width - title.count - detail.count - 12))
            let filled = Int(share * Double(cells))
            let bar = String(repeating: "#", count: filled) + String(repeating: ".", count: cells - filled)
            return "\(title) [\(bar)] \(Int(share * 100))% \(detail)"
        }
    }

    /// Shows a count whose end is not known.
    func show(_ text: String) { draw { _ in "\(title) \(text)" } }

    /// Removes the line.
    func end() {
        let isDrawn = state.withLock { $0.isDrawn }
        if isDrawn { Console.talk("\r\u{1b}[K") }
    }

    private func draw(_ line: (Int) -> String) {
        guard isShown else { return }
        let now = ContinuousClock.now
        let isDue = state.withLock { state in
            if let last = state.lastTime, now - last < Self.interval { return false }
            state.lastTime = now
            state.isDrawn = true
            return true
        }
        guard isDue else { return }
        let width = Terminal.columns(of: 2) ?? 80
        Console.talk("\r" + String(line(width).prefix(max(1, width - 1))) + "\u{1b}[K")
    }
}
