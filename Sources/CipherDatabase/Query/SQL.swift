/// SQL text together with the values of its parameters.
///
/// Values that are interpolated become parameters, never text:
///
/// ```swift
/// let query: SQL = "UPDATE player SET name = \(name) WHERE id IN \(ids)"
/// try db.execute(literal: query)
/// ```
public struct SQL: Sendable {
    package private(set) var text: String
    package private(set) var arguments: StatementArguments
    /// The parts of the text that are written when the statement is made, from left to right.
    package private(set) var insertions: [Insertion] = []

    /// A fragment and its place.
    package struct Insertion: Sendable {
        /// The place in the text, in bytes of UTF-8.
        package var textOffset: Int
        /// How many arguments by position stand before it.
        package var argumentCount: Int
        package let fragment: any SQLFragment
    }

    /// SQL text, used unchanged, with the values of its parameters.
    public init(sql: String, arguments: StatementArguments = StatementArguments()) {
        text = sql
        self.arguments = arguments
    }

    /// Whether there is no text.
    public var isEmpty: Bool { text.isEmpty && insertions.isEmpty }

    /// A text that is one fragment.
    package init(fragment: any SQLFragment) {
        self.init(sql: "")
        append(fragment)
    }

    /// The text with its parameters, and their values.
    public func build(_ db: Database) throws -> (sql: String, arguments: StatementArguments) {
        let written = try written(db)
        return (written.text, written.arguments)
    }

    /// The same with all fragments written.
    func written(_ db: Database) throws -> SQL {
        if insertions.isEmpty { return self }
        let plain = try mayNameParameters ? withQuestionMarks() : self
        var bytes: [UInt8] = []
        var values: [DatabaseValue] = []
        let (text, given) = (Array(plain.text.utf8), plain.arguments.values)
        var (offset, count) = (0, 0)
        let ends = plain.insertions.dropFirst().map(\.textOffset) + [text.count]
        for (insertion, end) in zip(plain.insertions, ends) {
            let former = text[offset..<insertion.textOffset]
            bytes += former
            values += given[count..<insertion.argumentCount]
            (offset, count) = (insertion.textOffset, insertion.argumentCount)
            let fragment = try insertion.fragment.sql(db)
            let form = insertion.fragment.form
            let isGrouped =
                form != .single
                && form.needsParentheses(
                    between: String(decoding: former, as: UTF8.self),
                    and: String(decoding: text[offset..<end], as: UTF8.self))
            if isGrouped { bytes.append(UInt8(ascii: "(")) }
            bytes += fragment.text.utf8
            if isGrouped { bytes.append(UInt8(ascii: ")")) }
            values += fragment.values
        }
        return SQL(
            sql: String(decoding: bytes + text[offset...], as: UTF8.self),
            arguments: StatementArguments(plain: values + given[count...]))
    }

    /// The same without names and numbers of parameters, which would mean other values in a longer text.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_MISUSE` when parameters and values do not correspond.
    private func withQuestionMarks() throws -> SQL {
        var plain = SQL(sql: "")
        for (index, piece) in try positionalPieces().enumerated() {
            if index > 0 { plain.append(insertions[index - 1].fragment) }
            plain.append(sql: piece.text, arguments: StatementArguments(plain: piece.values))
        }
        return plain
    }

    // MARK: Joining

    public static func + (left: SQL, right: SQL) -> SQL {
        var sum = left
        sum += right
        return sum
    }

    public static func += (left: inout SQL, right: SQL) {
        var right = right
        // If the values do not fit the parameters, the statement says so.
        if right.disagrees(with: left) { right = (try? right.withQuestionMarks()) ?? right }
        let (length, count) = (left.text.utf8.count, left.arguments.values.count)
        left.text += right.text
        left.arguments += right.arguments
        for var insertion in right.insertions {
            insertion.textOffset += length
            insertion.argumentCount += count
            left.insertions.append(insertion)
        }
    }

