import CipherDatabase

/// A program has dropped a table or columns of it, or has made them again. An event of a commit.
///
/// A store that never had them needs it: it cannot know otherwise whether its program is too old. Of several commits the
/// one with the greatest stamp counts.
struct DroppedNames: Hashable, Sendable {
    let table: Name
    /// Ascending; empty for the table itself.
    let columns: [ColumnID]
    let isDropped: Bool

    init(table: Name, columns: [ColumnID], isDropped: Bool) {
        self.table = table
        self.columns = columns.sorted()
        self.isDropped = isDropped
    }
}

/// The commit that has said last whether a table or column is dropped.
struct DropNotice: Hashable, Sendable {
    let commit: Int64
    let isDropped: Bool
}

extension Work {
    /// Tells the other members that the program has dropped a table or columns, or has made them again, unless a commit says
    /// so already.
    ///
    /// - Parameter columns: nil for the table itself.
    func commitDropped(_ isDropped: Bool, _ table: Int64, columns: Set<Int64>?) throws {
        let known = try catalog.table(table)
        var changed: [ColumnID] = []
        if let columns {
            changed = columns.compactMap { known.columns[$0] }.filter { ($0.notice?.isDropped ?? false) != isDropped }
                .map(\.id)
            if changed.isEmpty { return }
        } else if (known.notice?.isDropped ?? false) == isDropped {
            return
        }
        guard try mayCommit() else { return }
        try commit(
            [], events: [.dropped(DroppedNames(table: known.name, columns: changed, isDropped: isDropped))])
    }

    /// Adopts what a commit says of dropped tables and columns.
    func adopt(_ names: DroppedNames, of n: Int64) throws {
        let table = try catalog.number(of: names.table)
        let notice = DropNotice(commit: n, isDropped: names.isDropped)
        if names.columns.isEmpty { try adopt(notice, table: table, column: nil) }
        for id in names.columns { try adopt(notice, table: table, column: catalog.column(id, of: table)) }
    }

    /// - Parameter column: nil for the table itself.
    func adopt(_ notice: DropNotice, table: Int64, column: Int64?) throws {
        let known = try catalog.table(table)
        let former = column.map { known.columns[$0]?.notice } ?? known.notice
        if let former, try !index.isEarlier(former.commit, than: notice.commit) { return }
        let place = column == nil ? EngineTables.table : EngineTables.column
        try db.cachedStatement(sql: "UPDATE \(place) SET noticed = ?, gone = ? WHERE n = ?").execute(exact: [
            .integer(notice.commit), .integer(notice.isDropped ? 1 : 0), .integer(column ?? table),
        ])
        try catalog.read()
    }

    /// Whether others accept commits of this store. A replica that exchanges with nobody has no list of members.
    func mayCommit() throws -> Bool {
        let records = try MemberRows(db: db).records()
        if records.isEmpty { return true }
        var list = MemberList(repository: state.repository)
        try list.add(records)
        return try (list.members[index.authorID(state.author)]?.role ?? .reader) >= .writer
    }
}
