import CipherDatabase

/// Makes the bytes of a snapshot, part by part. All parts are made of one state of the store: in one transaction, or on one
/// connection that does not see the commits of others.
///
/// The memory does not depend on the number of rows, apart from the commits that stamps name.
final class SnapshotMaker {
    private enum Stage {
        case names
        case keys(after: (table: Name, key: RowKey)?)
        case end
    }

    /// How many keys are read at once.
    private static let batch = 1_000

    let vector: VersionVector
    let time: HybridTime
    private let work: Work
    private var stage = Stage.names
    private var buffer: SnapshotBuffer
    private var numbers = Translation()
    private var vectors: [LocalVector: Int64] = [:]
    /// Whether a row has a cell whose value is not known, of the parts that were made.
    private(set) var lacksValues = false

    /// - Returns: nil between two slices: the rows are ahead of the vector (F9); and if values that the program has dropped
    ///   are not kept yet (``DroppedValues``).
    init?(_ work: Work, partBytes: Int = ExchangeLimits.segmentBytes) throws {
        if try work.state.isAhead(work.index) || DroppedValues.areToBeKept(work) { return nil }
        self.work = work
        vector = try work.state.vector.vector(work.index)
        time = work.state.time
        buffer = SnapshotBuffer(partBytes: partBytes)
    }

    /// - Returns: nil at the end.
    func nextPart() throws -> [UInt8]? {
        while !buffer.isFull {
            switch stage {
            case .names:
                try appendNames()
                stage = .keys(after: nil)
            case .keys(let last):
                guard let next = try appendKeys(after: last) else {
                    stage = .end
                    break
                }
                stage = .keys(after: next)
            case .end: return buffer.take()
            }
        }
        return buffer.take()
    }

    // MARK: Names

    private func appendNames() throws {
        buffer.append(.head(time: time))
        try appendCommits()
        for table in work.catalog.tables.values.sorted(by: { $0.name < $1.name }) {
            numbers.tables[table.n] = Int64(numbers.tables.count + 1)
            buffer.append(.table(table.name))
        }
        for table in work.catalog.tables.values.sorted(by: { $0.name < $1.name }) {
            for column in table.columns.values.sorted(by: { $0.id < $1.id }) {
                numbers.columns[column.n] = Int64(numbers.columns.count + 1)
                buffer.append(.column(table: numbers.tables[table.n] ?? 0, column.id))
            }
        }
        try appendPolicies()
        try appendDropped()
        let state = work.state
        let tips = try number(of: state.vector)
        var contexts: [SnapshotItem.State.Known] = []
        for tip in state.vector.all {
            let context = try number(of: work.commits.context(of: tip))
            contexts.append(.init(of: try numbers.commit(tip), vector: context))
        }
        var removed: [SnapshotItem.State.Known] = []
        for (member, known) in state.removed.sorted(by: { $0.key < $1.key }) {
            guard let author = numbers.authors[member] else { continue }
            removed.append(.init(of: author, vector: try number(of: known)))
        }
        buffer.append(.state(.init(vector: tips, contexts: contexts, removed: removed)))
    }

    private func appendPolicies() throws {
        for table in work.catalog.tables.values.sorted(by: { $0.name < $1.name }) {
            let counters = table.columns.values.filter(\.isCounter).compactMap { numbers.columns[$0.n] }.sorted()
            guard table.ruled != nil || !counters.isEmpty else { continue }
            buffer.append(
                .policy(
                    .init(
                        table: numbers.tables[table.n] ?? 0, commit: try table.ruled.map(numbers.commit) ?? 0,
                        deletionsWin: table.deletionsWin, counters: counters)))
        }
    }

