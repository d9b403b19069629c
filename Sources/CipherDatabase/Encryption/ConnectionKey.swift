import KeyCustody
import StoreCrypto
import StorePlatform
import StoreSharing

/// The keys of one connection, from its first pragma until it is closed.
///
/// While a connection is prepared this type collects key and settings, supplies the salt and records it. Afterwards it
/// refuses every change of them. SQLCipher itself is keyed twice at most. The first time is with the passphrase as soon
/// as it is given, so that C code in a preparing function also has a keyed connection. The second time is with the
/// derived raw key before the file is first accessed, so that no connection derives a key itself.
final class ConnectionKey {
    private enum Phase {
        /// No key was given yet.
        case unkeyed
        /// A key was given; settings may follow.
        case given(Secret, PendingCipherSettings)
        /// SQLCipher has its final key; more pragmas may follow if they agree with it. The secret is nil when the
        /// file key had the keys from a former opening.
        case settled(Secret?, PageKey)
        /// As before, but only SQLCipher has the derived key.
        case leftToSQLCipher
    }

    private let handle: ConnectionHandle
    private let fileKey: FileKey
    private let configuration: Configuration
    private var phase = Phase.unkeyed
    private var isPrepared = false
    /// Whether the key is a random one; keys that preparing functions give are then ignored.
    private var hasThrowawayKey = false
    /// Whether a key was given, even if it was refused. Such a refusal does not apply to a file that was replaced
    /// since.
    private(set) var wasGivenKey = false
    /// Whether the library's own statements are being compiled; they pass every check.
    private(set) var isInternal = false
    /// Pragmas that came before the key or among its settings. Run at once, they would access the file too early.
    private var postponed: [String] = []
    /// The settings that pragmas have requested since the key was settled.
    private var asked: PendingCipherSettings?
    private var refusal: (any Error)?
    /// The salt that was generated for a new file, until page 1 is there.
    private var newFileSalt: Salt?

    init(handle: ConnectionHandle, fileKey: FileKey, configuration: Configuration) {
        self.handle = handle
        self.fileKey = fileKey
        self.configuration = configuration
    }

    /// The suspension of the file.
    var suspension: DatabaseSuspension { fileKey.opening.suspension }
    /// Reports what the owner of the file must know.
    func notice(_ text: String) { fileKey.opening.notice(text) }
    /// Who the connection is in the history of changes.
    var author: HistoryIdentity { fileKey.opening.author }

    /// Whether the connection encrypts what it writes.
    var isKeyed: Bool { if case .unkeyed = phase { false } else { true } }

    /// Whether the file had no page 1 when this was last examined.
    var awaitsFirstPage: Bool { newFileSalt != nil }

    /// Whether another connection has written page 1 of a new file first: under another salt, so that this connection can
    /// read no page.
    func hasOtherSalt() -> Bool {
        guard let salt = newFileSalt, let first = handle.readFile(Salt.byteCount, at: 0), first.count == Salt.byteCount
        else { return false }
        if first == salt.bytes { newFileSalt = nil }
        return first != salt.bytes
    }

    /// The error of the last refusal, returned once.
    func takeRefusal() -> (any Error)? {
        defer { refusal = nil }
        return refusal
    }

    // MARK: Giving the key

    /// Gives the connection the key that the whole pool uses.
    ///
    /// - Throws: `StoreError` `keyRotated` when the keys of a former opening no longer belong to the store; what giving
    ///   a secret throws.
    func apply(_ origin: KeyOrigin, on db: Database) throws {
        switch origin {
        case .fromPrepareDatabase: break
        case .throwaway:
            try check(allowingInternalSQL { try handle.setRawKey(.throwaway()) })
            hasThrowawayKey = true
            phase = .leftToSQLCipher
        case .secret, .knownKeys:
            wasGivenKey = true
            if let key = fileKey.pageKey { return try setKey(fileKey.secret, key) }
            guard case .secret(let secret, let settings) = origin else {
                return try setKey(fileKey.secret, fileKey.keyByHeldKeys(file: handle))
            }
            try apply(secret, creatingWith: settings, on: db)
        }
    }

