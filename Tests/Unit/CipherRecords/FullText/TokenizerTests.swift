import CipherDatabase
import CipherSchema
import Synchronization
import Testing

@testable import CipherRecords

@Suite("Tokenizers of FTS5 in Swift")
struct TokenizerTests {
    // MARK: Tokenizers

    /// Drops the words that are its arguments.
    private final class StopWords: FTS5WrapperTokenizer {
        static let name = "stopWords"
        let wrappedTokenizer: any FTS5Tokenizer
        let words: [String]

        init(db: Database, arguments: [String]) throws {
            wrappedTokenizer = try db.makeTokenizer(.unicode61())
            words = arguments
        }

        func accept(
            token: String, flags: FTS5TokenFlags, for tokenization: FTS5Tokenization,
            tokenCallback: FTS5WrapperTokenCallback
        ) throws {
            if !words.contains(token) { try tokenCallback(token, flags) }
        }
    }

    /// Adds synonyms to documents, not to queries, on top of the tokenizer that its arguments name.
    private final class Synonyms: FTS5WrapperTokenizer {
        static let name = "synonyms"
        let wrappedTokenizer: any FTS5Tokenizer

        init(db: Database, arguments: [String]) throws {
            wrappedTokenizer = try db.makeTokenizer(FTS5TokenizerDescriptor(components: arguments))
        }

        func accept(
            token: String, flags: FTS5TokenFlags, for tokenization: FTS5Tokenization,
            tokenCallback: FTS5WrapperTokenCallback
        ) throws {
            try tokenCallback(token, flags)
            guard tokenization.contains(.document) else { return }
            if token == "car" { try tokenCallback("automobile", flags.union(.colocated)) }
        }
    }

    /// Finds each byte of a text as a token, through the callback itself; odd calls on odd texts.
    private final class Bytes: FTS5CustomTokenizer {
        static let name = "bytes"
        init(db: Database, arguments: [String]) throws {}

        func tokenize(
            context: UnsafeMutableRawPointer?, tokenization: FTS5Tokenization, pText: UnsafePointer<CChar>?,
            nText: CInt, tokenCallback: @escaping FTS5TokenCallback
        ) -> CInt {
            guard let pText else { return 0 }
            switch UInt8(truncatingIfNeeded: nText > 0 ? pText[0] : 0) {
            case UInt8(ascii: "#"): return 101  // SQLITE_DONE
            case UInt8(ascii: "!"): return tokenCallback(context, 0, nil, 5, 0, 1)
            case UInt8(ascii: "?"): return tokenCallback(context, 0, pText, -3, 0, 1)
            case UInt8(ascii: "~"):
                // Places outside of the text, and an error of the callback that is not returned.
                _ = tokenCallback(context, 0, pText, 1, -40_000, 2_000_000)
                _ = tokenCallback(context, 0, pText, 0, 0, 0)
                return 0
            default: break
            }
            for place in 0..<nText {
                let code = tokenCallback(context, 0, pText + Int(place), 1, place, place + 1)
                if code != 0 { return code }
            }
            return 0
        }
    }

    private struct Refusal: Error, CustomStringConvertible { var description = "the word is not allowed" }

    /// Throws for some words.
    private final class Refusing: FTS5WrapperTokenizer {
        static let name = "refusing"
        let wrappedTokenizer: any FTS5Tokenizer

        init(db: Database, arguments: [String]) throws {
            if arguments == ["never"] { throw Refusal(description: "no such language") }
            if arguments == ["full"] { throw DatabaseError(resultCode: .SQLITE_FULL, message: "no more tokenizers") }
            wrappedTokenizer = try db.makeTokenizer(.ascii())
        }

