import CipherDatabase

/// The work of one transaction: what ``Replica`` does to the base and to the state.
///
/// All changes of the base come first, also revivals; then the program's tables follow, once (``finish()``).
///
/// | extended in | for |
/// |---|---|
/// | `Program/Work+Recording.swift` | a commit of the program; its bulk forms are `InsertedRows` and `UpdatedRows` |
/// | `Join/Work+Join.swift` | commits of others: received, joined; `Join/BulkInsertion.swift` is its bulk form |
/// | `Join/Work+Revival.swift`, `Join/Work+Members.swift` | rows that come back; commits that change the members |
/// | `Foreign/ForeignWrites.swift` | rows that a program without the library has written |
/// | `Snapshot/Work+Snapshot.swift` | the rows of a head in place of its commits |
/// | `Program/`, `Repository/` | tables that come and go; what the program asks the repository |
final class Work {
    let db: Database
    let settings: Replica.Settings
    /// The clock of this device.
    let clock: HybridTime
    let index: CommitIndex
    let catalog: Catalog
    let commits: CommitRows
    let inbox: Inbox
    let translator: WriteTranslator
    let base: Base
    var state: ReplicaState
    private let formerState: ReplicaState
    let references: References
    let writer: RowWriter
    /// The children that this transaction has touched, by the values that refer to a parent.
    var touchedChildren: [Reference: [[UInt8]: Set<RowPlace>]] = [:]
    /// The commits that this store has made in this transaction.
    private(set) var made: [EncodedCommit] = []
    /// The waiting commit that is being joined with others.
    var joining: Inbox.Waiting?
    /// The last entry of the change history when the transaction began.
    let formerHistory: Int64
    let history: ShownHistory
    /// The tables whose triggers have recorded what the program wrote.
    private(set) var recordedTables: Set<Int64> = []
    /// The tables whose triggers of the change history pause in the whole transaction, where the program's triggers and
    /// foreign keys are not suspended.
    var paused: Set<String>?
    /// The program's block after the rows of a pull have changed.
    var afterApply: (([SyncRowChange]) throws -> Void)? { didSet { history.collects = afterApply != nil } }
    /// Whether commits of this transaction have the least time: their rows lose against those of others.
    var isOld = false
    /// The tips of removed members for which waiting commits vouch; nil if they have to be read.
    var vouchedTips: [ReplicaID: Set<Tip>]?

    init(_ db: Database, _ settings: Replica.Settings, _ definitions: DefinitionCache, clock: HybridTime) throws {
        (self.db, self.settings, self.clock) = (db, settings, clock)
        index = CommitIndex(db)
        state = try ReplicaState(db, index)
        formerState = state
        catalog = try Catalog(db, definitions, version: state.catalog)
        commits = CommitRows(db: db, index: index)
        inbox = Inbox(db: db, repository: state.repository)
        translator = WriteTranslator(index, catalog)
        base = Base(db, index, catalog)
        references = References(catalog)
        writer = RowWriter(db)
        history = ShownHistory(db, catalog)
        formerHistory = try db.historyEnd()
        base.stored.now = clock
    }

    /// The program is about to write: the triggers of tables that do not pause record it.
    func noteRecordedTables(except paused: Set<String>) {
        recordedTables = []
        for table in catalog.tables.values {
            if let name = table.local?.name, !paused.contains(name.lowercased()) { recordedTables.insert(table.n) }
        }
    }

    /// Shows and stores what has changed.
    func finish() throws {
        try Shown(base).update()
        try UntrackedChildren(work: self).follow()
        try history.note(base.unrecordedRows, base)
        try history.flush()
        if catalog.isChanged { state.catalog += 1 }
        try nameHead(was: formerState)
        try passHistory()
        try state.save(db, was: formerState)
        catalog.keep(version: state.catalog)
        if let afterApply, !history.collected.isEmpty {
            try afterApply(history.collected)
            try passHistory()
            try db.cachedStatement(sql: "UPDATE \(EngineTables.state) SET history = ?")
                .execute(exact: [.integer(state.history)])
        }
    }

