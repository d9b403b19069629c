import CipherDatabase

extension ForeignChange {
    /// Whether it touches a region, as far as that is known.
    func touches(_ region: DatabaseRegion) -> Bool {
        switch self {
        case .nothing: false
        case .everything: !region.isEmpty
        case .recorded(let changes): changes.touch(region)
        }
    }
}

extension RecordedChanges {
    fileprivate func touch(_ region: DatabaseRegion) -> Bool {
        guard let names = region.tableNames else {
            return !coversAllTables || !entries.isEmpty || !changedTables.isEmpty
        }
        for name in names.map(\.lowercasedASCII) where !tables.contains(name) || changedTables.contains(name) {
            return true
        }
        return entries.contains { $0.touches(region) }
    }
}

extension HistoryEntry {
    fileprivate func touches(_ region: DatabaseRegion) -> Bool {
        // Of what is not recorded, any kind of change counts.
        var kind = DatabaseEventKind.delete(tableName: tableName)
        var eventKind = DatabaseEvent.Kind.delete
        switch operation {
        case .inserted: (kind, eventKind) = (.insert(tableName: tableName), .insert)
        case .updated:
            eventKind = .update
            if let columns { kind = .update(tableName: tableName, columnNames: columns) }
        case .deleted, .perhapsDeleted, .reset: break
        }
        guard region.isModified(byEventsOfKind: kind) else { return false }
        guard let rowID else { return true }
        return region.isModified(
            by: DatabaseEvent(kind: eventKind, rowID: rowID, databaseName: "main", tableName: tableName))
    }
}
