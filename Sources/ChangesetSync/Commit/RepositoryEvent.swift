/// A change of the repository in a commit, besides rows.
enum RepositoryEvent: Hashable, Sendable {
    /// The member writes no more. The context of the commit is what the removal knew (F15). It counts only if
    /// ``MemberList`` has the removal.
    case remove(ReplicaID)
    /// A column has another name.
    case rename(table: Name, column: ColumnID, to: Name)
    /// The commits of removed members that the context covers are those that the author had joined (F15).
    case vouch
    case policy(TablePolicy)
    case dropped(DroppedNames)
}

/// The rules of a table that all replicas share.
struct TablePolicy: Hashable, Sendable {
    let table: Name
    /// Columns whose writes are steps, ascending.
    let counters: [ColumnID]
    /// A deletion wins over a concurrent update: nobody revives the row.
    let deletionsWin: Bool

    init(table: Name, counters: [ColumnID], deletionsWin: Bool) {
        self.table = table
        self.counters = counters.sorted()
        self.deletionsWin = deletionsWin
    }
}
