import CipherDatabase

/// How SQLite compares the values of a key: of an index with each other, and of a foreign key with those of the row that it
/// refers to. There the affinity of the other table's column is applied first, and its collation compares.
///
/// - SeeAlso: <https://www.sqlite.org/foreignkeys.html#fk_indexes>, <https://www.sqlite.org/datatype3.html>
struct KeyComparison: Hashable, Sendable {
    struct Part: Hashable, Sendable {
        /// The conversion of a value by a column before it is compared.
        let affinity: TypeAffinity
        let collation: String

        init(_ affinity: TypeAffinity = .none, collation: String) {
            (self.affinity, self.collation) = (affinity, collation.uppercased())
        }
    }

    let parts: [Part]

    init(_ parts: [Part]) { self.parts = parts }

    /// The row id.
    static let rowID = KeyComparison([Part(.numeric, collation: "BINARY")])

    /// The form of values, one for each part; nil if one is NULL, which equals nothing.
    ///
    /// Equal values have one form. Texts under a collation of the program all have one: rows that meet by it are compared
    /// although they may differ.
    func form(_ values: [CellValue], in db: Database) throws -> [UInt8]? {
        var form: [UInt8] = []
        for (value, part) in zip(values, parts) {
            switch try Self.converted(value, part.affinity, in: db) {
            case .null: return nil
            case .real(let value):
                form.append(cell: Int64(exactly: value).map { .integer($0) } ?? .real(value))
            case .text(let bytes): form.append(cell: .text(Self.collated(bytes, part.collation)))
            case let other: form.append(cell: other)
            }
        }
        return form
    }

    // MARK: Affinity

    private static func converted(
        _ value: CellValue, _ affinity: TypeAffinity, in db: Database
    ) throws -> CellValue {
        switch (affinity, value) {
        case (.text, .integer(let number)): return .string(String(number))
        case (.text, .real): return try computed("CAST(?1 AS TEXT)", value, in: db)
        case (.numeric, .text): return try computed(number, value, in: db)
        case (.real, .text):
            let found = try computed(number, value, in: db)
            if case .integer(let integer) = found { return .real(Double(integer)) }
            return found
        case (.real, .integer(let integer)): return .real(Double(integer))
        default: return value
        }
    }

    /// A text that is a number as a whole becomes one: then it compares as not greater than the greatest number, which
    /// every other text is greater than.
    private static let number = "CASE WHEN CAST('9e999' AS REAL) >= ?1 THEN CAST(?1 AS NUMERIC) ELSE ?1 END"

    private static func computed(_ sql: String, _ value: CellValue, in db: Database) throws -> CellValue {
        try db.cachedStatement(sql: "SELECT \(sql)").first([value.exact]) { $0.value(0) } ?? value
    }

    // MARK: Collation

    /// A text that two texts have in common if the collation holds them equal, and only then.
    private static func collated(_ text: ArraySlice<UInt8>, _ collation: String) -> ArraySlice<UInt8> {
        switch collation {
        case "BINARY": return text
        case "RTRIM":
            let end = text.lastIndex { $0 != UInt8(ascii: " ") }
            return text[..<(end.map { $0 + 1 } ?? text.startIndex)]
        case "NOCASE":
            // It compares up to a NUL, and then the lengths.
            var isAfterEnd = false
            return text.map { byte in
                isAfterEnd = isAfterEnd || byte == 0
                if isAfterEnd { return 0 }
                return (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
            }[...]
        default: return []
        }
    }
}
