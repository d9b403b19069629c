import CipherDatabase
import Foundation

/// The state of a store: the commits that it has, those that it has not joined or cannot show, and why. It asks no remote.
public struct RepositoryStatus: Hashable, Sendable {
    /// The name of the repository, by which remotes keep it. It is no secret.
    public let repository: String
    /// The name of this store as the author of commits.
    public let replica: String
    /// ``Head/uuid``; nil before the first commit.
    public let head: String?
    /// The tracked tables, as the program calls them.
    public let tables: [String]
    /// Joined commits that are known by name, also those for which a snapshot stands.
    public let commitCount: Int
    /// Commits that were fetched and can be joined: ``ChangesetRepository/pull()`` joins them.
    public let readyCount: Int
    /// Whether rows of tracked tables were perhaps written outside of commits. The next commit or pull makes a commit of
    /// them.
    public let hasForeignWrites: Bool
    /// A commit or row that is not joined, or not shown as it was written.
    public let obstacles: [Obstacle]
    /// In the order of their names.
    public let remotes: [RemoteStatus]

    /// Whether all that is known of is here, there, joined and shown.
    public var isSettled: Bool {
        readyCount == 0 && !hasForeignWrites && !obstacles.contains(where: \.needsAttention)
            && remotes.allSatisfy { $0.isUpToDate && $0.problems.isEmpty }
    }
}

/// A reason why a store has not joined something, or does not show it as it was written. It needs no decision to go on:
/// everything else is joined and shown.
public enum Obstacle: Hashable, Sendable {
    /// The program has no table of this name, and no member has dropped it. The rows are kept, and shown when it has.
    case missingTable(String, rows: Int)
    /// The table of the program has no such column, no member has dropped it, and rows have values of it. They are kept and
    /// passed on.
    case missingColumn(table: String, column: String, rows: Int)
    /// The values of a column are not known in so many rows: a snapshot had none of them, because its maker had dropped the
    /// column. The default is shown. A snapshot of a store that has the values brings them.
    case unknownValues(table: String, column: String, rows: Int)
    /// Others have written a table after the program, or a member, had dropped it or its name. The rows are kept and passed
    /// on.
    case droppedTable(String, rows: Int)
    /// Others have written a column after the program, or a member, had dropped it or its name. The values are kept and
    /// passed on.
    case droppedColumn(table: String, column: String, rows: Int)
    /// Rows of a table that others have deleted or changed are shown as they were: an expression of an index, a constraint
    /// or a generated column fails here. The next opening of the repository tries them again.
    case unwritableTable(String)
    /// Rows of a table that a constraint hides, or that are shown altered.
    case conflict(table: String, SyncConflict.Reason, rows: Int)
    /// Rows of a table that is not tracked refer to rows that are not here: its ON DELETE does not say what to do with them.
    case orphans(table: String, parent: String, rows: Int)
    /// Commits of an author wait for one that is not here.
    case waiting(author: String, commits: Int, missing: CommitPlace)
    /// Commits of a removed member that its removal did not know: they are not joined.
    case removedMember(String, commits: Int)
    /// A commit that no honest member makes. It is kept as evidence.
    case refusedCommit(CommitPlace)
    /// Snapshots that no honest member makes.
    case refusedSnapshots(Int)
    /// An author has made two commits of one number: a store that was restored or copied, or a lie. Both are joined.
    case twoContents(author: String)
    /// A long join has begun and has not ended; ``ChangesetRepository/pull()`` goes on.
    case joining
    /// The clock of an author, which may be this store, was ahead of this one by more than is adopted. The later commits
    /// of the author follow that time, also after its clock was set right. It ends when that time has come, or when the
    /// author is removed from the members.
    case clockAhead(author: String, Duration)

    /// Whether a person or a device has to act. Obstacles that need no attention are notes.
    public var needsAttention: Bool {
        switch self {
        case .removedMember, .twoContents, .droppedTable, .droppedColumn: false
        default: true
        }
    }
}

/// A commit by its author and its number among the author's commits.
public struct CommitPlace: Hashable, Sendable {
    public let author: String
    public let number: UInt64
}