        func accept(
            token: String, flags: FTS5TokenFlags, for tokenization: FTS5Tokenization,
            tokenCallback: FTS5WrapperTokenCallback
        ) throws {
            if token == "bad" { throw Refusal() }
            if token == "toobig" { throw DatabaseError(resultCode: .SQLITE_TOOBIG, message: "the word is too big") }
            if token == "ok" { throw DatabaseError(resultCode: .SQLITE_DONE, message: "done") }
            // Errors of the callback must not be caught: this one does.
            do { try tokenCallback(token, flags) } catch {}
            try tokenCallback("", flags)
        }
    }

    /// Reads its words from a table while SQLite compiles the statement that opens the full-text table.
    private final class Lexicon: FTS5WrapperTokenizer {
        static let name = "lexicon"
        let wrappedTokenizer: any FTS5Tokenizer
        let roots: [String: String]

        init(db: Database, arguments: [String]) throws {
            wrappedTokenizer = try db.makeTokenizer(.unicode61())
            var roots: [String: String] = [:]
            // Enough statements to make the caches of the connection grow.
            for number in 0..<100 { _ = try Int.fetchOne(db, sql: "SELECT \(number)") }
            for row in try Row.fetchAll(db, sql: "SELECT word, root FROM lexicon") { roots[row["word"]] = row["root"] }
            self.roots = roots
        }

        func accept(
            token: String, flags: FTS5TokenFlags, for tokenization: FTS5Tokenization,
            tokenCallback: FTS5WrapperTokenCallback
        ) throws { try tokenCallback(roots[token] ?? token, flags) }
    }

    /// How many counted tokenizers live.
    private static let living = Atomic<Int>(0)

    private final class Counted: FTS5WrapperTokenizer {
        static let name = "counted"
        let wrappedTokenizer: any FTS5Tokenizer

        init(db: Database, arguments: [String]) throws {
            wrappedTokenizer = try db.makeTokenizer(.unicode61())
            TokenizerTests.living.add(1, ordering: .relaxed)
        }

        deinit { TokenizerTests.living.subtract(1, ordering: .relaxed) }

        func accept(
            token: String, flags: FTS5TokenFlags, for tokenization: FTS5Tokenization,
            tokenCallback: FTS5WrapperTokenCallback
        ) throws { try tokenCallback(token, flags) }
    }

    // MARK: Helpers

    private func found(_ pattern: String, _ db: Database) throws -> [Int64] {
        try Int64.fetchAll(
            db, sql: "SELECT rowid FROM doc WHERE doc MATCH ? ORDER BY rowid", arguments: [pattern])
    }

    private func create(_ tokenizer: FTS5TokenizerDescriptor, _ db: Database) throws {
        try db.create(virtualTable: "doc", using: FTS5()) { t in
            t.tokenizer = tokenizer
            t.column("text")
        }
    }

    /// Inserts texts, each in a savepoint: SQLite alone does not undo half a row of a full-text table.
    private func insert(_ texts: String..., in db: Database) throws {
        for text in texts {
            try db.inSavepoint {
                try db.execute(sql: "INSERT INTO doc VALUES (?)", arguments: [text])
                return .commit
            }
        }
    }

    // MARK: Tests

    @Test("a wrapper drops tokens, in documents and in queries")
    func stopWords() throws {
        try DatabaseQueue().write { db in
            db.add(tokenizer: StopWords.self)
            try create(StopWords.tokenizerDescriptor(arguments: ["the", "it's"]), db)
            let sql = try String.fetchOne(db, sql: "SELECT sql FROM sqlite_master WHERE name = 'doc'")
            #expect(
                sql == #"CREATE VIRTUAL TABLE "doc" USING fts5(text, tokenize='''stopWords'' ''the'' ''it''''s''')"#)
            try insert("The cat", "the dog", in: db)
            try #expect(found("cat", db) == [1] && found("the", db) == [])
            try #expect(found("\"the the cat\"", db) == [1])
            let tokenizer = try db.makeTokenizer(StopWords.tokenizerDescriptor(arguments: ["the"]))
            try #expect(tokenizer.tokenize(query: "The cat").map(\.token) == ["cat"])
        }
    }