    /// How many entries of other tables the history may have before it is worth a write to pass them.
    private static let otherEntries: Int64 = 1_000

    /// The entries of this transaction are no foreign writes.
    private func passHistory() throws {
        guard state.history == formerHistory else { return }
        let end = try db.historyEnd()
        var unchanged = formerState
        unchanged.history = state.history
        if state != unchanged || end > formerHistory || end - state.history > Self.otherEntries { state.history = end }
    }

    // MARK: Time

    private func nextTime() throws -> HybridTime {
        guard state.time < .latest else { throw EngineError(.timeExhausted) }
        return isOld ? state.time.successor : max(clock, state.time.successor)
    }

    /// Adopts a time within the bound (F1).
    func adopt(_ time: HybridTime) {
        if time.rawValue <= clock.rawValue &+ settings.clockBound { state.time = max(state.time, time) }
    }

    // MARK: Own commits

    /// The place of the next commit of this store.
    struct NextCommit {
        let time: HybridTime
        let parent: Int64?
        let number: UInt64
    }

    func nextCommit() throws -> NextCommit {
        let parent = try ownTip()
        let number = try parent.map { try index.entry($0).number + 1 } ?? 1
        return NextCommit(time: try nextTime(), parent: parent, number: number)
    }

    /// Records writes of this store as a commit and joins it to the base.
    @discardableResult
    func commit(
        _ given: [LocalWrite], meta: String = "{}", events: [RepositoryEvent] = []
    ) throws -> EncodedCommit {
        let next = try nextCommit()
        let isAhead = !state.ahead.isEmpty
        let writes = try given.map { write in
            var write = write
            if isAhead { write.seen.formUnion(try seen(write)) }
            write.era = try era(write, next.time, next.number)
            return write
        }
        let context = state.vector
        let encoded = try Writes(
            writes.map { try translator.named($0, in: context) }, author: index.authorID(state.author))
        return try commit(next, encoded, meta: meta, events: events) { n in
            var ignored: [Loss] = []
            for write in writes { try apply(write, n, context, isOwn: true, &ignored) }
        }
    }

    /// Makes a commit of encoded writes.
    ///
    /// - Parameter join: Joins the writes to the base, with the number of the commit.
    func commit(
        _ next: NextCommit, _ writes: Writes, meta: String, events: [RepositoryEvent] = [],
        _ join: (Int64) throws -> Void
    ) throws -> EncodedCommit {
        let vector = state.vector
        let former = try commits.vector(after: next.parent)
        let commit = Commit(
            author: writes.author, number: next.number, previous: try next.parent.map(commits.hash) ?? .zero,
            time: next.time, context: try vector.vector(index).changes(since: former.vector(index)),
            beginsBranch: state.beginsBranch, meta: meta, events: events, writes: writes)
        let encoded = try EncodedCommit(commit, in: state.repository)
        let (n, isStored) = try index.add(
            author: commit.author, number: next.number, hash: encoded.hash.bytes, parent: next.parent,
            time: next.time, beginsBranch: commit.beginsBranch,
            content: CommitIndex.Content(meta: commit.storedMeta, context: vector.bytes, body: encoded.wholeBody))
        try join(n)
        for event in events { try apply(event, n, vector) }
        if try isStored && inbox.isEmpty() {
            // Nobody waits for it.
            commits.noteContent(n, encoded, vector)
            try state.vector.advance(to: n, index)
            adopt(commit.time)
        } else {
            try finish(n, encoded, vector)
        }
        (state.tip, state.beginsBranch) = (n, false)
        made.append(encoded)
        return encoded
    }

    /// The parent of the next commit: the last one of this store, or of a copy of this store that went on from it.
    private func ownTip() throws -> Int64? {
        guard let tips = state.vector.tips[state.author] else { return nil }
        guard let tip = state.tip else { return tips.first }
        if tips.contains(tip) { return tip }
        return try tips.filter { try index.covers($0, tip) }.min { try index.entry($0).dot < index.entry($1).dot }
            ?? tips.first
    }

