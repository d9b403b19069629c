import CipherDatabase

// What a program looks for in full-text tables. Patterns that are made of words of the user's are always valid.

/// The words of a text as the tokenizers `simple` of FTS3 and `ascii` of FTS5 find them.
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
        try DatabaseQueue().write { db in
            try db.create(virtualTable: "document", using: FTS3())
            try db.execute(sql: "SELECT * FROM document WHERE document MATCH ?", arguments: [rawPattern])
        }
        self.init(unchecked: rawPattern)
    }

    /// Finds rows with any of the words in a text; nil for a text without words.
    public init?(matchingAnyTokenIn text: String) { self.init(SimpleTokens.tokens(of: text), separator: " OR ") }

    /// Finds rows with all of the words in a text; nil for a text without words.
    public init?(matchingAllTokensIn text: String) { self.init(SimpleTokens.tokens(of: text), separator: " ") }

    /// Finds rows that have, for each word in a text, a word that begins with it; nil for a text without words.
    public init?(matchingAllPrefixesIn text: String) {
        self.init(SimpleTokens.tokens(of: text).map { $0 + "*" }, separator: " ")
    }

    /// Finds rows with the words in a text, one after another; nil for a text without words.
    public init?(matchingPhrase text: String) {
        let tokens = SimpleTokens.tokens(of: text)
        if tokens.isEmpty { return nil }
        self.init(unchecked: "\"" + tokens.joined(separator: " ") + "\"")
    }

    private init?(_ tokens: [String], separator: String) {
        if tokens.isEmpty { return nil }
        self.init(unchecked: tokens.joined(separator: separator))
    }
}

extension FTS3Pattern: DatabaseValueConvertible {
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

    fileprivate init(rawPattern: String, columns: [String]) throws {
        try DatabaseQueue().write { db in
            try db.create(virtualTable: "document", using: FTS5()) { t in
                // A table needs a column.
                for column in columns.isEmpty ? ["content"] : columns { t.column(column) }
            }
            try db.execute(sql: "SELECT * FROM document WHERE document MATCH ?", arguments: [rawPattern])
        }
        self.init(unchecked: rawPattern)
    }

    /// Finds rows with any of the words in a text; nil for a text without words.
    public init?(matchingAnyTokenIn text: String) { self.init(SimpleTokens.tokens(of: text), separator: " OR ") }

    /// Finds rows with all of the words in a text; nil for a text without words.
    public init?(matchingAllTokensIn text: String) { self.init(SimpleTokens.tokens(of: text), separator: " ") }

    /// Finds rows that have, for each word in a text, a word that begins with it; nil for a text without words.
    public init?(matchingAllPrefixesIn text: String) {
        self.init(SimpleTokens.tokens(of: text).map { $0 + "*" }, separator: " ")
    }

    /// Finds rows with the words in a text, one after another; nil for a text without words.
    public init?(matchingPhrase text: String) { self.init(phrase: text, before: "") }

    /// Finds rows that begin with the words in a text, one after another; nil for a text without words.
    public init?(matchingPrefixPhrase text: String) { self.init(phrase: text, before: "^") }

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

extension FTS5Pattern: DatabaseValueConvertible {
    public var databaseValue: DatabaseValue { rawPattern.databaseValue }

    /// The pattern; nil for a value that is no text, or no pattern. Columns that a pattern names are not known here, so
    /// it names none.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> FTS5Pattern? {
        String.fromDatabaseValue(value).flatMap { try? FTS5Pattern(rawPattern: $0, columns: []) }
    }
}

extension Database {
    /// A pattern in the language of FTS5, which may name columns of a table.
    ///
    /// - Throws: `DatabaseError` when SQLite does not accept it.
    public func makeFTS5Pattern(rawPattern: String, forTable table: String) throws -> FTS5Pattern {
        try FTS5Pattern(rawPattern: rawPattern, columns: columns(in: table).map(\.name))
    }
}