    @Test("a pool has a tokenizer on each connection that its configuration prepares")
    func pool() throws {
        let folder = try Scratch()
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        configuration.prepareDatabase { db in db.add(tokenizer: StopWords.self) }
        let pool = try DatabasePool(path: folder.path("doc.db"), configuration: configuration)
        try pool.write { db in
            try create(StopWords.tokenizerDescriptor(arguments: ["the"]), db)
            try insert("the cat", in: db)
        }
        let rows = try pool.read { db in try found("\"the cat\"", db) }
        #expect(rows == [1])
        try pool.close()
        // A program without the tokenizer gets an error and can read the texts no more.
        configuration.prepareDatabase = nil
        let queue = try DatabaseQueue(path: folder.path("doc.db"), configuration: configuration)
        let error = #expect(throws: DatabaseError.self) { try queue.read { db in try found("cat", db) } }
        #expect(error?.message?.contains("no such tokenizer: stopWords") == true)
        try queue.close()
    }

    @Test("a wrapper adds synonyms at the place of a word")
    func synonyms() throws {
        try DatabaseQueue().write { db in
            db.add(tokenizer: Synonyms.self)
            let descriptor = Synonyms.tokenizerDescriptor(arguments: ["unicode61", "remove_diacritics", "0"])
            try create(descriptor, db)
            try insert("a réd car stops", "an automobile stopped", in: db)
            try #expect(found("automobile", db) == [1, 2] && found("car", db) == [1])
            try #expect(found("\"réd automobile stops\"", db) == [1] && found("auto*", db) == [1, 2])
            try #expect(found("red", db) == [])
            let tokenizer = try db.makeTokenizer(descriptor)
            let tokens = try tokenizer.tokenize(document: "red car")
            #expect(tokens.map(\.token) == ["red", "car", "automobile"])
            #expect(tokens.map(\.flags) == [[], [], .colocated])
            try #expect(tokenizer.tokenize(query: "red car").map(\.token) == ["red", "car"])
            let highlighted = try String.fetchOne(
                db, sql: "SELECT highlight(doc, 0, '[', ']') FROM doc WHERE doc MATCH 'automobile' AND rowid = 1")
            #expect(highlighted == "a réd [car] stops")
        }
    }