    /// Gives the connection the key of the database.
    ///
    /// - Parameter settings: Settings for a file that does not exist yet, to be recorded at once; nil leaves them to
    ///   the pragmas that follow.
    func apply(_ secret: Secret, creatingWith settings: CipherSettings? = nil, on db: Database) throws {
        if hasThrowawayKey && !isPrepared { return }
        switch phase {
        case .unkeyed, .given: break
        case .settled(let known?, _) where !isPrepared && known.isEqual(to: secret): return
        case .settled, .leftToSQLCipher: throw misuse("the key of this connection is already in use")
        }
        if isPrepared { throw misuse("a key is given in prepareDatabase, before the database is used") }
        wasGivenKey = true
        guard !fileKey.isInMemory else {
            try check(setPlainKey(secret))
            phase = .leftToSQLCipher
            return try runPostponed(on: db)
        }
        switch try fileKey.resolve(secret, file: handle, creatingWith: settings) {
        case .known(let key): try setKey(secret, key)
        case .pending(let pending):
            try check(setPlainKey(secret))
            if let salt = pending.salt, pending.isNewFile {
                // Set before any pragma can follow, so that nothing is ever written under an unknown salt.
                try check(runInternally("PRAGMA cipher_salt = \"x'\(salt.hex)'\""))
            }
            phase = .given(secret, pending)
        }
        try runPostponed(on: db)
    }

    /// Sets the raw key of the connection, and verifies page 1 before SQLite reads it.
    private func setKey(_ secret: Secret?, _ key: PageKey) throws {
        isInternal = true
        defer { isInternal = false }
        try check(handle.setRawKey(key))
        if key.settings.plaintextHeaderBytes > 0 {
            // SQLCipher 3 answers OK to the pragma and ignores it; only the returned row proves that it is supported.
            let (code, answer) = handle.pragmaAnswer("PRAGMA cipher_plaintext_header_size")
            if code.primaryResultCode == .SQLITE_INTERRUPT { try check(code) }
            guard answer == String(key.settings.plaintextHeaderBytes) else {
                throw SQLiteLibrary.unsupported(found: "a library that does not know plaintext headers")
            }
        }
        try fileKey.confirm(key, of: secret, handle)
        phase = .settled(secret, key)
    }

    private func derivePending(_ secret: Secret, _ pending: PendingCipherSettings, on db: Database) throws {
        if pending.isNewFile, fileKey.opening.isReadonly, let paths = fileKey.paths {
            if pending.needsSidecar { throw FileDiagnosis.notYetCreated(paths.database) }
            // SQLCipher derives the key with the salt of the file, once the file exists.
            phase = .leftToSQLCipher
        } else if pending.isModelled {
            guard let salt = pending.salt else { throw fileKey.saltMissing() }
            if pending.saltOrigin == .file && pending.needsSidecar { throw fileKey.standardFile() }
            let key = try fileKey.pageKey(of: secret, salt: salt, settings: pending.settings)
            try setKey(secret, key)
            if pending.isNewFile && pending.saltOrigin == .generated && !pending.needsSidecar { newFileSalt = salt }
            // An existing file whose salt the user has set: page 1 proves the salt, so it is recorded.
            if pending.needsSidecar && !pending.isNewFile { try fileKey.recordFound(key) }
        } else {
            if pending.needsSidecar {
                throw fileKey.settingsConflict(
                    "a plaintext header together with settings of SQLCipher 1 to 3 cannot be recorded")
            }
            phase = .leftToSQLCipher
        }
        try runPostponed(on: db)
    }

    // MARK: Around SQL text

    /// Called before SQL is compiled: settles the key when the SQL may access the file.
    func willCompile(_ sql: @autoclosure () -> String, on db: Database) throws {
        if isPrepared || isInternal { return }
        switch phase {
        case .settled, .leftToSQLCipher: return
        case .unkeyed:
            if fileKey.isInMemory || configuration.allowsUnencrypted { return }
            if !CipherPragma.comesBeforeFileAccess(sql()) { throw fileKey.keyMissing() }
        case .given(let secret, let pending):
            if !CipherPragma.comesBeforeFileAccess(sql()) { try derivePending(secret, pending, on: db) }
        }
    }

    /// Postpones the pragma with which a text begins, if it would access the file before its key and settings are
    /// known.
    ///
    /// - Returns: The length of the postponed text, in bytes of UTF-8; nil when the text must be run now.
    func postpone(from sql: @autoclosure () -> String) -> Int? {
        if isPrepared || isInternal || fileKey.isInMemory { return nil }
        let isKeyed: Bool
        switch phase {
        case .unkeyed: isKeyed = false
        case .given: isKeyed = true
        case .settled, .leftToSQLCipher: return nil
        }
        if !isKeyed && configuration.allowsUnencrypted { return nil }
        let sql = sql()
        guard let name = CipherPragma.leadingPragma(of: sql) else { return nil }
        switch CipherPragma(name: name, value: "") {
        case .key: return nil
        case .setting where isKeyed: return nil
        default: break
        }
        let pragma = sql.firstStatement
        postponed.append(String(pragma))
        return pragma.utf8.count
    }

