/// The state of a connection for its observers: the observer, and the reads of the access under way.
final class StatementWatch: ConnectionFeature {
    static let key = FeatureKey<StatementWatch>(.watch)

    /// Keeps the observer when the connection is replaced by another one.
    var keeper = ObserverKeeper()
    /// The region that the access has read since the recording began; nil while nothing is recorded.
    @exclusivity(unchecked) var recordedReads: RecordedReads?
    /// The observable part of the region that was recorded last.
    var observableReads: ObservableReads?

    func willRun(_ statement: Statement, on db: Database) throws {
        recordReads(by: statement)
        guard let observer = keeper.observer, !statement.isReadonly, !db.transaction.isUpkeep else { return }
        observer.statementWillRun(statement, on: db)
        // If the schema has changed, SQLite compiles the statement again in its first step.
        db.hooks.record = AccessRecord(includesReads: false)
    }

    func willClose(_ db: Database) {
        keeper = ObserverKeeper()
        db.writing.link = nil
        db.features.isWatching = false
    }
}

extension Database {
    /// Its state for observers, made for the first one.
    var watch: StatementWatch {
        if let watch = features[StatementWatch.key] { return watch }
        let watch = StatementWatch()
        features.add(watch, for: StatementWatch.key, at: [.watch, .close])
        return watch
    }
}
