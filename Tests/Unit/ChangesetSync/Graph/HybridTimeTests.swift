import TestKit
import Testing

@testable import ChangesetSync

@Suite("Hybrid logical clock")
struct HybridTimeTests {
    private static let now: Int64 = 1_700_000_000_000

    private func time(_ wall: Int64, after parents: HybridTime...) throws -> HybridTime {
        try HybridTime(wallClock: wall, after: parents)
    }

    @Test("a commit has the time of the clock, or else is one step later than its latest parent")
    func follows() throws {
        let first = try time(Self.now)
        #expect(first.milliseconds == UInt64(Self.now) && first.counter == 0)
        #expect(first.rawValue == UInt64(Self.now) << 16)
        #expect(try time(Self.now + 1, after: first).milliseconds == UInt64(Self.now) + 1)
        #expect(try time(Self.now, after: first).counter == 1)
        // The clock went back, and the parents of a commit come in any order.
        let earlier = try time(Self.now - 100_000)
        #expect(try time(5, after: earlier, first) == HybridTime(rawValue: first.rawValue + 1))
        #expect(try time(5, after: first, earlier) == HybridTime(rawValue: first.rawValue + 1))
    }

    @Test("a million commits in one millisecond are each later than the one before")
    func oneTick() throws {
        var last = try time(Self.now)
        for _ in 0..<1_000_000 {
            let next = try time(Self.now, after: last)
            guard next > last else {
                Issue.record("\(next) is not later than \(last)")
                return
            }
            last = next
        }
        #expect(last.milliseconds == UInt64(Self.now) + 15)
        #expect(try time(Self.now + 16, after: last).counter == 0)
    }

    @Test("a clock before 1970 or after the year 4199 is held to that, and every commit has successors")
    func badClocks() throws {
        #expect(try time(-5) == HybridTime(rawValue: 0))
        #expect(try time(.min) == HybridTime(rawValue: 0))
        let far = try time(.max)
        #expect(far == .latestOfWallClock)
        #expect(try time(.max, after: far) > far)
        #expect(try time(Self.now, after: far) > far)
        #expect(HybridTime.latest.rawValue - far.rawValue > 1 << 61)
        #expect(throws: CommitError(.timeExhausted)) { try time(Self.now, after: .latest) }
        #expect(throws: CommitError(.timeExhausted)) { try time(Self.now, after: HybridTime(rawValue: .max)) }
    }

    @Test("times beyond every clock are reached by single steps only")
    func possibleTimes() throws {
        let (first, far) = (try time(Self.now), HybridTime.latestOfWallClock)
        let farther = try time(Self.now, after: far)
        #expect(first.isPossible(for: .ordinary, after: []))
        #expect(far.isPossible(for: .ordinary, after: [first]))
        #expect(farther.isPossible(for: .ordinary, after: [far]))
        #expect(!farther.isPossible(for: .ordinary, after: [first]))
        #expect(!farther.isPossible(for: .ordinary, after: []))
        #expect(!HybridTime.latest.isPossible(for: .ordinary, after: [far]))
        // Not later than a parent.
        #expect(!first.isPossible(for: .ordinary, after: [first]))
        #expect(!first.isPossible(for: .ordinary, after: [far]))
        #expect(HybridTime(mergeOf: first, far) == far && HybridTime(mergeOf: far, first) == far)
        #expect(far.isPossible(for: .merge, after: [first, far]))
        #expect(!farther.isPossible(for: .merge, after: [first, far]))
        #expect(!first.isPossible(for: .merge, after: [first, far]))
        #expect(!first.isPossible(for: .merge, after: []))
        for wall in [Int64.min, 0, Self.now, .max] {
            for parents in [[], [first], [far], [farther], [first, far]] {
                let made = try HybridTime(wallClock: wall, after: parents)
                #expect(made.isPossible(for: .ordinary, after: parents))
            }
        }
    }

    @Test("the lead over a wall clock is never negative, and no clock overflows it")
    func lead() throws {
        let time = try time(Self.now)
        #expect(time.lead(overWallClock: Self.now - 1500) == .milliseconds(1500))
        #expect(time.lead(overWallClock: Self.now + 1) == .zero)
        #expect(time.lead(overWallClock: .max) == .zero)
        #expect(time.lead(overWallClock: .min) > .seconds(1 << 40))
        #expect(HybridTime(rawValue: .max).lead(overWallClock: 0) > .seconds(1 << 30))
    }

    @Test("commits are ordered by time, then author, then identifier, so in no cycle")
    func stamps() throws {
        let authors = try [1, 2].map { try #require(AuthorID(bytes: [UInt8](repeating: $0, count: 16))) }
        let ids = try [1, 2].map { try #require(CommitID(bytes: [UInt8](repeating: $0, count: 32))) }
        let sorted = [1, 2].flatMap { time in
            authors.flatMap { author in
                ids.map { CommitStamp(time: HybridTime(rawValue: time), author: author, id: $0) }
            }
        }
        for (left, first) in sorted.enumerated() {
            for (right, second) in sorted.enumerated() { #expect((first < second) == (left < right)) }
        }
    }

    @Test("the order of random histories contains causality, whatever their clocks say")
    func causality() throws {
        let seed = DeltaFixture.seed()
        var numbers = Seed(value: seed).numbers(0)
        var commits: [(time: HybridTime, ancestors: Set<Int>)] = []
        for number in 0..<400 {
            let parents = (0..<min(number, 2)).map { _ in Int.random(in: 0..<number, using: &numbers) }
            let times = parents.map { commits[$0].time }
            let wall = Self.now + Int64.random(in: -1_000_000...1_000_000, using: &numbers)
            let time = try HybridTime(wallClock: wall, after: times)
            let ancestors = parents.reduce(into: Set(parents)) { $0.formUnion(commits[$1].ancestors) }
            for ancestor in ancestors { #expect(commits[ancestor].time < time, "CIPHERSTORE_SEED=\(seed)") }
            #expect(time.isPossible(for: .ordinary, after: times), "CIPHERSTORE_SEED=\(seed)")
            commits.append((time, ancestors))
        }
    }
}