    /// Runs the postponed pragmas in their order. While settings may still follow, all but settings are postponed
    /// again.
    private func runPostponed(on db: Database) throws {
        let pragmas = postponed
        postponed = []
        for pragma in pragmas { try db.execute(sql: pragma) }
    }

    /// Ends the preparation: the key is settled, and from then on it cannot be changed.
    func finish(on db: Database) throws {
        switch phase {
        case .unkeyed where !fileKey.isInMemory && !configuration.allowsUnencrypted: throw fileKey.keyMissing()
        case .given(let secret, let pending): try derivePending(secret, pending, on: db)
        default: break
        }
        if case .settled(_, let key) = phase, let asked, !asked.isModelled || asked.settings != key.settings {
            throw fileKey.settingsConflict("PRAGMA cipher_compatibility asks for something else")
        }
        isPrepared = true
    }

    /// Runs library code whose SQL passes every check.
    func allowingInternalSQL<T>(_ body: () throws -> T) rethrows -> T {
        let outer = isInternal
        isInternal = true
        defer { isInternal = outer }
        return try body()
    }

    // MARK: The authorizer

    /// Decides on an action while a statement is compiled, and records the settings of the cipher.
    ///
    /// It runs inside SQLite, so it may read and write other files but must not use the connection.
    func authorize(_ request: AuthorizerRequest) -> AuthorizerDecision {
        if isInternal { return .allow }
        do {
            switch request {
            case .pragma(let name, let value): return try authorizePragma(name, value: value)
            case .attach(let file): try authorizeAttach(file)
            case .storeTable(let name):
                // In a plain database the name means nothing.
                if !isKeyed && RollbackTable.isNamed(name) { break }
                let way =
                    name.lowercased().hasPrefix("cipherstore_history")
                    ? "; `cipherctl history stop` (stopRecordingHistory(of:) in a program) ends the recording of changes"
                    : ""
                throw refused("\(name) belongs to the store, and other parts of it need it" + way)
            case .storeRow(let table):
                // In a plain database the name means nothing.
                if !isKeyed { break }
                let way =
                    StoreTables.isOfRepository(table)
                    ? "`cipherctl sync run` and its other commands (ChangesetRepository and SyncManager in a program)"
                    : "`cipherctl history stop` or `cipherctl history readers` (stopRecordingHistory(of:), setHistoryLimits "
                        + "or removeHistoryReader in a program)"
                throw refused("the rows of \(table) are written by the library alone: use \(way)")
            case .other: break
            }
            return .allow
        } catch {
            refusal = error
            return .deny
        }
    }

    private func authorizePragma(_ name: String, value: String?) throws -> AuthorizerDecision {
        switch CipherPragma(name: name, value: value) {
        case .other:
            if isPrepared, configuration.requiresWAL, name.lowercased() == "journal_mode", let value,
                value.uppercased() != "WAL"
            {
                throw refused("PRAGMA journal_mode: a shared store is in WAL mode, on which its other processes rely")
            }
            if isKeyed, let value { try requireHarmless(name.lowercased(), value) }
            return .allow
        case .key:
            throw refused(
                "a key is never given as SQL text, which traces and errors show: use an option of the command "
                    + "(usePassphrase or useRawKey in a program)")
        case .forbidden:
            throw refused("PRAGMA \(name) changes the encryption without the store's knowledge")
        case .engine:
            if name.lowercased() == "temp_store", let value, value == "2" || value.uppercased() == "MEMORY" {
                return .allow
            }
            throw refused(
                "PRAGMA \(name) is reserved for the library while a database is shared"
                    + Self.reason(forReserving: name.lowercased()))
        case .setting(let setting):
            return try authorizeSetting(setting, value: value ?? "", name: name)
        }
    }

