import CipherDatabase

// Tokenizers of FTS5 in Swift. https://www.sqlite.org/fts5.html#custom_tokenizers

/// The function of SQLite that takes a token from a tokenizer: the context of the call, the flags of the token, its
/// bytes in UTF-8, and where it begins and ends in the text, in bytes. It returns a result code; after any other code
/// than 0 the tokenizer must stop, and return this code.
public typealias FTS5TokenCallback =
    @convention(c) (
        _ context: UnsafeMutableRawPointer?, _ flags: CInt, _ pToken: UnsafePointer<CChar>?, _ nToken: CInt,
        _ iStart: CInt, _ iEnd: CInt
    ) -> CInt

/// A function that takes a token from an ``FTS5WrapperTokenizer``. Its errors must not be caught.
public typealias FTS5WrapperTokenCallback = (_ token: String, _ flags: FTS5TokenFlags) throws -> Void

/// Why FTS5 asks for the tokens of a text.
public struct FTS5Tokenization: OptionSet, Sendable {
    // The numbers of FTS5_TOKENIZE_QUERY and the like, which are part of SQLite's interface.
    public let rawValue: CInt
    public init(rawValue: CInt) { self.rawValue = rawValue }

    /// The text stands in a pattern.
    public static let query = FTS5Tokenization(rawValue: 1)
    /// The text stands in a pattern, and its last token is the beginning of a word.
    public static let prefix = FTS5Tokenization(rawValue: 2)
    /// The text is stored in the table, or deleted from it.
    public static let document = FTS5Tokenization(rawValue: 4)
    /// An auxiliary function reads the text, as `snippet` does.
    public static let aux = FTS5Tokenization(rawValue: 8)
}

/// The flags of a token for FTS5.
public struct FTS5TokenFlags: OptionSet, Sendable {
    public let rawValue: CInt
    public init(rawValue: CInt) { self.rawValue = rawValue }

    /// The token stands at the place of the one before it, as a synonym does.
    public static let colocated = FTS5TokenFlags(rawValue: 1)
}

/// Divides texts into tokens, for tables of FTS5.
///
/// A tokenizer is used in the accesses of one connection, on one thread at a time. Implement
/// ``FTS5WrapperTokenizer`` to change the tokens of another tokenizer, ``FTS5CustomTokenizer`` to find them yourself.
public protocol FTS5Tokenizer: AnyObject {
    /// Passes the tokens of a text to a callback.
    ///
    /// - Parameters:
    ///   - context: To be passed to the callback.
    ///   - pText: The text; it may hold bytes that are not UTF-8, and may not end with NUL.
    ///   - nText: How many bytes the text has.
    /// - Returns: 0, or the result code with which the statement fails.
    func tokenize(
        context: UnsafeMutableRawPointer?, tokenization: FTS5Tokenization, pText: UnsafePointer<CChar>?, nText: CInt,
        tokenCallback: @escaping FTS5TokenCallback
    ) -> CInt
}

extension FTS5Tokenizer {
    /// The tokens of a text as of one that is stored in a table.
    ///
    /// - Throws: `DatabaseError` when the tokenizer fails.
    public func tokenize(document string: String) throws -> [(token: String, flags: FTS5TokenFlags)] {
        try tokens(of: string, .document)
    }

    /// The tokens of a text as of one in a pattern.
    ///
    /// - Throws: `DatabaseError` when the tokenizer fails.
    public func tokenize(query string: String) throws -> [(token: String, flags: FTS5TokenFlags)] {
        try tokens(of: string, .query)
    }

    private func tokens(
        of text: String, _ tokenization: FTS5Tokenization
    ) throws -> [(token: String, flags: FTS5TokenFlags)] {
        guard let count = CInt(exactly: text.utf8.count) else {
            throw DatabaseError(resultCode: .SQLITE_TOOBIG, message: "the text is too long for a tokenizer")
        }
        let list = TokenList()
        let code = text.withCString { bytes in
            tokenize(
                context: Unmanaged.passUnretained(list).toOpaque(), tokenization: tokenization, pText: bytes,
                nText: count
            ) { context, flags, token, count, _, _ in
                guard let context else { return ResultCode.SQLITE_MISUSE.rawValue }
                let list = Unmanaged<TokenList>.fromOpaque(context).takeUnretainedValue()
                list.tokens.append((String(token: token, count), FTS5TokenFlags(rawValue: flags)))
                return 0
            }
        }
        let failure = registered?.takeFailure()
        if code != 0 { throw failure ?? DatabaseError(resultCode: ResultCode(rawValue: code)) }
        return list.tokens
    }

