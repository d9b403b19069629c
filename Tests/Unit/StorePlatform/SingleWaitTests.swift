import Dispatch
import Foundation
@testable import StorePlatform
import Synchronization
import Testing

/// Each outcome comes before or after somebody waits, to each of the three kinds of waiters.
@Suite("A wait that ends once")
struct SingleWaitTests {
    /// Runs a block on a thread of its own; `outcome` waits for its result.
    private func onThread<T: Sendable>(_ body: @escaping @Sendable () -> T) -> SingleWait<T> {
        let result = SingleWait<T>()
        Thread.detachNewThread { result.end(body()) }
        return result
    }

    private static let limit = Duration.seconds(30)

    // MARK: Threads

    @Test("an outcome that comes before the thread waits is returned at once, and the first one counts")
    func endedBefore() {
        let wait = SingleWait<Int>()
        #expect(wait.outcome == nil)
        #expect(wait.end(1))
        #expect(!wait.end(2))
        #expect(wait.wait() == 1 && wait.wait(for: .zero) == 1 && wait.outcome == 1)
    }

    @Test("an outcome that comes later wakes the thread that waits")
    func endedAfter() {
        let wait = SingleWait<Int>()
        let waiter = onThread { wait.wait() }
        #expect(waiter.wait(for: .milliseconds(20)) == nil)
        #expect(wait.end(1) && !wait.end(2))
        #expect(waiter.wait(for: Self.limit) == 1)
    }

    @Test("a thread gives up at its time limit, may wait again, and loses no outcome that came in between")
    func timeout() {
        let wait = SingleWait<Int>()
        #expect(wait.wait(for: .zero) == nil)
        #expect(wait.wait(for: .milliseconds(5)) == nil)
        let waiter = onThread { wait.wait() }
        wait.end(1)
        #expect(waiter.wait(for: Self.limit) == 1)
        #expect(wait.wait(for: .zero) == 1)
    }

    @Test("no wake-up is lost, whatever comes first: the outcome, the wait or its time limit")
    func races() {
        let ended = Atomic<Int>(0)
        let timedOut = Atomic<Int>(0)
        for round in 0..<2000 {
            let wait = SingleWait<Int>()
            DispatchQueue.concurrentPerform(iterations: 3) { index in
                if index > 0 {
                    wait.end(index)
                } else if wait.wait(for: .microseconds(round % 7)) != nil {
                    ended.wrappingAdd(1, ordering: .relaxed)
                } else {
                    timedOut.wrappingAdd(1, ordering: .relaxed)
                }
            }
            #expect(wait.wait(for: .zero) == wait.outcome && wait.outcome != nil)
        }
        #expect(ended.load(ordering: .relaxed) + timedOut.load(ordering: .relaxed) == 2000)
    }

    // MARK: Tasks

    @Test("a task gets an outcome that came before it waits, and one that comes later")
    func tasks() async {
        let early = SingleWait<Int>()
        early.end(1)
        #expect(await early.value(whenCancelled: -1) == 1)
        let late = SingleWait<Int>()
        let task = Task { await late.value(whenCancelled: -1) }
        late.end(2)
        #expect(await task.value == 2)
    }

    @Test("a cancellation ends the wait of a task, before and while it waits, and is too late after an outcome")
    func cancellation() async {
        let before = SingleWait<Int>()
        let cancelled = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await before.value(whenCancelled: -1)
        }
        #expect(await cancelled.value == -1)
        #expect(!before.end(1) && before.outcome == -1)

        let during = SingleWait<Int>()
        let hasBegun = SingleWait<Void>()
        let waiting = Task {
            hasBegun.end(())
            return await during.value(whenCancelled: -1)
        }
        await hasBegun.value(whenCancelled: ())
        waiting.cancel()
        #expect(await waiting.value == -1)

        let after = SingleWait<Int>()
        after.end(1)
        let late = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await after.value(whenCancelled: -1)
        }
        #expect(await late.value == 1)
    }

    @Test("many tasks whose waits are ended and cancelled at the same moment all continue, each once")
    func cancellationRaces() async {
        await withTaskGroup(of: Int.self) { group in
            for _ in 0..<500 {
                let wait = SingleWait<Int>()
                let task = Task { await wait.value(whenCancelled: -1) }
                group.addTask {
                    async let ending = Task { wait.end(1) }.value
                    task.cancel()
                    let isFirst = await ending
                    let outcome = await task.value
                    return isFirst == (outcome == 1) ? 1 : 0
                }
            }
            var count = 0
            for await isRight in group { count += isRight }
            #expect(count == 500)
        }
    }

    // MARK: Functions

    @Test("a function is called once, with the first outcome; of a wait that has ended it gets the outcome instead")
    func functions() {
        let calls = Mutex<[Int]>([])
        let wait = SingleWait<Int>()
        #expect(wait.whenEnded { outcome in calls.withLock { $0.append(outcome) } } == nil)
        #expect(wait.end(1) && !wait.end(2))
        #expect(calls.withLock { $0 } == [1])
        let ended = SingleWait<Int>()
        ended.end(3)
        #expect(ended.whenEnded { outcome in calls.withLock { $0.append(outcome) } } == 3)
        #expect(calls.withLock { $0 } == [1])
    }

    @Test("the function may look at the outcome and end other waits: it is called without a lock")
    func reentrancy() {
        let (first, second) = (SingleWait<Int>(), SingleWait<Int>())
        #expect(first.whenEnded { second.end($0 + (first.outcome ?? 0)) } == nil)
        first.end(1)
        #expect(second.outcome == 2)
    }

    // MARK: The end

    @Test("a wait that nobody ends, or nobody waits for, goes away, and with it what its waiter and its outcome keep")
    func deinitialization() {
        final class Thing: Sendable {}
        weak var captured: Thing?
        weak var outcome: Thing?
        do {
            let unended = SingleWait<Int>()
            let thing = Thing()
            captured = thing
            #expect(unended.wait(for: .zero) == nil)
            #expect(unended.whenEnded { _ in withExtendedLifetime(thing) {} } == nil)
            let unwaited = SingleWait<Thing>()
            let result = Thing()
            outcome = result
            unwaited.end(result)
        }
        #expect(captured == nil && outcome == nil)
    }

    @Test("the function is dropped with the outcome, so that no cycle is left")
    func noCycle() {
        final class Thing: Sendable { let wait = SingleWait<Int>() }
        weak var weakThing: Thing?
        do {
            let thing = Thing()
            weakThing = thing
            #expect(thing.wait.whenEnded { _ in withExtendedLifetime(thing) {} } == nil)
            thing.wait.end(1)
        }
        #expect(weakThing == nil)
    }
}
