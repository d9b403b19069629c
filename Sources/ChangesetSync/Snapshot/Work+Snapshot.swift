import CipherDatabase

/// Joining snapshots, and forgetting.
extension Work {
    /// How many items before the keys are read in one transaction.
    private static let names = 20_000

    func begin(_ parts: any SnapshotParts) throws -> Joining {
        var joining = JoiningSnapshot(parts)
        if let received = parts as? ReceivedParts,
            case .snapshot(received.snapshot, let table, let key)? = try JoinPlace.read(db)
        {
            joining.resume(after: table, key)
        }
        try readNames(&joining)
        return .snapshot(joining)
    }

    /// Joins the next slice of a snapshot: whole keys, also those that only this store has.
    ///
    /// - Parameter joined: Set to the number of the keys.
    func step(_ joining: JoiningSnapshot, rows limit: Int, _ joined: inout Int) throws -> Joining? {
        var rest = joining
        if rest.state == nil {
            try readNames(&rest)
            return .snapshot(rest)
        }
        if rest.isSkipping {
            try rest.skip(db, adoptVector)
            return .snapshot(rest)
        }
        // One more tells whether this slice is the last one.
        let most = min(limit, Int(Int32.max)) + 1
        var here = try keys(after: rest.last, limit: most)[...]
        var losses: [Loss] = []
        joined = 0
        while joined < limit {
            if try fill(&rest), here.isEmpty { try lookAhead(rest) }
            let theirs = rest.block.first.flatMap { key in
                rest.numbers.tables[key.table].map { RowPlace(table: $0, key: key.key) }
            }
            guard let place = try first(theirs, here.first) else { break }
            if place == here.first { here.removeFirst() }
            try join(place, place == theirs ? rest.takeKey() : nil, rest, &losses)
            rest.last = (try catalog.table(place.table).name, place.key)
            joined += 1
        }
        let beyond = try rest.vector.all.filter { try !state.vector.covers($0, index) }
        try revive(losses, seen: Set(beyond))
        _ = try fill(&rest)
        if !rest.block.isEmpty || !here.isEmpty { return .snapshot(rest) }
        try end(rest)
        return nil
    }

    private func keys(after last: (table: Name, key: RowKey)?, limit: Int) throws -> [RowPlace] {
        try BaseKeys(db: db, catalog: catalog, stored: base.stored).next(after: last, limit: limit)
    }

    // MARK: Names

    private func readNames(_ joining: inout JoiningSnapshot) throws {
        for _ in 0..<Self.names where joining.state == nil {
            guard let item = try joining.nextItem(db) else { throw CommitError(.truncated) }
            try adopt(item, &joining)
        }
        // A commit that was only named so far may have a line now.
        state.revision += 1
    }

    private func adopt(_ item: SnapshotItem, _ joining: inout JoiningSnapshot) throws {
        switch item {
        case .head(let time): adopt(time)
        case .author(let id):
            joining.numbers.authors[Int64(joining.numbers.authors.count + 1)] = try index.author(id)
        case .commit(let commit): try adopt(commit, &joining)
        case .table(let name):
            joining.tables.append(name)
            joining.numbers.tables[Int64(joining.numbers.tables.count + 1)] = try catalog.number(of: name)
        case .column(let table, let id):
            guard let own = joining.numbers.tables[table] else { throw EngineError(.unknownCommit) }
            joining.numbers.columns[Int64(joining.numbers.columns.count + 1)] = try catalog.column(id, of: own)
        case .policy(let policy): try adopt(policy, joining)
        case .dropped(let dropped): try adopt(dropped, joining)
        case .vector(let commits):
            joining.vectors[Int64(joining.vectors.count + 1)] = try LocalVector(
                commits.map(joining.numbers.commit), index)
        case .state(let given):
            joining.state = given
            for context in given.contexts {
                guard let known = joining.vectors[context.vector] else { throw EngineError(.unknownCommit) }
                try commits.setContext(joining.numbers.commit(context.of), known)
            }
            try state.enter(joining.vector, index)
        case .key: throw CommitError(.contextOrder)
        }
    }

