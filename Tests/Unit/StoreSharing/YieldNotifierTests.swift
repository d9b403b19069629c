import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

@testable import StoreSharing

@Suite("Waits for requests to yield")
struct YieldNotifierTests {
    private let folder = TemporaryFolder()
    private let path: String

    init() throws {
        path = folder.path("app.db-lock")
        _ = try LockFile(path: path, likeFile: nil)
    }

    /// A thread that waits for requests.
    private final class Listener: Sendable {
        let notifier: YieldNotifier
        let end = SleepEnd()
        let wakes = Atomic<Int>(0)
        let hasEnded = Flag()
        private let thread = Mutex<String?>(nil)

        init(_ path: String) throws {
            notifier = try YieldNotifier(path: path)
            Thread.detachNewThread { [self] in
                let here = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self")
                thread.withLock { $0 = here }
                while !end.isSet {
                    notifier.wait(since: notifier.count, until: end, for: .seconds(600))
                    wakes.add(1, ordering: .relaxed)
                }
                hasEnded.set()
            }
        }

        /// Whether it waits in the kernel.
        var isAsleep: Bool {
            guard let thread = thread.withLock({ $0 }) else { return false }
            let status = try? String(contentsOfFile: "/proc/\(thread)/stat", encoding: .utf8)
            return status?.contains(") S ") == true
        }
    }

    /// Each store that was closed woke all processes that had it open.
    @Test("the end of one wait wakes no other, and a request wakes all")
    func ends() throws {
        let (one, other) = (try Listener(path), try Listener(path))
        #expect(waitUntil { one.isAsleep && other.isAsleep })
        let (count, wakes) = (other.notifier.count, other.wakes.load(ordering: .relaxed))
        one.notifier.end(one.end)
        #expect(waitUntil { one.hasEnded.isSet })
        if SleepEnd.endsSleeps {
            #expect(other.isAsleep && other.wakes.load(ordering: .relaxed) == wakes && other.notifier.count == count)
        }
        one.notifier.notify()
        #expect(waitUntil { other.wakes.load(ordering: .relaxed) > wakes })
        #expect(other.notifier.count != count && !other.hasEnded.isSet)
        other.notifier.end(other.end)
        #expect(waitUntil { other.hasEnded.isSet })
    }

    @Test("a wait that was ended before it began returns at once")
    func early() throws {
        let (notifier, end) = (try YieldNotifier(path: path), SleepEnd())
        notifier.end(end)
        let start = ContinuousClock.now
        notifier.wait(since: notifier.count, until: end, for: SleepEnd.endsSleeps ? .seconds(600) : .milliseconds(1))
        #expect(end.isSet && ContinuousClock.now - start < .seconds(60))
    }
}
