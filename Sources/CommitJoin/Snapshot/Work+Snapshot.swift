import CipherDatabase

/// Making snapshots, joining them, and forgetting.
extension Work {
    /// How many keys are read at once while a snapshot is made.
    private static let batch = 1_000

    /// - Returns: nil between two slices: the rows are ahead of the vector (F9).
    func snapshot() throws -> Snapshot? {
        if try state.isAhead(index) { return nil }
        var snapshot = Snapshot()
        snapshot.time = state.time
        snapshot.vector = state.vector.all
        for tip in snapshot.vector { snapshot.contexts[tip] = try commits.context(of: tip).all }
        snapshot.removed = state.removed.mapValues(\.all)
        for member in state.removed.keys { snapshot.authors[member] = try index.authorID(member) }
        for table in catalog.tables.values {
            snapshot.tables[table.n] = table.name
            for column in table.columns.values { snapshot.columns[column.n] = (table.n, column.id) }
        }
        snapshot.commits = try namedCommits()
        var last: (table: Name, key: RowKey)?
        while true {
            let places = try BaseKeys(work: self).next(after: last, limit: Self.batch)
            guard let end = places.last else { return snapshot }
            last = (try catalog.table(end.table).name, end.key)
            for place in places {
                let state = try base.state(place)
                let dead = Dictionary(
                    uniqueKeysWithValues: state.dead.map { incarnation, tombstone in
                        var tombstone = tombstone
                        let grave = state.graves[incarnation]?.row
                        tombstone.row = tombstone.owed.isEmpty ? nil : grave ?? tombstone.row
                        return (incarnation, tombstone)
                    })
                snapshot.keys.append(Snapshot.Key(table: place.table, key: place.key, rows: state.rows, dead: dead))
            }
        }
    }

    private func namedCommits() throws -> [Snapshot.NamedCommit] {
        var found: [Snapshot.NamedCommit] = []
        try db.cachedStatement(
            sql: """
                SELECT c.n, a.id, c.number, c.hash, c.parent, c.time, c.branch FROM \(EngineTables.commit) AS c
                JOIN \(EngineTables.author) AS a ON a.n = c.author ORDER BY c.author, c.number
                """
        ).forEach([]) { row in
            guard let author = ReplicaID(bytes: row.bytes(1)) else { throw EngineError(.damagedStore) }
            found.append(
                Snapshot.NamedCommit(
                    n: row.integer(0), author: author, number: UInt64(row.integer(2)), hash: row.bytes(3),
                    parent: row.optionalInteger(4), time: HybridTime(rawValue: UInt64(row.integer(5))),
                    beginsBranch: row.integer(6) == row.integer(0)))
        }
        return found
    }

    // MARK: Joining

    func begin(_ snapshot: Snapshot) throws -> Joining {
        var numbers = Translation()
        for commit in snapshot.commits {
            let parent = try commit.parent.map(numbers.commit)
            numbers.commits[commit.n] = try index.add(
                author: commit.author, number: commit.number, hash: commit.hash, parent: parent, time: commit.time,
                beginsBranch: commit.beginsBranch)
        }
        for (n, name) in snapshot.tables { numbers.tables[n] = try catalog.number(of: name) }
        for (n, column) in snapshot.columns {
            guard let table = numbers.tables[column.table] else { throw EngineError(.unknownCommit) }
            numbers.columns[n] = try catalog.column(column.id, of: table)
        }
        let vector = try LocalVector(snapshot.vector.map(numbers.commit), index)
        for (tip, context) in snapshot.contexts {
            try commits.setContext(
                numbers.commit(tip), LocalVector(context.map(numbers.commit), index))
        }
        adopt(snapshot.time)
        try state.enter(vector, index)
        return .snapshot(JoiningSnapshot(snapshot: snapshot, numbers: numbers, vector: vector))
    }

    /// Joins the next slice of a snapshot: whole keys, also those that only this store has.
    func step(_ joining: JoiningSnapshot) throws -> Joining? {
        var rest = joining
        let limit = settings.sliceRows > 0 ? settings.sliceRows : Int.max
        // One more tells whether this slice is the last one.
        let most = min(limit, Int(Int32.max)) + 1
        var here = try BaseKeys(work: self).next(after: joining.last, limit: most)[...]
        if here.isEmpty { try lookAhead(rest, limit) }
        var losses: [Loss] = []
        var joined = 0
        while joined < limit {
            let there = rest.position < rest.snapshot.keys.count ? rest.snapshot.keys[rest.position] : nil
            let theirs = there.flatMap { key in
                rest.numbers.tables[key.table].map { RowPlace(table: $0, key: key.key) }
            }
            guard let place = try first(theirs, here.first) else { break }
            if place == here.first { here.removeFirst() }
            let key = place == theirs ? there : nil
            if key != nil { rest.position += 1 }
            try join(place, key, rest, &losses)
            rest.last = (try catalog.table(place.table).name, place.key)
            joined += 1
        }
        let beyond = try rest.vector.all.filter { try !state.vector.covers($0, index) }
        try revive(losses, seen: Set(beyond))
        if rest.position < rest.snapshot.keys.count || !here.isEmpty { return .snapshot(rest) }
        try end(rest)
        return nil
    }

