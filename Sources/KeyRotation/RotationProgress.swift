import Synchronization

/// How far a rotation is.
public struct RotationProgress: Hashable, Sendable {
    /// What is being done.
    public enum Phase: String, Hashable, Sendable, CaseIterable {
        /// A backup is made.
        case backup
        /// The store is looked at.
        case preflight
        /// Pages are copied and re-encrypted.
        case copying
        /// The copy is read back and compared.
        case verifying
        /// What was written meanwhile is carried over.
        case catchingUp
        /// The other processes are asked to pause, and the copy takes the database's place.
        case switching
        /// It is done.
        case completed
    }

    public var phase: Phase
    /// Pages of this phase that are done.
    public var pagesDone = 0
    /// Pages of this phase; 0 where it has none, or while they are not known.
    public var pagesTotal = 0
    /// How fast the phase goes; 0 while that is not known.
    public var bytesPerSecond = 0
    /// How long the copy and its verification will still take; nil where that is not known.
    public var remaining: Duration?

    init(_ phase: Phase) { self.phase = phase }
}

/// Counts pages and time into ``RotationProgress``, and reports it now and then. For any thread.
final class ProgressReporter: Sendable {
    fileprivate struct State {
        var progress = RotationProgress(.preflight)
        var pageBytes = 0
        var begin = ContinuousClock.now
        var nextReport = ContinuousClock.now
        /// What comes behind the present phase, as a share of the time that it takes.
        var sharesBehind = 0.0
    }

    private let report: @Sendable (RotationProgress) -> Void
    private let state = Mutex(State())

    init(_ report: (@Sendable (RotationProgress) -> Void)?) { self.report = report ?? { _ in } }

    /// Begins a phase, and reports it at once.
    func begin(_ phase: RotationProgress.Phase, pages: Int = 0, pageBytes: Int = 0) {
        let progress = state.withLock { state in
            state.progress = RotationProgress(phase)
            state.progress.pagesTotal = pages
            state.pageBytes = pageBytes
            state.begin = .now
            state.nextReport = .now + Limits.progressInterval
            state.sharesBehind = phase == .copying ? Limits.verificationShare : 0
            return state.progress
        }
        report(progress)
    }

    /// Takes note of how many pages of the phase are done.
    func reach(_ done: Int) {
        let progress = state.withLock { state -> RotationProgress? in
            // Threads come here in any order.
            guard done > state.progress.pagesDone else { return nil }
            state.progress.pagesDone = done
            let now = ContinuousClock.now
            guard now >= state.nextReport || done == state.progress.pagesTotal else { return nil }
            state.nextReport = now + Limits.progressInterval
            state.estimate(now - state.begin)
            return state.progress
        }
        if let progress { report(progress) }
    }
}

extension ProgressReporter.State {
    fileprivate mutating func estimate(_ elapsed: Duration) {
        let seconds = elapsed / .seconds(1)
        guard seconds > 0, progress.pagesDone > 0 else { return }
        let pagesPerSecond = Double(progress.pagesDone) / seconds
        progress.bytesPerSecond = Int(pagesPerSecond * Double(pageBytes))
        guard progress.pagesTotal > 0 else { return }
        let left = Double(progress.pagesTotal - progress.pagesDone) / pagesPerSecond
        let behind = Double(progress.pagesTotal) / pagesPerSecond * sharesBehind
        progress.remaining = .milliseconds(Int64((left + behind) * 1000))
    }
}
