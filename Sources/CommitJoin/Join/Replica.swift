import CipherDatabase

/// One store of a repository: it records what the program writes, and joins what others have written.
///
/// Each function is one transaction. A kill loses only the place in a join, which begins again. It has one user at a
/// time, who also gives the connection: always the same one.
package final class Replica {
    package struct Settings: Sendable {
        /// The most rows of one transaction of a join; 0 for no limit.
        package var sliceRows = 50_000
        /// How far a time may be ahead of the clock to be adopted, in the unit of ``HybridTime``: a day.
        package var clockBound: UInt64 = 86_400_000 << 16

        package init() {}
    }

    package var settings: Settings
    private let definitions = DefinitionCache()
    private var joining: Joining?

    package init(settings: Settings = Settings()) { self.settings = settings }

    /// Makes the tables of the engine. Inside a transaction.
    package static func create(_ db: Database, repository: RepositoryID, author: ReplicaID) throws {
        try db.writingOwnRows {
            try db.execute(sql: EngineTables.creation)
            try ReplicaState.create(db, repository: repository, author: author)
        }
    }

    /// Whether a join has begun and has not ended.
    package var isJoining: Bool { joining != nil }

    private func inTransaction<T>(_ db: Database, _ clock: HybridTime, _ body: (Work) throws -> T) throws -> T {
        let joining = self.joining
        do {
            return try db.withForeignKeysAndTriggersSuspended {
                var result: T?
                try db.writingOwnRows {
                    try db.inTransaction(.immediate) {
                        let work = try Work(db, settings, definitions, clock: clock)
                        result = try body(work)
                        try work.finish()
                        return .commit
                    }
                }
                guard let result else { throw EngineError(.damagedStore) }
                return result
            }
        } catch {
            self.joining = joining
            throw error
        }
    }

    // MARK: The program

    /// Runs a block of the program and records what it changes as a commit.
    ///
    /// - Parameter body: Writes, and returns what it has changed.
    /// - Returns: The commit; nil if nothing has changed.
    package func record(
        _ db: Database, clock: HybridTime, meta: String = "{}", _ body: () throws -> [ProgramChange]
    ) throws -> EncodedCommit? {
        try inTransaction(db, clock) { work in
            let changes = try db.withForeignKeysAndTriggersResumed(foreignKeys: db.isConfiguredForForeignKeys) {
                try db.runningProgram(body)
            }
            return try work.record(changes, meta: meta)
        }
    }

    /// Runs a block of the program and makes what it writes to tracked tables a commit, in the same transaction.
    ///
    /// A commit inside another one is a part of it; an error undoes the inner one alone.
    ///
    /// - Parameter body: Writes. It must not change the definitions of tracked tables.
    /// - Returns: The value of the block, and the commit; nil if nothing has changed, or inside another commit.
    /// - Throws: The error of the block; ``EngineError``; `DatabaseError`. Nothing is changed then.
    package func record<T>(
        _ db: Database, clock: HybridTime, meta: String = "{}", _ body: (Database) throws -> T
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
        return try inTransaction(db, clock) { work in
            let (value, changes) = try session.capturing(db, work.catalog) {
                try db.withForeignKeysAndTriggersResumed(foreignKeys: db.isConfiguredForForeignKeys) {
                    try db.runningProgram { try body(db) }
                }
            }
            return (value, try work.record(changes, meta: meta))
        }
    }

    /// Makes a commit with events and without rows.
    package func announce(_ db: Database, clock: HybridTime, _ events: [RepositoryEvent]) throws -> EncodedCommit {
        try inTransaction(db, clock) { work in
            try work.commit([], events: events)
        }
    }

    /// The store comes from a copy: its next commit begins a branch.
    package func beginBranch(_ db: Database, clock: HybridTime) throws {
        try inTransaction(db, clock) { $0.state.beginsBranch = true }
    }

    // MARK: Receiving

    /// Stores a commit and joins nothing.
    package func fetch(_ db: Database, clock: HybridTime, _ commit: EncodedCommit) throws {
        try inTransaction(db, clock) { try $0.fetch(commit) }
    }

    /// The fetched commits that can be joined now, in order.
    package func ready(_ db: Database, clock: HybridTime) throws -> [EncodedCommit] {
        try inTransaction(db, clock) { try $0.ready() }
    }

    /// Joins a commit, or its first slice.
    ///
    /// - Returns: The commits that this store has made: revivals.
    @discardableResult
    package func begin(_ db: Database, clock: HybridTime, _ author: ReplicaID, _ tip: Tip) throws -> [EncodedCommit] {
        if joining != nil { throw EngineError(.betweenSlices) }
        return try refusing(db, clock, author, tip) {
            try inTransaction(db, clock) { work in
                joining = try work.begin(author, tip)
                return work.made
            }
        }
    }

    /// Refuses a commit for good if it names what its author cannot have known. Commits of others are joined as before.
    private func refusing<T>(
        _ db: Database, _ clock: HybridTime, _ author: ReplicaID, _ tip: Tip, _ body: () throws -> T
    ) throws -> T {
        do {
            return try body()
        } catch let error as EngineError where error.code == .unknownCommit {
            joining = nil
            try inTransaction(db, clock) { try $0.commits.refuse(author, tip) }
            throw error
        }
    }

    /// Begins to join a snapshot. Nothing of it is joined before ``step(_:clock:)``.
    package func begin(_ db: Database, clock: HybridTime, _ snapshot: Snapshot) throws {
        if joining != nil { throw EngineError(.betweenSlices) }
        try inTransaction(db, clock) { joining = try $0.begin(snapshot) }
    }

    /// Joins the next slice.
    @discardableResult
    package func step(_ db: Database, clock: HybridTime) throws -> [EncodedCommit] {
        switch joining {
        case .commit(let commit):
            return try refusing(db, clock, commit.commit.commit.author, commit.commit.tip) {
                try inTransaction(db, clock) { work in
                    joining = try work.step(commit)
                    return work.made
                }
            }
        case .snapshot(let snapshot):
            return try inTransaction(db, clock) { work in
                joining = try work.step(snapshot)
                return work.made
            }
        case nil: return []
        }
    }

    /// Makes a snapshot; nil between two slices.
    package func snapshot(_ db: Database, clock: HybridTime) throws -> Snapshot? {
        try inTransaction(db, clock) { try $0.snapshot() }
    }

    /// The bodies of commits go, which a snapshot covers; and the rows of those who died, if their tombstones are gone.
    package func forget(_ db: Database, clock: HybridTime, tombstones: Bool) throws {
        try inTransaction(db, clock) { work in
            try work.commits.forgetBodies()
            if tombstones { try work.forgetTombstones(graves: true) }
        }
    }

    /// The grace period is over: tombstones go.
    package func forgetTombstones(_ db: Database, clock: HybridTime) throws {
        try inTransaction(db, clock) { try $0.forgetTombstones(graves: false) }
    }

    /// The faults and open work, and all rows of the base: for tests.
    package func inspect<T>(_ db: Database, clock: HybridTime, _ body: (Inspection) throws -> T) throws -> T {
        try inTransaction(db, clock) { try body(Inspection(work: $0)) }
    }

    /// The program has renamed a column of a tracked table.
    package func rename(
        _ db: Database, clock: HybridTime, _ column: String, to name: String, of table: String
    ) throws {
        try inTransaction(db, clock) { try $0.rename(column, to: name, of: table) }
    }

    /// Tracks a table of the program, which has no rows yet; or looks again at the columns of one that is tracked.
    package func track(_ db: Database, clock: HybridTime, _ table: TrackedTable) throws {
        try inTransaction(db, clock) { try $0.track(table) }
    }
}
