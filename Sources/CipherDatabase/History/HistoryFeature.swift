/// The state of a connection for the history of changes: the stamp of the transaction under way, and the upkeep that
/// is due.
final class HistoryFeature: ConnectionFeature {
    static let key = FeatureKey<HistoryFeature>(.history)

    /// The time and author of the transaction under way as one number; 0 until it is asked for.
    @exclusivity(unchecked) var stamp: Int64 = 0
    /// Finds it. Called while a trigger runs.
    var makeStamp: (() throws -> Int64)?
    /// The statements that find it, once a row was recorded.
    var stamping: HistoryStamping?
    /// Whether a commit writes the history of its tables, so that their triggers pause. A transaction cannot be committed
    /// meanwhile, and one that is rolled back ends the pause.
    @exclusivity(unchecked) var isPaused = false
    /// How many rows of the history the connection has written since the last purge.
    @exclusivity(unchecked) var rows = 0
    /// After how many of them it purges some. Small until the limits of the history are known.
    @exclusivity(unchecked) var purgeInterval = Int(DatabaseLimits.historyPurgeStep)
    /// How many changes one part of a purge has.
    var purgeCount = Int64(DatabaseLimits.historyPurgeInterval)
    /// Whether rows may have other rowids since the triggers were last checked.
    private var hasVacuumed = false

    // MARK: Moments

    /// Adds it to a connection that has just been opened.
    static func add(to db: Database) {
        db.features.add(db.hooks.history, for: key, at: [.willChangeSchema, .didChangeSchema, .didFail, .close])
    }

    func willChangeSchema(_ statement: Statement, on db: Database) throws {
        guard db.keepsHistory, let (name, dropsColumn) = statement.alteredTable else { return }
        try db.historyWillAlterTable(name, dropsColumn: dropsColumn)
    }

    func didChangeSchema(_ effects: StatementEffects, isForeign: Bool, on db: Database) {
        if isForeign { return }
        if effects.contains(.vacuum) { hasVacuumed = true }
        if db.needsTriggerUpkeep(after: effects) { db.features.want(.didRun, for: Self.key) }
    }

    func didRun(on db: Database) throws {
        db.features.want(.didRun, false, for: Self.key)
        let hasVacuumed = hasVacuumed
        self.hasVacuumed = false
        try db.keepHistory(hasVacuumed: hasVacuumed)
    }

    func didFail(_ statement: Statement, on db: Database) {
        // A missing file is found when the database is opened again.
        if statement.effects.contains(.storedSchema) { try? didRun(on: db) }
    }

    func transactionDidEnd(isCommit: Bool, on db: Database) {
        stamp = 0
        db.connectionKey.author.clock.transactionDidEnd(committing: isCommit)
    }

    func willClose(_ db: Database) {
        stamping?.finalize()
        stamping = nil
        stamp = 0
        db.features.want(.transactionEnd, false, for: Self.key)
    }
}
