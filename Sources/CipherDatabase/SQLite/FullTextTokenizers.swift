import CSQLCipher

// Tokenizers of FTS5: those that SQLite has, and those that are implemented in Swift.
// https://www.sqlite.org/fts5.html#custom_tokenizers

/// A function to which a tokenizer passes each token: the context of the call, the flags of the token, its bytes in
/// UTF-8, and where it begins and ends in the text, in bytes.
package typealias TokenFunction =
    @convention(c) (
        UnsafeMutableRawPointer?, CInt, UnsafePointer<CChar>?, CInt, CInt, CInt
    ) -> CInt

/// A tokenizer: it gets a context for its tokens, the reason of the call, a text in UTF-8 with its length in bytes, and
/// the function that takes the tokens. It returns a result code.
package typealias TokenizeFunction = (
    _ context: UnsafeMutableRawPointer?, _ reason: CInt, _ text: UnsafePointer<CChar>?, _ textBytes: CInt,
    _ pass: TokenFunction
) -> CInt

// MARK: - Adding and finding tokenizers

extension Database {
    /// Adds a tokenizer to this connection. It replaces one of the same name for tables that are opened from now on.
    ///
    /// SQLite keeps `make`, and each tokenizer as long as a table uses it. An error that `make` throws makes the
    /// statement fail that opens the table. Traps where the linked SQLite has no FTS5.
    ///
    /// - Parameter make: Makes the tokenizer of a table, from the arguments of the table's definition.
    package func addTokenizer(named name: String, make: @escaping (Database, [String]) throws -> TokenizeFunction) {
        requireAccess()
        if isClosed { return }
        guard let interface = fullTextInterface, let create = interface.pointee.xCreateTokenizer else {
            ProgrammerError.trap("the tokenizer \(name) cannot be added: the linked SQLite has no FTS5")
        }
        var functions = fts5_tokenizer(xCreate: createTokenizer, xDelete: deleteTokenizer, xTokenize: tokenizeText)
        let definition = Unmanaged.passRetained(TokenizerDefinition(self, make))
        if create(interface, name, definition.toOpaque(), &functions, releaseDefinition) != SQLITE_OK {
            // SQLite does not release the definition of a tokenizer that it refuses.
            definition.release()
            ProgrammerError.trap("the tokenizer \(name) cannot be added: out of memory")
        }
    }

    /// A tokenizer of this connection.
    ///
    /// - Parameter components: Its name and its arguments.
    /// - Throws: ``DatabaseError`` for a name that is not known, for arguments that the tokenizer does not accept, and
    ///   where the linked SQLite has no FTS5.
    package func registeredTokenizer(_ components: [String]) throws -> RegisteredTokenizer {
        requireAccess()
        if isClosed { throw closedError }
        guard let name = components.first else {
            throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "a tokenizer must have a name")
        }
        guard let interface = fullTextInterface, let find = interface.pointee.xFindTokenizer else {
            throw DatabaseError(resultCode: .SQLITE_ERROR, message: "no such module: fts5")
        }
        var functions = fts5_tokenizer()
        var context: UnsafeMutableRawPointer?
        guard find(interface, name, &context, &functions) == SQLITE_OK, let create = functions.xCreate else {
            throw DatabaseError(
                resultCode: .SQLITE_ERROR,
                message: "no such tokenizer: \(name). Add it to each connection, in Configuration.prepareDatabase")
        }
        var tokenizer: OpaquePointer?
        let code = withCStrings(components.dropFirst()) { create(context, $0, $1, &tokenizer) }
        guard code == SQLITE_OK, let tokenizer else {
            throw hooks.takeTokenizerFailure()
                ?? DatabaseError(
                    resultCode: code == SQLITE_OK ? .SQLITE_ERROR : ResultCode(rawValue: code),
                    message: "the tokenizer \(name) does not accept its arguments")
        }
        return RegisteredTokenizer(functions, tokenizer, self)
    }

    /// SQLite's interface to FTS5, which lives as long as the connection; nil where the library has no FTS5.
    // Found once: SQLite may make a tokenizer while it compiles a statement, and must not compile another one then.
    package var fullTextInterface: FullTextInterface? {
        if hooks.fullTextInterface == nil { hooks.fullTextInterface = gated { handle.findFullTextInterface() } }
        return hooks.fullTextInterface
    }
}

/// SQLite's `fts5_api`, by which C code adds tokenizers and functions.
/// - SeeAlso: <https://www.sqlite.org/fts5.html#extending_fts5>
public typealias FullTextInterface = UnsafeMutablePointer<fts5_api>