    /// Refuses pragmas that make SQLCipher crash, or write into the file behind the cipher or the schema.
    private func requireHarmless(_ name: String, _ value: String) throws {
        switch name {
        case "page_size":
            // VACUUM then writes pages of this size through a codec that has buffers of the former size.
            if case .settled(_, let key) = phase, Int(value) == key.settings.pageBytes { return }
            throw refused(
                "PRAGMA page_size: the pages of an encrypted database keep the size with which they were created; "
                    + "PRAGMA cipher_page_size sets it for a new one")
        case "writable_schema":
            if ["0", "off", "false", "no", "reset"].contains(value.lowercased()) { return }
            throw refused(
                "PRAGMA writable_schema: rows that are written into sqlite_schema can make the database unreadable; "
                    + "use CREATE, ALTER and DROP")
        case "cipher_log":
            if ["stdout", "stderr", "device", "off", "none", ""].contains(value.lowercased()) { return }
            // SQLCipher appends to any file of that name, whatever it holds.
            guard !isPrepared else {
                throw refused(
                    "PRAGMA cipher_log: SQL writes into no other file; name stderr, stdout or off "
                        + "(a program names a file in prepareDatabase)")
            }
            guard let paths = fileKey.paths, StorePaths(value).database.hasPrefix(paths.database) else { return }
            throw refused(
                "PRAGMA cipher_log: a log in \"\(value)\" would overwrite a file of the store; name another file")
        default: return
        }
    }

    /// Why a pragma is reserved, or what takes its place.
    private static func reason(forReserving name: String) -> String {
        switch name {
        case "temp_store", "temp_store_directory":
            ": sorts and temporary tables stay in memory, since a file of them is not encrypted"
        case "wal_checkpoint", "wal_autocheckpoint": " (use checkpoint() in a program)"
        default: ""
        }
    }

    private func authorizeSetting(_ setting: CipherPragma.Setting, value: String, name: String) throws
        -> AuthorizerDecision
    {
        guard !isPrepared else { throw refused("PRAGMA \(name) is only for prepareDatabase, before the first access") }
        switch phase {
        case .unkeyed:
            // From C code: SQLCipher ignores it before the key, so it is kept and run after the key is given.
            postponed.append("PRAGMA \(name) = \"\(value)\"")
        case .leftToSQLCipher:
            break
        case .settled(_, let key):
            var known = asked ?? PendingCipherSettings(settled: key)
            if let reason = known.apply(setting, value: value) { throw refused("PRAGMA \(name): \(reason)") }
            asked = known
            // One pragma sets several at once, and later ones may correct it: `finish` compares those.
            if setting != .compatibility && !known.agrees(with: key, on: setting) {
                throw fileKey.settingsConflict("PRAGMA \(name) asks for something else")
            }
            // SQLCipher has its settings already. Other settings of `cipher_compatibility` would make it misread the
            // file.
            return .ignore
        case .given(let secret, var pending):
            if let reason = pending.apply(setting, value: value) { throw refused("PRAGMA \(name): \(reason)") }
            phase = .given(secret, pending)
            if pending.needsSidecar, pending.isNewFile, pending.isModelled, let salt = pending.salt {
                // The salt must be durable before the first page can be written under it.
                try fileKey.recordNew(secret, salt: salt, settings: pending.settings)
            }
        }
        return .allow
    }

    private func authorizeAttach(_ file: String?) throws {
        // VACUUM attaches a database without a name. Any other file would be written without the key of this database.
        // A name that is not a literal is nil here, and may be any name.
        if file == "" || file == ":memory:" { return }
        if case .unkeyed = phase, configuration.allowsUnencrypted { return }
        throw refused(
            "an attached file would contain readable copies of encrypted rows; `cipherctl backup` (vacuum(into:) and "
                + "backup(to:) in a program) makes encrypted copies")
    }

    // MARK: Errors

    private func refused(_ message: String) -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_AUTH, message: "refused: \(message)")
    }

    private func misuse(_ message: String) -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_MISUSE, message: message)
    }

    private func check(_ code: ResultCode) throws {
        if code != .SQLITE_OK { throw DatabaseError(resultCode: code, message: handle.lastMessage) }
    }

    private func runInternally(_ sql: String) -> ResultCode { allowingInternalSQL { handle.runPragma(sql) } }

    private func setPlainKey(_ secret: Secret) -> ResultCode {
        // A raw key is given with its salt later, when the salt is settled.
        guard secret.isPassphrase else { return handle.setRawKey(secret, salt: nil) }
        return secret.withBytes { handle.setKey($0) }
    }
}
