import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

@testable import StoreSharing

@Suite("Writer queue")
struct WriterQueueTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = TemporaryFolder()
        path = folder.path("app.db-lock")
        _ = try LockFile(path: path, likeFile: nil)
    }

    private func queue(overtaking: Duration = .zero) throws -> WriterQueue {
        let row = try #require(try HolderRow.take(path: path, label: "test", roles: .writer))
        return WriterQueue(row, overtaking: overtaking, hold: overtaking)
    }

    private func soon(_ seconds: Double = 30) -> UInt64 {
        MonotonicTime.now + Duration.seconds(seconds).wholeNanoseconds
    }

    /// A thread that waits for the write turn, and keeps how the wait ended.
    private final class Waiter: Sendable {
        private let result = Mutex<WriterQueue.Outcome?>(nil)
        private let isInterrupted = Atomic<Bool>(false)
        private let done = DispatchSemaphore(value: 0)
        let queue: WriterQueue

        init(_ queue: WriterQueue, until deadline: UInt64) {
            self.queue = queue
            let thread = Thread { [self] in
                let outcome = queue.enter(until: deadline) { isInterrupted.load(ordering: .acquiring) }
                result.withLock { $0 = outcome }
                done.signal()
            }
            thread.start()
        }

        var outcome: WriterQueue.Outcome? { result.withLock { $0 } }

        func interrupt() {
            isInterrupted.store(true, ordering: .releasing)
            queue.call()
        }

        func end() -> WriterQueue.Outcome? {
            _ = done.wait(timeout: .now() + 30)
            return outcome
        }
    }

    /// Starts a thread that waits, and returns when it is in the queue.
    private func waiter(_ queue: WriterQueue, until deadline: UInt64? = nil) -> Waiter {
        let waiter = Waiter(queue, until: deadline ?? soon())
        #expect(waitUntil { queue.holderRow.table.isWaiting(queue.holderRow.number) })
        return waiter
    }

    @Test("one has the write turn at a time, and a second one in the same process is kept out as well")
    func exclusion() throws {
        let (one, two) = (try queue(), try queue())
        #expect(one.tryToEnter() && one.isHeld)
        #expect(!two.tryToEnter() && !two.enterIfFree() && !two.isHeld)
        one.leave()
        #expect(two.tryToEnter())
        two.leave()
        #expect(!one.isHeld && !two.isHeld)
    }

    @Test("eight threads that enter and leave are never two at once, and none is left over")
    func crowd() throws {
        let inside = Atomic<Int>(0)
        let worst = Atomic<Int>(0)
        let visits = Atomic<Int>(0)
        let queues = try (0..<8).map { _ in try queue(overtaking: .microseconds(50)) }
        DispatchQueue.concurrentPerform(iterations: 8) { number in
            for _ in 0..<2000 where queues[number].enter(until: soon(), isInterrupted: { false }) == .entered {
                let now = inside.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue
                _ = worst.max(now, ordering: .sequentiallyConsistent)
                inside.wrappingSubtract(1, ordering: .sequentiallyConsistent)
                visits.wrappingAdd(1, ordering: .relaxed)
                queues[number].leave()
            }
        }
        #expect(worst.load(ordering: .relaxed) == 1)
        #expect(visits.load(ordering: .relaxed) == 16_000)
        #expect(!queues[0].holderRow.table.hasWaiters && queues[0].tryToEnter())
    }

    @Test("waits that end as they are served neither lose the write turn nor keep it")
    func shortWaits() throws {
        let queues = try (0..<4).map { _ in try queue(overtaking: .zero) }
        let entered = Atomic<Int>(0)
        DispatchQueue.concurrentPerform(iterations: 4) { number in
            for round in 0..<1500 {
                let deadline = MonotonicTime.now + UInt64(round % 40) * 1000
                let isInterrupted = { round % 3 == 0 && MonotonicTime.now > deadline }
                guard queues[number].enter(until: deadline, isInterrupted: isInterrupted) == .entered else { continue }
                entered.wrappingAdd(1, ordering: .relaxed)
                queues[number].leave()
            }
        }
        #expect(entered.load(ordering: .relaxed) > 0)
        #expect(queues[0].tryToEnter() && !queues[0].holderRow.table.hasWaiters)
    }

    @Test("the word of the last checkpoint is taken back only while nobody else has written one")
    func checkpointWord() throws {
        let (one, other) = try (queue(), queue())
        one.checkpointed = 1
        #expect(one.replaceCheckpointed(1, with: 2) && other.checkpointed == 2)
        other.checkpointed = 3
        #expect(!one.replaceCheckpointed(2, with: 1) && one.checkpointed == 3)
    }

    @Test("a newcomer overtakes those who have not waited long")
    func overtaking() throws {
        let (holder, newcomer) = (try queue(overtaking: .seconds(3600)), try queue())
        #expect(holder.enterIfFree())
        let waiting = try queue()
        waiting.enqueue()
        holder.leave()
        #expect(newcomer.enterIfFree())
    }

    @Test("those who have waited long are served in the order of their arrival, and nobody overtakes them")
    func order() throws {
        let holder = try queue()
        #expect(holder.enterIfFree())
        // Rows and arrival differ, so that the order of rows cannot pass for the order of arrival.
        let queues = try (0..<3).map { _ in try queue() }
        let waiters = [queues[1], queues[2], queues[0]].map { waiter($0) }
        let newcomer = try queue()
        holder.leave()
        for (index, first) in waiters.enumerated() {
            #expect(!newcomer.enterIfFree())
            #expect(first.end() == .entered)
            #expect(waiters[(index + 1)...].allSatisfy { $0.outcome == nil })
            first.queue.leave()
        }
        #expect(newcomer.enterIfFree())
    }

    @Test("a wait ends at its deadline, and the queue is as if it had not been")
    func deadline() throws {
        let (holder, other) = (try queue(), try queue())
        #expect(holder.enterIfFree())
        #expect(other.enter(until: soon(0.01), isInterrupted: { false }) == .timedOut)
        #expect(!holder.holderRow.table.hasWaiters)
        holder.leave()
        #expect(other.enterIfFree())
    }

    @Test("another thread ends a wait at once, also one that would last for ever")
    func interruption() throws {
        let (holder, other) = (try queue(), try queue())
        #expect(holder.enterIfFree())
        let waiting = waiter(other, until: MonotonicTime.never)
        waiting.interrupt()
        #expect(waiting.end() == .interrupted)
        #expect(!holder.holderRow.table.hasWaiters && holder.isHeld)
    }

    @Test("who is interrupted as the write turn is offered to it passes it on")
    func interruptedOffer() throws {
        let (holder, gone, next) = (try queue(), try queue(), try queue())
        #expect(holder.enterIfFree())
        gone.enqueue()
        let waiting = waiter(next)
        holder.leave()
        // Its thread comes only now, and is interrupted already.
        #expect(gone.enter(until: soon(), isInterrupted: { true }) != .timedOut)
        if gone.isHeld { gone.leave() }
        #expect(waiting.end() == .entered)
    }

    // MARK: Deaths

    @Test("the write turn of a holder that was killed goes to one that waits, and to one that only tries")
    func killedHolder() throws {
        let (holder, next) = (try queue(), try queue())
        #expect(holder.enterIfFree())
        let waiting = waiter(next)
        holder.holderRow.abandon()
        #expect(waiting.end() == .entered)
        next.holderRow.abandon()
        #expect(try queue().tryToEnter())
    }

    @Test("one that was killed while it waited is passed over and forgotten")
    func killedWaiter() throws {
        let (holder, dead, next) = (try queue(), try queue(), try queue())
        #expect(holder.enterIfFree())
        dead.enqueue()
        let waiting = waiter(next)
        dead.holderRow.abandon()
        holder.leave()
        #expect(waiting.end() == .entered)
        #expect(!next.holderRow.table.hasWaiters)
    }

    @Test("one that was killed between freeing the write turn and waking the next leaves nobody asleep")
    func killedReleaser() throws {
        let (holder, next) = (try queue(), try queue())
        #expect(holder.enterIfFree())
        let waiting = waiter(next)
        #expect(holder.holderRow.table.replaceOwner(holder.holderRow.table.owner, with: .free))
        holder.holderRow.abandon()
        #expect(waiting.end() == .entered)
    }

    @Test("a write turn offered to one that does not move goes to the next, and that one is not in the queue any more")
    func stoppedWaiter() throws {
        let (holder, stopped, next) = (try queue(), try queue(), try queue())
        #expect(holder.enterIfFree())
        stopped.enqueue()
        let waiting = waiter(next)
        holder.leave()
        #expect(holder.holderRow.table.owner.isOffer)
        #expect(waiting.end() == .entered)
        #expect(!next.holderRow.table.hasWaiters)
        // It wakes up, waits like others, and is served.
        let late = waiter(stopped)
        next.leave()
        #expect(late.end() == .entered)
    }

    @Test("a write turn that was offered to one that was killed goes to the next")
    func killedWhenOffered() throws {
        let (holder, dead, next) = (try queue(), try queue(), try queue())
        #expect(holder.enterIfFree())
        dead.enqueue()
        holder.leave()
        dead.holderRow.abandon()
        #expect(next.tryToEnter())
    }
}
