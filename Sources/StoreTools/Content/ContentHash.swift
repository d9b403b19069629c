import CipherDatabase
import CipherStore
import KeyCustody
import StoreCrypto

/// A digest of the whole content of a database: schema, rows with their row ids, `user_version` and `application_id`.
///
/// Two databases have the same hash exactly when they have the same content, however they are encrypted, paged or
/// indexed. `Docs/Commands.md` defines the bytes that are digested.
public struct ContentHash: Hashable, Sendable {
    /// SHA-256 in hexadecimal.
    public let hex: String

    /// Reads the whole database; call it inside a read transaction.
    ///
    /// - Throws: `DatabaseError`.
    public static func of(_ db: Database) throws -> ContentHash { try of(db) {} }

    /// The same, with progress in a phase of a run.
    ///
    /// - Throws: `DatabaseError`, `CancellationError`.
    ///
    /// - Parameter leavingOut: Names of indexes that do not count.
    static func of(
        _ db: Database, _ run: ToolRun, _ phase: ToolProgress.Phase, leavingOut: Set<String> = []
    ) throws -> ContentHash {
        var rows = RowCounter(run, phase)
        return try db.endingStatements(when: { run.isCancelled }) {
            try of(db, leavingOut: leavingOut) { try rows.next() }
        }
    }

    /// - Parameter progress: Called after each row; an error ends the work.
    private static func of(
        _ db: Database, leavingOut: Set<String> = [], progress: () throws -> Void
    ) throws -> ContentHash {
        var stream = try DigestStream()
        stream.text("cipherstore content hash 1")
        for pragma in ["user_version", "application_id"] {
            stream.integer(try Int64.fetchOne(db, sql: "PRAGMA main.\(pragma)") ?? 0)
        }
        let schema = try SchemaEntry.all(db).filter { !$0.isInternal }
        let named = schema.filter {
            !$0.name.lowercased().hasPrefix("sqlite_") && !($0.type == "index" && leavingOut.contains($0.name))
        }
        for entry in named.sorted(by: { $0.sortKey.lexicographicallyPrecedes($1.sortKey) }) {
            stream.mark(.schemaEntry)
            for text in [entry.type, entry.name, entry.table] { stream.text(text) }
            if let sql = entry.sql { stream.text(sql) } else { stream.mark(.null) }
        }
        let tables = schema.filter { $0.isStoredTable && !$0.isStatistics }.map(\.name)
        var bound = try RowBound(db)
        for name in tables.sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) {
            let shape = try TableShape(name, in: db)
            try bound.require(shape, db)
            // The rows of a table WITHOUT ROWID are in the order of its key.
            let missing = shape.rowIDName == nil ? try MissingParts(of: db, table: name).collations : []
            try StandInCollations.with(missing, on: db) {
                // The others follow from these. A file can define one whose value takes minutes to compute.
                try add(shape, shape.storedColumns, isBinary: !missing.isEmpty, db, to: &stream, &bound, progress)
            }
        }
        return ContentHash(hex: try stream.finish())
    }

    private static func add(
        _ table: TableShape, _ columns: [String], isBinary: Bool, _ db: Database, to stream: inout DigestStream,
        _ rows: inout RowBound, _ progress: () throws -> Void
    ) throws {
        stream.mark(.table)
        stream.text(table.name)
        let bound = ToolLimits.resultColumns - (table.rowIDName == nil ? 0 : 1)
        let statement = try db.makeStatement(sql: table.select(Array(columns.prefix(bound)), isBinary: isBinary))
        let rest = try columns.count > bound ? table.rest(Array(columns.dropFirst(bound))).map(db.makeStatement) : nil
        try statement.forEachLentRow { row in
            stream.mark(.row)
            for index in 0..<statement.columnCount { stream.value(row[index]) }
            if let rest, case .integer(let rowID) = row[0] {
                rest.arguments = [rowID]
                try rest.forEachLentRow { row in
                    for index in 0..<rest.columnCount { stream.value(row[index]) }
                    try rows.add(row)
                }
            }
            try rows.next(row)
            try progress()
        }
    }
}

extension SchemaEntry {
    /// Orders by type, then by name, byte by byte; no name contains a zero byte.
    fileprivate var sortKey: [UInt8] { Array("\(type)\0\(name)".utf8) }
}

/// The encoding of values for the digest: a tag, then a length where it varies, then the bytes.
private struct DigestStream: ~Copyable {
    enum Tag: UInt8 {
        case null = 0
        case integer = 1
        case real = 2
        case text = 3
        case blob = 4
        case schemaEntry = 0x10
        case table = 0x11
        case row = 0x12
    }

    private var digest: ContentDigest
    private var buffer: [UInt8] = []
    private static let pieceBytes = 64 * 1024

    init() throws { digest = try ContentDigest() }

    mutating func mark(_ tag: Tag) {
        buffer.append(tag.rawValue)
        if buffer.count >= Self.pieceBytes { flush() }
    }

    mutating func integer(_ value: Int64) {
        mark(.integer)
        number(UInt64(bitPattern: value))
    }

    mutating func text(_ text: String) {
        mark(.text)
        var text = text
        text.withUTF8 { bytes(UnsafeRawBufferPointer($0)) }
    }

    mutating func value(_ value: LentValue) {
        switch value {
        case .null: mark(.null)
        case .integer(let value): integer(value)
        case .real(let value):
            mark(.real)
            number(value.bitPattern)
        case .text(let text):
            mark(.text)
            bytes(text)
        case .blob(let blob):
            mark(.blob)
            bytes(blob)
        }
    }

    consuming func finish() throws -> String {
        flush()
        return Hex.text(try digest.finish())
    }

    private mutating func number(_ value: UInt64) { withUnsafeBytes(of: value.bigEndian) { buffer += $0 } }

    private mutating func bytes(_ bytes: UnsafeRawBufferPointer) {
        number(UInt64(bytes.count))
        if bytes.count < Self.pieceBytes {
            buffer += bytes
        } else {
            flush()
            digest.update(bytes)
        }
    }

    private mutating func flush() {
        buffer.withUnsafeBytes { digest.update($0) }
        buffer.removeAll(keepingCapacity: true)
    }
}
