import CipherDatabase

// The pattern that a program searches for in full-text tables. Patterns that are made of words of the user's are always
// valid.

/// The words of a text as the tokenizer `ascii` of FTS5 finds them, and `simple` of FTS3, but for NUL: that is a part of
/// words there, and ends a pattern.
enum SimpleTokens {
    /// The words, with `A` to `Z` in lower case. All characters beyond ASCII belong to words.
    static func tokens(of text: String) -> [String] {
        text.utf8.split { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), 128...:
                false
            default: true
            }
        }.map { String(decoding: $0, as: UTF8.self).lowercasedASCII }
    }
}

/// A pattern that is checked: ``FTS3Pattern`` or ``FTS5Pattern``.
public protocol FullTextPattern: DatabaseValueConvertible {
    /// The pattern as SQLite reads it.
    var rawPattern: String { get }
}

extension DatabaseError {
    /// The error of a pattern that SQLite does not accept. SQLite's message repeats parts of the pattern, which is a
    /// value as any other: only what it says of them is kept.
    fileprivate init(ofPattern error: DatabaseError) {
        let message = error.message ?? ""
        let reason = ["syntax error", "unterminated string", "no such column", "unknown special query"]
            .first { message.hasPrefix($0) || message.hasPrefix("fts5: " + $0) }
        self.init(
            resultCode: error.extendedResultCode,
            message: "malformed MATCH expression" + (reason.map { ": \($0)" } ?? ""))
    }
}

/// Finds an error of a pattern by using it on an empty table.
private func check(
    _ pattern: String, isPublic: Bool = false, createTable: (Database) throws -> Void
) throws {
    try DatabaseQueue().write { db in
        try createTable(db)
        do {
            try db.execute(sql: "SELECT * FROM document WHERE document MATCH ?", arguments: [pattern])
        } catch let error as DatabaseError where !isPublic {
            throw DatabaseError(ofPattern: error)
        }
    }
}

/// A pattern for tables of FTS3 and FTS4.
/// - SeeAlso: <https://www.sqlite.org/fts3.html#full_text_index_queries>
public struct FTS3Pattern: Hashable, Sendable, Codable {
    /// The pattern as SQLite reads it.
    public let rawPattern: String

    private init(unchecked rawPattern: String) { self.rawPattern = rawPattern }

    /// A pattern in the language of FTS3.
    ///
    /// - Throws: `DatabaseError` when SQLite does not accept it.
    public init(rawPattern: String) throws {
        try check(rawPattern) { db in try db.create(virtualTable: "document", using: FTS3()) }
        self.init(unchecked: rawPattern)
    }

    /// Finds rows with any of the words in a text; nil for a text without words, or with 4,096 words and more.
    public init?(matchingAnyTokenIn string: String) {
        // A word without letters and digits, as an emoji, is none for the tokenizer unicode61. FTS3 would then miss the
        // operand of the OR, or take the OR for a word; the empty phrase that stands for a quoted word is an operand.
        self.init(
            SimpleTokens.tokens(of: string).map { $0.hasLetterOrDigit ? $0 : "\"\($0)\"" }, separator: " OR ")
    }

    /// Finds rows with all of the words in a text; nil for a text without words, or with 4,096 words and more.
    public init?(matchingAllTokensIn string: String) { self.init(SimpleTokens.tokens(of: string), separator: " ") }

    /// Finds rows that have, for each word in a text, a word that begins with it; nil for a text without words, or with
    /// 4,096 words and more.
    public init?(matchingAllPrefixesIn string: String) {
        self.init(SimpleTokens.tokens(of: string).map { $0 + "*" }, separator: " ")
    }

    /// Finds rows with the words in a text, one after another; nil for a text without words.
    public init?(matchingPhrase string: String) {
        let tokens = SimpleTokens.tokens(of: string)
        if tokens.isEmpty { return nil }
        self.init(unchecked: "\"" + tokens.joined(separator: " ") + "\"")
    }

    /// The most words that FTS3 takes: a tree of them may have 12 levels.
    private static let maximumTokenCount = 4095