/// The state of a store toward a remote, by its last exchange.
public struct RemoteStatus: Hashable, Sendable {
    /// A thing that an exchange could not use or do. The next one tries it again.
    public enum Problem: Hashable, Sendable {
        /// Other bytes than the name says. A store that has the content puts it again.
        case damaged(object: String)
        /// A member has sealed what is no valid content. It stays as evidence, and needs attention until the remote lacks it
        /// or ``ChangesetRepository/acknowledgeObjects()`` was called.
        case refused(object: String)
        /// The list of members lacks the author.
        case unknownMember(object: String)
        /// Sealed with a secret that this store lacks.
        case unknownSecret(object: String)
        /// A later version of this library has written it.
        case laterVersion(object: String, version: UInt8)
        /// The remote lacks commits that this store cannot send: it has no content or no signature of them.
        case unsent(commits: Int)
        /// A call of the remote failed: `list`, `get`, `put` or `delete`.
        case failed(call: String)
    }

    public let name: String
    /// The end of the last exchange.
    public let lastExchange: Date
    /// Whether the remote had all commits of this store then, and none were added since.
    public let isUpToDate: Bool
    public let problems: [Problem]
    /// Objects that could not be used and need no attention: they were acknowledged, or the remote lacks them since.
    public let evidence: [String]
}

extension ChangesetRepository {
    /// Where the store stands.
    ///
    /// - Throws: `DatabaseError`.
    public func status() throws -> RepositoryStatus {
        try looking { work in
            let remotes = RemoteRows(db: work.db)
            let last = try remotes.lastCommit()
            return RepositoryStatus(
                repository: work.state.repository.description,
                replica: try work.index.authorID(work.state.author).description, head: work.state.head?.description,
                tables: work.catalog.tables.values.compactMap { $0.local?.name }.sorted(),
                commitCount: try work.count("\(EngineTables.commit) WHERE length(hash) = \(CommitHash.byteCount)"),
                readyCount: try work.readyCount(), hasForeignWrites: try ForeignWrites(work: work).hasAny(),
                obstacles: try Obstacles(work: work).all(),
                remotes: try remotes.all().map { remote in
                    RemoteStatus(
                        name: remote.name, lastExchange: Date(timeIntervalSince1970: Double(remote.time) / 1_000),
                        isUpToDate: remote.upto >= last, problems: try remotes.problems(of: remote.name),
                        evidence: try remotes.evidence(of: remote.name))
                })
        }
    }
}

extension Work {
    func count(_ rows: String, _ arguments: [ExactValue] = []) throws -> Int {
        let count = try db.cachedStatement(sql: "SELECT count(*) FROM \(rows)").first(arguments) { $0.integer(0) }
        return Int(count ?? 0)
    }
}

extension BaseTable {
    /// The last commit of this store when its program, or a member, had dropped the table; nil if it is in use.
    fileprivate var goneSince: Int64? { dropped ?? (notice?.isDropped == true ? notice?.commit : nil) }
}

extension BaseColumn {
    /// The last commit of this store when its program, or a member, had dropped the column; nil if it is in use.
    fileprivate var goneSince: Int64? { dropped ?? (notice?.isDropped == true ? notice?.commit : nil) }
}

/// Finds the obstacles of a store.
private struct Obstacles {
    let work: Work

    func all() throws -> [Obstacle] {
        try schema() + unknownValues() + conflicts() + unwritable() + orphans() + waiting() + authors()
    }

    private func orphans() throws -> [Obstacle] {
        try UntrackedChildren(work: work).orphans().map { .orphans(table: $0.child, parent: $0.parent, rows: $0.rows) }
    }

    private func unwritable() throws -> [Obstacle] {
        try work.retries(.deletedRows).map { .unwritableTable(try work.catalog.table($0).name.text) }
    }

    private func schema() throws -> [Obstacle] {
        var found: [Obstacle] = []
        for table in work.catalog.tables.values.sorted(by: { $0.name < $1.name }) {
            if table.local == nil {
                let rows = try asideRows(of: table) { row in row.isNewer(than: table.goneSince) ? [0] : [] }
                if let count = rows[0] {
                    let name = table.name.text
                    found.append(
                        table.goneSince == nil
                            ? .missingTable(name, rows: count) : .droppedTable(name, rows: count))
                }
                continue
            }
            let missing = table.columns.values.filter { $0.place == nil && !table.columnsOfKey.contains($0.n) }
            if missing.isEmpty { continue }
            let rows = try asideRows(of: table) { row in
                missing.filter { column in
                    let counted = row.sums[column.n]?.values.map(\.last) ?? []
                    let written = counted + [row.cells[column.n]?.stamp.commit].compactMap { $0 }
                    return written.contains { $0 > column.goneSince ?? -1 }
                }.map(\.n)
            }
            for column in missing.sorted(by: { $0.id < $1.id }) {
                guard let count = rows[column.n] else { continue }
                let (table, name) = (table.name.text, column.id.name.text)
                found.append(
                    column.goneSince == nil
                        ? .missingColumn(table: table, column: name, rows: count)
                        : .droppedColumn(table: table, column: name, rows: count))
            }
        }
        return found
    }

