import CipherDatabase

/// The rows of the tables, for a merge that looks at a row several times: each is read and decrypted once. Inside a
/// transaction that does not change them.
final class TableRows {
    let db: Database
    private var lookups: [String: RowLookup] = [:]
    private var known: [String: [RowKey: DeltaRecord?]] = [:]

    init(_ db: Database) { self.db = db }

    /// The row with exactly this key.
    func row(_ table: TrackedTable, _ key: RowKey) throws -> DeltaRecord? {
        if let known = known[table.name]?[key] { return known }
        let lookup = try lookups[table.name] ?? RowLookup(table, in: db)
        lookups[table.name] = lookup
        let row = try lookup.row(key)
        known[table.name, default: [:]].updateValue(row, forKey: key)
        return row
    }
}

/// The rows of a commit's state: the rows of the tables, which are the state of the head, with a net delta over them.
struct StateView {
    private let base: TableRows
    private let tables: TrackedTables
    /// Rows that differ from those of the tables; nil for rows that do not exist.
    private(set) var overlay: [String: [RowKey: DeltaRecord?]] = [:]

    init(_ base: TableRows, _ tables: TrackedTables) {
        (self.base, self.tables) = (base, tables)
    }

    /// - Parameter delta: From the head to the commit, with the columns of the tables.
    init(_ base: TableRows, _ tables: TrackedTables, delta: Delta) throws {
        self.init(base, tables)
        for entry in delta.tables {
            guard let table = tables[entry.table.name] else { continue }
            for change in entry.changes {
                let key = table.table.key(of: change.keyRecord)
                switch (change.operation, change.new) {
                case (.insert, let new?): set(table, key, new)
                case (.update, let new?):
                    guard let row = try self.row(table, key) else {
                        throw SyncError(.workingStateDiverged, table: table.name)
                    }
                    set(table, key, row.replacing(by: new))
                default: set(table, key, nil)
                }
            }
        }
    }

    mutating func set(_ table: TrackedTable, _ key: RowKey, _ row: DeltaRecord?) {
        overlay[table.name, default: [:]].updateValue(row, forKey: key)
    }

    func row(_ table: TrackedTable, _ key: RowKey) throws -> DeltaRecord? {
        if let known = overlay[table.name]?[key] { return known }
        return try base.row(table, key)
    }

    /// The rows that have these values in some columns, in the order of their keys.
    ///
    /// - Parameter collations: How texts are compared; BINARY where there is none.
    func rows(
        of table: TrackedTable, where columns: [Int], equal cells: [ArraySlice<UInt8>], collations: [String] = []
    ) throws -> [DeltaRecord] {
        let conditions = columns.enumerated().map { index, column in
            let collation = index < collations.count ? " COLLATE \(collations[index].quotedDatabaseIdentifier)" : ""
            return "\(table.quoted(column)) = ?\(collation)"
        }
        let statement = try base.db.cachedStatement(
            sql: "SELECT \(table.columnList) FROM \(table.qualifiedName) WHERE "
                + (conditions.isEmpty ? "1" : conditions.joined(separator: " AND ")))
        try statement.setExactArguments(cells.compactMap { Cell.value(of: $0).exact })
        let changed = overlay[table.name] ?? [:]
        var found = try statement.records().filter { changed[table.table.key(of: $0)] == nil }
        for case let row? in changed.values {
            let own = row.cells
            let isEqual = columns.enumerated().allSatisfy { index, column in
                let collation = index < collations.count ? collations[index] : "BINARY"
                return Self.areEqual(own[column], cells[index], collation)
            }
            if isEqual { found.append(row) }
        }
        return found.sorted { table.table.key(of: $0) < table.table.key(of: $1) }
    }

    /// Whether two values are equal for a unique index or a foreign key. NULL equals nothing.
    static func areEqual(_ left: ArraySlice<UInt8>, _ right: ArraySlice<UInt8>, _ collation: String) -> Bool {
        switch (Cell.value(of: left), Cell.value(of: right)) {
        case (.null, _), (_, .null): return false
        case (.integer(let integer), .real(let real)), (.real(let real), .integer(let integer)):
            return Int64(exactly: real) == integer
        case (.real(let left), .real(let right)): return left == right
        case (.text(let left), .text(let right)):
            switch collation.uppercased() {
            case "NOCASE": return left.map(folded) == right.map(folded)
            case "RTRIM": return trimmed(left) == trimmed(right)
            default: return ByteOrder.areEqual(left, right)
            }
        case (let left, let right): return left == right
        }
    }

    private static func folded(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var bytes = bytes
        while bytes.last == UInt8(ascii: " ") { bytes.removeLast() }
        return bytes
    }
}
