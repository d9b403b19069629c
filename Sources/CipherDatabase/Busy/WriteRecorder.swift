import StorePlatform
import StoreSharing
import Synchronization

/// Records statistics of the writes of a connection. It allocates nothing for a write, and its lock is contended only
/// by readers of the statistics.
final class WriteRecorder: Sendable {
    private let state = Mutex(State())
    private let connection: String
    private let longNanoseconds: UInt64
    private let onLongWrite: (@Sendable (WriteEvent) -> Void)?
    private let onWrite: (@Sendable (WriteEvent) -> Void)?

    private struct State {
        var holds = DurationHistogram()
        var waits = DurationHistogram()
        var figures = WriteFigures()
        var longestLabel: String?
        var longestWait: UInt64 = 0
        var timeouts = 0
    }

    init(connection: String, configuration: Configuration) {
        self.connection = connection
        longNanoseconds = configuration.longWriteLimit?.wholeNanoseconds ?? .max
        onLongWrite = configuration.onLongWrite
        onWrite = configuration.onWrite
    }

    /// Records a write that has ended.
    ///
    /// - Returns: The totals of all writes so far.
    func record(held: UInt64, waited: UInt64, label: String) -> WriteFigures {
        state.withLock { state in
            state.holds.add(held)
            if waited > 0 { state.waits.add(waited) }
            state.figures.count &+= 1
            state.figures.heldNanoseconds &+= held
            state.figures.waitedNanoseconds &+= waited
            state.longestWait = max(state.longestWait, waited)
            if held > state.figures.longestNanoseconds {
                state.figures.longestNanoseconds = held
                state.longestLabel = label
            }
            return state.figures
        }
    }

    /// Calls the callbacks for writes, after the write, when others may write.
    func report(held: UInt64, waited: UInt64, label: String) {
        guard onWrite != nil || held >= longNanoseconds else { return }
        let event = WriteEvent(label: label, held: .init(held), waited: .init(waited), connection: connection)
        onWrite?(event)
        if held >= longNanoseconds { onLongWrite?(event) }
    }

    func recordTimeout() { state.withLock { $0.timeouts += 1 } }

    func statistics(usesWriterQueue: Bool) -> WriteStatistics {
        state.withLock { state in
            var statistics = WriteStatistics()
            statistics.count = Int(state.figures.count)
            // The bound of the last class is greater than the longest write.
            let longest = state.figures.longestNanoseconds
            statistics.p50 = .init(min(state.holds.percentile(0.5), longest))
            statistics.p99 = .init(min(state.holds.percentile(0.99), longest))
            statistics.longest = .init(longest)
            statistics.longestLabel = state.longestLabel
            statistics.waitCount = Int(state.waits.total)
            statistics.timeWaited = .init(state.figures.waitedNanoseconds)
            statistics.waitP99 = .init(min(state.waits.percentile(0.99), state.longestWait))
            statistics.longestWait = .init(state.longestWait)
            statistics.timeoutCount = state.timeouts
            statistics.usesWriterQueue = usesWriterQueue
            return statistics
        }
    }
}

extension Duration {
    fileprivate init(_ nanoseconds: UInt64) { self = .nanoseconds(Int64(clamping: nanoseconds)) }
}
