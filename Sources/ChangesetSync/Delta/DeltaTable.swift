/// What a delta says of a table: its name, the names of its columns, and which of them are the primary key. Generated
/// columns are left out.
package struct DeltaTable: Sendable {
    package let name: String
    package let columns: [String]
    /// One number for each column: its place in the primary key, beginning with 1; 0 for a column outside it.
    let keyOrdinals: [UInt8]
    /// The columns of the primary key, in the order of the table.
    let keyColumns: [Int]

    package init(name: String, columns: [String], keyOrdinals: [UInt8]) throws(DeltaError) {
        guard (1...Limits.columns).contains(columns.count) else { throw DeltaError(.columnCount(columns.count)) }
        guard keyOrdinals.count == columns.count else {
            throw DeltaError(.valueCount(keyOrdinals.count, columns: columns.count))
        }
        try Self.check(name)
        for column in columns { try Self.check(column) }
        let sorted = columns.sorted { Self.folded($0).lexicographicallyPrecedes(Self.folded($1)) }
        for (column, next) in zip(sorted, sorted.dropFirst()) where Self.areSame(column, next) {
            throw DeltaError(.duplicateColumn)
        }
        self.name = name
        self.columns = columns
        self.keyOrdinals = keyOrdinals
        keyColumns = try Self.keyColumns(keyOrdinals)
    }

    private static func check(_ name: String) throws(DeltaError) {
        guard !name.isEmpty else { throw DeltaError(.emptyName) }
        guard !name.utf8.contains(0) else { throw DeltaError(.nulInName) }
    }

    private static func keyColumns(_ ordinals: [UInt8]) throws(DeltaError) -> [Int] {
        let key = ordinals.indices.filter { ordinals[$0] != 0 }
        guard !key.isEmpty else { throw DeltaError(.noKey) }
        guard key.count <= Limits.keyColumns, key.map({ Int(ordinals[$0]) }).sorted() == Array(1...key.count) else {
            throw DeltaError(.keyOrdinals)
        }
        return key
    }

    /// The form in which two names are equal for SQLite: it does not distinguish the case of ASCII letters.
    private static func folded(_ name: String) -> LazyMapSequence<String.UTF8View, UInt8> {
        name.utf8.lazy.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
    }

    /// Whether SQLite takes two names for the same.
    static func areSame(_ left: String, _ right: String) -> Bool { folded(left).elementsEqual(folded(right)) }

    /// The name of a table, equal to the names that SQLite takes for the same.
    struct FoldedName: Hashable, Sendable {
        private let name: String

        init(_ name: String) { self.name = name }

        static func == (left: FoldedName, right: FoldedName) -> Bool { areSame(left.name, right.name) }

        func hash(into hasher: inout Hasher) {
            for byte in folded(name) { hasher.combine(byte) }
        }
    }

    /// The order of tables in a delta.
    static func precedes(_ left: DeltaTable, _ right: DeltaTable) -> Bool {
        left.name.utf8.lexicographicallyPrecedes(right.name.utf8)
    }

    /// The key of a record that has values in the columns of the key.
    package func key(of record: DeltaRecord) -> RowKey {
        let bytes = record.bytes
        var key: [UInt8] = []
        var run: Range<Int>?
        var start = bytes.startIndex
        var column = 0
        for keyColumn in keyColumns {
            while column < keyColumn { (start, column) = (end(of: bytes, at: start), column + 1) }
            let next = end(of: bytes, at: start)
            // As long as the columns of the key stand side by side, the key is a part of the record.
            if let known = run, known.upperBound != start {
                key.append(contentsOf: bytes[known])
                run = start..<next
            } else {
                run = (run?.lowerBound ?? start)..<next
            }
            (start, column) = (next, column + 1)
        }
        guard let run else { return RowKey(cells: []) }
        if key.isEmpty { return RowKey(cells: bytes[run]) }
        key.append(contentsOf: bytes[run])
        return RowKey(cells: key[...])
    }

    private func end(of bytes: ArraySlice<UInt8>, at start: Int) -> Int {
        (try? Cell.end(of: bytes, at: start)) ?? bytes.endIndex
    }
}

/// Names are equal when they have the same bytes: Swift holds two spellings of one character equal, and SQLite does
/// not.
extension DeltaTable: Hashable {
    package static func == (left: DeltaTable, right: DeltaTable) -> Bool {
        left.keyOrdinals == right.keyOrdinals && left.name.utf8.elementsEqual(right.name.utf8)
            && left.columns.elementsEqual(right.columns) { $0.utf8.elementsEqual($1.utf8) }
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(keyOrdinals)
        hasher.combine(Array(name.utf8))
    }
}

/// The key of a row: its encoded cells, in the order of the table's columns.
package struct RowKey: Sendable {
    let cells: ArraySlice<UInt8>

    package var values: [DeltaValue] { DeltaRecord(valid: cells, columnCount: 0).values }
}

extension RowKey: Hashable, Comparable {
    package static func == (left: RowKey, right: RowKey) -> Bool { ByteOrder.areEqual(left.cells, right.cells) }
    package static func < (left: RowKey, right: RowKey) -> Bool { ByteOrder.compare(left.cells, right.cells) < 0 }
    package func hash(into hasher: inout Hasher) { cells.withUnsafeBytes { hasher.combine(bytes: $0) } }
}