    private init?(_ tokens: [String], separator: String) {
        if tokens.isEmpty || tokens.count > Self.maximumTokenCount { return nil }
        self.init(unchecked: tokens.joined(separator: separator))
    }
}

extension String {
    fileprivate var hasLetterOrDigit: Bool {
        unicodeScalars.contains { scalar in
            switch scalar.properties.generalCategory {
            case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter, .decimalNumber,
                .letterNumber, .otherNumber:
                true
            default: false
            }
        }
    }
}

extension FTS3Pattern: FullTextPattern {
    public var databaseValue: DatabaseValue { rawPattern.databaseValue }

    /// The pattern; nil for a value that is no text, or no pattern.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> FTS3Pattern? {
        String.fromDatabaseValue(value).flatMap { try? FTS3Pattern(rawPattern: $0) }
    }
}

/// A pattern for tables of FTS5.
/// - SeeAlso: <https://www.sqlite.org/fts5.html#full_text_query_syntax>
public struct FTS5Pattern: Hashable, Sendable, Codable {
    /// The pattern as SQLite reads it.
    public let rawPattern: String

    fileprivate init(unchecked rawPattern: String) { self.rawPattern = rawPattern }

    /// A pattern in the language of FTS5.
    ///
    /// - Parameter allowedColumns: The columns that the pattern may name.
    /// - Throws: `DatabaseError` when SQLite does not accept it.
    public init(rawPattern: String, allowedColumns: [String] = []) throws {
        try self.init(rawPattern: rawPattern, allowedColumns: allowedColumns, isPublic: false)
    }

    fileprivate init(rawPattern: String, allowedColumns: [String], isPublic: Bool) throws {
        try check(rawPattern, isPublic: isPublic) { db in
            try db.create(virtualTable: "document", using: FTS5()) { t in
                // A table needs a column.
                for column in allowedColumns.isEmpty ? ["__content"] : allowedColumns { t.column(column) }
            }
        }
        self.init(unchecked: rawPattern)
    }

    /// Finds rows with any of the words in a text; nil for a text without words.
    public init?(matchingAnyTokenIn string: String) { self.init(SimpleTokens.tokens(of: string), separator: " OR ") }

    /// Finds rows with all of the words in a text; nil for a text without words.
    public init?(matchingAllTokensIn string: String) { self.init(SimpleTokens.tokens(of: string), separator: " ") }

    /// Finds rows that have, for each word in a text, a word that begins with it; nil for a text without words.
    public init?(matchingAllPrefixesIn string: String) {
        self.init(SimpleTokens.tokens(of: string).map { $0 + "*" }, separator: " ")
    }

    /// Finds rows with the words in a text, one after another; nil for a text without words.
    public init?(matchingPhrase string: String) { self.init(phrase: string, before: "") }

    /// Finds rows that begin with the words in a text, one after another; nil for a text without words.
    public init?(matchingPrefixPhrase string: String) { self.init(phrase: string, before: "^") }

    private init?(phrase text: String, before sign: String) {
        let tokens = SimpleTokens.tokens(of: text)
        if tokens.isEmpty { return nil }
        self.init(unchecked: sign + "\"" + tokens.joined(separator: " ") + "\"")
    }

    private init?(_ tokens: [String], separator: String) {
        if tokens.isEmpty { return nil }
        self.init(unchecked: tokens.joined(separator: separator))
    }
}

extension FTS5Pattern: FullTextPattern {
    public var databaseValue: DatabaseValue { rawPattern.databaseValue }

    /// The pattern; nil for a value that is no text, or no pattern. Columns that a pattern names are not known here, so
    /// it names none.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> FTS5Pattern? {
        String.fromDatabaseValue(value).flatMap { try? FTS5Pattern(rawPattern: $0) }
    }
}

extension Database {
    /// A pattern in the language of FTS5, which may name columns of a table.
    ///
    /// - Throws: `DatabaseError` when SQLite does not accept it.
    public func makeFTS5Pattern(rawPattern: String, forTable table: String) throws -> FTS5Pattern {
        try FTS5Pattern(
            rawPattern: rawPattern, allowedColumns: columns(in: table).map(\.name),
            isPublic: configuration.publicStatementArguments)
    }
}
