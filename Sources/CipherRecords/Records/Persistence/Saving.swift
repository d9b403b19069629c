import CipherDatabase
import CipherSchema

// Saving: an update of the row where there is one, an insertion otherwise.

extension MutablePersistableRecord {
    /// Updates the row that has the record's primary key; inserts the record where there is none, and where the key is
    /// NULL.
    public mutating func save(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) throws {
        try save(db, by: { try $0.saveWithCallbacks(db, onConflict: conflictResolution, returning: nil) })
    }

    /// Updates the row that has the record's primary key, or inserts the record.
    ///
    /// - Returns: The record as it is then, with its new key.
    public func saved(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) throws -> Self {
        var record = self
        try record.save(db, onConflict: conflictResolution)
        return record
    }

    /// Updates the row that has the record's primary key or inserts the record, and reads the row as it is then.
    public func saveAndFetch(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) throws -> Self where Self: FetchableRecord {
        var record = self
        return try record.saveAndFetch(db, onConflict: conflictResolution, as: Self.self)
    }

    /// Updates the row that has the record's primary key or inserts the record, and reads the row as another type.
    public mutating func saveAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil, as type: T.Type
    ) throws -> T {
        let fetched = try saveAndFetch(
            db, onConflict: conflictResolution, selection: T.databaseSelection, fetch: { try T.fetchOne($0) })
        guard let fetched else { throw recordNotFound(db) }
        return fetched
    }

    /// Updates the row that has the record's primary key or inserts the record, and reads what the statement returns.
    public mutating func saveAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        selection: [any SQLSelectable], fetch: (Statement) throws -> T
    ) throws -> T {
        // An update that matches no row returns none: the insertion reads then.
        try Self.fetching(selection, fetch) { returning in
            try save(db, by: { try $0.saveWithCallbacks(db, onConflict: conflictResolution, returning: returning) })
        }
    }

    /// Updates the row that has the record's primary key or inserts the record, and reads what the statement returns.
    public mutating func saveAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        fetch: (Statement) throws -> T, select: (DatabaseComponents) throws -> [any SQLSelectable]
    ) throws -> T {
        try saveAndFetch(
            db, onConflict: conflictResolution, selection: select(Self.databaseComponents), fetch: fetch)
    }

    private mutating func saveWithCallbacks(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution?, returning: Returning?
    ) throws -> PersistenceSuccess {
        let table = try db.records().table(of: type(of: self), db)
        let container = try table.container(of: self)
        if table.keyValues(in: container) != nil {
            do {
                return try updateWithCallbacks(
                    db, onConflict: conflictResolution, columns: .all, returning: returning)
            } catch let error as RecordError where error == table.notFound(container) {
                // There is no such row yet.
            }
        }
        if let returning {
            return try insertWithCallbacks(db, onConflict: conflictResolution, returning: returning)
        }
        return try insertWithCallbacks(db, onConflict: conflictResolution)
    }
}

extension PersistableRecord {
    /// Updates the row that has the record's primary key; inserts the record where there is none, and where the key is
    /// NULL.
    public func save(_ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil) throws {
        var record: some MutablePersistableRecord = self
        try record.save(db, onConflict: conflictResolution)
    }

    /// Updates the row that has the record's primary key or inserts the record, and reads the row as another type.
    public func saveAndFetch<T: FetchableRecord & TableRecord>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        as type: T.Type
    ) throws -> T {
        var record: some MutablePersistableRecord = self
        return try record.saveAndFetch(db, onConflict: conflictResolution, as: type)
    }

    /// Updates the row that has the record's primary key or inserts the record, and reads what the statement returns.
    public func saveAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        selection: [any SQLSelectable], fetch: (Statement) throws -> T
    ) throws -> T {
        var record: some MutablePersistableRecord = self
        return try record.saveAndFetch(
            db, onConflict: conflictResolution, selection: selection, fetch: fetch)
    }

    /// Updates the row that has the record's primary key or inserts the record, and reads what the statement returns.
    public func saveAndFetch<T>(
        _ db: Database, onConflict conflictResolution: Database.ConflictResolution? = nil,
        fetch: (Statement) throws -> T, select: (DatabaseComponents) throws -> [any SQLSelectable]
    ) throws -> T {
        try saveAndFetch(
            db, onConflict: conflictResolution, selection: select(Self.databaseComponents), fetch: fetch)
    }
}
