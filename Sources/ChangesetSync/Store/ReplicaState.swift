import CipherDatabase

/// The one row of the engine's state: who this store is, and what it has joined. Inside a transaction.
struct ReplicaState: Equatable {
    let repository: RepositoryID
    /// The author of this store's commits, as a local number.
    var author: Int64
    /// The last commit that this store has made.
    var tip: Int64?
    /// The names that this store had before it was restored or copied (F17).
    var former: [Int64]
    /// The latest time that was adopted.
    var time: HybridTime
    var vector: LocalVector
    /// Vectors of joins that have begun and that the vector may not cover yet (F9).
    var ahead: [LocalVector]
    /// The name of the vector (``HeadNames``); nil before the first commit.
    var head: CommitHash?
    /// Whether the next commit begins a branch.
    var beginsBranch: Bool
    /// The knowledge of the removals of members (F15).
    var removed: [Int64: LocalVector]
    /// Another number after each change of the tables and columns that ``Catalog`` reads.
    var catalog: Int64
    /// Another number after each change of what an exchange shows to others.
    var revision: Int64
    /// The last entry of the change history that the base knows (``ForeignWrites``).
    var history: Int64

    init(_ db: Database, _ index: CommitIndex) throws {
        let state = try db.cachedStatement(
            sql: """
                SELECT repository, author, tip, former, time, vector, ahead, branches, catalog, revision, head,
                    history, EXISTS (SELECT 1 FROM \(EngineTables.removed))
                FROM \(EngineTables.state)
                """
        ).first([]) { row in
            (
                RepositoryID(bytes: row.bytes(0)), row.integer(1), row.optionalInteger(2), row.bytes(3), row.integer(4),
                row.bytes(5), row.bytes(6), row.integer(7), row.integer(8), row.integer(9),
                CommitHash(bytes: row.bytes(10)), row.integer(11), row.integer(12) != 0
            )
        }
        guard let state, let repository = state.0 else { throw EngineError(.damagedStore) }
        self.repository = repository
        (author, tip) = (state.1, state.2)
        var reader = LocalReader(state.3[...])
        former = try reader.numbers()
        time = HybridTime(rawValue: UInt64(state.4))
        vector = try LocalVector(state.5, index)
        reader = LocalReader(state.6[...])
        ahead = try (0..<(try reader.count())).map { _ in try LocalVector(reader.numbers(), index) }
        beginsBranch = state.7 != 0
        (catalog, revision, head, history) = (state.8, state.9, state.10, state.11)
        removed = [:]
        if !state.12 { return }
        var known: [(Int64, [UInt8])] = []
        try db.cachedStatement(sql: "SELECT author, known FROM \(EngineTables.removed)").forEach([]) {
            known.append(($0.integer(0), $0.bytes(1)))
        }
        for (author, bytes) in known { removed[author] = try LocalVector(bytes, index) }
    }

    func save(_ db: Database, was former: ReplicaState) throws {
        if self == former { return }
        var (names, aheads) = (LocalWriter(), LocalWriter())
        names.append(self.former)
        aheads.append(Int64(ahead.count))
        for vector in ahead { aheads.append(vector.all) }
        try db.cachedStatement(
            sql: """
                UPDATE \(EngineTables.state)
                SET author = ?, tip = ?, former = ?, time = ?, vector = ?, ahead = ?, branches = ?, catalog = ?,
                    revision = ?, head = ?, history = ?
                """
        ).execute(exact: [
            .integer(author), ExactValue(tip), ExactValue(names.bytes), .integer(Int64(time.rawValue)),
            ExactValue(vector.bytes), ExactValue(aheads.bytes), .integer(beginsBranch ? 1 : 0),
            .integer(catalog), .integer(vector == former.vector ? revision : revision + 1),
            head.map { ExactValue($0.bytes) } ?? .null, .integer(history),
        ])
        for (author, known) in removed where former.removed[author] != known {
            try db.cachedStatement(sql: "INSERT OR REPLACE INTO \(EngineTables.removed) (author, known) VALUES (?, ?)")
                .execute(exact: [.integer(author), ExactValue(known.bytes)])
        }
    }

    static func repository(_ db: Database) throws -> RepositoryID {
        let id = try db.cachedStatement(sql: "SELECT repository FROM \(EngineTables.state)")
            .first([]) { RepositoryID(bytes: $0.bytes(0)) }
        guard let id = id.flatMap({ $0 }) else { throw EngineError(.damagedStore) }
        return id
    }

    static func create(_ db: Database, repository: RepositoryID, author: ReplicaID) throws {
        let number = try CommitIndex(db).author(author)
        var nothing = LocalWriter()
        nothing.append([Int64]())
        try db.cachedStatement(
            sql: """
                INSERT INTO \(EngineTables.state) (id, repository, author, former, time, vector, ahead, branches, history)
                VALUES (1, ?, ?, ?, 0, ?, ?, 0, ?)
                """
        ).execute(exact: [
            ExactValue(repository.bytes), .integer(number), ExactValue(nothing.bytes), ExactValue(nothing.bytes),
            ExactValue(nothing.bytes), .integer(try db.historyEnd()),
        ])
    }

    func isOwn(_ author: Int64) -> Bool { author == self.author || former.contains(author) }

    /// Whether rows are ahead of the vector: between two slices, also after a kill.
    func isAhead(_ index: CommitIndex) throws -> Bool { try ahead.contains { try !vector.includes($0, index) } }

    mutating func enter(_ other: LocalVector, _ index: CommitIndex) throws {
        ahead = try ahead.filter { try !vector.includes($0, index) }
        if !ahead.contains(other) { ahead.append(other) }
    }

    mutating func remove(_ member: Int64, knowing known: LocalVector, _ index: CommitIndex) throws {
        removed[member] = try (removed[member] ?? LocalVector()).union(known, index)
    }
}

extension Database {
    /// The number of the last entry of the change history; 0 if there is none.
    func historyEnd() throws -> Int64 {
        do {
            return try lastHistoryNumber()
        } catch let error as HistoryError where error.code == .notRecorded {
            return 0
        }
    }
}
