import Testing

@testable import StorePlatform

@Suite("Loops that try again")
struct PollingTests {
    @Test("a loop without an end pauses for twice as long each time, up to the longest pause")
    func doubling() throws {
        let start = ContinuousClock.now
        var polling = Polling(first: .milliseconds(2), longest: .milliseconds(5), until: nil)
        for _ in 0..<4 { _ = try polling.next() }
        // 2, 4, 5 and 5 milliseconds.
        #expect(ContinuousClock.now - start >= .milliseconds(16))
    }

    @Test("no pause of a loop goes beyond the deadline, and none follows it")
    func deadline() throws {
        let start = ContinuousClock.now
        var polling = Polling(first: .seconds(600), until: start + .milliseconds(5))
        let hasSlept = try polling.next()
        let time = ContinuousClock.now - start
        #expect(hasSlept && time >= .milliseconds(5) && time < .seconds(300))
        let sleepsAgain = try polling.next()
        #expect(!sleepsAgain)
    }

    @Test("a cancellation ends a loop before its next pause, whatever the deadline is")
    func cancellation() throws {
        var isCancelled = false
        var polling = Polling(first: .microseconds(1), until: .now - .seconds(1)) { isCancelled }
        let isInTime = try polling.next()
        #expect(!isInTime)
        isCancelled = true
        #expect(throws: CancellationError.self) { try polling.next() }
    }

    @Test("the function for a wait is called once, and not when the deadline has passed before the first pause")
    func callsForAWait() throws {
        var count = 0
        var polling = Polling(first: .microseconds(1), until: nil, onWait: { count += 1 })
        for _ in 0..<3 { _ = try polling.next() }
        #expect(count == 1)
        var late = Polling(first: .microseconds(1), until: .now - .seconds(1), onWait: { count += 1 })
        let isInTime = try late.next()
        #expect(!isInTime && count == 1)
    }

    @Test("a condition that a peer ends within 100 ms does not hold, and one that lasts does")
    func settling() {
        var checks = 0
        let holds = Polling.holds {
            checks += 1
            return checks < 4
        }
        #expect(!holds && checks == 4)
        let start = ContinuousClock.now
        let lasts = Polling.holds { true }
        #expect(lasts && ContinuousClock.now - start >= .milliseconds(100))
    }

    @Test("registered values are taken once, in the order in which they came, without those that were removed")
    func registrations() {
        var names = Registrations<String>()
        let tickets = ["a", "b", "c", "d"].map { names.add($0) }
        let removed = [names.remove(tickets[1]), names.remove(tickets[1])]
        #expect(removed == ["b", nil] && names.count == 3)
        let taken = names.takeAll()
        #expect(taken == ["a", "c", "d"])
        let rest = (names.takeAll(), names.remove(tickets[0]), names.add("e"))
        #expect(rest.0.isEmpty && rest.1 == nil && rest.2 > tickets[3])
    }
}
