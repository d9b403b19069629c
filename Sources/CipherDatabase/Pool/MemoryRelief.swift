import Dispatch
import StorePlatform

/// Gives memory back when the system lacks it, for as long as the object lives.
///
/// Apple's systems tell of themselves. Linux is asked now and then, where it tells at all.
// Safe because: the source is made in `init` and cancelled in `deinit`; both may happen on any thread.
package final class MemoryRelief: @unchecked Sendable {
    private let source: any DispatchSourceProtocol

    /// - Parameters:
    ///   - interval: How often Linux is asked; nil for ``Limits/pressureInterval``.
    ///   - pressure: In how much of the time tasks wait for memory, in percent; nil where nothing tells.
    ///   - release: Gives the memory back; called on a queue of the system.
    /// - Returns: nil where nothing tells.
    package init?(
        every interval: DispatchTimeInterval? = nil,
        pressure: @escaping @Sendable () -> Double? = { MemoryPressure.current() },
        release: @escaping @Sendable () -> Void
    ) {
        let queue = DispatchQueue.global(qos: .utility)
        #if canImport(Darwin)
            source = DispatchSource.makeMemoryPressureSource(eventMask: [.warning, .critical], queue: queue)
            source.setEventHandler(handler: release)
        #else
            guard pressure() != nil else { return nil }
            let interval = interval ?? Limits.pressureInterval
            let timer = DispatchSource.makeTimerSource(queue: queue)
            // The moment does not matter, so the system may wake for several things at once.
            timer.schedule(deadline: .now() + interval, repeating: interval, leeway: interval)
            timer.setEventHandler { if let now = pressure(), now >= Limits.pressurePercent { release() } }
            source = timer
        #endif
        source.resume()
    }

    deinit { source.cancel() }
}
