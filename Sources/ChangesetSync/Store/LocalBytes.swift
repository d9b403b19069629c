import CipherDatabase

/// Numbers one after the other, as varints: for blobs that only this store reads.
struct LocalWriter {
    private(set) var bytes: [UInt8] = []

    mutating func append(_ number: Int64) { bytes.append(varint: UInt64(bitPattern: number)) }
    mutating func append(_ number: UInt32) { bytes.append(varint: UInt64(number)) }
    mutating func append(_ stamp: LocalStamp) {
        append(stamp.era)
        append(stamp.commit)
    }

    /// A stamp of a cell of a plain row. The lowest bit says whether an era follows: most stamps have none.
    mutating func append(compact stamp: LocalStamp) {
        append(stamp.commit << 1 | (stamp.era == 0 ? 0 : 1))
        if stamp.era != 0 { append(stamp.era) }
    }

    /// A number that may be negative.
    mutating func append(signed number: Int64) { append((number << 1) ^ (number >> 63)) }
    mutating func append(_ value: CellValue) { bytes.append(cell: value) }
    mutating func append(bytes more: [UInt8]) { bytes += more }

    mutating func append(_ numbers: some Collection<Int64>) {
        append(Int64(numbers.count))
        for number in numbers { append(number) }
    }
}

/// Reads the bytes of a ``LocalWriter``.
struct LocalReader {
    private var reader: ByteReader

    init(_ bytes: ArraySlice<UInt8>) { reader = ByteReader(bytes) }

    var isAtEnd: Bool { reader.isAtEnd }

    mutating func number() throws -> Int64 {
        do { return Int64(bitPattern: try reader.varint()) } catch { throw EngineError(.damagedStore) }
    }

    mutating func era() throws -> UInt32 { UInt32(truncatingIfNeeded: try number()) }
    mutating func stamp() throws -> LocalStamp { LocalStamp(era: try era(), commit: try number()) }

    mutating func compactStamp() throws -> LocalStamp {
        let number = try number()
        return LocalStamp(era: number & 1 == 0 ? 0 : try era(), commit: number >> 1)
    }

    mutating func signed() throws -> Int64 {
        let raw = try number()
        return Int64(bitPattern: UInt64(bitPattern: raw) >> 1) ^ -(raw & 1)
    }

    mutating func value() throws -> CellValue {
        do { return CellReader.value(of: try reader.cell()) } catch { throw EngineError(.damagedStore) }
    }

    /// Whether an unknown value stands in the place of a cell, which is read then.
    mutating func skipUnknown() -> Bool { reader.skipUnknownCell() }

    mutating func numbers() throws -> [Int64] {
        let count = try self.count()
        return try (0..<count).map { _ in try number() }
    }

    /// How many entries follow.
    mutating func count() throws -> Int64 {
        let count = try number()
        guard (0...Int64(reader.remaining)).contains(count) else { throw EngineError(.damagedStore) }
        return count
    }
}

extension CellValue {
    /// The value for a statement.
    var exact: ExactValue {
        switch self {
        case .null: .null
        case .integer(let value): .integer(value)
        case .real(let value): .real(value)
        case .text(let bytes): .text(bytes)
        case .blob(let bytes): .blob(bytes)
        }
    }

    /// Copies a value out of SQLite's memory.
    init(_ value: LentValue) {
        self =
            switch value {
            case .null: .null
            case .integer(let value): .integer(value)
            case .real(let value): .real(value)
            case .text(let content): .text(Array(content)[...])
            case .blob(let content): .blob(Array(content)[...])
            }
    }

    var isNull: Bool { if case .null = self { true } else { false } }
}

extension Statement {
    /// Runs a query of the engine with arguments, row by row.
    func forEach(_ arguments: [ExactValue], _ body: (EngineRow) throws -> Void) throws {
        try setExactArguments(arguments)
        try forEachLentRow { try body(EngineRow(row: $0)) }
    }

    /// The first row of a query of the engine.
    func first<T>(_ arguments: [ExactValue], _ body: (EngineRow) throws -> T) throws -> T? {
        var result: T?
        try forEach(arguments) { if result == nil { result = try body($0) } }
        return result
    }
}

/// A row of a table of the engine, valid until the statement advances.
struct EngineRow {
    let row: LentRow

    func integer(_ column: Int) -> Int64 { if case .integer(let value) = row[column] { value } else { 0 } }
    func optionalInteger(_ column: Int) -> Int64? { if case .integer(let value) = row[column] { value } else { nil } }
    func value(_ column: Int) -> CellValue { CellValue(row[column]) }
    func isNull(_ column: Int) -> Bool { if case .null = row[column] { true } else { false } }

    func bytes(_ column: Int) -> [UInt8] {
        switch row[column] {
        case .blob(let bytes), .text(let bytes): Array(bytes)
        default: []
        }
    }

    func text(_ column: Int) -> String { String(decoding: bytes(column), as: UTF8.self) }
    func optionalText(_ column: Int) -> String? { isNull(column) ? nil : text(column) }
}

extension ExactValue {
    init(_ bytes: [UInt8]) { self = .blob(bytes[...]) }
    init(text: String) { self = .text(Array(text.utf8)[...]) }
    init(_ number: Int64?) { self = number.map { .integer($0) } ?? .null }
}
