import CipherDatabase

/// Writes the changes of a tracked table's rows into the history of changes, where the table's own triggers do not.
struct RowHistory {
    private let recorder: HistoryRecorder
    /// The number of the recording.
    var recording: Int64 { recorder.id }
    private let table: DeltaTable
    /// The places of the recorded key's columns in a ``RowKey``.
    private let keyPlaces: [Int]
    /// The places of the columns in a row; nil for generated ones, of which a delta has no values.
    private let keptPlaces: [Int?]
    private let notedPlaces: [Int?]

    /// - Returns: nil where the table is not recorded.
    /// - Throws: ``SyncError`` `.damagedRepository` where another key is recorded.
    init?(of tracked: TrackedTable, in db: Database) throws {
        guard let recorder = try db.historyRecorder(of: tracked.name) else { return nil }
        (self.recorder, table) = (recorder, tracked.table)
        let keyColumns = tracked.table.keyColumns
        keyPlaces = try recorder.keyColumns.map { name in
            guard let place = keyColumns.firstIndex(where: { DeltaTable.areSame(tracked.table.columns[$0], name) })
            else {
                throw CommitStore.damaged("The history of changes has another key.")
            }
            return place
        }
        keptPlaces = recorder.keptColumns.map(tracked.index(ofColumn:))
        notedPlaces = recorder.notedColumns.map(tracked.index(ofColumn:))
    }

    func record(_ change: RowChange) throws {
        let cells = table.key(of: change.keyRecord).exactValues
        let key = keyPlaces.count == 1 ? cells : keyPlaces.map { cells[$0] }
        switch change.operation {
        case .insert: try recorder.record(.inserted, key: key)
        case .update: try recorder.record(.updated, key: key, changed: changedColumns(change))
        case .delete: try recorder.record(.deleted, key: key, kept: keptValues(change))
        }
    }

    /// A generated column counts as changed: what it depends on may have.
    private func changedColumns(_ change: RowChange) -> [Int] {
        guard !notedPlaces.isEmpty, let new = change.new?.cells else { return [] }
        return notedPlaces.indices.filter { notedPlaces[$0].map { new[$0].first != Cell.undefined } ?? true }
    }

    private func keptValues(_ change: RowChange) -> [ExactValue] {
        guard !keptPlaces.isEmpty, let old = change.old?.cells else { return [] }
        return keptPlaces.map { $0.flatMap { Cell.value(of: old[$0]).exact } ?? .null }
    }
}
