/// The changeset bytes of SQLite's session extension. Docs/Formats/Changeset.md describes them.
///
/// Reading is strict: a value has one encoding only, no length is believed, and what no transaction can produce is
/// refused.
///
/// - SeeAlso: <https://www.sqlite.org/session/changeset_iter.html>
package enum SessionFormat {
    /// The first byte of a table.
    static let changeset = UInt8(ascii: "T")
    /// The first byte of a table in a patchset, which has no old values.
    static let patchset = UInt8(ascii: "P")

    /// The bytes of a delta, in their canonical order. They contain no names of columns.
    package static func encode(_ delta: Delta) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(byteCount(of: delta))
        append(delta, to: &bytes)
        return bytes
    }

    /// Reads a changeset whose tables and rows come in any order, as the session extension writes them.
    ///
    /// - Parameter columns: Names the columns of a table; the number of them is in the bytes.
    package static func decode(
        _ bytes: ArraySlice<UInt8>, columns: (_ table: String, _ count: Int) throws(DeltaError) -> [String]
    ) throws(DeltaError) -> Delta {
        do {
            let tables = try read(bytes, mustBeCanonical: false) { name, count, _ throws(DeltaError) in
                try columns(name, count)
            }
            return try Delta(tables)
        } catch {
            throw error.counted(from: bytes.startIndex)
        }
    }

    /// The greatest number of bytes that ``append(_:to:)`` may append.
    static func byteCount(of delta: Delta) -> Int {
        delta.tables.reduce(0) { sum, table in
            let header = 1 + 5 + table.table.keyOrdinals.count + table.table.name.utf8.count + 1
            return table.changes.reduce(sum + header) { $0 + 2 + $1.records.count }
        }
    }

    static func append(_ delta: Delta, to bytes: inout [UInt8]) {
        for table in delta.tables {
            bytes.append(changeset)
            Varint.append(table.table.keyOrdinals.count, to: &bytes)
            bytes.append(contentsOf: table.table.keyOrdinals)
            bytes.append(contentsOf: table.table.name.utf8)
            bytes.append(0)
            for change in table.changes {
                bytes.append(change.operation.rawValue)
                bytes.append(change.isIndirect ? 1 : 0)
                bytes.append(contentsOf: change.records)
            }
        }
    }

    /// Reads tables up to the end of the bytes. The offsets of errors are indices.
    ///
    /// - Parameter columns: Names the columns of a table, from its name, the number of its columns and its own number.
    static func read(
        _ bytes: ArraySlice<UInt8>, mustBeCanonical: Bool,
        columns: (_ table: String, _ count: Int, _ number: Int) throws(DeltaError) -> [String]
    ) throws(DeltaError) -> [TableDelta] {
        var reader = ByteReader(bytes)
        var tables: [TableDelta] = []
        while !reader.isAtEnd {
            let start = reader.index
            let (name, ordinals) = try header(&reader)
            let table: DeltaTable
            do {
                let names = try columns(name, ordinals.count, tables.count)
                table = try DeltaTable(name: name, columns: names, keyOrdinals: ordinals)
            } catch {
                throw DeltaError(error.code, at: error.offset ?? start)
            }
            let changes = try changes(&reader, of: table)
            guard !changes.isEmpty else { throw DeltaError(.tableWithoutChanges, at: start) }
            tables.append(try TableDelta(read: changes, of: table, mustBeCanonical: mustBeCanonical))
        }
        return tables
    }

    private static func header(_ reader: inout ByteReader) throws(DeltaError) -> (name: String, ordinals: [UInt8]) {
        let start = reader.index
        switch reader.byte() {
        case changeset: break
        case patchset: throw DeltaError(.patchset, at: start)
        case let byte?: throw DeltaError(.unknownOperation(byte), at: start)
        case nil: throw DeltaError(.truncated, at: start)
        }
        let count = try DeltaError.length(reader.varint(), at: reader.index).value
        guard (1...Limits.columns).contains(count) else { throw DeltaError(.columnCount(count), at: start + 1) }
        guard let ordinals = reader.take(count) else { throw DeltaError(.truncated, at: reader.index) }
        let place = reader.index
        guard let bytes = reader.take(upTo: 0) else { throw DeltaError(.truncated, at: place) }
        guard let name = String(validating: bytes, as: UTF8.self) else { throw DeltaError(.notUTF8, at: place) }
        return (name, Array(ordinals))
    }

    /// The changes up to the header of the next table.
    private static func changes(
        _ reader: inout ByteReader, of table: DeltaTable
    ) throws(DeltaError) -> [RowChange] {
        var changes: [RowChange] = []
        while let byte = reader.next, byte != changeset, byte != patchset {
            guard let operation = RowChange.Operation(rawValue: byte) else {
                throw DeltaError(.unknownOperation(byte), at: reader.index)
            }
            changes.append(try change(operation, &reader, of: table))
        }
        return changes
    }

    private static func change(
        _ operation: RowChange.Operation, _ reader: inout ByteReader, of table: DeltaTable
    ) throws(DeltaError) -> RowChange {
        _ = reader.byte()
        let flag = reader.index
        guard let indirect = reader.byte() else { throw DeltaError(.truncated, at: flag) }
        guard indirect <= 1 else { throw DeltaError(.unknownFlag(indirect), at: flag) }
        let count = table.columns.count
        let start = reader.index
        let first = try endOfRecord(reader.bytes, at: start, columnCount: count)
        let end = operation == .update ? try endOfRecord(reader.bytes, at: first, columnCount: count) : first
        reader.move(to: end)
        let change = RowChange(
            valid: operation, indirect: indirect == 1, reader.bytes[start..<end],
            middle: operation == .insert ? start : first, columnCount: count)
        try table.check(change)
        return change
    }

    private static func endOfRecord(
        _ bytes: ArraySlice<UInt8>, at start: Int, columnCount: Int
    ) throws(DeltaError) -> Int {
        var index = start
        for _ in 0..<columnCount { index = try Cell.end(of: bytes, at: index) }
        return index
    }
}
