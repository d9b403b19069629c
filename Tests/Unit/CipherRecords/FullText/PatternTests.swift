import CipherDatabase
import Testing

@testable import CipherRecords

@Suite("Full-text patterns")
struct PatternTests {
    /// A builder of a pattern from a user's text.
    private struct Builder<Pattern: FullTextPattern>: Sendable {
        let name: String
        let make: @Sendable (String) -> Pattern?
    }

    private static let fts3: [Builder<FTS3Pattern>] = [
        .init(name: "any token") { FTS3Pattern(matchingAnyTokenIn: $0) },
        .init(name: "all tokens") { FTS3Pattern(matchingAllTokensIn: $0) },
        .init(name: "all prefixes") { FTS3Pattern(matchingAllPrefixesIn: $0) },
        .init(name: "phrase") { FTS3Pattern(matchingPhrase: $0) },
    ]

    private static let fts5: [Builder<FTS5Pattern>] = [
        .init(name: "any token") { FTS5Pattern(matchingAnyTokenIn: $0) },
        .init(name: "all tokens") { FTS5Pattern(matchingAllTokensIn: $0) },
        .init(name: "all prefixes") { FTS5Pattern(matchingAllPrefixesIn: $0) },
        .init(name: "phrase") { FTS5Pattern(matchingPhrase: $0) },
        .init(name: "prefix phrase") { FTS5Pattern(matchingPrefixPhrase: $0) },
    ]

    /// Tables of FTS3 and FTS4, and of FTS5, with the tokenizers of SQLite, and one row each.
    private func createTables(_ db: Database) throws -> (fts3: [String], fts5: [String]) {
        let fts3: [FTS3TokenizerDescriptor?] = [nil, .simple, .porter, .unicode61(), .unicode61(diacritics: .keep)]
        let fts5: [FTS5TokenizerDescriptor?] = [nil, .ascii(), .unicode61(), .porter(wrapping: .ascii()), .trigram()]
        var names: (fts3: [String], fts5: [String]) = ([], [])
        for (number, tokenizer) in fts3.enumerated() {
            try db.create(virtualTable: "three\(number)", using: FTS3()) { t in
                t.tokenizer = tokenizer
                t.column("near")
                t.column("body")
            }
            try db.create(virtualTable: "four\(number)", using: FTS4()) { t in
                t.tokenizer = tokenizer
                t.prefixes = [1, 3]
                t.column("near")
                t.column("body")
            }
            names.fts3 += ["three\(number)", "four\(number)"]
        }
        for (number, tokenizer) in fts5.enumerated() {
            try db.create(virtualTable: "five\(number)", using: FTS5()) { t in
                t.tokenizer = tokenizer
                t.prefixes = [1, 3]
                t.column("near")
                t.column("body")
            }
            names.fts5.append("five\(number)")
        }
        for name in names.fts3 + names.fts5 {
            try db.execute(sql: "INSERT INTO \(name) VALUES ('and or not near', 'hello 😀 or é日本 world')")
        }
        return names
    }

    private static let pieces = [
        "a", "hello", "AND", "OR", "NOT", "NEAR", "NEAR/2", "NEAR(", "near:", "body:", "-body:", "rank:", "rowid:",
        "\"", "\"\"", "'", "*", "**", "^", "(", ")", ":", "-", "+", "{", "}", ",", ";", "--", "/*", "\\", "?", "?1",
        "$x",
        " ", "\t", "\n", "\0", "\u{1}", "\u{1A}", "\u{7F}", "\u{80}", "\u{A0}", "\u{AD}", "\u{301}", "e\u{301}\u{302}",
        "é", "ß", "İ", "日本", "한", "ا", "😀", "👨‍👩‍👧", "🇫🇷", "🏿", "\u{200D}", "\u{200B}", "\u{202E}", "\u{FEFF}",
        "\u{FFFD}", "\u{FFFE}", "\u{FFFF}", "\u{E000}", "\u{10FFFF}", "1", "1e5", "_", "%", "0x",
        // A high surrogate without its low one, as a decoder replaces it.
        String(decoding: [0xED, 0xA0, 0x80] as [UInt8], as: UTF8.self), String(decoding: [0xD83D], as: UTF16.self),
    ]