    @Test("the tokenizers of SQLite, for Swift code")
    func ownTokenizers() throws {
        try DatabaseQueue().write { db in
            func tokens(_ descriptor: FTS5TokenizerDescriptor, _ text: String) throws -> [String] {
                try db.makeTokenizer(descriptor).tokenize(document: text).map(\.token)
            }
            try #expect(tokens(.ascii(), "Größe A-b") == ["größe", "a", "b"])
            try #expect(tokens(.ascii(separators: ["a"], tokenCharacters: ["-"]), "Bab-c") == ["b", "b-c"])
            try #expect(tokens(.unicode61(), "Größe") == ["große"])
            try #expect(tokens(.unicode61(diacritics: .keep), "Größe") == ["größe"])
            try #expect(tokens(.unicode61(categories: "L*"), "a1 b") == ["a", "b"])
            try #expect(tokens(.porter(), "Running dogs") == ["run", "dog"])
            try #expect(tokens(.trigram(), "Abcd") == ["abc", "bcd"])
            try #expect(tokens(.trigram(caseSensitive: true), "Abcd") == ["Abc", "bcd"])
            try #expect(tokens(.trigram(removeDiacritics: .remove), "éab") == ["eab"])
            try #expect(tokens(.unicode61(), "") == [] && tokens(.unicode61(), "a\0b") == ["a", "b"])
            #expect(throws: DatabaseError.self) {
                try db.makeTokenizer(.trigram(caseSensitive: true, removeDiacritics: .remove))
            }
            let unknown = #expect(throws: DatabaseError.self) {
                try db.makeTokenizer(FTS5TokenizerDescriptor(components: ["nobody"]))
            }
            #expect(unknown?.message?.contains("no such tokenizer: nobody") == true)
            let unnamed = #expect(throws: DatabaseError.self) {
                try db.makeTokenizer(FTS5TokenizerDescriptor(components: []))
            }
            #expect(unnamed?.resultCode == .SQLITE_MISUSE)
            #expect(throws: DatabaseError.self) { try create(FTS5TokenizerDescriptor(components: []), db) }
        }
    }

    @Test("characters that have a meaning in SQL or in definitions are separators and parts of tokens")
    func punctuation() throws {
        for character in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~é日👍" {
            try DatabaseQueue().write { db in
                try create(.unicode61(separators: ["x"], tokenCharacters: [character]), db)
                try insert("a\(character)bxc", in: db)
                let quoted = "\"" + "a\(character)b".replacing("\"", with: "\"\"") + "\""
                try #expect(found(quoted, db) == [1] && found("b", db) == [], "\(character)")
            }
            try DatabaseQueue().write { db in
                try create(.ascii(separators: character.isASCII ? [character] : ["x"]), db)
                try insert("axb\(character.isASCII ? character : "x")c", in: db)
                try #expect(found("c", db) == [1], "\(character)")
            }
        }
    }

    @Test("an error of a tokenizer is the error of the statement")
    func errors() throws {
        try DatabaseQueue().write { db in
            db.add(tokenizer: Refusing.self)
            let made = #expect(throws: DatabaseError.self) {
                try create(Refusing.tokenizerDescriptor(arguments: ["never"]), db)
            }
            #expect(made?.extendedResultCode == .SQLITE_ERROR && made?.message == "no such language")
            let full = #expect(throws: DatabaseError.self) {
                try db.makeTokenizer(Refusing.tokenizerDescriptor(arguments: ["full"]))
            }
            #expect(full?.resultCode == .SQLITE_FULL && full?.message == "no more tokenizers")
            try #expect(!db.tableExists("doc"))

            try create(Refusing.tokenizerDescriptor(), db)
            try insert("good", in: db)
            let refused = #expect(throws: DatabaseError.self) { try insert("good bad good", in: db) }
            #expect(refused?.resultCode == .SQLITE_ERROR && refused?.message == "the word is not allowed")
            let big = #expect(throws: DatabaseError.self) { try insert("toobig", in: db) }
            #expect(big?.resultCode == .SQLITE_TOOBIG && big?.message == "the word is too big")
            // A code that means success would make SQLite report a row that is not there.
            let done = #expect(throws: DatabaseError.self) { try insert("ok", in: db) }
            #expect(done?.resultCode == .SQLITE_ERROR)
            #expect(throws: DatabaseError.self) { try found("bad", db) }
            try #expect(found("good", db) == [1])
            try #expect(Int.fetchOne(db, sql: "SELECT COUNT(*) FROM doc") == 1)
            try db.execute(sql: "INSERT INTO doc(doc) VALUES('integrity-check')")
            // The message of the tokenizer is not that of a later error.
            let later = #expect(throws: DatabaseError.self) { try db.execute(sql: "SELECT absent") }
            #expect(later?.message?.contains("no such column") == true, "\(String(describing: later))")

            let tokenizer = try db.makeTokenizer(Refusing.tokenizerDescriptor())
            let thrown = #expect(throws: DatabaseError.self) { try tokenizer.tokenize(document: "a bad b") }
            #expect(thrown?.message == "the word is not allowed")
            let own = try Refusing(db: db, arguments: [])
            let direct = #expect(throws: DatabaseError.self) { try own.tokenize(query: "bad") }
            #expect(direct?.message == "the word is not allowed")
            try #expect(own.tokenize(query: "a b").map(\.token) == ["a", "b"])
        }
    }

    @Test("a change of a table whose index refuses it is undone as a whole")
    func synchronizedErrors() throws {
        try DatabaseQueue().write { db in
            db.add(tokenizer: Refusing.self)
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)")
            try db.create(virtualTable: "doc", using: FTS5()) { t in
                t.tokenizer = Refusing.tokenizerDescriptor()
                t.synchronize(withTable: "note")
                t.column("text")
            }
            try db.execute(sql: "INSERT INTO note (text) VALUES ('good')")
            #expect(throws: DatabaseError.self) {
                try db.execute(sql: "INSERT INTO note (text) VALUES ('fine'), ('bad')")
            }
            #expect(throws: DatabaseError.self) { try db.execute(sql: "UPDATE note SET text = 'bad'") }
            try #expect(String.fetchAll(db, sql: "SELECT text FROM note") == ["good"])
            try #expect(found("good", db) == [1] && found("fine", db) == [])
            try db.execute(sql: "INSERT INTO doc(doc) VALUES('integrity-check')")
        }
    }

    @Test("a tokenizer that calls SQLite wrongly does no harm")
    func oddCalls() throws {
        try DatabaseQueue().write { db in
            db.add(tokenizer: Bytes.self)
            try create(Bytes.tokenizerDescriptor(), db)
            for text in ["#", "!", "?"] {
                let error = #expect(throws: DatabaseError.self) { try insert(text, in: db) }
                let code: ResultCode = text == "#" ? .SQLITE_ERROR : .SQLITE_MISUSE
                #expect(error?.resultCode == code, "\(text)")
            }
            try #expect(Int.fetchOne(db, sql: "SELECT COUNT(*) FROM doc") == 0)
            try insert("~abc", "xyz", in: db)
            let shown = try Row.fetchOne(
                db,
                sql: "SELECT highlight(doc, 0, '[', ']') AS h, snippet(doc, 0, '[', ']', '.', 3) AS s FROM doc "
                    + "WHERE doc MATCH '\"~\"'")
            #expect(shown?["h"] == "[~abc]")
            #expect(shown?["s"] != nil)
            try #expect(found("y", db) == [2])
        }
    }

    @Test("a tokenizer stops, and its call fails, at the first token that is refused")
    func refusedToken() throws {
        try DatabaseQueue().write { db in
            db.add(tokenizer: Refusing.self)
            db.add(tokenizer: StopWords.self)
            db.add(tokenizer: Bytes.self)
            let careless = try db.makeTokenizer(Bytes.tokenizerDescriptor())
            let refused = "~x".withCString { text in
                careless.tokenize(context: nil, tokenization: .document, pText: text, nText: 2) { _, _, _, _, _, _ in
                    267
                }
            }
            #expect(refused == 267)
            // The first one catches the error of its callback.
            for descriptor in [Refusing.tokenizerDescriptor(), StopWords.tokenizerDescriptor(), .unicode61()] {
                let tokenizer = try db.makeTokenizer(descriptor)
                var count = 0
                let code = withUnsafeMutablePointer(to: &count) { count in
                    "one two three".withCString { text in
                        tokenizer.tokenize(context: count, tokenization: .document, pText: text, nText: 13) {
                            context, _, _, _, _, _ in
                            guard let count = context?.assumingMemoryBound(to: Int.self) else { return 1 }
                            count.pointee += 1
                            return count.pointee == 2 ? 267 : 0
                        }
                    }
                }
                #expect(code == 267 && count == 2, "\(descriptor.components)")
                let negative = tokenizer.tokenize(context: nil, tokenization: .query, pText: nil, nText: -1) {
                    _, _, _, _, _, _ in 0
                }
                #expect(negative == 21)
            }
        }
    }

    @Test("texts that are not UTF-8 are tokenized, changed and deleted")
    func oddBytes() throws {
        try DatabaseQueue().write { db in
            db.add(tokenizer: StopWords.self)
            try create(StopWords.tokenizerDescriptor(), db)
            for hex in ["ff", "61ff62", "c3", "eda080", "f09f98", "00", "61006200", "efbbbf61", "c080", ""] {
                try db.execute(sql: "INSERT INTO doc VALUES (CAST(x'\(hex)20776f7264' AS TEXT))")
            }
            try #expect(found("word", db).count == 10)
            try db.execute(sql: "INSERT INTO doc VALUES (NULL), (12), (x'ff00'), ('')")
            try db.execute(sql: "UPDATE doc SET text = CAST(x'ff776f7264' AS TEXT) WHERE rowid = 1")
            try db.execute(sql: "INSERT INTO doc(doc) VALUES('integrity-check')")
            try db.execute(sql: "DELETE FROM doc")
            try db.execute(sql: "INSERT INTO doc(doc) VALUES('integrity-check')")
            try #expect(found("word", db) == [])
        }
    }

    @Test("a tokenizer may read the database while SQLite compiles the statement that opens its table")
    func nestedStatements() throws {
        let folder = try Scratch()
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        configuration.prepareDatabase { db in db.add(tokenizer: Lexicon.self) }
        let path = folder.path("doc.db")
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE lexicon (word TEXT, root TEXT)")
            try db.execute(sql: "INSERT INTO lexicon VALUES ('mice', 'mouse')")
            try create(Lexicon.tokenizerDescriptor(), db)
            try insert("three mice", in: db)
        }
        try queue.close()
        // The first statement of a connection on the table makes the tokenizer; here a cached one, then a plain one.
        let cached = try DatabaseQueue(path: path, configuration: configuration)
        try cached.write { db in
            let statement = try db.cachedStatement(sql: "SELECT rowid FROM doc WHERE doc MATCH 'mouse'")
            try #expect(Int.fetchAll(statement) == [1])
            let insertion = try db.makeStatement(sql: "INSERT INTO doc VALUES ('a mouse')")
            #expect(!insertion.isReadonly)
            try insertion.execute()
            try #expect(found("mice", db) == [1, 2])
        }
        try cached.close()
        let plain = try DatabaseQueue(path: path, configuration: configuration)
        let rows = try plain.read { db in try found("mouse", db) }
        #expect(rows == [1, 2])
        try plain.close()
    }

    @Test("a tokenizer lives as long as SQLite uses it, and no longer")
    func lifetime() throws {
        #expect(Self.living.load(ordering: .relaxed) == 0)
        weak var made: (any FTS5Tokenizer)?
        var kept: (any FTS5Tokenizer)?
        do {
            let queue = DatabaseQueue()
            try queue.write { db in
                db.add(tokenizer: Counted.self)
                db.add(tokenizer: Counted.self)
                try create(Counted.tokenizerDescriptor(), db)
                #expect(Self.living.load(ordering: .relaxed) == 1)
                try insert("some words", in: db)
                try db.drop(table: "doc")
                #expect(Self.living.load(ordering: .relaxed) == 0)
                try create(Counted.tokenizerDescriptor(), db)
                let tokenizer = try db.makeTokenizer(Counted.tokenizerDescriptor())
                made = tokenizer
                try #expect(tokenizer.tokenize(document: "some words").count == 2)
                #expect(Self.living.load(ordering: .relaxed) == 2)
            }
            #expect(made == nil)
            #expect(Self.living.load(ordering: .relaxed) == 1)
            kept = try queue.read { db in try db.makeTokenizer(Counted.tokenizerDescriptor()) }
            try queue.close()
            // The table's tokenizer is gone with its connection.
            #expect(Self.living.load(ordering: .relaxed) == 1)
        }
        // One that a program keeps for too long is of no use, and harmless.
        try #expect(kept?.tokenize(document: "some words").map(\.token) == ["some", "words"])
        kept = nil
        #expect(Self.living.load(ordering: .relaxed) == 0)
    }

    @Test("the numbers of the flags are SQLite's")
    func flags() {
        #expect(FTS5Tokenization.query.rawValue == 1 && FTS5Tokenization.prefix.rawValue == 2)
        #expect(FTS5Tokenization.document.rawValue == 4 && FTS5Tokenization.aux.rawValue == 8)
        #expect(FTS5TokenFlags.colocated.rawValue == 1)
        #expect(Database.sqliteLibVersionNumber >= 3_034_000)
    }
}
