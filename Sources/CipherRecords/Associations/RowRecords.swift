import CipherDatabase

// The records within a row: those of its scopes, and those that were prefetched for it.

extension Row {
    // MARK: Scopes

    /// The record of the nearest scope of a name. Traps when there is none, or its row does not fit:
    /// ``decode(_:forKey:)`` throws.
    public subscript<Record: FetchableRecord>(_ key: String) -> Record {
        trapping { try decode(Record.self, forKey: key) }
    }

    /// The record of the nearest scope of a name; nil when there is none, or all of its columns are NULL. Traps when its
    /// row does not fit: ``decodeIfPresent(_:forKey:)`` throws.
    public subscript<Record: FetchableRecord>(_ key: String) -> Record? {
        trapping { try decodeIfPresent(Record.self, forKey: key) }
    }

    /// The record of the nearest scope of a name.
    ///
    /// - Throws: `RowDecodingError` when there is no such scope, and what the record throws.
    public func decode<Record: FetchableRecord>(_ type: Record.Type = Record.self, forKey key: String) throws -> Record
    {
        guard let scope = scopesTree[key], scope.containsNonNullValue else {
            throw decodingError(column: key, at: nil, wanted: type, table: nil)
        }
        return try Record(row: scope)
    }

    /// The record of the nearest scope of a name; nil when there is none, or all of its columns are NULL.
    ///
    /// - Throws: What the record throws.
    public func decodeIfPresent<Record: FetchableRecord>(
        _ type: Record.Type = Record.self, forKey key: String
    ) throws -> Record? {
        guard let scope = scopesTree[key], scope.containsNonNullValue else { return nil }
        return try Record(row: scope)
    }

    // MARK: Prefetched rows

    /// The records of prefetched rows. Traps when there are none of this key: ``decode(_:forKey:)`` throws.
    public subscript<Records: RangeReplaceableCollection>(_ key: String) -> Records
    where Records.Element: FetchableRecord {
        trapping { try decode(Records.self, forKey: key) }
    }

    /// The different records of prefetched rows. Traps when there are none of this key: ``decode(_:forKey:)`` throws.
    public subscript<Record: FetchableRecord & Hashable>(_ key: String) -> Set<Record> {
        trapping { try decode(Set<Record>.self, forKey: key) }
    }

    /// The records of prefetched rows.
    ///
    /// - Throws: `RowDecodingError` when no rows of this key were asked for, and what a record throws.
    public func decode<Records: RangeReplaceableCollection>(
        _ type: Records.Type = Records.self, forKey key: String
    ) throws -> Records where Records.Element: FetchableRecord {
        var records = Records()
        for row in try requiredRows(type, key) { records.append(try Records.Element(row: row)) }
        return records
    }

    /// The different records of prefetched rows.
    ///
    /// - Throws: `RowDecodingError` when no rows of this key were asked for, and what a record throws.
    public func decode<Record: FetchableRecord & Hashable>(
        _ type: Set<Record>.Type = Set<Record>.self, forKey key: String
    ) throws -> Set<Record> {
        try Set(requiredRows(type, key).map { try Record(row: $0) })
    }

    private func requiredRows(_ type: Any.Type, _ key: String) throws -> [Row] {
        if let rows = prefetchedRows[key] { return rows }
        throw decodingError(column: key, at: nil, wanted: type, table: nil)
    }

    private func trapping<T>(_ body: () throws -> T) -> T {
        do {
            return try body()
        } catch {
            ProgrammerError.trap("\(error)")
        }
    }
}
