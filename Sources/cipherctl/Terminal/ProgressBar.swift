import StorePlatform
import StoreTools
import Synchronization

/// A line on a terminal's standard error that shows progress; prints nothing anywhere else.
final class ProgressBar: Sendable {
    private let title: String
    private let isShown: Bool
    private let state = Mutex(State())

    private struct State {
        var lastTime: ContinuousClock.Instant?
        var isDrawn = false
    }

    private static let interval = Duration.milliseconds(100)

    /// - Parameter isAllowed: False where animation is not allowed, as under `--json`.
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

    /// Shows a count without a known end.
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

extension Console {
    /// Runs a tool: progress is shown on a terminal, notices are printed, and a signal ends it.
    ///
    /// - Throws: ``CommandFailure`` with exit code 130 when a signal ended it; what the tool throws.
    func run<Tool: StoreTool>(_ tool: Tool, _ title: String) throws -> Tool.Report {
        let progress = ProgressBar(title, isAllowed: !isJSON)
        defer { progress.end() }
        return try Interruption.explaining {
            // From the first check on, signals no longer end the process by themselves.
            try tool.run(isCancelled: { Interruption.shared.isSet }, progress: progress.show) { notice in
                progress.end()
                Console(isJSON: false).note(notice)
            }
        }
    }
}

extension ProgressBar {
    /// Shows the progress of a tool.
    @Sendable
    func show(_ progress: ToolProgress) {
        switch progress.phase {
        case .readingSource: show("reading")
        case .copyingRows: show("\(progress.done) rows" + (progress.table.map { ", table \($0)" } ?? ""))
        case .rereadingSource: show("reading again")
        case .copyingFile: show(progress.done, of: progress.total ?? 0, detail: "copied")
        case .verifyingCopy: show("verifying")
        case .authenticatingPages: show(progress.done, of: progress.total ?? 0, detail: "pages")
        case .checkingContent: show("integrity_check")
        }
    }
}