    @Test("no text of a user makes a pattern that SQLite refuses", arguments: 0..<6)
    func anyText(seed: UInt64) throws {
        var random = SeededGenerator(state: seed &+ 77)
        try DatabaseQueue().write { db in
            let tables = try createTables(db)
            for _ in 0..<40 {
                let count = Int.random(in: 0...7, using: &random)
                let separator = ["", " "].randomElement(using: &random) ?? ""
                let text = (0..<count).compactMap { _ in Self.pieces.randomElement(using: &random) }
                    .joined(separator: separator)
                try check(Self.fts3, text, tables.fts3, "seed \(seed)", db)
                try check(Self.fts5, text, tables.fts5, "seed \(seed)", db)
            }
        }
    }

    @Test("each piece of bad text alone, and beside a word")
    func pieces() throws {
        try DatabaseQueue().write { db in
            let tables = try createTables(db)
            for piece in Self.pieces {
                for text in [piece, piece + " hello", "hello " + piece, "hello \(piece) world"] {
                    try check(Self.fts3, text, tables.fts3, "", db)
                    try check(Self.fts5, text, tables.fts5, "", db)
                    // The rest of the typed text must not hide the rows with the word.
                    guard text.contains("hello"), !piece.contains("hello") else { continue }
                    let three = FTS3Pattern(matchingAnyTokenIn: text)
                    let five = FTS5Pattern(matchingAnyTokenIn: text)
                    guard three?.rawPattern.contains("hello ") == true || three?.rawPattern.contains(" hello") == true
                    else { continue }
                    for table in tables.fts3 {
                        let count = try Table(table).matching(three).fetchCount(db)
                        #expect(count == 1, "\(table): \(text.debugDescription)")
                    }
                    for table in tables.fts5 {
                        let count = try Table(table).matching(five).fetchCount(db)
                        #expect(count == 1, "\(table): \(text.debugDescription)")
                    }
                }
            }
        }
    }

    @Test("the words of a pattern are those of SQLite's tokenizers simple and ascii", arguments: 0..<4)
    func words(seed: UInt64) throws {
        var random = SeededGenerator(state: seed &+ 9)
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE VIRTUAL TABLE simple USING fts3tokenize(simple)")
            let ascii = try db.makeTokenizer(.ascii())
            for _ in 0..<200 {
                let text = (0..<Int.random(in: 0...8, using: &random)).compactMap { _ in
                    Self.pieces.randomElement(using: &random)
                }.joined()
                let words = SimpleTokens.tokens(of: text)
                let hint = "seed \(seed): \(text.debugDescription)"
                try #expect(ascii.tokenize(query: text).map(\.token) == words, "\(hint)")
                let simple = try String.fetchAll(
                    db, sql: "SELECT token FROM simple WHERE input = ? ORDER BY position", arguments: [text])
                // NUL is a part of words there, and would end a pattern.
                if !text.utf8.contains(0) { #expect(simple == words, "\(hint)") }
                try #expect(FTS3.tokenize(text) == simple, "\(hint)")
            }
        }
    }

    private func check<Pattern: FullTextPattern>(
        _ builders: [Builder<Pattern>], _ text: String, _ tables: [String], _ hint: String, _ db: Database
    ) throws {
        for builder in builders {
            let pattern = builder.make(text)
            for table in tables {
                do {
                    _ = try Int.fetchAll(
                        db, sql: "SELECT rowid FROM \(table) WHERE \(table) MATCH ?",
                        arguments: [pattern?.rawPattern ?? "x"])
                } catch {
                    Issue.record("\(hint) \(builder.name) in \(table): \(text.debugDescription): \(error)")
                }
            }
        }
    }