    /// Looks for the next keys of a snapshot at once, table by table.
    private func lookAhead(_ joining: JoiningSnapshot, _ limit: Int) throws {
        let keys = joining.snapshot.keys.dropFirst(joining.position).prefix(limit)
        var start = keys.startIndex
        while start < keys.endIndex {
            let table = keys[start].table
            let end = keys[start...].firstIndex { $0.table != table } ?? keys.endIndex
            if let own = joining.numbers.tables[table] {
                try base.stored.lookAhead(own, from: keys[start].key, to: keys[end - 1].key)
            }
            start = end
        }
    }

    /// The place that comes first by table and key.
    private func first(_ one: RowPlace?, _ other: RowPlace?) throws -> RowPlace? {
        guard let one, let other, one != other else { return one ?? other }
        if one.table == other.table { return one.key < other.key ? one : other }
        return try catalog.table(one.table).name < catalog.table(other.table).name ? one : other
    }

    private func join(
        _ place: RowPlace, _ key: Snapshot.Key?, _ joining: JoiningSnapshot, _ losses: inout [Loss]
    ) throws {
        let (numbers, vector, index) = (joining.numbers, state.vector, self.index)
        var (rows, dead) = ([Int64: BaseRow](), [Int64: Tombstone]())
        for (incarnation, row) in key?.rows ?? [:] { rows[try numbers.commit(incarnation)] = try numbers.row(row) }
        for (incarnation, tombstone) in key?.dead ?? [:] {
            dead[try numbers.commit(incarnation)] = try numbers.tombstone(tombstone, index)
        }
        let own = try base.state(place)
        let incarnations = Set(rows.keys).union(dead.keys).union(own.rows.keys).union(own.dead.keys)
        for incarnation in try incarnations.sorted(by: { try index.entry($0).dot < index.entry($1).dot }) {
            var lost: [Lost] = []
            let died = try base.modify(place) { state in
                let wasLiving = state.rows[incarnation] != nil
                if wasLiving, rows[incarnation] == nil { state.bury(incarnation) }
                try state.join(
                    incarnation, rows[incarnation], dead[incarnation], vector: vector, other: joining.vector, &lost,
                    index)
                return wasLiving && state.rows[incarnation] == nil
            }
            losses += lost.map { Loss(place: place, lost: $0) }
            if died { try findChildren(of: place, incarnation, &losses) }
        }
    }

    private func end(_ joining: JoiningSnapshot) throws {
        state.vector = try state.vector.union(joining.vector, index)
        for (member, known) in joining.snapshot.removed {
            let author = try authorNumber(member, joining)
            try state.remove(author, knowing: LocalVector(known.map(joining.numbers.commit), index), index)
        }
        for waiting in try commits.waiting() {
            let tip = Tip(number: waiting.number, tag: waiting.hash.tag)
            if let n = try index.find(waiting.author, tip), try state.vector.covers(n, index) {
                try commits.removeWaiting(waiting.author, tip)
            }
        }
    }

    private func authorNumber(_ member: Int64, _ joining: JoiningSnapshot) throws -> Int64 {
        guard let id = joining.snapshot.authors[member] else { throw EngineError(.unknownCommit) }
        return try index.author(id)
    }

    // MARK: Forgetting

    /// Removes tombstones, except those that owe a revival or precede their insertion.
    ///
    /// - Parameter graves: Whether the rows of dead places go too, unless this store deleted them itself.
    func forgetTombstones(graves: Bool) throws {
        var places: Set<RowPlace> = []
        for name in [EngineTables.dead, EngineTables.grave] {
            try db.cachedStatement(sql: "SELECT DISTINCT tbl, key FROM \(name)").forEach([]) { row in
                places.insert(RowPlace(table: row.integer(0), key: RowKey(stored: row.bytes(1))))
            }
        }
        let (vector, index) = (state.vector, self.index)
        for place in places {
            try base.modify(place) { state in
                state.dead = try state.dead.filter { incarnation, tombstone in
                    try !tombstone.owed.isEmpty || !vector.covers(incarnation, index)
                }
                guard graves else { return }
                for (incarnation, grave) in state.graves where !grave.isOwn && state.dead[incarnation] == nil {
                    state.graves[incarnation] = nil
                }
            }
        }
    }
}
