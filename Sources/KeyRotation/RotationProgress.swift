import Synchronization

/// The progress of a rotation.
public struct RotationProgress: Hashable, Sendable {
    /// A phase of a rotation.
    public enum Phase: String, Hashable, Sendable, CaseIterable {
        /// A backup is made.
        case backup
        /// The store is examined.
        case preflight
        /// Pages are copied and re-encrypted.
        case copying
        /// The copy is read back and compared.
        case verifying
        /// Changes made during the copy are carried over.
        case catchingUp
        /// The other processes are asked to pause, and the copy replaces the database.
        case switching
        /// The rotation is complete.
        case completed
    }

    public var phase: Phase
    /// Pages of this phase that are done.
    public var pagesDone = 0
    /// Total pages of this phase; 0 where it has none, or while the number is unknown.
    public var pagesTotal = 0
    /// The speed of the phase; 0 while it is unknown.
    public var bytesPerSecond = 0
    /// The estimated remaining time of the copy and its verification; nil where it is unknown.
    public var remaining: Duration?

    init(_ phase: Phase) { self.phase = phase }
}

/// Records pages and time in ``RotationProgress`` and reports it at intervals. May be used on any thread.
final class ProgressReporter: Sendable {
    fileprivate struct State {
        var progress = RotationProgress(.preflight)
        var pageBytes = 0
        var begin = ContinuousClock.now
        var nextReport = ContinuousClock.now
        /// The time of the phases after the present one, as a share of the time of the present one.
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
            state.nextReport = .now + RotationLimits.progressInterval
            state.sharesBehind = phase == .copying ? RotationLimits.verificationShare : 0
            return state.progress
        }
        report(progress)
    }

    /// Records how many pages of the phase are done.
    func reach(_ done: Int) {
        let progress = state.withLock { state -> RotationProgress? in
            // Threads call this in any order.
            guard done > state.progress.pagesDone else { return nil }
            state.progress.pagesDone = done
            let now = ContinuousClock.now
            guard now >= state.nextReport || done == state.progress.pagesTotal else { return nil }
            state.nextReport = now + RotationLimits.progressInterval
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
