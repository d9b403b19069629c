import Dispatch
import StorePlatform

/// Releases memory under memory pressure, while the object lives.
///
/// Apple's systems send notifications. Linux is polled, where it reports the pressure at all.
// Safe because: the source is made in `init` and cancelled in `deinit`; both may happen on any thread.
final class MemoryRelief: @unchecked Sendable {
    private let source: any DispatchSourceProtocol
    /// How many descriptors libdispatch opens for its event loop. It ends a process that has none for it.
    private static let eventLoopDescriptors = 4

    /// - Parameters:
    ///   - interval: How often Linux is polled; nil for ``DatabaseLimits/pressureInterval``.
    ///   - pressure: The share of time in which tasks wait for memory, in percent; nil where it is not reported.
    ///   - release: Releases the memory; called on a queue of the system.
    /// - Returns: nil where the pressure is not reported, and where the process has no descriptors left to poll it.
    init?(
        every interval: DispatchTimeInterval? = nil,
        pressure: @escaping @Sendable () -> Double? = { MemoryPressure.current() },
        release: @escaping @Sendable () -> Void
    ) {
        let queue = DispatchQueue.global(qos: .utility)
        #if canImport(Darwin)
            source = DispatchSource.makeMemoryPressureSource(eventMask: [.warning, .critical], queue: queue)
            source.setEventHandler(handler: release)
        #else
            guard pressure() != nil, FileDescriptor.areAvailable(Self.eventLoopDescriptors) else { return nil }
            let interval = interval ?? DatabaseLimits.pressureInterval
            let timer = DispatchSource.makeTimerSource(queue: queue)
            // The exact time does not matter, so the system may combine wake-ups.
            timer.schedule(deadline: .now() + interval, repeating: interval, leeway: interval)
            timer.setEventHandler { if let now = pressure(), now >= DatabaseLimits.pressurePercent { release() } }
            source = timer
        #endif
        source.resume()
    }

    deinit { source.cancel() }
}
