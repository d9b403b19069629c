import Foundation
import PageFormat
import StorePlatform
import StoreSharing
import Synchronization

/// Counts checkpoints, and detects readers that last too long.
final class CheckpointRecorder: Sendable {
    private let path: String
    private let ageLimit: Duration
    private let report: (@Sendable (WALBlockage) -> Void)?
    private let state = Mutex(State())

    private struct State {
        var statistics = CheckpointStatistics()
        var blockedSince: ContinuousClock.Instant?
        /// The age at which the blockage is reported next.
        var nextReport: Duration
        init(nextReport: Duration = .zero) { self.nextReport = nextReport }
    }

    init(path: String, configuration: Configuration) {
        self.path = path
        ageLimit = configuration.readerAgeLimit
        let notice = configuration.onNotice
        report = configuration.onOldReader ?? notice.map { notice in { @Sendable in notice($0.description) } }
    }

    var statistics: CheckpointStatistics { state.withLock(\.statistics) }

    func recordWait() { state.withLock { $0.statistics.waitCount += 1 } }

    func recordPostponed() { state.withLock { $0.statistics.postponed += 1 } }

    /// - Parameters:
    ///   - copied: Frames that this checkpoint copied.
    ///   - readers: Finds the readers of old snapshots; called only when the checkpoint is incomplete.
    func record(_ result: CheckpointResult, copied: Int, took duration: Duration, readers: () -> [WALReader]) {
        let left = result.walFrameCount - result.checkpointedFrameCount
        let found = left > 0 ? readers() : []
        let now = ContinuousClock.now
        let due = state.withLock { state -> WALBlockage? in
            state.statistics.count += 1
            state.statistics.copiedFrames += copied
            state.statistics.longest = max(state.statistics.longest, duration)
            state.statistics.walFrames = result.walFrameCount
            state.statistics.checkpointedFrames = result.checkpointedFrameCount
            guard left > 0 else {
                state.statistics.blockage = nil
                state.blockedSince = nil
                return nil
            }
            if state.blockedSince == nil { state.nextReport = ageLimit }
            let since = state.blockedSince ?? now
            state.blockedSince = since
            let blockage = WALBlockage(path: path, frames: left, age: now - since, readers: found)
            state.statistics.blockage = blockage
            guard blockage.age >= state.nextReport else { return nil }
            state.nextReport = blockage.age + max(ageLimit, .seconds(1))
            return blockage
        }
        if let due, let report { DispatchQueue.global().async { report(due) } }
    }
}
