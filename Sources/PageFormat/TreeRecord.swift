/// The record format of SQLite: the values of a row or of an entry of an index.
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#record_format>
package enum Record {
    /// A value of a row.
    package enum Value: Hashable, Sendable {
        case null
        case integer(Int64)
        /// Eight bytes of a floating point number.
        case real([UInt8])
        case blob([UInt8])
        /// In the encoding of the database.
        case text([UInt8])
    }

    /// The values of a record, up to the first that ends after the given bytes.
    static func values(_ record: ArraySlice<UInt8>) -> [Value] { read(record).values }

    /// All values of a complete record; nil when it violates the format.
    package static func completeValues(_ record: ArraySlice<UInt8>) -> [Value]? {
        let (values, isComplete) = read(record)
        return isComplete ? values : nil
    }

    private static func read(_ record: ArraySlice<UInt8>) -> (values: [Value], isComplete: Bool) {
        var type = record.startIndex
        guard let headerBytes = varint(record, &type), let length = Int(exactly: headerBytes), length > 0,
            length <= record.count
        else { return ([], false) }
        var place = record.startIndex + length
        let typesEnd = place
        var values: [Value] = []
        while type < typesEnd {
            guard let code = varint(record[..<typesEnd], &type), let value = value(code, record, &place) else {
                return (values, false)
            }
            values.append(value)
        }
        return (values, place == record.endIndex)
    }

    private static func value(_ code: Int64, _ record: ArraySlice<UInt8>, _ place: inout Int) -> Value? {
        let length: Int
        switch code {
        case 0, 8, 9: length = 0
        case 1...4: length = Int(code)
        case 5: length = 6
        case 6, 7: length = 8
        case 12...: length = Int(code - 12) / 2
        default: return nil
        }
        guard length <= record.endIndex - place else { return nil }
        let content = record[place..<place + length]
        place += length
        switch code {
        case 0: return .null
        case 8: return .integer(0)
        case 9: return .integer(1)
        case 1...6: return .integer(signed(content))
        case 7: return .real(Array(content))
        default: return code % 2 == 0 ? .blob(Array(content)) : .text(Array(content))
        }
    }

    /// A signed big-endian number.
    private static func signed(_ bytes: ArraySlice<UInt8>) -> Int64 {
        let value = bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        let unused = 64 - 8 * bytes.count
        return Int64(bitPattern: value << unused) >> unused
    }

    /// SQLite's varint of 1 to 9 bytes: seven bits each, all eight of the ninth. Nil when it ends after the bytes.
    static func varint(_ bytes: ArraySlice<UInt8>, _ place: inout Int) -> Int64? {
        var value: UInt64 = 0
        for index in 0..<9 {
            guard place >= bytes.startIndex, place < bytes.endIndex else { return nil }
            let byte = bytes[place]
            place += 1
            if index == 8 { return Int64(bitPattern: value << 8 | UInt64(byte)) }
            value = value << 7 | UInt64(byte & 0x7f)
            if byte < 0x80 { break }
        }
        return Int64(bitPattern: value)
    }
}