    /// Whether a name or number of a parameter means another value behind this text than it means alone.
    private func disagrees(with former: SQL) -> Bool {
        if arguments.isEmpty || former.arguments.isEmpty || !mayNameParameters { return false }
        if !arguments.values.isEmpty { return true }
        return arguments.namedValues.contains { name, value in
            former.arguments.namedValues[name].map { $0 != value } ?? false
        }
    }

    /// Adds a fragment behind this text.
    package mutating func append(_ fragment: any SQLFragment) {
        insertions.append(
            Insertion(textOffset: text.utf8.count, argumentCount: arguments.values.count, fragment: fragment))
    }

    /// Appends text with values.
    public mutating func append(literal: SQL) { self += literal }

    /// Appends SQL text, used unchanged, with the values of its parameters.
    public mutating func append(sql: String, arguments: StatementArguments = StatementArguments()) {
        if !arguments.isEmpty && !self.arguments.isEmpty { return self += SQL(sql: sql, arguments: arguments) }
        text += sql
        self.arguments += arguments
    }
}

extension Sequence where Element == SQL {
    /// The concatenated texts, with their values.
    ///
    /// - Parameter separator: SQL text between each two of them.
    public func joined(separator: String = "") -> SQL {
        var joined = SQL(sql: "")
        var isFirst = true
        for element in self {
            if !isFirst { joined.append(sql: separator) }
            joined += element
            isFirst = false
        }
        return joined
    }
}

extension Collection where Element == SQL {
    /// The concatenated texts, with their values.
    ///
    /// - Parameter separator: SQL text between each two of them.
    // Collections of text literals have a `joined(separator:)` of the standard library too, which would make both fit.
    public func joined(separator: String = "") -> SQL { AnySequence(self).joined(separator: separator) }
}

extension SQL: ExpressibleByStringInterpolation {
    public init(stringLiteral sql: String) { self.init(sql: sql) }

    public init(stringInterpolation interpolation: SQLInterpolation) { self = interpolation.sql }
}

/// A query within SQL, with fragments in it that belong to its own tables.
package final class NestedQuery: SQLFragment {
    package let literal: SQL
    /// How many such queries are in one another, this one included.
    let levels: Int

    init(_ literal: SQL) {
        self.literal = literal
        levels = 1 + literal.insertions.reduce(0) { max($0, ($1.fragment as? NestedQuery)?.levels ?? 0) }
    }

    package func sql(_ db: Database) throws -> (text: String, values: [DatabaseValue]) {
        try literal.written(db).positional()
    }
}

/// A query in too many others: a mistake that was found when there was no way to throw.
final class RefusedQuery: SQLFragment {
    func sql(_ db: Database) throws -> (text: String, values: [DatabaseValue]) {
        throw DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: "more than \(DatabaseLimits.nestedQueries) SQL requests are in one another")
    }
}

/// Placeholders for parameters in SQL text: `?,?,?`.
///
/// - Parameter count: The number of placeholders.
public func databaseQuestionMarks(count: Int) -> String {
    Array(repeating: "?", count: count).joined(separator: ",")
}

extension String {
    /// The text as an SQL identifier, in double quotes.
    public var quotedDatabaseIdentifier: String {
        // Most names have no quote, and a replacement by Foundation takes several microseconds.
        let content = utf8.contains(UInt8(ascii: "\"")) ? replacingOccurrences(of: "\"", with: "\"\"") : self
        return "\"\(content)\""
    }
}

extension Collection where Element == String, Index == Int {
    /// Joins terms by an associative operator, as `AND`. Many terms become a balanced tree of parentheses: SQLite refuses
    /// an expression that is deeper than 1,000 levels, and a chain is as deep as it has terms.
    ///
    /// - SeeAlso: <https://www.sqlite.org/limits.html#max_expr_depth>
    package func joinedAsExpression(by separator: String) -> String {
        guard count > DatabaseLimits.chainedTerms else { return joined(separator: separator) }
        let middle = startIndex + count / 2
        let parts = [self[startIndex..<middle], self[middle..<endIndex]]
        return parts.map { "(\($0.joinedAsExpression(by: separator)))" }.joined(separator: separator)
    }
}
