/// What happened to one row: it was inserted, updated or deleted.
///
/// An insertion has the new values of all columns, a deletion the old ones. An update has the old values of the key and
/// of the columns that changed, and the new values of the latter; all other values are undefined. A change of the key
/// is a deletion and an insertion.
package struct RowChange: Sendable {
    /// The operations and the bytes that stand for them.
    package enum Operation: UInt8, Sendable {
        case delete = 0x09
        case insert = 0x12
        case update = 0x17

        /// Deletions come first in a delta, then updates, then insertions.
        var rank: Int {
            switch self {
            case .delete: 0
            case .update: 1
            case .insert: 2
            }
        }
    }

    package let operation: Operation
    /// Whether a trigger or a foreign key made the change.
    let isIndirect: Bool
    let columnCount: Int
    /// The encoded values: those of an update are the old ones, then the new ones.
    let records: ArraySlice<UInt8>
    /// Where the new values of an update begin.
    let middle: Int

    /// Takes bytes that are known to be whole records.
    init(valid operation: Operation, indirect: Bool, _ records: ArraySlice<UInt8>, middle: Int, columnCount: Int) {
        self.operation = operation
        isIndirect = indirect
        self.columnCount = columnCount
        self.records = records
        self.middle = middle
    }

    package static func insert(_ new: DeltaRecord, indirect: Bool = false) -> RowChange {
        RowChange(
            valid: .insert, indirect: indirect, new.bytes, middle: new.bytes.startIndex, columnCount: new.columnCount)
    }

    package static func delete(_ old: DeltaRecord, indirect: Bool = false) -> RowChange {
        RowChange(
            valid: .delete, indirect: indirect, old.bytes, middle: old.bytes.endIndex, columnCount: old.columnCount)
    }

    /// - Throws: ``DeltaError`` when the records have different numbers of values. ``TableDelta`` checks the values.
    package static func update(
        old: DeltaRecord, new: DeltaRecord, indirect: Bool = false
    ) throws(DeltaError) -> RowChange {
        guard old.columnCount == new.columnCount else {
            throw DeltaError(.valueCount(new.columnCount, columns: old.columnCount))
        }
        let records = Array(old.bytes) + Array(new.bytes)
        return RowChange(
            valid: .update, indirect: indirect, records[...], middle: old.bytes.count, columnCount: old.columnCount)
    }

    /// The same change, not made by a trigger or a foreign key.
    var direct: RowChange {
        if !isIndirect { return self }
        return RowChange(valid: operation, indirect: false, records, middle: middle, columnCount: columnCount)
    }

    /// The old values; nil of an insertion.
    package var old: DeltaRecord? {
        operation == .insert ? nil : DeltaRecord(valid: records[..<middle], columnCount: columnCount)
    }

    /// The new values; nil of a deletion.
    package var new: DeltaRecord? {
        operation == .delete ? nil : DeltaRecord(valid: records[middle...], columnCount: columnCount)
    }

    /// The record that has the key.
    var keyRecord: DeltaRecord {
        let bytes = operation == .update ? records[..<middle] : records
        return DeltaRecord(valid: bytes, columnCount: columnCount)
    }
}

extension RowChange: Hashable {
    package static func == (left: RowChange, right: RowChange) -> Bool {
        left.operation == right.operation && left.isIndirect == right.isIndirect
            && left.columnCount == right.columnCount && ByteOrder.areEqual(left.records, right.records)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(operation)
        records.withUnsafeBytes { hasher.combine(bytes: $0) }
    }
}

/// Changes of a table.
extension DeltaTable {
    /// The change from one state of a row to another. Both records are complete and have the same key; nil is a row
    /// that does not exist.
    ///
    /// - Returns: nil when nothing changed.
    package func change(
        from old: DeltaRecord?, to new: DeltaRecord?, indirect: Bool = false
    ) throws(DeltaError) -> RowChange? {
        let change: RowChange?
        switch (old, new) {
        case (nil, nil): change = nil
        case (nil, let new?): change = .insert(new, indirect: indirect)
        case (let old?, nil): change = .delete(old, indirect: indirect)
        case (let old?, let new?):
            guard old.columnCount == columns.count, new.columnCount == columns.count else {
                throw DeltaError(.valueCount(min(old.columnCount, new.columnCount), columns: columns.count))
            }
            guard key(of: old) == key(of: new) else { throw DeltaError(.keyInNewValues) }
            change = update(from: old.cells, to: new.cells, indirect: indirect)
        }
        if let change { do { try check(change) } catch { throw error.counted(from: nil) } }
        return change
    }

    /// The update between cells of the same row, without those that are equal or undefined; nil when none is left.
    func update(from old: [ArraySlice<UInt8>], to new: [ArraySlice<UInt8>], indirect: Bool) -> RowChange? {
        let changed = columns.indices.map { keyOrdinals[$0] == 0 && !ByteOrder.areEqual(old[$0], new[$0]) }
        guard changed.contains(true) else { return nil }
        var records: [UInt8] = []
        records.reserveCapacity(2 * columns.count + columns.indices.reduce(0) { $0 + old[$1].count + new[$1].count })
        for column in columns.indices {
            if changed[column] || keyOrdinals[column] != 0 {
                records.append(contentsOf: old[column])
            } else {
                records.append(Cell.undefined)
            }
        }
        let middle = records.count
        for column in columns.indices {
            if changed[column] { records.append(contentsOf: new[column]) } else { records.append(Cell.undefined) }
        }
        return RowChange(
            valid: .update, indirect: indirect, records[...], middle: middle, columnCount: columns.count)
    }

    /// Throws unless the change is one that a row of this table can have.
    func check(_ change: RowChange) throws(DeltaError) {
        let start = change.records.startIndex
        guard change.columnCount == columns.count else {
            throw DeltaError(.valueCount(change.columnCount, columns: columns.count), at: start)
        }
        if change.operation == .update { try checkUpdate(change) } else { try checkRow(change.records) }
    }

    private func checkRow(_ record: ArraySlice<UInt8>) throws(DeltaError) {
        var index = record.startIndex
        for ordinal in keyOrdinals {
            let end = try Cell.end(of: record, at: index)
            guard record[index] != Cell.undefined else {
                throw DeltaError(ordinal == 0 ? .undefinedInRow : .keyUndefined, at: index)
            }
            if ordinal != 0, record[index] == Cell.null { throw DeltaError(.nullKey, at: index) }
            index = end
        }
    }

    private func checkUpdate(_ change: RowChange) throws(DeltaError) {
        let records = change.records
        var (old, new) = (records.startIndex, change.middle)
        var changesSomething = false
        for ordinal in keyOrdinals {
            let ends = (old: try Cell.end(of: records, at: old), new: try Cell.end(of: records, at: new))
            let isDefined = (old: records[old] != Cell.undefined, new: records[new] != Cell.undefined)
            if ordinal != 0 {
                guard isDefined.old else { throw DeltaError(.keyUndefined, at: old) }
                guard records[old] != Cell.null else { throw DeltaError(.nullKey, at: old) }
                guard !isDefined.new else { throw DeltaError(.keyInNewValues, at: new) }
            } else {
                guard isDefined.old == isDefined.new else { throw DeltaError(.halfUpdatedColumn, at: new) }
                if isDefined.old, ByteOrder.areEqual(records[old..<ends.old], records[new..<ends.new]) {
                    throw DeltaError(.unchangedColumn, at: new)
                }
                changesSomething = changesSomething || isDefined.new
            }
            (old, new) = ends
        }
        guard changesSomething else { throw DeltaError(.updateWithoutChange, at: records.startIndex) }
    }
}
