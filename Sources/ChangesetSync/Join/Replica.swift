import CipherDatabase

/// One store of a repository: it records what the program writes, and joins what others have written.
///
/// Each function runs one or more transactions. A kill loses nothing: the next call continues a join at its last slice.
/// One thread at a time calls these functions, always with the same connection.
package final class Replica {
    package struct Settings: Sendable {
        /// The most rows of one transaction of a join; 0 for no limit.
        package var sliceRows = 50_000
        /// How long one transaction of a join should take; nil if only the rows count, so that each run has the same slices.
        package var sliceTime: Duration? = SlicePace.aim
        /// How far a time may be ahead of the clock to be adopted, in the unit of ``HybridTime``: a day.
        var clockBound: UInt64 = 86_400_000 << 16

        package init() {}
    }

    var settings: Settings
    private let definitions = DefinitionCache()
    private var joining: Joining?
    private var pace = SlicePace()
    /// How long the last transaction held the write lock.
    private var lastTime = Duration.zero
    /// The last row that was adopted, of the table that is being adopted.
    private var adopted: RowKey?
    private var dropped = DroppedValues.Progress()
    /// Whether the file of the store is known to be the one in which the last commit was made.
    private var hasExaminedFile = false
    /// The schema for which all tracked tables are known to have a history.
    private var examinedSchema: Int32?
    /// Whether a join has no triggers and foreign keys of the program to suspend, for one version of the schema.
    private var plainRules: (schema: Int32, isPlain: Bool)?
    /// The program's block after the rows of a pull have changed.
    var afterApply: (@Sendable (Database, [SyncRowChange]) throws -> Void)?

    init(settings: Settings = Settings()) { self.settings = settings }

    /// Makes the tables of the engine. Inside a transaction.
    static func create(_ db: Database, repository: RepositoryID, author: ReplicaID) throws {
        try db.writingOwnRows {
            try db.execute(sql: EngineTables.creation)
            try ReplicaState.create(db, repository: repository, author: author)
        }
    }

    /// Makes the store a replica of another repository: all that it has of the former one goes, and no row of the program.
    /// Inside a transaction.
    ///
    /// - Parameter adoptsAsOld: Whether the rows that it has lose against those of others.
    static func replace(
        _ db: Database, repository: RepositoryID, author: ReplicaID, adoptsAsOld: Bool = false
    ) throws {
        // Numbers of tables and columns stay: the tables of their stamps have them in their names.
        let kept = [EngineTables.table, EngineTables.column, EngineTables.shape].map {
            String($0.dropFirst("main.".count))
        }
        let versions = try db.cachedStatement(sql: "SELECT catalog, revision FROM \(EngineTables.state)")
            .first([]) { ($0.integer(0), $0.integer(1)) }
        let names = try String.fetchAll(
            db, sql: "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND substr(name, 1, ?) = ?",
            arguments: [EngineTables.prefix.count, EngineTables.prefix])
        for name in names where !kept.contains(name) {
            try db.execute(sql: "DELETE FROM main.\(name.quotedDatabaseIdentifier)")
        }
        try db.execute(
            sql: """
                UPDATE \(EngineTables.table)
                SET local = NULL, key = NULL, deletions_win = 0, ruled = NULL, adopting = \(adoptsAsOld ? Work.oldRows : 0),
                    definition = NULL, dropped = NULL, noticed = NULL, gone = 0
                """)
        try db.execute(
            sql: """
                UPDATE \(EngineTables.column)
                SET local = NULL, counter = 0, dropped = NULL, lost = 0, noticed = NULL, gone = 0
                """)
        try ReplicaState.create(db, repository: repository, author: author)
        try db.execute(
            sql: "UPDATE \(EngineTables.state) SET catalog = ? + 1, revision = ? + 1",
            arguments: [versions?.0 ?? 0, versions?.1 ?? 0])
    }

    /// Whether a join has begun and has not ended.
    var isJoining: Bool { joining != nil }

    /// Runs the work of one transaction.
    ///
    /// - Parameter seesForeign: Whether rows that were written outside of commits become a commit before it: all work that
    ///   reads rows of the base needs that.
    /// - Parameter schema: The version of the schema that the program's tables must have; nil for any.
    /// - Throws: ``UnpreparedSchema``, before anything is read by the other schema.
    func inTransaction<T>(
        _ db: Database, _ clock: HybridTime, seesForeign: Bool = true, schema: Int32? = nil,
        _ body: (Work) throws -> T
    ) throws -> T {
        if seesForeign, examinedSchema == nil { try recordLostHistory(db, clock, schema) }
        while true {
            do {
                return try once(db, clock) { work in
                    try requireSchema(schema)
                    if seesForeign {
                        if examinedSchema != definitions.schema { throw OtherSchema() }
                        try takeForeignWrites(work)
                    }
                    return try body(work)
                }
            } catch is OtherSchema {
                try recordLostHistory(db, clock, schema)
            } catch is ForeignWrites.Pending {
                let compared = try db.isolated { try compareTables(db, clock) }
                while try once(
                    db, clock,
                    { work in
                        try ForeignWrites(work: work).take(limit: sliceLimit, compared: compared)
                    })
                {}
            }
        }
    }

    private func requireSchema(_ schema: Int32?) throws {
        if let schema, schema != definitions.schema { throw UnpreparedSchema() }
    }

    /// The schema is another one than that for which all tracked tables are known to have a history.
    private struct OtherSchema: Error {}

    private var sliceLimit: Int {
        settings.sliceRows > 0 ? min(settings.sliceRows, SlicePace.foundRows) : .max
    }

    /// Begins the change history anew of tables whose recording somebody has ended.
    private func recordLostHistory(_ db: Database, _ clock: HybridTime, _ schema: Int32?) throws {
        try once(db, clock) { work in
            try requireSchema(schema)
            try work.recordLostHistory()
        }
        examinedSchema = try db.schemaVersion()
    }

    /// Few rows are committed in the transaction that needs it, many in transactions of their own.
    private func takeForeignWrites(_ work: Work) throws {
        if work.state.history == work.formerHistory { return }
        let foreign = ForeignWrites(work: work)
        if try foreign.needsTransactions(limit: sliceLimit) { throw ForeignWrites.Pending() }
        while try foreign.take() {}
    }

    private func compareTables(_ db: Database, _ clock: HybridTime) throws -> ComparedTables? {
        try ForeignWrites(work: Work(db, settings, definitions, clock: clock)).compareTables()
    }

    private func once<T>(_ db: Database, _ clock: HybridTime, _ body: (Work) throws -> T) throws -> T {
        let joining = self.joining
        do {
            do {
                if try hasPlainRules(db) { return try transaction(db, clock, keepsRules: true, body) }
            } catch is NeedsSuspension {}
            return try db.withForeignKeysAndTriggersSuspended { try transaction(db, clock, keepsRules: false, body) }
        } catch {
            self.joining = joining
            definitions.forget()
            examinedSchema = nil
            plainRules = nil
            throw error
        }
    }

    private func transaction<T>(
        _ db: Database, _ clock: HybridTime, keepsRules: Bool, _ body: (Work) throws -> T
    ) throws -> T {
        var result: T?
        try db.writingOwnRows {
            var begin = ContinuousClock.now
            defer { lastTime = .now - begin }
            try db.inTransaction(.immediate) {
                begin = .now
                let work = try Work(db, settings, definitions, clock: clock)
                if keepsRules, plainRules?.schema != definitions.schema {
                    plainRules = nil
                    throw NeedsSuspension()
                }
                if !hasExaminedFile { try StoreFile.note(work) }
                if keepsRules { work.paused = try pauseHistory(work) }
                // SQLite commits nothing before the history is resumed.
                defer { db.resumeHistory() }
                result = try body(work)
                try work.finish()
                return .commit
            }
        }
        guard let result else { throw EngineError(.damagedStore) }
        hasExaminedFile = true
        return result
    }

    // MARK: Triggers and foreign keys

    /// Another database is attached, so the triggers of the change history do not pause; or the schema has changed, and
    /// may have other triggers and foreign keys.
    private struct NeedsSuspension: Error {}

    /// Whether no trigger but those of the change history, and no foreign key, acts on the tables of the program. Then none is
    /// suspended: SQLite compiles every statement again when they are, and when they act again.
    private func hasPlainRules(_ db: Database) throws -> Bool {
        // The transaction compares the schema.
        if let plainRules, plainRules.isPlain { return true }
        let schema = try db.schemaVersion()
        if let plainRules, plainRules.schema == schema { return false }
        let isPlain = try Bool.fetchOne(
            db,
            sql: """
                SELECT NOT EXISTS (
                    SELECT 1 FROM main.sqlite_schema WHERE type = 'trigger' AND name NOT GLOB 'cipherstore_history_*')
                AND NOT EXISTS (
                    SELECT 1 FROM main.sqlite_schema AS s JOIN pragma_foreign_key_list(s.name, 'main')
                    WHERE s.type = 'table')
                """)
        plainRules = (schema, isPlain ?? false)
        return isPlain ?? false
    }

    /// Lets the triggers of the change history pause while a commit writes its entries.
    ///
    /// - Returns: The tables whose triggers pause, by their names in lower case.
    private func pauseHistory(_ work: Work) throws -> Set<String> {
        let paused = try work.db.pauseHistory { work.catalog.local($0) != nil }
        if paused.isEmpty, try work.db.recordedTables()?.isEmpty == false { throw NeedsSuspension() }
        return Set(paused.keys)
    }

    /// Runs a block of the program that writes rows of tracked tables, while the change history leaves them to the commit.
    func writing<T>(_ work: Work, _ body: () throws -> T) throws -> T {
        let db = work.db
        if let paused = work.paused {
            work.noteRecordedTables(except: paused)
            return try db.runningProgram(body)
        }
        let paused = try db.pauseHistory { work.catalog.local($0) != nil }
        defer { db.resumeHistory() }
        work.noteRecordedTables(except: Set(paused.keys))
        return try runningProgram(work, body)
    }

    /// Runs a block of the program with its triggers and foreign keys.
    private func runningProgram<T>(_ work: Work, _ body: () throws -> T) throws -> T {
        let db = work.db
        if work.paused != nil { return try db.runningProgram(body) }
        return try db.withForeignKeysAndTriggersResumed(foreignKeys: db.isConfiguredForForeignKeys) {
            try db.runningProgram(body)
        }
    }

    // MARK: The program

    /// Runs a block of the program and makes what it writes to tracked tables a commit, in the same transaction.
    ///
    /// A commit inside another one is a part of it; an error undoes the inner one alone.
    ///
    /// - Parameter body: Writes. It must not change the definitions of tracked tables.
    /// - Parameter schema: The version of the schema that the program's tables must have; nil for any.
    /// - Returns: The value of the block, and the commit; nil if nothing has changed, or inside another commit.
    /// - Throws: The error of the block; ``UnpreparedSchema``; ``EngineError``; `DatabaseError`. Nothing is changed.
    func record<T>(
        _ db: Database, clock: HybridTime, meta: String = "{}", schema: Int32? = nil, _ body: (Database) throws -> T
    ) throws -> (value: T, commit: EncodedCommit?) {
        let session = db.captureSession
        if session.capture.isActive {
            var value: T?
            try db.inSavepoint {
                value = try body(db)
                return .commit
            }
            guard let value else { throw EngineError(.damagedStore) }
            return (value, nil)
        }
        return try inTransaction(db, clock, schema: schema) { work in
            let (value, changes) = try session.capturing(db, work.catalog) {
                try writing(work) { try body(db) }
            }
            return (value, try work.record(changes, meta: meta))
        }
    }

    /// The schema has changed since the program's tables were examined.
    struct UnpreparedSchema: Error {}

    /// Makes a commit with events and without rows.
    func commitEvents(_ db: Database, clock: HybridTime, _ events: [RepositoryEvent]) throws -> EncodedCommit {
        try inTransaction(db, clock) { work in
            try work.commit([], events: events)
        }
    }

    /// The store comes from a copy: its next commit begins a branch.
    func beginBranch(_ db: Database, clock: HybridTime) throws {
        try inTransaction(db, clock) { $0.state.beginsBranch = true }
    }

    // MARK: Receiving

    /// Joins what is ready: the next slice of a join that has begun, or so many commits as one transaction takes.
    ///
    /// - Returns: Whether there is more, and the commits that this store has made: revivals.
    func pull(_ db: Database, clock: HybridTime) throws -> (hasMore: Bool, made: [EncodedCommit]) {
        if joining != nil { return (true, try stepOrRefuse(db, clock)) }
        if try beginReceived(db, clock) { return (true, []) }
        var current: Inbox.Waiting?
        let long = try db.isolated { try Inbox(db: db, repository: ReplicaState.repository(db)).nextLong() }
        do {
            return try inTransaction(db, clock) { work in
                follow(work)
                defer { current = work.joining }
                let (rest, isAtEnd) = try work.joinReady(long)
                joining = rest
                return (!isAtEnd, work.made)
            }
        } catch let error as EngineError where error.code.isOfInvalidCommit {
            guard let current else { throw error }
            try inTransaction(db, clock, seesForeign: false) { try $0.inbox.refuse(current.author, current.tip) }
            return (true, [])
        }
    }

    /// Lets the program's block follow the rows that a transaction changes. It may write tables that are not tracked.
    private func follow(_ work: Work) {
        guard let afterApply else { return }
        let db = work.db
        work.afterApply = { [unowned self, unowned work] changes in
            let session = db.captureSession
            let written = try session.capturing(db, work.catalog) {
                try self.runningProgram(work) { try afterApply(db, changes) }
            }.changes
            // Each device would make a commit of its own of the same pull, and never come to an end.
            if let row = try written.rows().first { throw EngineError(.trackedTableWritten, row.table) }
        }
    }

    /// Begins to join a snapshot that was received, if one has a commit that is not joined.
    private func beginReceived(_ db: Database, _ clock: HybridTime) throws -> Bool {
        guard let next = try ReceivedSnapshots(db: db).next() else { return false }
        let isJoined = try inTransaction(db, clock) { work in
            guard let vector = try LocalVector(next.vector, work.index),
                try work.state.vector.includes(vector, work.index), try !UnknownValues(db: db).hasAny()
            else { return false }
            try ReceivedSnapshots(db: db).remove(next.n)
            return true
        }
        if isJoined { return true }
        do {
            try begin(db, clock, ReceivedParts(snapshot: next.n))
        } catch let error where Self.isOfContent(error) {
            try refuse(next.n, db, clock)
        }
        return true
    }

    private func stepOrRefuse(_ db: Database, _ clock: HybridTime) throws -> [EncodedCommit] {
        do {
            return try step(db, clock: clock)
        } catch let error where Self.isOfContent(error) {
            guard case .snapshot(let snapshot) = joining, let parts = snapshot.parts as? ReceivedParts else {
                if joining == nil { return [] }
                throw error
            }
            try refuse(parts.snapshot, db, clock)
            return []
        }
    }

    /// Whether the content of a commit or snapshot is one that no honest member makes.
    private static func isOfContent(_ error: any Error) -> Bool {
        error is CommitError || (error as? EngineError)?.code == .unknownCommit
    }

    private func refuse(_ snapshot: Int64, _ db: Database, _ clock: HybridTime) throws {
        joining = nil
        try inTransaction(db, clock, seesForeign: false) { _ in try ReceivedSnapshots(db: db).refuse(snapshot) }
    }

    /// Stores commits and joins nothing.
    func receive(_ db: Database, clock: HybridTime, _ commits: [VerifiedCommit]) throws {
        try inTransaction(db, clock, seesForeign: false) { work in
            for commit in commits { try work.receive(commit) }
        }
    }

    /// Joins a commit, or its first slice.
    ///
    /// - Returns: The commits that this store has made: revivals.
    @discardableResult
    func begin(_ db: Database, clock: HybridTime, _ author: ReplicaID, _ tip: Tip) throws -> [EncodedCommit] {
        if joining != nil { throw EngineError(.betweenSlices) }
        return try refusing(db, clock, author, tip) {
            try inTransaction(db, clock) { work in
                follow(work)
                joining = try work.begin(author, tip)
                return work.made
            }
        }
    }

    /// Refuses a commit for good if no honest member makes it. Commits of others are joined as before.
    private func refusing<T>(
        _ db: Database, _ clock: HybridTime, _ author: ReplicaID, _ tip: Tip, _ body: () throws -> T
    ) throws -> T {
        do {
            return try body()
        } catch let error as EngineError where error.code.isOfInvalidCommit {
            joining = nil
            try inTransaction(db, clock, seesForeign: false) { try $0.inbox.refuse(author, tip) }
            throw error
        }
    }

    /// Begins to join a snapshot. Nothing of it is joined before ``step(_:clock:)``.
    func begin(_ db: Database, clock: HybridTime, _ snapshot: Snapshot) throws {
        try begin(db, clock, snapshot)
    }

    private func begin(_ db: Database, _ clock: HybridTime, _ parts: any SnapshotParts) throws {
        if joining != nil { throw EngineError(.betweenSlices) }
        try inTransaction(db, clock) { joining = try $0.begin(parts) }
    }

    /// Joins the next slice.
    @discardableResult
    func step(_ db: Database, clock: HybridTime) throws -> [EncodedCommit] {
        guard let former = joining else { return [] }
        var rows = settings.sliceRows > 0 ? settings.sliceRows : Int.max
        if settings.sliceTime != nil { rows = min(rows, pace.rows) }
        var joined = 0
        let made: [EncodedCommit]
        switch former {
        case .commit(let commit):
            made = try refusing(db, clock, commit.commit.commit.author, commit.commit.tip) {
                try inTransaction(db, clock) { work in
                    follow(work)
                    joining = try work.step(commit, rows: rows, &joined)
                    try JoinPlace.note(joining, db)
                    return work.made
                }
            }
        case .snapshot(let snapshot):
            made = try inTransaction(db, clock) { work in
                follow(work)
                joining = try work.step(snapshot, rows: rows, &joined)
                try JoinPlace.note(joining, db)
                return work.made
            }
        }
        pace.note(joined, lastTime)
        return made
    }

    /// Reads the vector, the open work and the rows of the base: for the removal of a member, and for tests.
    func inspect<T>(_ db: Database, clock: HybridTime, _ body: (Inspection) throws -> T) throws -> T {
        try inTransaction(db, clock) { try body(Inspection(work: $0)) }
    }

    /// The program has renamed a column of a tracked table.
    func rename(
        _ db: Database, clock: HybridTime, _ column: String, to name: String, of table: String
    ) throws {
        try inTransaction(db, clock, seesForeign: false) { try $0.rename(column, to: name, of: table) }
    }

    /// Tracks a table of the program, which has no rows yet; or looks again at the columns of one that is tracked.
    func track(_ db: Database, clock: HybridTime, _ table: TrackedTable) throws {
        try inTransaction(db, clock, seesForeign: false) { try $0.track(table) }
        try inTransaction(db, clock) { try $0.showTrackedTables() }
    }

    /// Tracks a table of the program that may have rows, unless its columns are tracked already.
    func trackIfChanged(_ db: Database, clock: HybridTime, _ table: String) throws {
        try inTransaction(db, clock, seesForeign: false) { try $0.trackIfChanged(table) }
    }

    /// Keeps the next values that the program's schema lacks a place for.
    ///
    /// - Returns: Whether there may be more.
    func keepDroppedValues(_ db: Database, clock: HybridTime) throws -> Bool {
        var progress = dropped
        let hasMore = try inTransaction(db, clock, seesForeign: false) { work in
            try DroppedValues(work).keep(after: &progress, limit: sliceLimit == .max ? Int(Int32.max) : sliceLimit)
        }
        dropped = hasMore ? progress : DroppedValues.Progress()
        return hasMore
    }

    /// Makes a commit of the next rows that tables had before they were tracked.
    ///
    /// - Returns: Whether there may be more.
    func adopt(_ db: Database, clock: HybridTime) throws -> Bool {
        var last = adopted
        let hasMore = try inTransaction(db, clock) { try $0.adopt(after: &last) }
        adopted = last
        return hasMore
    }
}
