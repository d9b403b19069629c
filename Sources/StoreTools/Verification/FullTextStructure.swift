import CipherDatabase
import CipherStore
import Foundation
import StorePlatform

/// The structure records of FTS5 indexes: row 10 of a table `_data`, which lists the segments of an index.
///
/// SQLite before 3.50.3 makes an array of as many elements as a record names tombstone pages, and computes its size in 32
/// bits (CVE-2025-7709). A record with a false number makes SQLite write outside of the array: in a search, and in
/// `integrity_check`.
/// - SeeAlso: `fts5StructureDecode` of <https://www.sqlite.org/src/file/ext/fts5/fts5_index.c>
struct FullTextStructure {
    private static let rowID = 10
    /// The bytes that begin a record with tombstone pages, after the cookie of four bytes.
    private static let magic: [UInt8] = [0xff, 0, 0, 1]

    /// A sentence, without its full stop, for each table that SQLite must not use.
    ///
    /// All tables with such a name are examined: the definition of a virtual table can be written in a form that only
    /// SQLite understands.
    /// - Throws: `DatabaseError`.
    static func faults(in db: Database) throws -> [String] {
        try SchemaEntry.all(db).filter(\.isStoredTable).compactMap { try fault(ofTable: $0.name, in: db) }
    }

    /// - Throws: `DatabaseError` `SQLITE_CORRUPT` for the first fault.
    static func requireSound(_ db: Database) throws {
        guard let fault = try faults(in: db).first else { return }
        throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: fault)
    }

    /// The fault of one table; nil for a sound one, and for a table that no full-text index can use.
    ///
    /// - Throws: `DatabaseError`.
    static func fault(ofTable table: String, in db: Database) throws -> String? {
        guard table.lowercased().hasSuffix("_data"),
            try db.columns(in: table, in: "main").contains(where: { $0.name.lowercased() == "block" })
        else { return nil }
        let name = "main.\(table.quotedIdentifier)"
        // A table can hide all names of the row id, by which SQLite reads the record.
        let rowIDName = try TableShape(table, in: db).rowIDName
        let condition = rowIDName.map { "\($0) = \(rowID)" } ?? "substr(CAST(block AS BLOB), 5, 4) = x'ff000001'"
        let records = try Row.fetchCursor(db, sql: "SELECT CAST(block AS BLOB) FROM \(name) WHERE \(condition)")
        var rows: UInt64?
        while let record = try records.next() {
            guard let bytes = record[0] as Data?, let pages = mostTombstonePages(Array(bytes)) else { continue }
            let count = try rows ?? UInt64(Int64.fetchOne(db, sql: "SELECT count(*) FROM \(name)") ?? 0)
            rows = count
            if pages > count {
                return
                    "the structure record of the full-text index in table \"\(table)\" names \(pages) tombstone pages, "
                    + "and the table has \(CountText.text(Int(count), "row"))"
            }
        }
        return nil
    }

    /// The largest number of tombstone pages of a segment; nil for a record without such numbers.
    static func mostTombstonePages(_ record: [UInt8]) -> UInt64? {
        guard record.dropFirst(4).starts(with: magic) else { return nil }
        var numbers = Numbers(rest: record.dropFirst(8))
        guard let levels = numbers.next(), numbers.next() != nil, numbers.next() != nil else { return nil }
        var most: UInt64 = 0
        var level: UInt64 = 0
        while level < levels {
            guard numbers.next() != nil, let segments = numbers.next() else { return most }
            var segment: UInt64 = 0
            while segment < segments {
                // Identifier, first and last page, two origins; then the pages, and two numbers of entries.
                for _ in 0..<5 where numbers.next() == nil { return most }
                guard let pages = numbers.next() else { return most }
                most = max(most, pages)
                for _ in 0..<2 where numbers.next() == nil { return most }
                segment += 1
            }
            level += 1
        }
        return most
    }

    /// The variable-length integers of a record.
    /// - SeeAlso: <https://www.sqlite.org/fileformat2.html#varint>
    private struct Numbers {
        var rest: ArraySlice<UInt8>

        /// The next number; nil at the end of the record.
        mutating func next() -> UInt64? {
            var value: UInt64 = 0
            for index in 0..<9 {
                guard let byte = rest.popFirst() else { return nil }
                if index == 8 { return value << 8 | UInt64(byte) }
                value = value << 7 | UInt64(byte & 0x7f)
                if byte < 0x80 { return value }
            }
            return value
        }
    }
}
