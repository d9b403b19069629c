import Dispatch
import Foundation
import StorePlatform
import Synchronization

/// A database that gives memory back when it is asked to.
protocol MemoryHolder: AnyObject, Sendable {
    /// Gives memory back that connections keep for speed, without waiting for the accesses under way.
    ///
    /// Called when memory is short, and by a suspension: a process that is stopped should not keep what it can do without.
    func releaseMemoryEventually()
}

/// Where the news comes from that memory is short.
protocol MemoryPressureSource: Sendable {
    /// Begins to tell, from any thread; silent where the system tells nothing.
    func start(_ tell: @escaping @Sendable () -> Void)
}

/// Asks the databases of this process to give memory back when it is short.
///
/// It knows them weakly: a database that is gone needs nothing done. The source is started with the first of them.
final class MemoryPressureMonitor: Sendable {
    /// Of the process.
    static let shared = MemoryPressureMonitor(source: SystemMemoryPressure())

    private struct State {
        var holders: [WeakHolder] = []
        var isStarted = false
    }

    private struct WeakHolder: Sendable {
        weak let value: (any MemoryHolder)?
    }

    private let source: any MemoryPressureSource
    private let state = Mutex(State())

    init(source: any MemoryPressureSource) { self.source = source }

    /// Adds a database, for as long as it lives.
    func add(_ holder: any MemoryHolder) {
        let isFirst = state.withLock { state in
            state.holders.removeAll { $0.value == nil }
            state.holders.append(WeakHolder(value: holder))
            defer { state.isStarted = true }
            return !state.isStarted
        }
        if isFirst { source.start { [weak self] in self?.releaseMemory() } }
    }

    /// Asks every database to give memory back.
    func releaseMemory() {
        for holder in state.withLock({ $0.holders }) { holder.value?.releaseMemoryEventually() }
    }
}

/// Memory warnings of Apple's systems; on Linux pressure stall information, on one thread of the process.
struct SystemMemoryPressure: MemoryPressureSource {
    #if canImport(Darwin)
        // Never cancelled: it lives as long as the process does.
        private static let source = DispatchSource.makeMemoryPressureSource(
            eventMask: [.warning, .critical], queue: .global())

        func start(_ tell: @escaping @Sendable () -> Void) {
            Self.source.setEventHandler(handler: tell)
            Self.source.activate()
        }
    #else
        func start(_ tell: @escaping @Sendable () -> Void) {
            Thread.detachNewThread {
                guard let trigger = MemoryPressureTrigger() else { return }
                while trigger.wait() { tell() }
            }
        }
    #endif
}