    private func unknownValues() throws -> [Obstacle] {
        var found: [Obstacle] = []
        let columns = Dictionary(grouping: try UnknownValues(db: work.db).columns(), by: \.table)
        for table in try columns.keys.map(work.catalog.table).sorted(by: { $0.name < $1.name }) {
            let rows = try asideRows(of: table) { row in row.unknown.keys.filter { table.columns[$0]?.place != nil } }
            for column in table.columns.values.sorted(by: { $0.id < $1.id }) {
                guard let count = rows[column.n] else { continue }
                found.append(.unknownValues(table: table.name.text, column: column.id.name.text, rows: count))
            }
        }
        return found
    }

    /// Counts the keys whose rows are kept aside, by what their rows have.
    private func asideRows(of table: BaseTable, _ body: (BaseRow) throws -> [Int64]) throws -> [Int64: Int] {
        var counts: [Int64: Int] = [:]
        var last: (key: [UInt8], found: Set<Int64>) = ([], [])
        try work.db.cachedStatement(
            sql: "SELECT key, row FROM \(EngineTables.aside) WHERE tbl = ? ORDER BY key"
        ).forEach([.integer(table.n)]) { row in
            if row.bytes(0) != last.key { last = (row.bytes(0), []) }
            for n in try body(BaseRow(row.bytes(1))) where last.found.insert(n).inserted {
                counts[n, default: 0] += 1
            }
        }
        return counts
    }

    private func conflicts() throws -> [Obstacle] {
        let all = try Conflicts(base: work.base).all()
        let groups = Dictionary(grouping: all) { Group(table: $0.table.text, reason: SyncConflict.Reason($0.reason)) }
        return groups.sorted { ($0.key.table, $0.key.reason.rawValue) < ($1.key.table, $1.key.reason.rawValue) }
            .map { .conflict(table: $0.key.table, $0.key.reason, rows: $0.value.count) }
    }

    private struct Group: Hashable {
        let table: String
        let reason: SyncConflict.Reason
    }

    private func waiting() throws -> [Obstacle] {
        var found = try WaitingCommits(work: work).all()
        for refused in try work.inbox.refused() where try work.removedAuthor(refused.author) == nil {
            found.append(.refusedCommit(CommitPlace(author: refused.author.description, number: refused.number)))
        }
        let held = HeldCommits(work.db, work.index, work.state)
        let snapshots = try ReceivedSnapshots(db: work.db).refusedVectors()
            .filter { try held.lacks($0, received: []) }
        if !snapshots.isEmpty { found.append(.refusedSnapshots(snapshots.count)) }
        if try work.state.isAhead(work.index) { found.append(.joining) }
        return found
    }

    private func authors() throws -> [Obstacle] {
        var found: [Obstacle] = []
        let ready = try work.state.removed.isEmpty ? [] : work.readyHashes()
        for author in try work.state.removed.keys.map(work.index.authorID).sorted() {
            let waiting = try work.inbox.all().filter { $0.author == author && !ready.contains($0.hash) }
            let refused = try work.inbox.refused().filter { $0.author == author }
            let count = waiting.count + refused.count
            if count > 0 { found.append(.removedMember(author.description, commits: count)) }
        }
        for (author, tips) in work.state.vector.tips where tips.count > 1 {
            found.append(.twoContents(author: try work.index.authorID(author).description))
        }
        for tip in work.state.vector.all {
            let entry = try work.index.entry(tip)
            let bound = work.clock.rawValue &+ work.settings.clockBound
            guard entry.time.rawValue > bound, work.state.removed[entry.author] == nil else { continue }
            let lead = entry.time.lead(overWallClock: Int64(clamping: work.clock.milliseconds))
            found.append(.clockAhead(author: entry.authorID.description, lead))
        }
        return found
    }
}
