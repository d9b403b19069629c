/// One entry of a snapshot (Docs/Formats/Snapshot.md).
///
/// Authors, commits, tables, columns and vectors are numbered from 1 in the order of their items. An item refers only to
/// items before it.
package enum SnapshotItem: Hashable, Sendable {
    /// The time that the maker has adopted.
    case head(time: HybridTime)
    case author(ReplicaID)
    case commit(NamedCommit)
    case table(Name)
    case column(table: Int64, ColumnID)
    case policy(Policy)
    case dropped(Dropped)
    case vector([Int64])
    case state(State)
    case key(Key)

    /// A commit that a vector or a stamp names, with what the order of stamps needs.
    package struct NamedCommit: Hashable, Sendable {
        let author: Int64
        let number: UInt64
        let hash: CommitHash
        /// The author's previous commit; 0 for the first one, and if it is not known.
        let parent: Int64
        let time: HybridTime
        let beginsBranch: Bool
    }

    /// The rules of a table.
    package struct Policy: Hashable, Sendable {
        let table: Int64
        /// The commit that has set ``deletionsWin``; 0 if none has.
        let commit: Int64
        let deletionsWin: Bool
        /// Ascending.
        let counters: [Int64]
    }

    /// The word of a commit on a table or column that a member had dropped.
    package struct Dropped: Hashable, Sendable {
        let table: Int64
        /// 0 for the table itself.
        let column: Int64
        let commit: Int64
        /// Whether it was dropped; otherwise it was made again.
        let isDropped: Bool
    }

    /// The commits that the snapshot covers, and the removed members.
    package struct State: Hashable, Sendable {
        struct Known: Hashable, Sendable {
            let of: Int64
            let vector: Int64
        }

        /// The tips.
        let vector: Int64
        /// The knowledge of the authors of the tips: the contexts of the next commits are differences to it.
        let contexts: [Known]
        /// The knowledge of the removals of members, by author.
        let removed: [Known]
    }

    /// The living and the dead incarnations of one key, ascending by their commits. Numbers are those of the snapshot.
    package struct Key: Hashable, Sendable {
        struct Dead: Hashable, Sendable {
            let incarnation: Int64
            let known: Int64
            let tombstone: Tombstone
        }

        struct Living: Hashable, Sendable {
            let incarnation: Int64
            let row: BaseRow
        }

        let table: Int64
        let key: RowKey
        let rows: [Living]
        let dead: [Dead]
    }

    /// The first byte of an item.
    enum Kind: UInt8 {
        case head = 1
        case author = 2
        case commit = 3
        case table = 4
        case column = 5
        case vector = 6
        case state = 7
        case key = 8
        case policy = 9
        case dropped = 10
    }

    static let version: UInt8 = 1
    /// The longest item: the incarnations of one key.
    static let limitBytes = 2 * CommitLimits.bodyBytes

    // MARK: Writing

    var bytes: [UInt8] {
        var writer = LocalWriter()
        switch self {
        case .head(let time):
            return [Kind.head.rawValue, Self.version] + Self.bigEndian(time)
        case .author(let id): return [Kind.author.rawValue] + id.bytes
        case .commit(let commit):
            writer.append(commit.author)
            writer.append(Int64(commit.number))
            writer.append(commit.parent)
            writer.append(Int64(commit.beginsBranch ? 1 : 0))
            return [Kind.commit.rawValue] + writer.bytes + Self.bigEndian(commit.time) + commit.hash.bytes
        case .table(let name): return [Kind.table.rawValue] + Array(name.text.utf8)
        case .column(let table, let id):
            writer.append(table)
            writer.append(id.reuse)
            return [Kind.column.rawValue] + writer.bytes + Array(id.name.text.utf8)
        case .policy(let policy):
            writer.append(policy.table)
            writer.append(policy.commit)
            writer.append(Int64(policy.deletionsWin ? 1 : 0))
            writer.append(policy.counters)
            return [Kind.policy.rawValue] + writer.bytes
        case .dropped(let dropped):
            writer.append(dropped.table)
            writer.append(dropped.column)
            writer.append(dropped.commit)
            writer.append(Int64(dropped.isDropped ? 1 : 0))
            return [Kind.dropped.rawValue] + writer.bytes
        case .vector(let commits):
            writer.append(commits)
            return [Kind.vector.rawValue] + writer.bytes
        case .state(let state):
            writer.append(state.vector)
            for list in [state.contexts, state.removed] {
                writer.append(Int64(list.count))
                for known in list {
                    writer.append(known.of)
                    writer.append(known.vector)
                }
            }
            return [Kind.state.rawValue] + writer.bytes
        case .key(let key): return key.bytes
        }
    }

    private static func bigEndian(_ time: HybridTime) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(bigEndian: time.rawValue)
        return bytes
    }
}

extension SnapshotItem.Key {
    fileprivate var bytes: [UInt8] {
        var writer = LocalWriter()
        writer.append(table)
        let cells = key.cells
        writer.append(Int64(cells.count))
        for value in cells.values { writer.append(value) }
        writer.append(Int64(rows.count))
        for living in rows {
            writer.append(living.incarnation)
            living.row.append(to: &writer)
        }
        writer.append(Int64(dead.count))
        for dead in dead {
            writer.append(dead.incarnation)
            writer.append(dead.known)
            let detail = dead.tombstone.detail
            writer.append(Int64(detail.count))
            writer.append(bytes: detail)
        }
        return [SnapshotItem.Kind.key.rawValue] + writer.bytes
    }
}
