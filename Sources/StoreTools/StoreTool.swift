import Dispatch
import StorePlatform
import Synchronization

/// The common form of all tools: a value that describes the work, and ``run(isCancelled:progress:onNotice:)``, which
/// does it and returns the result.
///
/// ```swift
/// let verification = StoreVerification("app.db", unlockedBy: .keyFile(path: "app.key"))
/// let report = try verification.run { print($0.phase, $0.done) }
/// if !report.isSound { print(report.problems) }
/// ```
///
/// Nothing is done before `run`, and each call of it does the work again. The store may be open in the same process and
/// in others, unless the tool says that no process may have it open.
public protocol StoreTool: Sendable {
    /// The result of the work.
    associatedtype Report: Sendable

    /// Does the work. Programs call ``run(isCancelled:progress:onNotice:)`` instead.
    ///
    /// - Parameter run: Says whether to continue, and receives progress and notices.
    func perform(_ run: ToolRun) throws -> Report
}

extension StoreTool {
    /// Does the work on this thread.
    ///
    /// - Parameters:
    ///   - isCancelled: Called often, on any thread; true ends the work with `CancellationError`, and what it had begun
    ///     is removed. No longer called once the result is being put in place.
    ///   - progress: Called on any thread, by one thread at a time; its values never decrease.
    ///   - onNotice: Called at once with each notice that is not a failure: a sentence to be logged. Without it notices
    ///     are only in the report.
    /// - Throws: The errors that the tool's documentation names; `CancellationError`.
    @discardableResult
    public func run(
        isCancelled: (@Sendable () -> Bool)? = nil, progress: (@Sendable (ToolProgress) -> Void)? = nil,
        onNotice: (@Sendable (String) -> Void)? = nil
    ) throws -> Report {
        try perform(ToolRun(isCancelled: isCancelled, progress: progress, onNotice: onNotice))
    }

    /// Does the work on this thread, and reports progress.
    @discardableResult
    public func run(progress: @escaping @Sendable (ToolProgress) -> Void) throws -> Report {
        try run(isCancelled: nil, progress: progress)
    }

    /// Does the work on another thread, and ends with `CancellationError` when the task is cancelled.
    ///
    /// - Parameters: As ``run(isCancelled:progress:onNotice:)``.
    @discardableResult
    public func run(
        progress: (@Sendable (ToolProgress) -> Void)? = nil, onNotice: (@Sendable (String) -> Void)? = nil
    ) async throws -> Report {
        let run = ToolRun(progress: progress, onNotice: onNotice)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // It takes seconds to hours, and waits for locks: it must not block the threads of tasks.
                DispatchQueue.global().async { continuation.resume(with: Result { try perform(run) }) }
            }
        } onCancel: {
            run.cancel()
        }
    }
}

/// The progress of a tool. Phases come in the order in which they are listed, each at most once.
public struct ToolProgress: Hashable, Sendable {
    /// The kind of work in progress.
    public enum Phase: String, Hashable, Sendable, CaseIterable {
        /// Pages are authenticated; counted in pages.
        case authenticatingPages
        /// The source is read and hashed; counted in rows.
        case readingSource
        /// Rows are copied; counted in rows.
        case copyingRows
        /// The source is read again and hashed, in the transaction of the copy; counted in rows.
        case rereadingSource
        /// The file is copied page by page; counted in bytes.
        case copyingFile
        /// The copy is read back and hashed; counted in rows.
        case verifyingCopy
        /// SQLite checks the content; not counted.
        case checkingContent
    }

    public let phase: Phase
    /// How much of the phase is done, in its unit.
    public let done: Int
    /// The size of the phase, in its unit; nil where that is not known.
    public let total: Int?
    /// The table whose rows are copied; nil in other phases.
    public let table: String?

    init(_ phase: Phase, done: Int = 0, total: Int? = nil, table: String? = nil) {
        self.phase = phase
        self.done = done
        self.total = total
        self.table = table
    }
}

/// One run of a tool: whether it must end, and the receivers of its progress and notices.
public final class ToolRun: Sendable {
    private let isCancelledOutside: (@Sendable () -> Bool)?
    private let progress: (@Sendable (ToolProgress) -> Void)?
    private let onNotice: (@Sendable (String) -> Void)?
    private let isEnded = Atomic<Bool>(false)
    private let state = Mutex(State())

    private struct State {
        var notices: [String] = []
        var newest: ToolProgress?
        var reported: ToolProgress?
        /// Whether a thread is calling `progress`; it also reports values that arrive meanwhile.
        var isReporting = false
    }

    /// - Parameters: As ``StoreTool/run(isCancelled:progress:onNotice:)``.
    public init(
        isCancelled: (@Sendable () -> Bool)? = nil, progress: (@Sendable (ToolProgress) -> Void)? = nil,
        onNotice: (@Sendable (String) -> Void)? = nil
    ) {
        isCancelledOutside = isCancelled
        self.progress = progress
        self.onNotice = onNotice
    }

    /// Makes the run end at its next check, with `CancellationError`.
    public func cancel() { isEnded.store(true, ordering: .releasing) }

    /// Whether the run must end.
    public var isCancelled: Bool { isEnded.load(ordering: .acquiring) || isCancelledOutside?() == true }

    /// - Throws: `CancellationError` when the run must end.
    package func check() throws { if isCancelled { throw CancellationError() } }

    /// Reports progress unless a later value was already reported: several threads count the same phase.
    func report(_ value: ToolProgress) {
        guard let progress else { return }
        let isReporter = state.withLock { state in
            if let newest = state.newest, newest.phase == value.phase, newest.done >= value.done {
                return false
            }
            state.newest = value
            defer { state.isReporting = true }
            return !state.isReporting
        }
        guard isReporter else { return }
        // Called without the lock, and by one thread at a time.
        while let next = takeUnreported() { progress(next) }
    }

    private func takeUnreported() -> ToolProgress? {
        state.withLock { state in
            guard state.newest != state.reported else {
                state.isReporting = false
                return nil
            }
            state.reported = state.newest
            return state.newest
        }
    }

    package func notice(_ text: String) {
        state.withLock { $0.notices.append(text) }
        onNotice?(text)
    }

    package var notices: [String] { state.withLock { $0.notices } }
}

/// Counts rows for a phase, and ends the work when it was cancelled.
struct RowCounter {
    let run: ToolRun
    let phase: ToolProgress.Phase
    private(set) var rows = 0

    /// Rows between two reports.
    private static let step = 1000

    init(_ run: ToolRun, _ phase: ToolProgress.Phase) {
        self.run = run
        self.phase = phase
        run.report(ToolProgress(phase))
    }

    /// - Throws: `CancellationError`.
    mutating func next(table: String? = nil) throws {
        rows += 1
        try run.check()
        if rows.isMultiple(of: Self.step) { run.report(ToolProgress(phase, done: rows, table: table)) }
    }
}