    /// The commits in the row of a write that the vector lacks: the row is ahead of it between two slices (F8).
    private func seen(_ write: LocalWrite) throws -> Set<Int64> {
        guard let incarnation = write.incarnation, let row = try base.state(write.place).rows[incarnation] else {
            return []
        }
        return try row.dots.union([incarnation]).filter { try !state.vector.covers($0, index) }
    }

    /// The least era in which a write is later than every cell of its key that it replaces, in deleted rows too (F1, F19).
    private func era(_ write: LocalWrite, _ time: HybridTime, _ number: UInt64) throws -> UInt32 {
        if write.cells.isEmpty { return 0 }
        let known = try base.state(write.place)
        if known.isEmpty { return 0 }
        let author = try index.authorID(state.author)
        var era: UInt32 = 0
        for row in known.rows.values.map({ $0 }) + known.graves.values.compactMap(\.row) {
            for (column, _) in write.cells {
                guard let stamp = row.stamp(of: column) else { continue }
                let entry = try index.entry(stamp.commit)
                let isLater = (entry.time, entry.authorID, entry.number) > (time, author, number)
                // Only a forged commit has the greatest era; nothing is above it.
                era = max(era, isLater && stamp.era < .max ? stamp.era + 1 : stamp.era)
            }
        }
        return era
    }

    // MARK: Joining

    /// An update that a deletion of a row did not know.
    struct Loss {
        let place: RowPlace
        var lost: Lost
    }

    /// Joins one write to the base. It may be joined again.
    ///
    /// - Parameters:
    ///   - context: What the commit knew.
    ///   - isOwn: Whether it is a commit that is being made.
    func apply(
        _ write: LocalWrite, _ commit: Int64, _ context: LocalVector, isOwn: Bool, _ losses: inout [Loss]
    ) throws {
        var lost: [Lost] = []
        let vector = state.vector
        let index = self.index
        switch write.kind {
        case .insert:
            let revival = KeyState.Revival(copied: write.copied, revives: write.revives) {
                try write.seen.contains($0) || context.covers($0, index)
            }
            let isRevival = write.copied != nil || !write.revives.isEmpty
            try base.modify(write.place) { try $0.insert(write.baseWrite(commit), isRevival ? revival : nil, index) }
        case .update:
            guard let incarnation = write.incarnation else { return }
            try base.modify(write.place) {
                try $0.update(write.baseWrite(commit), of: incarnation, vector: vector, &lost, index)
            }
        case .delete:
            guard let incarnation = write.incarnation else { return }
            // Also deletions from before this store was restored.
            let isOwnDeletion = try isOwn || state.isOwn(index.entry(commit).author)
            try base.modify(write.place) { state in
                let isLiving = state.rows[incarnation] != nil
                state.bury(incarnation)
                if isOwnDeletion, isLiving || !isOwn {
                    state.graves[incarnation, default: KeyState.Grave()].isOwn = true
                }
                let tombstone = Tombstone(known: context, seen: write.seen.union([commit]))
                try state.kill(incarnation, tombstone, there: KeyState.Side(), vector: vector, &lost, index)
                try state.forgetOldest(vector, index)
            }
        }
        losses += lost.map { Loss(place: write.place, lost: $0) }
    }

    func apply(_ event: RepositoryEvent, _ n: Int64, _ context: LocalVector) throws {
        switch event {
        case .remove(let member):
            try state.remove(index.author(member), knowing: context, index)
            vouchedTips = nil
        case .policy(let policy): try adopt(policy, of: n)
        case .dropped(let names): try adopt(names, of: n)
        case .rename, .vouch: break
        }
    }

    /// The vector covers a commit from now on.
    func finish(_ n: Int64, _ commit: EncodedCommit, _ context: LocalVector) throws {
        try state.vector.advance(to: n, index)
        adopt(commit.commit.time)
        let author = commit.commit.author
        try commits.setContent(n, commit, context, inbox.take(author, commit.tip))
        try wake(author, commit.commit.number)
    }
}
