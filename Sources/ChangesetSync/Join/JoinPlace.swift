import CipherDatabase

/// The place in a join of several transactions, so that the next process goes on there after a kill. There is one at most.
///
/// It is stored as part 0 of a snapshot with the number 0, which no snapshot has. A place in a snapshot goes with the
/// snapshot. Between two of its slices no commit of others is joined: a snapshot that waits comes first.
enum JoinPlace: Equatable {
    /// So many writes of a commit are joined.
    case commit(CommitHash, joined: Int)
    /// The keys of a received snapshot up to this one are joined.
    case snapshot(Int64, table: Name, RowKey)

    private static let key = [ExactValue.integer(0), .integer(0)]

    static func read(_ db: Database) throws -> JoinPlace? {
        let bytes = try db.cachedStatement(
            sql: "SELECT content FROM \(EngineTables.part) WHERE snapshot = ? AND number = ?"
        ).first(key) { $0.bytes(0) }
        return bytes.flatMap(JoinPlace.init)
    }

    /// Notes how far a join has come.
    ///
    /// - Parameter joining: nil if it has ended.
    static func note(_ joining: Joining?, _ db: Database) throws {
        switch joining {
        case .commit(let commit):
            try JoinPlace.commit(commit.commit.hash, joined: commit.place).store(db)
        case .snapshot(let snapshot):
            guard let parts = snapshot.parts as? ReceivedParts, let last = snapshot.last else { return }
            // Another process may have ended the join and removed the snapshot.
            guard try ReceivedSnapshots(db: db).has(parts.snapshot) else { return }
            try JoinPlace.snapshot(parts.snapshot, table: last.table, last.key).store(db)
        case nil: try remove(db)
        }
    }

    static func remove(_ db: Database) throws {
        try db.cachedStatement(
            sql: "DELETE FROM \(EngineTables.part) WHERE snapshot = ? AND number = ?"
        )
        .execute(exact: key)
    }

    private func store(_ db: Database) throws {
        try db.cachedStatement(
            sql:
                "INSERT OR REPLACE INTO \(EngineTables.part) (snapshot, number, content) VALUES (?, ?, ?)"
        ).execute(exact: Self.key + [ExactValue(bytes)])
    }

    // MARK: Bytes

    private static let isCommit: UInt8 = 1
    private static let isSnapshot: UInt8 = 2

    private var bytes: [UInt8] {
        var writer = LocalWriter()
        switch self {
        case .commit(let hash, let joined):
            writer.append(Int64(joined))
            return [Self.isCommit] + writer.bytes + hash.bytes
        case .snapshot(let n, let table, let key):
            writer.append(n)
            let name = Array(table.text.utf8)
            writer.append(Int64(name.count))
            writer.append(bytes: name)
            return [Self.isSnapshot] + writer.bytes + key.stored
        }
    }

    /// - Returns: nil if the bytes are none of a place: then the join begins again.
    private init?(_ bytes: [UInt8]) {
        var reader = ByteReader(bytes)
        do {
            switch try reader.byte() {
            case Self.isCommit:
                let joined = try reader.count(limit: Int(Int32.max))
                self = .commit(try reader.identifier(CommitHash.self), joined: joined)
            case Self.isSnapshot:
                let n = Int64(bitPattern: try reader.varint())
                let name = String(
                    decoding: try reader.take(reader.count(limit: reader.remaining)), as: UTF8.self)
                self = .snapshot(n, table: Name(name), RowKey(stored: Array(reader.rest)))
            default: return nil
            }
        } catch {
            return nil
        }
    }
}