    /// SQLite's side of the tokenizer, which keeps errors for the statement that fails.
    fileprivate var registered: RegisteredTokenizer? {
        self as? RegisteredTokenizer ?? (self as? any FTS5WrapperTokenizer)?.wrappedTokenizer as? RegisteredTokenizer
    }
}

private final class TokenList {
    var tokens: [(token: String, flags: FTS5TokenFlags)] = []
}

extension String {
    /// A token; bytes that are not UTF-8 become replacement characters.
    fileprivate init(token: UnsafePointer<CChar>?, _ count: CInt) {
        let bytes = UnsafeRawBufferPointer(start: token, count: token == nil || count < 0 ? 0 : Int(count))
        self.init(decoding: bytes, as: UTF8.self)
    }
}

extension RegisteredTokenizer: FTS5Tokenizer {
    package func tokenize(
        context: UnsafeMutableRawPointer?, tokenization: FTS5Tokenization, pText: UnsafePointer<CChar>?, nText: CInt,
        tokenCallback: @escaping FTS5TokenCallback
    ) -> CInt {
        tokenize(context, reason: tokenization.rawValue, text: pText, textBytes: nText, pass: tokenCallback)
    }
}

// MARK: - Tokenizers of the program

/// A tokenizer of the program, by its name.
///
/// ```swift
/// config.prepareDatabase { db in db.add(tokenizer: CamelCaseTokenizer.self) }
/// try db.create(virtualTable: "source", using: FTS5()) { t in
///     t.tokenizer = CamelCaseTokenizer.tokenizerDescriptor()
///     t.column("text")
/// }
/// ```
///
/// Each table has a tokenizer of its own on each connection, as long as the connection uses the table. Every connection
/// that opens the table needs the tokenizer, so does every other program. When a tokenizer changes what it does, the
/// table must be rebuilt: `INSERT INTO source(source) VALUES('rebuild')`.
///
/// A statement whose text a tokenizer refuses fails. SQLite then undoes the statement for synchronized tables, but not
/// for a table that holds its texts itself: let the error end the transaction, or run such a statement in
/// `Database.inSavepoint(_:)`.
public protocol FTS5CustomTokenizer: FTS5Tokenizer {
    /// The name by which tables name the tokenizer.
    static var name: String { get }

    /// Makes the tokenizer of a table.
    ///
    /// An error makes the statement fail that opens the table: a `DatabaseError` with its own code and message, every
    /// other error as `SQLITE_ERROR` with the error's description.
    ///
    /// - Parameters:
    ///   - db: The connection, which must not be kept: it keeps the tokenizer. Statements may run on it.
    ///   - arguments: What the definition of the table says after the name.
    init(db: Database, arguments: [String]) throws
}

extension FTS5CustomTokenizer {
    /// The tokenizer, for the definition of a table.
    public static func tokenizerDescriptor(arguments: [String] = []) -> FTS5TokenizerDescriptor {
        FTS5TokenizerDescriptor(components: [name] + arguments)
    }
}

/// A tokenizer that changes the tokens of another one: it drops some, replaces some, or adds synonyms.
///
/// ```swift
/// final class StopWordTokenizer: FTS5WrapperTokenizer {
///     static let name = "stopWord"
///     let wrappedTokenizer: any FTS5Tokenizer
///
///     init(db: Database, arguments: [String]) throws {
///         wrappedTokenizer = try db.makeTokenizer(.unicode61())
///     }
///
///     func accept(
///         token: String, flags: FTS5TokenFlags, for tokenization: FTS5Tokenization,
///         tokenCallback: FTS5WrapperTokenCallback
///     ) throws {
///         if !["a", "an", "the"].contains(token) { try tokenCallback(token, flags) }
///     }
/// }
/// ```
public protocol FTS5WrapperTokenizer: FTS5CustomTokenizer {
    /// The tokenizer that finds the tokens, made by `Database.makeTokenizer(_:)`.
    var wrappedTokenizer: any FTS5Tokenizer { get }

    /// Passes the tokens that stand for one token of the wrapped tokenizer.
    ///
    /// An error makes the statement fail, as one of ``FTS5CustomTokenizer/init(db:arguments:)`` does. Empty tokens are
    /// dropped.
    ///
    /// - Parameters:
    ///   - flags: To be passed on; with ``FTS5TokenFlags/colocated`` for each token but the first.
    ///   - tokenCallback: Takes the tokens. Its errors must not be caught.
    func accept(
        token: String, flags: FTS5TokenFlags, for tokenization: FTS5Tokenization,
        tokenCallback: FTS5WrapperTokenCallback
    ) throws
}

