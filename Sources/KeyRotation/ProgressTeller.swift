import Synchronization

/// Counts pages and time into ``RotationProgress``, and tells it now and then. For any thread.
final class ProgressTeller: Sendable {
    fileprivate struct State {
        var progress = RotationProgress(.preflight)
        var pageBytes = 0
        var begin = ContinuousClock.now
        var nextTold = ContinuousClock.now
        /// What comes behind the present phase, as a share of the time that it takes.
        var sharesBehind = 0.0
    }

    private let tell: @Sendable (RotationProgress) -> Void
    private let state = Mutex(State())

    init(_ tell: (@Sendable (RotationProgress) -> Void)?) { self.tell = tell ?? { _ in } }

    /// Begins a phase, and tells it at once.
    func begin(_ phase: RotationProgress.Phase, pages: Int = 0, pageBytes: Int = 0) {
        let progress = state.withLock { state in
            state.progress = RotationProgress(phase)
            state.progress.pagesTotal = pages
            state.pageBytes = pageBytes
            state.begin = .now
            state.nextTold = .now + Limits.progressInterval
            state.sharesBehind = phase == .copying ? Limits.verificationShare : 0
            return state.progress
        }
        tell(progress)
    }

    /// Takes note of how many pages of the phase are done.
    func reach(_ done: Int) {
        let progress = state.withLock { state -> RotationProgress? in
            // Threads come here in any order.
            guard done > state.progress.pagesDone else { return nil }
            state.progress.pagesDone = done
            let now = ContinuousClock.now
            guard now >= state.nextTold || done == state.progress.pagesTotal else { return nil }
            state.nextTold = now + Limits.progressInterval
            state.estimate(now - state.begin)
            return state.progress
        }
        if let progress { tell(progress) }
    }
}

extension ProgressTeller.State {
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