    private func appendDropped() throws {
        func append(_ notice: DropNotice?, _ table: BaseTable, _ column: BaseColumn?) throws {
            guard let notice else { return }
            buffer.append(
                .dropped(
                    .init(
                        table: numbers.tables[table.n] ?? 0, column: column.flatMap { numbers.columns[$0.n] } ?? 0,
                        commit: try numbers.commit(notice.commit), isDropped: notice.isDropped)))
        }
        for table in work.catalog.tables.values.sorted(by: { $0.name < $1.name }) {
            try append(table.notice, table, nil)
            for column in table.columns.values.sorted(by: { $0.id < $1.id }) {
                try append(column.notice, table, column)
            }
        }
    }

    private func appendCommits() throws {
        var authors: [(n: Int64, id: ReplicaID)] = []
        try work.db.cachedStatement(sql: "SELECT n, id FROM \(EngineTables.author) ORDER BY id").forEach([]) { row in
            guard let id = ReplicaID(bytes: row.bytes(1)) else { throw EngineError(.damagedStore) }
            authors.append((row.integer(0), id))
        }
        for (n, id) in authors {
            numbers.authors[n] = Int64(numbers.authors.count + 1)
            buffer.append(.author(id))
        }
        try work.db.cachedStatement(
            sql: """
                SELECT c.n, c.author, c.number, c.hash, c.parent, c.time, c.branch FROM \(EngineTables.commit) AS c
                JOIN \(EngineTables.author) AS a ON a.n = c.author ORDER BY a.id, c.number, c.hash
                """
        ).forEach([]) { row in
            guard let author = numbers.authors[row.integer(1)], let hash = CommitHash(bytes: row.bytes(3)) else {
                throw EngineError(.damagedStore)
            }
            let parent = try row.optionalInteger(4).map(numbers.commit) ?? 0
            numbers.commits[row.integer(0)] = Int64(numbers.commits.count + 1)
            buffer.append(
                .commit(
                    .init(
                        author: author, number: UInt64(row.integer(2)), hash: hash, parent: parent,
                        time: HybridTime(rawValue: UInt64(row.integer(5))),
                        beginsBranch: row.integer(6) == row.integer(0))))
        }
    }

    private func number(of vector: LocalVector) throws -> Int64 {
        if let known = vectors[vector] { return known }
        buffer.append(.vector(try vector.all.map(numbers.commit).sorted()))
        vectors[vector] = Int64(vectors.count + 1)
        return Int64(vectors.count)
    }

    // MARK: Keys

    /// - Returns: The last key; nil if there is none.
    private func appendKeys(after last: (table: Name, key: RowKey)?) throws -> (table: Name, key: RowKey)? {
        // A base keeps each key that it has read in memory.
        let base = Base(work.db, work.index, work.catalog)
        let places = try BaseKeys(db: work.db, catalog: work.catalog, stored: base.stored)
            .next(after: last, limit: Self.batch)
        var end: RowPlace?
        for place in places {
            try append(place, base.state(place))
            end = place
            // A key may have a long value.
            if buffer.isFull { break }
        }
        return try end.map { (try work.catalog.table($0.table).name, $0.key) }
    }

    private func append(_ place: RowPlace, _ state: KeyState) throws {
        var rows: [SnapshotItem.Key.Living] = []
        for (incarnation, row) in state.rows {
            if !row.unknown.isEmpty { lacksValues = true }
            rows.append(.init(incarnation: try numbers.commit(incarnation), row: try numbers.row(row)))
        }
        var dead: [SnapshotItem.Key.Dead] = []
        for (incarnation, tombstone) in state.dead {
            var named = try numbers.tombstone(tombstone)
            let grave = try state.graves[incarnation]?.row.map(numbers.row)
            named.row = named.owed.isEmpty ? nil : grave ?? named.row
            // It is for a revival, which brings the values that are known.
            named.row?.unknown = [:]
            dead.append(
                .init(
                    incarnation: try numbers.commit(incarnation), known: try number(of: tombstone.known),
                    tombstone: named))
        }
        buffer.append(
            .key(
                .init(
                    table: numbers.tables[place.table] ?? 0, key: place.key,
                    rows: rows.sorted { $0.incarnation < $1.incarnation },
                    dead: dead.sorted { $0.incarnation < $1.incarnation })))
    }
}