extension FTS5WrapperTokenizer {
    public func tokenize(
        context: UnsafeMutableRawPointer?, tokenization: FTS5Tokenization, pText: UnsafePointer<CChar>?, nText: CInt,
        tokenCallback: @escaping FTS5TokenCallback
    ) -> CInt {
        let run = WrapperRun(self, tokenization, context, tokenCallback)
        let code = withExtendedLifetime(run) {
            wrappedTokenizer.tokenize(
                context: Unmanaged.passUnretained(run).toOpaque(), tokenization: tokenization, pText: pText,
                nText: nText
            ) { run, flags, token, count, start, end in
                guard let run else { return ResultCode.SQLITE_MISUSE.rawValue }
                return Unmanaged<WrapperRun>.fromOpaque(run).takeUnretainedValue()
                    .accept(String(token: token, count), FTS5TokenFlags(rawValue: flags), start, end)
            }
        }
        guard let error = run.error else { return code }
        return registered?.note(error) ?? run.code
    }
}

/// One call of a wrapper.
private final class WrapperRun {
    private let tokenizer: any FTS5WrapperTokenizer
    private let tokenization: FTS5Tokenization
    private let context: UnsafeMutableRawPointer?
    private let callback: FTS5TokenCallback
    /// The first code other than 0; the tokens after it are not passed.
    private(set) var code: CInt = 0
    /// The error that `accept` itself has thrown.
    private(set) var error: (any Error)?

    init(
        _ tokenizer: any FTS5WrapperTokenizer, _ tokenization: FTS5Tokenization, _ context: UnsafeMutableRawPointer?,
        _ callback: @escaping FTS5TokenCallback
    ) {
        self.tokenizer = tokenizer
        self.tokenization = tokenization
        self.context = context
        self.callback = callback
    }

    func accept(_ token: String, _ flags: FTS5TokenFlags, _ start: CInt, _ end: CInt) -> CInt {
        if code != 0 { return code }
        do {
            try tokenizer.accept(token: token, flags: flags, for: tokenization) { token, flags in
                try pass(token, flags, start, end)
            }
        } catch {
            // The callback's own error comes back as its code.
            if code == 0 {
                self.error = error
                code = (error as? DatabaseError)?.extendedResultCode.rawValue ?? ResultCode.SQLITE_ERROR.rawValue
                if code == 0 { code = ResultCode.SQLITE_ERROR.rawValue }
            }
        }
        return code
    }

    private func pass(_ token: String, _ flags: FTS5TokenFlags, _ start: CInt, _ end: CInt) throws {
        var token = token
        if code == 0, !token.isEmpty {
            code = token.withUTF8 { bytes in
                guard let count = CInt(exactly: bytes.count) else { return ResultCode.SQLITE_TOOBIG.rawValue }
                return bytes.withMemoryRebound(to: CChar.self) {
                    callback(context, flags.rawValue, $0.baseAddress, count, start, end)
                }
            }
        }
        if code != 0 { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }
}

extension Database {
    /// Adds a tokenizer to this connection. It replaces one of the same name, ignoring case, for tables that the
    /// connection has not opened yet.
    ///
    /// Other connections do not have it: add tokenizers in `Configuration.prepareDatabase(_:)`. Traps where the linked
    /// SQLite has no FTS5.
    public func add<Tokenizer: FTS5CustomTokenizer>(tokenizer: Tokenizer.Type) {
        addTokenizer(named: Tokenizer.name) { db, arguments in
            let tokenizer = try Tokenizer(db: db, arguments: arguments)
            return { context, reason, text, textBytes, pass in
                tokenizer.tokenize(
                    context: context, tokenization: FTS5Tokenization(rawValue: reason), pText: text, nText: textBytes,
                    tokenCallback: pass)
            }
        }
    }

    /// Makes a tokenizer for Swift code, which may use it in the accesses of this connection only.
    ///
    /// ```swift
    /// let tokenizer = try db.makeTokenizer(.porter(wrapping: .unicode61()))
    /// let tokens = try tokenizer.tokenize(document: "The databases").map(\.token)  // ["the", "databas"]
    /// ```
    ///
    /// - Throws: `DatabaseError` for a name that is not known, for arguments that the tokenizer does not accept, and
    ///   where the linked SQLite has no FTS5.
    public func makeTokenizer(_ descriptor: FTS5TokenizerDescriptor) throws -> any FTS5Tokenizer {
        try registeredTokenizer(descriptor.components)
    }
}