extension ConnectionHandle {
    fileprivate func findFullTextInterface() -> UnsafeMutablePointer<fts5_api>? {
        var statement: SQLiteStatement?
        guard sqlite3_prepare_v2(pointer, "SELECT fts5(?)", -1, &statement, nil) == SQLITE_OK else { return nil }
        defer { sqlite3_finalize(statement) }
        var interface: UnsafeMutablePointer<fts5_api>?
        return withUnsafeMutablePointer(to: &interface) { place in
            // SQLite reads the name of the type when the statement runs.
            "fts5_api_ptr".withCString { type in
                guard sqlite3_bind_pointer(statement, 1, place, type, nil) == SQLITE_OK else { return nil }
                sqlite3_step(statement)
                return place.pointee
            }
        }
    }
}

/// A tokenizer that is registered with SQLite, for the use of Swift code.
///
/// It is used in the accesses of the connection that made it, on one thread at a time.
package final class RegisteredTokenizer {
    private let functions: fts5_tokenizer
    private let tokenizer: OpaquePointer
    private weak var database: Database?

    fileprivate init(_ functions: fts5_tokenizer, _ tokenizer: OpaquePointer, _ database: Database) {
        self.functions = functions
        self.tokenizer = tokenizer
        self.database = database
    }

    deinit { functions.xDelete?(tokenizer) }

    /// Passes the tokens of a text to a function, and returns a result code.
    package func tokenize(
        _ context: UnsafeMutableRawPointer?, reason: CInt, text: UnsafePointer<CChar>?, textBytes: CInt,
        pass: TokenFunction
    ) -> CInt {
        guard textBytes >= 0, text != nil || textBytes == 0 else { return SQLITE_MISUSE }
        return functions.xTokenize?(tokenizer, context, reason, text, textBytes, pass) ?? SQLITE_ERROR
    }

    /// Keeps an error of Swift code for the statement that fails by its code, which is returned.
    package func note(_ error: any Error) -> CInt {
        let failure = DatabaseError(ofTokenizer: error)
        database?.hooks.tokenizerFailure = failure
        return failure.extendedResultCode.rawValue
    }

    /// The error that was kept, once.
    package func takeFailure() -> DatabaseError? { database?.hooks.takeTokenizerFailure() }
}

extension DatabaseError {
    /// The error of a statement whose tokenizer has thrown: a ``DatabaseError`` keeps its code, others get
    /// `SQLITE_ERROR`.
    fileprivate init(ofTokenizer error: any Error) {
        let known = error as? DatabaseError
        let code = known?.extendedResultCode.withoutSuccess ?? .SQLITE_ERROR
        self.init(resultCode: code, message: known?.message ?? "\(error)")
    }
}

extension ResultCode {
    /// `SQLITE_ERROR` for codes that mean success: SQLite would continue a call that failed.
    fileprivate var withoutSuccess: ResultCode {
        [.SQLITE_OK, .SQLITE_ROW, .SQLITE_DONE].contains(primaryResultCode) ? .SQLITE_ERROR : self
    }
}

/// Calls a function with texts as an array of C strings.
private func withCStrings<Result>(
    _ texts: some Collection<String>, _ body: (UnsafeMutablePointer<UnsafePointer<CChar>?>?, CInt) -> Result
) -> Result {
    var bytes: [CChar] = []
    var starts: [Int] = []
    for text in texts {
        starts.append(bytes.count)
        bytes += text.utf8CString
    }
    return bytes.withUnsafeBufferPointer { bytes in
        var pointers = starts.map { start in bytes.baseAddress.map { $0 + start } }
        return pointers.withUnsafeMutableBufferPointer { body($0.baseAddress, CInt($0.count)) }
    }
}

// MARK: - Objects that SQLite keeps

/// A tokenizer that a program has added. SQLite keeps it until the connection is closed.
private final class TokenizerDefinition {
    private weak var database: Database?
    private let makeTokenizer: (Database, [String]) throws -> TokenizeFunction

    init(_ database: Database, _ make: @escaping (Database, [String]) throws -> TokenizeFunction) {
        self.database = database
        makeTokenizer = make
    }

    func make(_ arguments: [String]) throws -> TokenizeFunction {
        guard let database else { throw DatabaseError.connectionIsClosed() }
        return try database.callingProgram { try makeTokenizer(database, arguments) }
    }

    /// Keeps an error for the statement that fails by its code, which is returned.
    func note(_ error: any Error) -> CInt {
        let failure = DatabaseError(ofTokenizer: error)
        database?.hooks.tokenizerFailure = failure
        return failure.extendedResultCode.rawValue
    }
}

