import CipherDatabase

/// The stamps of a plain row: its values are in the program's table.
struct PlainStamps: Hashable, Sendable {
    var incarnation: Int64
    /// The era of the insertion.
    var era: UInt32 = 0
    var born: LocalStamp
    /// The columns that the insertion wrote.
    var shape: Int64
    /// The columns that have another stamp than the insertion.
    var others: [Int64: LocalStamp] = [:]

    var insertion: LocalStamp { LocalStamp(era: era, commit: incarnation) }
    /// Whether a range says all of it.
    var isSimple: Bool { others.isEmpty && isOfRange }
    fileprivate var isOfRange: Bool { era == 0 && born == LocalStamp(era: 0, commit: incarnation) }

    func isBased(on range: PlainRange) -> Bool {
        isOfRange && incarnation == range.incarnation && shape == range.shape
    }

    // MARK: Bytes

    private static let hasBase: Int64 = 1
    private static let hasBirth: Int64 = 2

    /// - Parameter range: What the range says, which is left out.
    fileprivate func bytes(beside range: PlainRange?) -> [UInt8] {
        var writer = LocalWriter()
        if let range, isBased(on: range) {
            writer.append(0 as Int64)
        } else {
            writer.append(Self.hasBase | (born == insertion ? 0 : Self.hasBirth))
            writer.append(insertion)
            writer.append(shape)
            if born != insertion { writer.append(born) }
        }
        for (column, stamp) in others.sorted(by: { $0.key < $1.key }) {
            writer.append(column)
            writer.append(compact: stamp)
        }
        return writer.bytes
    }

    fileprivate init(_ range: PlainRange) {
        incarnation = range.incarnation
        born = LocalStamp(era: 0, commit: range.incarnation)
        shape = range.shape
    }

    fileprivate init(_ bytes: [UInt8], range: PlainRange?) throws {
        var reader = LocalReader(bytes[...])
        let flags = try reader.number()
        if flags & Self.hasBase != 0 {
            let insertion = try reader.stamp()
            (incarnation, era) = (insertion.commit, insertion.era)
            shape = try reader.number()
            born = flags & Self.hasBirth != 0 ? try reader.stamp() : insertion
        } else {
            guard let range else { throw EngineError(.damagedStore) }
            (incarnation, era, shape) = (range.incarnation, 0, range.shape)
            born = LocalStamp(era: 0, commit: range.incarnation)
        }
        while !reader.isAtEnd { others[try reader.number()] = try reader.compactStamp() }
    }

    init(incarnation: Int64, era: UInt32, born: LocalStamp, shape: Int64) {
        (self.incarnation, self.era, self.born, self.shape) = (incarnation, era, born, shape)
    }
}

/// Rows with consecutive keys that one commit inserted.
struct PlainRange: Hashable, Sendable {
    var keys: ClosedRange<Int64>
    let incarnation: Int64
    let shape: Int64
}

/// The stamps of the plain rows of one table. Inside a transaction.
///
/// In a table with row ids, a range has the stamps of consecutive rows. A row with other stamps, or outside of ranges, has a
/// record of its own. Rows of other tables have a record each.
final class PlainRows {
    private let db: Database
    private let isRowID: Bool
    private let rangeTable: String
    private let rowTable: String
    /// The range that grows. It is not stored yet.
    private var growing: PlainRange?
    /// The range that was found last.
    private var found: PlainRange?

    /// - Parameter isRowID: Whether the key is the row id.
    init(_ table: Int64, isRowID: Bool, _ db: Database) {
        (self.db, self.isRowID) = (db, isRowID)
        (rangeTable, rowTable) = (EngineTables.range(table), EngineTables.row(table, isRowID: isRowID))
    }

    private func argument(_ key: RowKey) -> ExactValue? {
        isRowID ? key.rowID.map { .integer($0) } : ExactValue(key.stored)
    }

    // MARK: Reading