    private func adopt(_ commit: SnapshotItem.NamedCommit, _ joining: inout JoiningSnapshot) throws {
        guard let author = joining.numbers.authors[commit.author] else { throw EngineError(.unknownCommit) }
        let parent = try commit.parent == 0 ? nil : joining.numbers.commit(commit.parent)
        joining.numbers.commits[Int64(joining.numbers.commits.count + 1)] = try index.add(
            author: index.authorID(author), number: commit.number, hash: commit.hash.bytes, parent: parent,
            time: commit.time, beginsBranch: commit.beginsBranch)
    }

    private func adopt(_ policy: SnapshotItem.Policy, _ joining: JoiningSnapshot) throws {
        guard let number = joining.numbers.tables[policy.table] else { throw EngineError(.unknownCommit) }
        let table = try catalog.table(number)
        let counters = try policy.counters.map { column in
            guard let known = try table.columns[joining.numbers.column(column)] else {
                throw EngineError(.unknownCommit)
            }
            return known.id
        }
        let commit = try policy.commit == 0 ? nil : joining.numbers.commit(policy.commit)
        try adopt(
            TablePolicy(table: table.name, counters: counters, deletionsWin: policy.deletionsWin), of: commit)
    }

    private func adopt(_ dropped: SnapshotItem.Dropped, _ joining: JoiningSnapshot) throws {
        guard let table = joining.numbers.tables[dropped.table] else { throw EngineError(.unknownCommit) }
        try adopt(
            DropNotice(commit: joining.numbers.commit(dropped.commit), isDropped: dropped.isDropped), table: table,
            column: dropped.column == 0 ? nil : joining.numbers.column(dropped.column))
    }

    // MARK: Keys

    private func fill(_ joining: inout JoiningSnapshot) throws -> Bool {
        try joining.fill(db, adoptVector)
    }

    private func adoptVector(_ item: SnapshotItem, _ joining: inout JoiningSnapshot) throws {
        guard case .vector = item else { throw CommitError(.contextOrder) }
        try adopt(item, &joining)
    }

    /// Looks for the next keys of a snapshot at once, table by table.
    private func lookAhead(_ joining: JoiningSnapshot) throws {
        let keys = joining.block
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
        _ place: RowPlace, _ key: SnapshotItem.Key?, _ joining: JoiningSnapshot, _ losses: inout [Loss]
    ) throws {
        let (numbers, vector, index) = (joining.numbers, state.vector, self.index)
        var (rows, dead) = ([Int64: BaseRow](), [Int64: Tombstone]())
        for living in key?.rows ?? [] {
            var row = try numbers.row(living.row)
            try row.forgetUnknown(index)
            rows[try numbers.commit(living.incarnation)] = row
        }
        for one in key?.dead ?? [] {
            guard let known = joining.vectors[one.known] else { throw EngineError(.unknownCommit) }
            var tombstone = try numbers.tombstone(one.tombstone)
            tombstone.known = known
            dead[try numbers.commit(one.incarnation)] = tombstone
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
        for removal in joining.state?.removed ?? [] {
            guard let author = joining.numbers.authors[removal.of], let known = joining.vectors[removal.vector] else {
                throw EngineError(.unknownCommit)
            }
            try state.remove(author, knowing: known, index)
        }
        vouchedTips = nil
        try joining.parts.remove(db)
        try wakeAll()
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
        for place in places { try forgetTombstones(of: place, nil, graves: graves) }
    }

    /// - Parameter incarnations: The dead insertions that are forgotten; nil for all.
    func forgetTombstones(of place: RowPlace, _ incarnations: Set<Int64>?, graves: Bool) throws {
        let (vector, index) = (state.vector, self.index)
        try base.modify(place) { state in
            state.dead = try state.dead.filter { incarnation, tombstone in
                try !tombstone.owed.isEmpty || !vector.covers(incarnation, index)
                    || incarnations?.contains(incarnation) == false
            }
            guard graves else { return }
            for (incarnation, grave) in state.graves where !grave.isOwn && state.dead[incarnation] == nil {
                state.graves[incarnation] = nil
            }
        }
    }
}