extension Database {
    /// Runs code of the program that SQLite calls, perhaps while it compiles a statement: the code may compile others.
    fileprivate func callingProgram<Result>(_ body: () throws -> Result) rethrows -> Result {
        let (effects, isCompiling) = (hooks.effects, hooks.isCompiling)
        hooks.effects = []
        defer {
            hooks.effects = effects
            hooks.isCompiling = isCompiling
        }
        return try body()
    }
}

/// The tokenizer of one table, or of one ``RegisteredTokenizer``. SQLite keeps it as long as that one uses it.
private final class KeptTokenizer {
    let definition: TokenizerDefinition
    let tokenize: TokenizeFunction

    init(_ definition: TokenizerDefinition, _ tokenize: @escaping TokenizeFunction) {
        self.definition = definition
        self.tokenize = tokenize
    }
}

/// One call of a tokenizer. Its tokens pass through it: FTS5 trusts what it gets.
private struct Tokenization {
    let context: UnsafeMutableRawPointer?
    let pass: TokenFunction
    let textBytes: CInt
    /// The answer of FTS5; after an error it gets no more tokens.
    var code = SQLITE_OK
    /// Whether a token had a length and no bytes, or a negative length.
    var hasBadToken = false
}

// MARK: - Called by SQLite

private func releaseDefinition(_ definition: UnsafeMutableRawPointer?) {
    if let definition { Unmanaged<TokenizerDefinition>.fromOpaque(definition).release() }
}

private func createTokenizer(
    context: UnsafeMutableRawPointer?, arguments: UnsafeMutablePointer<UnsafePointer<CChar>?>?, count: CInt,
    result: UnsafeMutablePointer<OpaquePointer?>?
) -> CInt {
    guard let context, let result else { return SQLITE_MISUSE }
    let definition = Unmanaged<TokenizerDefinition>.fromOpaque(context).takeUnretainedValue()
    let arguments = UnsafeBufferPointer(start: arguments, count: arguments == nil ? 0 : Int(count))
    do {
        let tokenize = try definition.make(arguments.compactMap { $0.map { String(cString: $0) } })
        result.pointee = OpaquePointer(Unmanaged.passRetained(KeptTokenizer(definition, tokenize)).toOpaque())
        return SQLITE_OK
    } catch {
        return definition.note(error)
    }
}

private func deleteTokenizer(_ tokenizer: OpaquePointer?) {
    if let tokenizer { Unmanaged<KeptTokenizer>.fromOpaque(UnsafeRawPointer(tokenizer)).release() }
}

private func tokenizeText(
    tokenizer: OpaquePointer?, context: UnsafeMutableRawPointer?, reason: CInt, text: UnsafePointer<CChar>?,
    textBytes: CInt, pass: TokenFunction?
) -> CInt {
    guard let tokenizer, let pass else { return SQLITE_MISUSE }
    let kept = Unmanaged<KeptTokenizer>.fromOpaque(UnsafeRawPointer(tokenizer)).takeUnretainedValue()
    var run = Tokenization(context: context, pass: pass, textBytes: max(0, textBytes))
    let code = withUnsafeMutablePointer(to: &run) { kept.tokenize($0, reason, text, textBytes, passToken) }
    if run.hasBadToken {
        return kept.definition.note(
            DatabaseError(resultCode: .SQLITE_MISUSE, message: "a tokenizer passed a token without its bytes"))
    }
    // FTS5 must learn its own error, no matter how the tokenizer handled it.
    if run.code != SQLITE_OK { return run.code }
    return code == SQLITE_OK ? SQLITE_OK : ResultCode(rawValue: code).withoutSuccess.rawValue
}

private func passToken(
    context: UnsafeMutableRawPointer?, flags: CInt, token: UnsafePointer<CChar>?, tokenBytes: CInt, start: CInt,
    end: CInt
) -> CInt {
    guard let run = context?.assumingMemoryBound(to: Tokenization.self) else { return SQLITE_MISUSE }
    if run.pointee.code != SQLITE_OK { return run.pointee.code }
    guard tokenBytes >= 0, token != nil || tokenBytes == 0 else {
        run.pointee.hasBadToken = true
        run.pointee.code = SQLITE_MISUSE
        return SQLITE_MISUSE
    }
    if tokenBytes == 0 { return SQLITE_OK }
    // snippet() and highlight() read the text at these places.
    let start = min(max(0, start), run.pointee.textBytes)
    let end = min(max(start, end), run.pointee.textBytes)
    run.pointee.code = run.pointee.pass(run.pointee.context, flags, token, tokenBytes, start, end)
    return run.pointee.code
}
