import CipherDatabase

/// How SQLite compares the values of a key: of an index with each other, and of a foreign key with those of the row that it
/// refers to. There the affinity of the other table's column is applied first, and its collation compares.
///
/// - SeeAlso: <https://www.sqlite.org/foreignkeys.html#fk_indexes>, <https://www.sqlite.org/datatype3.html>
struct KeyComparison: Hashable, Sendable {
    struct Part: Hashable, Sendable {
        /// What a column makes of a value before it is compared.
        let affinity: TypeAffinity
        let collation: String

        init(_ affinity: TypeAffinity = .none, collation: String) {
            (self.affinity, self.collation) = (affinity, collation.uppercased())
        }
    }

    let parts: [Part]

    init(_ parts: [Part]) { self.parts = parts }

    /// That of an index over columns. Its values have the affinity of their columns already.
    init(ofIndex key: TrackedTable.UniqueKey) { parts = key.parts.map { Part(collation: $0.collation) } }

    /// Whether values with one form are equal. Texts under a collation of the program have one form, whatever they are:
    /// only SQLite can compare them.
    var isDecidedByForm: Bool { parts.allSatisfy { ["BINARY", "NOCASE", "RTRIM"].contains($0.collation) } }

    /// What equal values have in common.
    struct Form: Hashable, Sendable {
        fileprivate var bytes: [UInt8] = []
    }

    /// The form of values, one for each part; nil where one is NULL, which equals nothing.
    func form(_ cells: [ArraySlice<UInt8>], in db: Database) throws -> Form? {
        var form = Form()
        for (cell, part) in zip(cells, parts) {
            switch try Self.converted(cell, part.affinity, in: db) {
            case .null, .undefined: return nil
            case .integer(let value): Cell.append(integer: value, to: &form.bytes)
            case .real(let value):
                if let integer = Int64(exactly: value) {
                    Cell.append(integer: integer, to: &form.bytes)
                } else {
                    Cell.append(real: value, to: &form.bytes)
                }
            case .blob(let bytes): bytes.withUnsafeBytes { Cell.append(blob: $0, to: &form.bytes) }
            case .text(let bytes):
                Self.collated(bytes, part.collation).withUnsafeBytes { Cell.append(text: $0, to: &form.bytes) }
            }
        }
        return form
    }

    /// Whether values that have one form are equal.
    func areEqual(_ left: [ArraySlice<UInt8>], _ right: [ArraySlice<UInt8>], in db: Database) throws -> Bool {
        if isDecidedByForm { return true }
        for (index, part) in parts.enumerated() {
            let (one, other) = try (
                Self.converted(left[index], part.affinity, in: db), Self.converted(right[index], part.affinity, in: db)
            )
            guard case (.text, .text) = (one, other), let one = one.exact, let other = other.exact else { continue }
            let statement = try db.cachedStatement(
                sql: "SELECT ?1 = ?2 COLLATE \(part.collation.quotedDatabaseIdentifier)")
            try statement.setExactArguments([one, other])
            if case .integer(1)? = try statement.records().first?.values.first { continue }
            return false
        }
        return true
    }

    // MARK: Affinity

    private static func converted(
        _ cell: ArraySlice<UInt8>, _ affinity: TypeAffinity, in db: Database
    ) throws -> DeltaValue {
        let value = Cell.value(of: cell)
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

    private static func computed(_ sql: String, _ value: DeltaValue, in db: Database) throws -> DeltaValue {
        guard let argument = value.exact else { return value }
        let statement = try db.cachedStatement(sql: "SELECT \(sql)")
        try statement.setExactArguments([argument])
        return try statement.records().first?.values.first ?? value
    }

    // MARK: Collation

    /// A text that two texts have in common where the collation holds them equal, and only there.
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
