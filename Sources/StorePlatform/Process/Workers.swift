import Foundation

/// Work on several threads at once.
///
/// On Linux `DispatchQueue.concurrentPerform` leaves memory in a cache of the calling thread, which libdispatch frees when
/// the thread ends, and once more if an object that dies with the thread uses libdispatch after that. The last reference
/// to a store may be such an object. So the threads are made here, and the calling thread's cache is left alone.
package enum Workers {
    /// Runs a body for each number below `count`, one on this thread and each other one on a thread of its own, and waits
    /// for all of them.
    ///
    /// - Parameter count: At least 1. This thread runs what the system makes no thread for.
    package static func run(_ count: Int, _ body: @Sendable (Int) -> Void) {
        withoutActuallyEscaping(body) { body in
            var threads: [pthread_t] = []
            var left: [Int] = []
            for number in stride(from: 1, to: count, by: 1) {
                if let thread = start({ body(number) }) { threads.append(thread) } else { left.append(number) }
            }
            body(0)
            left.forEach(body)
            for thread in threads { pthread_join(thread, nil) }
        }
    }

    /// - Returns: nil where the system refuses.
    private static func start(_ body: @escaping @Sendable () -> Void) -> pthread_t? {
        let work = Unmanaged.passRetained(Work(body))
        #if canImport(Darwin)
            var thread: pthread_t?
            let code = pthread_create(&thread, nil, { Work.run($0) }, work.toOpaque())
        #else
            var thread = pthread_t()
            let code = pthread_create(&thread, nil, { $0.flatMap { Work.run($0) } }, work.toOpaque())
        #endif
        guard code == 0 else {
            work.release()
            return nil
        }
        return thread
    }

    private final class Work: Sendable {
        private let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }

        static func run(_ work: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
            Unmanaged<Work>.fromOpaque(work).takeRetainedValue().body()
            return nil
        }
    }
}
