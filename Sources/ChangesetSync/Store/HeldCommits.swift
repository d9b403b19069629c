import CipherDatabase

/// The commits that a store has, joined or waiting, as an exchange asks for them. Inside a transaction.
struct HeldCommits {
    let db: Database
    let index: CommitIndex
    let vector: LocalVector
    let inbox: Inbox
    private let rows: CommitRows

    init(_ db: Database) throws {
        let index = CommitIndex(db)
        let state = try ReplicaState(db, index)
        self.init(db, index, state)
    }

    init(_ db: Database, _ index: CommitIndex, _ state: ReplicaState) {
        (self.db, self.index, vector) = (db, index, state.vector)
        inbox = Inbox(db: db, repository: state.repository)
        rows = CommitRows(db: db, index: index)
    }

    // MARK: Names

    /// The commits that no other commit of the store follows.
    func branches() throws -> [CommitBranch] {
        var found: [CommitBranch] = []
        try db.cachedStatement(
            sql: """
                SELECT author, number, hash FROM \(EngineTables.inbox) AS i WHERE NOT EXISTS (
                    SELECT 1 FROM \(EngineTables.inbox) AS j
                    WHERE j.author = i.author AND j.number = i.number + 1 AND j.previous = i.hash)
                """
        ).forEach([]) { row in
            guard let author = ReplicaID(bytes: row.bytes(0)), let hash = CommitHash(bytes: row.bytes(2)) else {
                throw EngineError(.damagedStore)
            }
            found.append(CommitBranch(author: author, number: UInt64(row.integer(1)), hash: hash))
        }
        let hasInbox = !found.isEmpty
        for tip in vector.all {
            let (entry, hash) = (try index.entry(tip), try rows.hash(of: tip))
            if hasInbox, try inbox.all(entry.authorID, entry.number + 1).contains(where: { $0.previous == hash }) {
                continue
            }
            found.append(CommitBranch(author: entry.authorID, number: entry.number, hash: hash))
        }
        return found
    }

    /// The contents of one number.
    func hashes(of author: ReplicaID, _ number: UInt64) throws -> [CommitHash] {
        guard let place = Int64(exactly: number) else { return [] }
        var found = try inbox.all(author, number).map(\.hash)
        guard let local = try index.knownAuthor(author) else { return found }
        var joined: [(n: Int64, hash: CommitHash)] = []
        try db.cachedStatement(sql: "SELECT n, hash FROM \(EngineTables.commit) WHERE author = ? AND number = ?")
            .forEach([.integer(local), .integer(place)]) { row in
                if let hash = CommitHash(bytes: row.bytes(1)) { joined.append((row.integer(0), hash)) }
            }
        // Other commits have a name here because a stamp or a snapshot names them.
        for (n, hash) in joined where try vector.covers(n, index) { found.append(hash) }
        return found
    }

    /// The ancestor of a branch, or its last commit, with a number.
    func hash(of branch: CommitBranch, at number: UInt64) throws -> CommitHash? {
        guard (1...branch.number).contains(number) else { return nil }
        let here = try hashes(of: branch.author, number)
        if number == branch.number { return here.first { $0 == branch.hash } }
        // With one content of each number the chain need not be followed.
        if here.count <= 1, try hashes(of: branch.author, branch.number).count == 1 { return here.first }
        var (current, hash) = (branch.number, branch.hash)
        while let waiting = try inbox.all(branch.author, current).first(where: { $0.hash == hash }) {
            if current == number { return hash }
            (current, hash) = (current - 1, waiting.previous)
        }
        if current == number { return here.first { $0 == hash } }
        guard let n = try index.find(branch.author, Tip(number: current, tag: hash.tag)) else { return nil }
        return try here.first { candidate in
            let found = try index.find(branch.author, Tip(number: number, tag: candidate.tag))
            return try found.map { try index.covers(n, $0) } ?? false
        }
    }

    /// Whether the store has commits, or a vector of a waiting snapshot that covers them.
    func lacks(_ wanted: VersionVector, received: [VersionVector]) throws -> Bool {
        for (author, tips) in wanted.tips {
            for tip in tips where try !has(author, tip) {
                let isReceived = received.contains { vector in
                    vector.tips[author]?.contains { $0 == tip || $0.number > tip.number } ?? false
                }
                if !isReceived { return true }
            }
        }
        return false
    }

