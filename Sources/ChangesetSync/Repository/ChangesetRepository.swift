import CipherDatabase
import Foundation
import StoreCrypto
import Synchronization

/// The repository of a store: the commits of its tracked tables, for exchange with other devices.
///
/// ```swift
/// let repository = try ChangesetRepository(dbWriter)
/// let player = try repository.commit { db in try Player(name: "Ann").inserted(db) }
/// try await SyncManager(repository, folder: "/mnt/share").sync()
/// ```
///
/// The rows are the join of all commits that were pulled. Any process that has the store open may use the repository.
///
/// Every table of the program with a primary key is tracked, unless the program names the tables: also one that is made
/// later. The next call of the repository that writes tracks it, and commits the rows that it has. Tables of this library,
/// of GRDB and of virtual tables are left out.
// Safe because: the replica is used inside write accesses of the writer alone, which are serial.
public final class ChangesetRepository: @unchecked Sendable {
    /// The tables to track.
    public enum Tracking: Sendable {
        /// Every table that has a primary key.
        case all
        case only([String])
        /// The tables that the store tracks already, and no further ones.
        case existing
    }

    /// Follows the rows that a pull has changed, in the same transaction.
    public typealias AfterApply = @Sendable (Database, [SyncRowChange]) throws -> Void

    let writer: any DatabaseWriter
    let replica: Replica
    let tracking: Tracking
    let clock: @Sendable () -> HybridTime
    /// The version of the schema whose tables are tracked.
    private var trackedSchema: Int32?
    private let limits = Mutex(SyncHistoryLimits())

    /// Makes the tables of the repository if there are none, and tracks tables with the rows that they have.
    ///
    /// - Parameters:
    ///   - dbWriter: A shared store, a pool or a queue.
    ///   - name: The name of this device for other members, at most 255 bytes.
    ///   - afterApply: Called in each transaction of a pull that changes rows, after them: for tables that are derived from
    ///     tracked ones. It must not write tracked tables.
    /// - Throws: ``EngineError`` `.nullKey` if a row has NULL in its key; `.noSuchTable`, `.unsuitableTable`;
    ///   `DatabaseError`.
    public convenience init(
        _ dbWriter: any DatabaseWriter, tracking: Tracking = .all, named name: String = "",
        afterApply: AfterApply? = nil
    ) throws {
        try self.init(dbWriter, tracking: tracking, named: name, settings: Replica.Settings(), afterApply: afterApply)
    }

    /// - Parameter clock: The clock of the device.
    package init(
        _ dbWriter: any DatabaseWriter, tracking: Tracking = .all, named name: String = "",
        settings: Replica.Settings, clock: @escaping @Sendable () -> HybridTime = Clock.now,
        afterApply: AfterApply? = nil
    ) throws {
        (writer, self.tracking, self.clock) = (dbWriter, tracking, clock)
        replica = Replica(settings: settings)
        replica.afterApply = afterApply
        try writer.unsafeReentrantWrite { db in
            if db.isInsideTransaction { throw EngineError(.insideTransaction) }
            if try !Self.exists(db) { try Self.found(db, named: name, now: clock()) }
        }
        try prepare()
    }

    /// Opens the repository that a store has, and writes nothing: also for a store that is open for reading alone.
    ///
    /// - Throws: ``EngineError`` `.noRepository`; `DatabaseError`.
    package init(
        existing dbWriter: any DatabaseWriter, clock: @escaping @Sendable () -> HybridTime = Clock.now
    ) throws {
        (writer, tracking, self.clock) = (dbWriter, .existing, clock)
        replica = Replica(settings: Replica.Settings())
        if try !dbWriter.read(Self.exists) { throw EngineError(.noRepository) }
    }

    /// Reads the rows, and the records ``Changeset`` and ``Head``.
    public var reader: any DatabaseReader { writer }

    /// How long the store keeps deletions and the changes of commits. They are those of this object, and not stored.
    public var historyLimits: SyncHistoryLimits {
        get { limits.withLock { $0 } }
        set { limits.withLock { $0 = newValue } }
    }

    /// The clock of this device.
    package enum Clock {
        package static let now: @Sendable () -> HybridTime = {
            HybridTime(wallClock: Int64(Date().timeIntervalSince1970 * 1_000))
        }
    }

    // MARK: Founding