    func stamps(of key: RowKey) throws -> PlainStamps? {
        guard let argument = argument(key) else { return nil }
        let range = try isRowID ? key.rowID.flatMap { try self.range(of: $0) } : nil
        let own = try db.cachedStatement(sql: "SELECT stamps FROM \(rowTable) WHERE key = ?").first([argument]) {
            try PlainStamps($0.bytes(0), range: range)
        }
        return own ?? range.map { PlainStamps($0) }
    }

    /// The stamps of a row whose record was read with the row.
    ///
    /// - Parameter own: The record; nil if there is none.
    func stamps(of key: Int64, own: [UInt8]?) throws -> PlainStamps? {
        let range = try range(of: key)
        return try own.map { try PlainStamps($0, range: range) } ?? range.map { PlainStamps($0) }
    }

    private func range(of key: Int64) throws -> PlainRange? {
        if let growing, growing.keys.contains(key) { return growing }
        if let found, found.keys.contains(key) { return found }
        found = try db.cachedStatement(
            sql: "SELECT lo, hi, incarnation, shape FROM \(rangeTable) WHERE lo <= ? ORDER BY lo DESC LIMIT 1"
        ).first([.integer(key)]) { row in
            PlainRange(
                keys: row.integer(0)...max(row.integer(0), row.integer(1)), incarnation: row.integer(2),
                shape: row.integer(3))
        }
        return found.flatMap { $0.keys.contains(key) ? $0 : nil }
    }

    /// Keys that have records of their own or are in ranges, ascending, after a key.
    func keys(after key: RowKey?, limit: Int) throws -> [RowKey] {
        try flush()
        var keys: [RowKey] = []
        guard isRowID else {
            try db.cachedStatement(sql: "SELECT key FROM \(rowTable) WHERE key > ? ORDER BY key LIMIT ?")
                .forEach([ExactValue(key?.stored ?? []), .integer(Int64(limit))]) {
                    keys.append(RowKey(stored: $0.bytes(0)))
                }
            return keys
        }
        if let key, key.rowID == nil { return [] }
        guard key?.rowID != .max else { return [] }
        var next = (key?.rowID).map { $0 + 1 } ?? .min
        try db.cachedStatement(
            sql: """
                SELECT lo, hi FROM (
                    SELECT max(lo, ?1) AS lo, hi FROM \(rangeTable) WHERE hi >= ?1
                    UNION ALL SELECT key, key FROM \(rowTable) WHERE key >= ?1) ORDER BY lo LIMIT ?2
                """
        ).forEach([.integer(next), .integer(Int64(limit) * 2)]) { row in
            let (lo, hi) = (max(row.integer(0), next), row.integer(1))
            var number = lo
            while number <= hi, keys.count < limit {
                keys.append(RowKey(number))
                next = number == .max ? number : number + 1
                if number == .max { break }
                number += 1
            }
        }
        return keys
    }

    /// Whether no row between two keys has stamps.
    func isEmpty(from first: RowKey, to last: RowKey) throws -> Bool {
        guard let low = argument(first), let high = argument(last) else { return false }
        try flush()
        var sql = "SELECT NOT EXISTS (SELECT 1 FROM \(rowTable) WHERE key BETWEEN ?1 AND ?2)"
        if isRowID {
            sql += """
                 AND NOT EXISTS (SELECT 1 FROM \(rangeTable) WHERE lo BETWEEN ?1 AND ?2)
                AND NOT EXISTS (
                    SELECT 1 FROM (SELECT hi FROM \(rangeTable) WHERE lo <= ?1 ORDER BY lo DESC LIMIT 1) WHERE hi >= ?1)
                """
        }
        return try db.cachedStatement(sql: sql).first([low, high]) { $0.integer(0) != 0 } ?? false
    }

    // MARK: Writing

