import Testing

@testable import ChangesetSync

@Suite("Version vectors")
struct VersionVectorTests {
    private let one = CommitCodecTests.author
    private let other = ReplicaID.zero
    private func tag(_ byte: UInt8) -> CommitTag { CommitTag(bytes: Array(repeating: byte, count: 16)) ?? .zero }

    @Test("a commit replaces the tip before it, and a second content of a number begins a branch")
    func branches() {
        var vector = VersionVector()
        vector.advance(one, to: Tip(number: 1, tag: tag(1)), after: .zero)
        vector.advance(one, to: Tip(number: 2, tag: tag(2)), after: tag(1))
        #expect(vector.tips == [one: [Tip(number: 2, tag: tag(2))]])
        vector.advance(one, to: Tip(number: 2, tag: tag(3)), after: tag(1))
        vector.advance(one, to: Tip(number: 3, tag: tag(4)), after: tag(3))
        #expect(vector.tips == [one: [Tip(number: 2, tag: tag(2)), Tip(number: 3, tag: tag(4))]])
        #expect(vector.highest(of: one) == 3 && vector.highest(of: other) == 0)
        vector.advance(one, to: Tip(number: 3, tag: tag(4)), after: tag(3))
        #expect(vector.tips[one]?.count == 2)
    }

    @Test("a vector is the earlier one with its changes")
    func changes() {
        var earlier = VersionVector()
        earlier.advance(one, to: Tip(number: 1, tag: tag(1)), after: .zero)
        var later = earlier
        later.advance(other, to: Tip(number: 1, tag: tag(8)), after: .zero)
        later.advance(one, to: Tip(number: 1, tag: tag(9)), after: .zero)
        let changes = later.changes(since: earlier)
        #expect(changes.map(\.author) == [other, one])
        earlier.apply(changes)
        #expect(earlier == later)
        #expect(VersionVector(later.entries) == later)
    }
}
