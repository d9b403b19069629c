import Foundation

/// Many changes of one table as one row of the history: those of a commit of a repository.
///
/// | column | content |
/// |---|---|
/// | `seq` | the number of the last change; each change has a number of its own, without gaps |
/// | `kind` | as of other rows, with the operation ``operation`` |
/// | `columns` | the number of changes |
/// | `key1` | the changes, in their order |
///
/// A change begins with a byte: the operation, and 8 if it stands for several rows with consecutive row ids. Those have the
/// first row id and the number of rows less 1. Others have the values of the key; updates have the mask of the changed
/// columns if it is recorded; deletions have the kept values. Docs/Formats/History.md has the encoding of values.
struct HistoryRun {
    /// The operation of the row, which no change has.
    static let operation: Int64 = 6
    /// The most changes of one row, so that a page of a reader decodes few changes that it leaves out.
    static let mostChanges = 1_000
    /// A run ends after the change that exceeds this.
    static let mostBytes = 1 << 20

    struct Change {
        let operation: HistoryOperation
        let key: [DatabaseValue]
        var columns: Int64?
        var kept: [DatabaseValue] = []
    }

    private(set) var bytes: [UInt8] = []
    private(set) var count = 0
    var isFull: Bool { count >= Self.mostChanges || bytes.count >= Self.mostBytes }

    // MARK: Encoding

    private static let isRange: UInt8 = 8

    mutating func append(_ operation: HistoryOperation, key: [ExactValue], columns: Int64?, kept: [ExactValue]) {
        bytes.append(UInt8(operation.rawValue))
        for value in key { bytes.append(historyValue: value) }
        if let columns { bytes.append(historyNumber: UInt64(bitPattern: columns)) }
        for value in kept { bytes.append(historyValue: value) }
        count += 1
    }

    /// - Parameter rowIDs: At most as many as the run has room for.
    mutating func append(inserted rowIDs: ClosedRange<Int64>) {
        let further = UInt64(bitPattern: rowIDs.upperBound &- rowIDs.lowerBound)
        bytes.append(UInt8(HistoryOperation.inserted.rawValue) | Self.isRange)
        bytes.append(historySigned: rowIDs.lowerBound)
        bytes.append(historyNumber: further)
        count += Int(further) + 1
    }

    // MARK: Decoding

    /// - Returns: Nil if the bytes are no run of `count` changes of this table.
    static func changes(_ bytes: [UInt8], count: Int64, of definition: RecordedTable.Definition) -> [Change]? {
        guard (1...Int64(mostChanges)).contains(count) else { return nil }
        var reader = HistoryRunReader(bytes)
        var changes: [Change] = []
        changes.reserveCapacity(Int(count))
        while !reader.isAtEnd {
            guard let first = reader.byte(),
                let operation = HistoryOperation(rawValue: Int64(first & ~isRange)), operation != .reset
            else { return nil }
            if first & isRange != 0 {
                guard operation == .inserted, let rowID = reader.signed(), let further = reader.number(),
                    further < UInt64(count) - UInt64(changes.count)
                else { return nil }
                let (last, isTooLarge) = rowID.addingReportingOverflow(Int64(further))
                if isTooLarge { return nil }
                changes += (rowID...last).map { Change(operation: .inserted, key: [$0.databaseValue]) }
                continue
            }
            guard changes.count < count, let key = reader.values(definition.key.count) else { return nil }
            var change = Change(operation: operation, key: key)
            if operation == .updated, definition.notesColumns {
                guard let columns = reader.number() else { return nil }
                change.columns = Int64(bitPattern: columns)
            }
            if operation == .deleted || operation == .perhapsDeleted {
                guard let kept = reader.values(definition.kept.count) else { return nil }
                change.kept = kept
            }
            changes.append(change)
        }
        return changes.count == count ? changes : nil
    }
}

private enum ValueTag {
    static let null: UInt8 = 0
    static let integer: UInt8 = 1
    static let real: UInt8 = 2
    static let text: UInt8 = 3
    static let blob: UInt8 = 4
}

extension [UInt8] {
    /// LEB128.
    fileprivate mutating func append(historyNumber number: UInt64) {
        var rest = number
        while rest >= 0x80 {
            append(UInt8(rest & 0x7f) | 0x80)
            rest >>= 7
        }
        append(UInt8(rest))
    }

    /// Zigzag: small numbers of either sign are short.
    fileprivate mutating func append(historySigned number: Int64) {
        append(historyNumber: UInt64(bitPattern: (number << 1) ^ (number >> 63)))
    }

    fileprivate mutating func append(historyValue value: ExactValue) {
        switch value {
        case .null: append(ValueTag.null)
        case .integer(let number):
            append(ValueTag.integer)
            append(historySigned: number)
        case .real(let number):
            append(ValueTag.real)
            Swift.withUnsafeBytes(of: number.bitPattern.bigEndian) { append(contentsOf: $0) }
        case .text(let content): append(ValueTag.text, content)
        case .blob(let content): append(ValueTag.blob, content)
        }
    }

    private mutating func append(_ tag: UInt8, _ content: ArraySlice<UInt8>) {
        append(tag)
        append(historyNumber: UInt64(content.count))
        append(contentsOf: content)
    }
}

private struct HistoryRunReader {
    private let bytes: [UInt8]
    private var place = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { place == bytes.count }

    mutating func byte() -> UInt8? {
        guard place < bytes.count else { return nil }
        place += 1
        return bytes[place - 1]
    }

    mutating func number() -> UInt64? {
        var (number, shift) = (UInt64(0), UInt64(0))
        while let byte = byte() {
            if shift == 63, byte > 1 { return nil }
            number |= UInt64(byte & 0x7f) << shift
            if byte < 0x80 { return number }
            shift += 7
            if shift > 63 { return nil }
        }
        return nil
    }

    mutating func signed() -> Int64? {
        number().map { Int64(bitPattern: $0 >> 1) ^ -Int64(bitPattern: $0 & 1) }
    }

    mutating func values(_ count: Int) -> [DatabaseValue]? {
        var values: [DatabaseValue] = []
        for _ in 0..<count {
            guard let value = value() else { return nil }
            values.append(value)
        }
        return values
    }

    private mutating func value() -> DatabaseValue? {
        switch byte() {
        case ValueTag.null: .null
        case ValueTag.integer: signed()?.databaseValue
        case ValueTag.real: real()?.databaseValue
        case ValueTag.text: content().map { String(decoding: $0, as: UTF8.self).databaseValue }
        case ValueTag.blob: content().map { Data($0).databaseValue }
        default: nil
        }
    }

    private mutating func real() -> Double? {
        guard bytes.count - place >= 8 else { return nil }
        defer { place += 8 }
        return Double(bitPattern: bytes[place..<(place + 8)].reduce(0) { $0 << 8 | UInt64($1) })
    }

    private mutating func content() -> ArraySlice<UInt8>? {
        guard let count = number(), count <= UInt64(bytes.count - place) else { return nil }
        defer { place += Int(count) }
        return bytes[place..<(place + Int(count))]
    }
}