    @Test("very long texts make patterns that SQLite accepts, or none")
    func longTexts() throws {
        try DatabaseQueue().write { db in
            let tables = try createTables(db)
            let long = [
                String(repeating: "a", count: 300_000), String(repeating: "é", count: 100_000),
                String(repeating: "\"'*(", count: 20_000), String(repeating: "a b ", count: 2_000),
                (0..<4_095).map { "w\($0)" }.joined(separator: " "),
                (0..<4_096).map { "w\($0)" }.joined(separator: " "),
            ]
            for text in long {
                try check(Self.fts3, text, ["three0", "four3"], "long", db)
                try check(Self.fts5, text, ["five0", "five2"], "long", db)
            }
            #expect(FTS3Pattern(matchingAnyTokenIn: long[4]) != nil && FTS3Pattern(matchingAnyTokenIn: long[5]) == nil)
            #expect(FTS3Pattern(matchingAllTokensIn: long[5]) == nil && FTS3Pattern(matchingPhrase: long[5]) != nil)
            #expect(FTS5Pattern(matchingAnyTokenIn: long[5]) != nil)
            _ = tables
        }
    }

    @Test("an emoji beside an OR")
    func wordsWithoutLetters() throws {
        // FTS3 removes what its tokenizer takes for no word before it parses: `fox OR 😀` then has an OR without its
        // second operand, which is an error, and `😀 OR fox` looks for the word "or".
        #expect(FTS3Pattern(matchingAnyTokenIn: "fox 😀")?.rawPattern == "fox OR \"😀\"")
        #expect(FTS3Pattern(matchingAnyTokenIn: "日本 fox😀 1")?.rawPattern == "日本 OR fox😀 OR 1")
        #expect(FTS3Pattern(matchingAllTokensIn: "fox 😀")?.rawPattern == "fox 😀")
        #expect(FTS5Pattern(matchingAnyTokenIn: "fox 😀")?.rawPattern == "fox OR 😀")
    }

    @Test("the error of a pattern says what is wrong and does not repeat the pattern")
    func errors() throws {
        let three = #expect(throws: DatabaseError.self) { try FTS3Pattern(rawPattern: "secret \"x") }
        #expect(three?.message == "malformed MATCH expression" && three?.sql == nil)
        let syntax = #expect(throws: DatabaseError.self) { try FTS5Pattern(rawPattern: "secret AND \u{1}secret (") }
        #expect(syntax?.message == "malformed MATCH expression: syntax error")
        let column = #expect(throws: DatabaseError.self) {
            try FTS5Pattern(rawPattern: "secret:x", allowedColumns: ["title"])
        }
        #expect(column?.message == "malformed MATCH expression: no such column")
        let string = #expect(throws: DatabaseError.self) { try FTS5Pattern(rawPattern: "\"secret") }
        #expect(string?.message == "malformed MATCH expression: unterminated string")
        for error in [three, syntax, column, string] {
            #expect(error?.expandedDescription.contains("secret") == false)
        }
        #expect(throws: DatabaseError.self) { try FTS5Pattern(rawPattern: "") }
        try #expect(FTS5Pattern(rawPattern: "title:a*", allowedColumns: ["title", "body"]).rawPattern == "title:a*")
        try #expect(FTS3Pattern(rawPattern: "").rawPattern == "")

        var configuration = Configuration()
        configuration.publicStatementArguments = true
        try DatabaseQueue(configuration: configuration).write { db in
            try db.create(virtualTable: "doc", using: FTS5()) { $0.column("body") }
            let shown = #expect(throws: DatabaseError.self) {
                try db.makeFTS5Pattern(rawPattern: "other:x", forTable: "doc")
            }
            #expect(shown?.message == "no such column: other")
        }
    }

    @Test("patterns are values of columns")
    func values() throws {
        try DatabaseQueue().write { db in
            let pattern = try #require(FTS5Pattern(matchingAllPrefixesIn: "Fo ba"))
            try #expect(FTS5Pattern.fetchOne(db, sql: "SELECT ?", arguments: [pattern]) == pattern)
            try #expect(FTS3Pattern.fetchOne(db, sql: "SELECT 'a OR b'")?.rawPattern == "a OR b")
            #expect(FTS5Pattern.fromDatabaseValue("AND".databaseValue) == nil)
            #expect(FTS3Pattern.fromDatabaseValue("\"a".databaseValue) == nil)
            #expect(FTS5Pattern.fromDatabaseValue(.null) == nil)
        }
    }
}