    static func exists(_ db: Database) throws -> Bool {
        let name = EngineTables.state.dropFirst("main.".count)
        return try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE name = ?)", arguments: [String(name)])
            ?? false
    }

    private static func found(_ db: Database, named name: String, now: HybridTime) throws {
        let keys = try ReplicaKeys.random()
        let (list, secrets) = try MemberList.founding(keys, named: name, time: now.milliseconds)
        try create(
            db, list.repository, keys, roster: SecretBytes.random(count: EpochContent.secretBytes),
            Array(list.records.values), secrets)
    }

    /// - Parameter adoptsAsOld: Whether the rows of a store that has a repository lose against those of others.
    static func create(
        _ db: Database, _ repository: RepositoryID, _ keys: ReplicaKeys, roster: SecretBytes,
        _ records: [MemberRecord], _ secrets: EpochSecrets, adoptsAsOld: Bool = false
    ) throws {
        try db.writingOwnRows {
            try db.inTransaction(.immediate) {
                if try exists(db) {
                    try Replica.replace(db, repository: repository, author: keys.id, adoptsAsOld: adoptsAsOld)
                } else {
                    try Replica.create(db, repository: repository, author: keys.id)
                }
                let rows = MemberRows(db: db)
                try rows.setIdentity(keys, roster: roster)
                _ = try rows.add(records)
                try Work.noteRejected(db, records, of: repository)
                _ = try rows.keep(secrets)
                return .commit
            }
        }
    }

    // MARK: Tracking

    /// Tracks the tables that the program has made since, and adopts their rows.
    func prepare() throws {
        var isReady = try writer.unsafeReentrantWrite(isPrepared)
        if isReady { return }
        while !isReady { isReady = try trackTables() }
        // Each slice is a transaction, so others write in between.
        while try writer.unsafeReentrantWrite({ try replica.adopt($0, clock: clock()) }) {}
    }

    /// Keeps what the program has dropped, and then tracks what it has made.
    ///
    /// - Returns: false if the schema has changed in between.
    private func trackTables() throws -> Bool {
        var schema: Int32?
        var hasMore = true
        while hasMore {
            hasMore = try writer.unsafeReentrantWrite { db in
                let hasMore = try replica.keepDroppedValues(db, clock: clock())
                schema = try db.schemaVersion()
                return hasMore
            }
        }
        return try writer.unsafeReentrantWrite { db in
            if try db.schemaVersion() != schema { return false }
            for name in try tableNames(db) { try replica.trackIfChanged(db, clock: clock(), name) }
            trackedSchema = try db.schemaVersion()
            return true
        }
    }

    /// Whether the tables of the program are tracked.
    private func isPrepared(_ db: Database) throws -> Bool {
        // Inside a commit it waits for the next one.
        if db.captureSession.capture.isActive { return true }
        if db.isInsideTransaction { throw EngineError(.insideTransaction) }
        return try trackedSchema == db.schemaVersion()
    }

    private func tableNames(_ db: Database) throws -> [String] {
        if case .only(let names) = tracking { return names }
        let all = try ProgramTables(db).names.filter { name in
            try Bool.fetchOne(
                db, sql: "SELECT EXISTS (SELECT 1 FROM pragma_table_xinfo(?, 'main') WHERE pk > 0)",
                arguments: [name]) ?? false
        }
        guard case .existing = tracking else { return all }
        let tracked = try String.fetchAll(
            db, sql: "SELECT local FROM \(EngineTables.table) WHERE local IS NOT NULL")
        return all.filter(tracked.contains)
    }

    // MARK: Commits

    /// Writes in a transaction, and makes the changes of the tracked tables a commit.
    ///
    /// If nothing has changed there is no commit. A commit inside another one is a part of it, with the description of the
    /// outer one; an error undoes the inner one alone.
    ///
    /// - Parameters:
    ///   - meta: JSON of the program that describes the commit.
    ///   - updates: Writes; it must not change the definitions of tracked tables.
    /// - Returns: The value of the block.
    /// - Throws: The error of `updates`; ``EngineError`` `.nullKey`, `.inexactText`, `.schemaChangedInCommit`,
    ///   `.transactionEndedInCommit`, `.captureDisabled`, `.temporaryTrigger`, `.insideTransaction`; `DatabaseError`.
    ///   Nothing is changed then.
    public func commit<T>(meta: String = "{}", _ updates: (Database) throws -> T) throws -> T {
        do {
            // Most commits need no other access.
            return try commit(meta, ifPrepared: true, updates)
        } catch is Replica.UnpreparedSchema {
            try prepare()
            return try commit(meta, ifPrepared: false, updates)
        }
    }

    private func commit<T>(_ meta: String, ifPrepared: Bool, _ updates: (Database) throws -> T) throws -> T {
        try writer.unsafeReentrantWrite { db in
            guard ifPrepared, !db.captureSession.capture.isActive else {
                return try replica.record(db, clock: clock(), meta: meta, updates).value
            }
            if db.isInsideTransaction { throw EngineError(.insideTransaction) }
            guard let trackedSchema else { throw Replica.UnpreparedSchema() }
            return try replica.record(db, clock: clock(), meta: meta, schema: trackedSchema, updates).value
        }
    }

    // MARK: Looking

    /// Looks at one state of the store, in a transaction that writes nothing.
    func looking<T>(_ body: (Work) throws -> T) throws -> T {
        try writer.unsafeReentrantRead { db in
            try db.isolated {
                try body(Work(db, replica.settings, DefinitionCache(), clock: clock()))
            }
        }
    }

    /// Runs the work of a transaction.
    func working<T>(_ body: (Work) throws -> T) throws -> T {
        try prepare()
        return try writer.unsafeReentrantWrite { db in
            if db.isInsideTransaction { throw EngineError(.insideTransaction) }
            return try replica.inTransaction(db, clock(), body)
        }
    }
}
