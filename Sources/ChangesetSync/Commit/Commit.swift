/// The changes of one transaction of one replica.
package struct Commit: Hashable, Sendable {
    let author: ReplicaID
    /// The number among the commits of the author, from 1.
    let number: UInt64
    /// The hash of the author's previous commit; zeros if the number is 1.
    let previous: CommitHash
    let time: HybridTime
    /// The difference between the author's vector before this commit and its vector before the author's previous
    /// commit,
    /// by ascending authors. The author itself is in it only if the author knows another branch of its own commits.
    let context: [AuthorTips]
    /// The commit begins a branch: it is the first one of a store that was restored or copied (F16). The sums of counters
    /// are kept by branch.
    let beginsBranch: Bool
    /// JSON of the program.
    let meta: String
    let events: [RepositoryEvent]
    package let writes: Writes

    init(
        author: ReplicaID, number: UInt64, previous: CommitHash, time: HybridTime, context: [AuthorTips] = [],
        beginsBranch: Bool = false, meta: String = "{}", events: [RepositoryEvent] = [], writes: Writes
    ) {
        self.author = author
        self.number = number
        self.previous = previous
        self.time = time
        self.context = context
        self.beginsBranch = beginsBranch
        self.meta = meta
        self.events = events
        self.writes = writes
    }
}