    /// Whether a commit and all before it are here.
    private func has(_ author: ReplicaID, _ tip: Tip) throws -> Bool {
        var tip = tip
        while true {
            if let n = try index.find(author, tip), try vector.covers(n, index) { return true }
            guard let waiting = try inbox.waiting(author, tip) else { return false }
            guard let parent = waiting.parent else { return true }
            tip = parent
        }
    }

    // MARK: Bodies

    /// A commit with a body, without it.
    private struct Place {
        let n: Int64
        let number: UInt64
        let hash: CommitHash
        let previous: CommitHash
        let bodyBytes: Int
        let isWaiting: Bool
    }

    /// Consecutive commits of a branch that have bodies (``ExchangeStore/commits(of:from:limitBytes:)``).
    func commits(of branch: CommitBranch, from first: UInt64, limitBytes: Int) throws -> [StoredCommit] {
        var found: [StoredCommit] = []
        var byteCount = 0
        for place in try places(of: branch, from: first) {
            if let last = found.last, place.number != last.number + 1 || byteCount + place.bodyBytes > limitBytes {
                break
            }
            byteCount += place.bodyBytes
            found.append(try commit(place, of: branch.author))
        }
        return found
    }

    private func places(of branch: CommitBranch, from first: UInt64) throws -> [Place] {
        guard let low = Int64(exactly: first), let high = Int64(exactly: branch.number), low <= high else { return [] }
        var places: [Place] = []
        let author = try index.knownAuthor(branch.author) ?? 0
        try db.cachedStatement(
            sql: """
                SELECT c.n, c.number, c.hash, p.hash, \(LongBodies.byteCount(of: "c")), 0
                FROM \(EngineTables.commit) AS c
                LEFT JOIN \(EngineTables.commit) AS p ON p.n = c.parent
                WHERE c.author = ?1 AND c.number BETWEEN ?3 AND ?4 AND c.body IS NOT NULL
                UNION ALL
                SELECT n, number, hash, previous, \(LongBodies.byteCount(of: "i")), 1
                FROM \(EngineTables.inbox) AS i
                WHERE author = ?2 AND number BETWEEN ?3 AND ?4
                ORDER BY 2 LIMIT \(ExchangeLimits.segmentCommits)
                """
        ).forEach([.integer(author), ExactValue(branch.author.bytes), .integer(low), .integer(high)]) { row in
            let number = UInt64(row.integer(1))
            let previous = number == 1 ? CommitHash.zero : CommitHash(bytes: row.bytes(3))
            // Without the hash before it nobody can verify it.
            guard let hash = CommitHash(bytes: row.bytes(2)), let previous else { return }
            places.append(
                Place(
                    n: row.integer(0), number: number, hash: hash, previous: previous,
                    bodyBytes: Int(row.integer(4)), isWaiting: row.integer(5) != 0))
        }
        return try onBranch(places, branch)
    }

    /// Of two contents of one number keeps that of the branch.
    private func onBranch(_ places: [Place], _ branch: CommitBranch) throws -> [Place] {
        let hasOneContent = Set(places.map(\.number)).count == places.count
        if hasOneContent, try hashes(of: branch.author, branch.number) == [branch.hash] { return places }
        return try places.filter { try hash(of: branch, at: $0.number) == $0.hash }
    }

    private func commit(_ place: Place, of author: ReplicaID) throws -> StoredCommit {
        let table = place.isWaiting ? EngineTables.inbox : EngineTables.commit
        let found = try db.cachedStatement(
            sql: "SELECT \(LongBodies.content(of: "c")), signature FROM \(table) AS c WHERE n = ?"
        )
        .first([.integer(place.n)]) { ($0.bytes(0), $0.isNull(1) ? nil : $0.bytes(1)) }
        guard let (body, signature) = found else { throw EngineError(.damagedStore) }
        return StoredCommit(
            author: author, number: place.number, previous: place.previous, hash: place.hash, body: body,
            signature: signature)
    }
}