    /// - Parameter isNew: Whether the row had no stamps here.
    func set(_ stamps: PlainStamps, of key: RowKey, isNew: Bool) throws {
        guard let argument = argument(key) else { throw EngineError(.damagedStore) }
        if isRowID, let number = key.rowID {
            if isNew && stamps.isSimple && grow(to: number, stamps) { return }
            let range = try self.range(of: number)
            if let range, stamps.isBased(on: range) {
                return try stamps.others.isEmpty ? removeRow(argument) : setRow(argument, stamps.bytes(beside: range))
            }
            if stamps.isSimple {
                try removeRow(argument)
                try exclude(number)
                try flush()
                growing = PlainRange(keys: number...number, incarnation: stamps.incarnation, shape: stamps.shape)
                return
            }
            try exclude(number)
        }
        try setRow(argument, stamps.bytes(beside: nil))
    }

    /// Stores the stamps of rows with consecutive keys that have none yet and stand in no range.
    func insert(_ keys: ClosedRange<Int64>, _ commit: Int64, shape: Int64) throws {
        if let growing, growing.incarnation == commit, growing.shape == shape,
            growing.keys.upperBound < keys.lowerBound,
            growing.keys.upperBound + 1 == keys.lowerBound
        {
            self.growing?.keys = growing.keys.lowerBound...keys.upperBound
            return
        }
        try flush()
        growing = PlainRange(keys: keys, incarnation: commit, shape: shape)
    }

    /// Takes a row into the range that grows, if it follows.
    private func grow(to key: Int64, _ stamps: PlainStamps) -> Bool {
        guard let growing, growing.incarnation == stamps.incarnation, growing.shape == stamps.shape,
            growing.keys.upperBound < .max, growing.keys.upperBound + 1 == key
        else { return false }
        self.growing?.keys = growing.keys.lowerBound...key
        return true
    }

    func remove(_ key: RowKey) throws {
        guard let argument = argument(key) else { return }
        try removeRow(argument)
        if isRowID, let number = key.rowID { try exclude(number) }
    }

    private func setRow(_ key: ExactValue, _ bytes: [UInt8]) throws {
        try db.cachedStatement(sql: "INSERT OR REPLACE INTO \(rowTable) (key, stamps) VALUES (?, ?)")
            .execute(exact: [key, ExactValue(bytes)])
    }

    private func removeRow(_ key: ExactValue) throws {
        try db.cachedStatement(sql: "DELETE FROM \(rowTable) WHERE key = ?").execute(exact: [key])
    }

    /// Takes a row out of its range.
    private func exclude(_ key: Int64) throws {
        try flush()
        guard let range = try self.range(of: key) else { return }
        found = nil
        try db.cachedStatement(sql: "DELETE FROM \(rangeTable) WHERE lo = ?")
            .execute(exact: [.integer(range.keys.lowerBound)])
        if range.keys.lowerBound < key { try insert(range, range.keys.lowerBound...(key - 1)) }
        if range.keys.upperBound > key { try insert(range, (key + 1)...range.keys.upperBound) }
    }

    private func insert(_ range: PlainRange, _ keys: ClosedRange<Int64>) throws {
        try db.cachedStatement(
            sql: "INSERT OR REPLACE INTO \(rangeTable) (lo, hi, incarnation, shape) VALUES (?, ?, ?, ?)"
        ).execute(exact: [
            .integer(keys.lowerBound), .integer(keys.upperBound), .integer(range.incarnation), .integer(range.shape),
        ])
    }

    /// Stores the range that grows. A neighbour of the same commit becomes one with it.
    func flush() throws {
        guard let growing else { return }
        self.growing = nil
        found = nil
        let before = try growing.keys.lowerBound > .min ? range(of: growing.keys.lowerBound - 1) : nil
        found = nil
        if let before, before.incarnation == growing.incarnation, before.shape == growing.shape {
            try insert(growing, before.keys.lowerBound...growing.keys.upperBound)
        } else {
            try insert(growing, growing.keys)
        }
    }
}
