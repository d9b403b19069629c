import CipherStore
import StorePlatform
import StoreTools
import Synchronization

/// Progress on standard error: a line at a terminal, or lines of JSON where `--progress json` asks for them. It prints
/// nothing anywhere else, so that a service and a timer are silent.
final class ProgressBar: Sendable {
    private let title: String
    private let form: Form
    private let state = Mutex(State())

    private struct State {
        var lastTime: ContinuousClock.Instant?
        var isDrawn = false
    }

    /// The printed text.
    enum Form {
        case bar
        case json
        case nothing

        /// The form for this run. A bar has no colours, so that NO_COLOR does not concern it.
        static var chosen: Form {
            let manner = Console.manner
            if manner.reportsProgress { return .json }
            let isCapable = ProcessInspector.environmentValue("TERM").map { $0 != Array("dumb".utf8) } ?? true
            return Terminal.isTerminal(2) && isCapable && !manner.isQuiet && !manner.isJSON ? .bar : .nothing
        }

        /// Between two lines.
        var interval: Duration { self == .json ? .seconds(1) : .milliseconds(100) }
    }

    init(_ title: String) {
        self.title = title
        form = .chosen
    }

    /// Shows a part of a whole.
    func show(_ done: Int, of total: Int, detail: String = "") {
        if form == .json {
            return report(["done": .int(done), "total": .int(total), "detail": .string(detail)])
        }
        draw { width in
            let share = total > 0 ? min(1, Double(done) / Double(total)) : 1
            let cells = max(10, min(40, width - title.count - detail.count - 12))
            let filled = Int(share * Double(cells))
            let bar = String(repeating: "#", count: filled) + String(repeating: ".", count: cells - filled)
            return "\(title) [\(bar)] \(Int(share * 100))% \(detail)"
        }
    }

    /// Shows a count without a known end.
    func show(_ text: String) {
        if form == .json { return report(["detail": .string(text)]) }
        draw { _ in "\(title) \(text)" }
    }

    /// Removes the line.
    func end() {
        let isDrawn = state.withLock { $0.isDrawn }
        if isDrawn { Console.talk("\r\u{1b}[K") }
    }

    private func report(_ members: KeyValuePairs<String, JSON>) {
        guard isDue() else { return }
        let progress = JSON.object([JSON.Member(name: "task", value: .string(title))] + JSON.members(members))
        Console.talk(JSON.object(["progress": progress]).text + "\n")
    }

    private func isDue() -> Bool {
        let now = ContinuousClock.now
        return state.withLock { state in
            if let last = state.lastTime, now - last < form.interval { return false }
            state.lastTime = now
            state.isDrawn = form == .bar
            return true
        }
    }

    private func draw(_ line: (Int) -> String) {
        guard form == .bar, isDue() else { return }
        let width = Terminal.columns(of: 2) ?? 80
        // A name of a table may contain what controls a terminal.
        Console.talk("\r" + String(line(width).withoutControls().prefix(max(1, width - 1))) + "\u{1b}[K")
    }
}

extension Console {
    /// Runs a tool: progress is shown, notices are printed, and a signal ends it.
    ///
    /// - Throws: ``CommandFailure`` with exit code 130 when a signal ended it; what the tool throws.
    func run<Tool: StoreTool>(_ tool: Tool, _ title: String) throws -> Tool.Report {
        let progress = ProgressBar(title)
        defer { progress.end() }
        return try Interruption.explaining {
            // Until the tool has read its key, a signal ends the process.
            try tool.run(isCancelled: { Interruption.hasArrived }, progress: progress.show) { notice in
                progress.end()
                Console.note(notice)
            }
        }
    }
}

extension ProgressBar {
    /// Shows the trials of a passphrase, if they take longer than a second.
    func show(_ trial: KeyslotTrial) {
        if trial.hasEnded { return end() }
        guard trial.elapsed >= .seconds(1) else { return }
        show("trying keyslot \(trial.number) of \(trial.count)")
    }

    /// Shows the progress of a tool.
    @Sendable
    func show(_ progress: ToolProgress) {
        switch progress.phase {
        case .readingSource: show("reading")
        case .copyingRows:
            show("\(CountText.text(progress.done, "row"))" + (progress.table.map { ", table \($0)" } ?? ""))
        case .rereadingSource: show("reading again")
        case .copyingFile: show(progress.done, of: progress.total ?? 0, detail: "copied")
        case .verifyingCopy: show("verifying")
        case .authenticatingPages: show(progress.done, of: progress.total ?? 0, detail: "pages")
        case .checkingContent: show("integrity_check")
        }
    }
}
