import KeyCustody
import StoreCrypto
import StorePlatform

/// The purpose of a connection.
enum ConnectionRole {
    /// Reads and writes.
    case writer
    /// Only reads, beside a writer of the same pool.
    case reader
    /// Only checkpoints, beside a writer of the same pool.
    case checkpointer
}

/// Decides whether a failed opening is repeated because the store was replaced meanwhile, for example by a switch to a
/// new key.
private struct OpeningRetry {
    private let fileKey: FileKey
    /// Whether to wait for a switch that is under way. A shared store has a lease, and so never meets one.
    private let waitsForSwitch: Bool
    private var polling = Polling(first: DatabaseLimits.switchLookTime, until: .now + DatabaseLimits.switchWait)
    private var replacements = DatabaseLimits.replacementsWhileOpening
    private var hasSeenEnd = false
    private var hasSeenNewFile = false

    init(fileKey: FileKey, waitsForSwitch: Bool) {
        self.fileKey = fileKey
        self.waitsForSwitch = waitsForSwitch
    }

    mutating func isWorthwhile(after error: StoreError) -> Bool {
        switch error.code {
        case .storeMoved:
            // Another file took the name between the opening and the first read: open that one.
            replacements -= 1
            return replacements >= 0
        case .rotationPending where waitsForSwitch:
            return waitForSwitch()
        case .wrongKey where fileKey.hasSeenNewFile && !hasSeenNewFile:
            // Another connection has made page 1 since, under another salt.
            hasSeenNewFile = true
            return true
        default: return false
        }
    }

    /// Waits while the process that switches the store is alive and has not changed the sidecar: an earlier attempt
    /// would fail again, and call the program's functions for a key each time. An interrupted switch is not waited for.
    private mutating func waitForSwitch() -> Bool {
        repeat {
            if fileKey.opening.isEnded { return false }
            if fileKey.sidecarCache?.hasChanged == true {
                hasSeenEnd = false
                return true
            }
            guard fileKey.opening.isRotating else {
                // The switch may have ended between the failure and this check: one more attempt shows it.
                defer { hasSeenEnd = true }
                return !hasSeenEnd
            }
            hasSeenEnd = false
        } while polling.sleep()
        return false
    }
}

extension Database {
    /// Opens a connection and prepares it: after this it is encrypted, checked and ready for an access.
    ///
    /// Every connection takes the steps that `Docs/Architecture.md` lists ("Opening a connection").
    static func open(
        path: String, label: String, configuration: Configuration, fileKey: FileKey, role: ConnectionRole,
        key: KeyOrigin = .fromPrepareDatabase, wal: Bool = false
    ) throws -> Database {
        try SQLiteLibrary.requireCipher()
        // As links led when the database was opened first. They may lead elsewhere for a later connection.
        let path = fileKey.opening.paths?.database ?? path
        func attempt() throws -> Database {
            try openNow(
                path: path, label: label, configuration: configuration, fileKey: fileKey, role: role, key: key, wal: wal
            )
        }
        // The other connections of the pool have the moved file open.
        guard fileKey.pageKey == nil else { return try attempt() }
        var retry = OpeningRetry(fileKey: fileKey, waitsForSwitch: key.isFromPrepareDatabase)
        while true {
            do {
                return try attempt()
            } catch let error as StoreError {
                guard retry.isWorthwhile(after: error) else { throw error }
                fileKey.forgetFile()
            }
        }
    }

    private static func openNow(
        path: String, label: String, configuration: Configuration, fileKey: FileKey, role: ConnectionRole,
        key: KeyOrigin, wal: Bool
    ) throws -> Database {
        let db = try Database(
            path: path, label: label, configuration: configuration, fileKey: fileKey, usesGate: role != .reader)
        db.beginAccess()
        do {
            try db.prepare(fileKey: fileKey, key: key)
            try db.readSchema(fileKey: fileKey, role)
            if db.connectionKey.isKeyed { try db.lookForRefusedPages() }
            try fileKey.requireCurrentSidecar(db)
            if db.isOfMovedFile(fileKey) { throw StoreError.moved(path) }
            if role == .writer { try db.setUpWriter(fileKey: fileKey, wal: wal) }
            // SQLite has opened or made them by their names since the first check.
            if let paths = fileKey.paths { try CompanionFiles(paths).requireOwn() }
            db.installBusyMode()
            db.armGate()
            db.gating.checksFile = db.connectionKey.isKeyed && !fileKey.isInMemory
            db.noteJournalMode()
            if db.gating.checksFile { try fileKey.opening.noteFiles(isWAL: db.gating.wal != nil) }
        } catch {
            // A store that is refused is left unchanged, its WAL included.
            db.handle.setCheckpointOnClose(false)
            let isMoved = db.isOfMovedFile(fileKey) || fileKey.isSuperseded(error)
            let refusal = fileKey.opening.refusal(explaining: error)
            let fault = isMoved || fileKey.isInMemory ? nil : refusal ?? db.walFault(explaining: error)
            db.discard()
            throw isMoved ? StoreError.moved(path) : fault ?? error
        }
        db.endAccess(allowsOpenTransaction: configuration.allowsUnsafeTransactions)
        return db
    }

    /// Whether the file of a connection with a key lost its name before the first read. In WAL mode the first read
    /// takes a lock that lasts: from then on no process switches the store to a new key.
    private func isOfMovedFile(_ fileKey: FileKey) -> Bool {
        connectionKey.wasGivenKey && !fileKey.isInMemory && handle.hasMoved
    }

    private func prepare(fileKey: FileKey, key: KeyOrigin) throws {
        installSetUpBusyMode()
        hooks.authorize = { [connectionKey] in connectionKey.authorize($0) }
        hooks.isInternal = { [connectionKey] in connectionKey.isInternal }
        hooks.didCommitToWAL = { [unowned self] in didCommitToWAL(frames: $0) }
        handle.installAuthorizer(hooks)
        // Before the hook: SQLite makes its own checkpoints by the same hook, and disabling them removes it.
        handle.disableAutomaticCheckpoints()
        handle.installWALHook(hooks)
        handle.setDoubleQuotedStrings(configuration.acceptsDoubleQuotedStringLiterals)
        handle.setForeignKeys(configuration.foreignKeysEnabled)
        handle.setTrustedSchema(configuration.trustsSchema)
        addOwnFeatures()
        try addBuiltInFunctions()
        try addHistoryFunction()
        // Otherwise sorts and temporary tables would reach the disk in plaintext.
        try runInternally("PRAGMA temp_store = MEMORY")
        // A page whose cells overlap is reported as it is read, and not followed.
        try runInternally("PRAGMA cell_size_check = ON")
        try connectionKey.apply(key, on: self)
        for prepare in configuration.preparations { try prepare(self) }
        try connectionKey.finish(on: self)
        // SQL cannot make an encrypted database unreadable.
        if connectionKey.isKeyed { handle.setDefensive(true) }
        if configuration.persistentWAL && !fileKey.isInMemory { try check(handle.setPersistentWAL(true)) }
    }

    /// Reads the schema: the proof that SQLite can read the file. A connection for checkpoints needs page 1 alone, and
    /// the schema of very many tables takes long.
    private func readSchema(fileKey: FileKey, _ role: ConnectionRole) throws {
        do {
            let isForCheckpoints = if case .checkpointer = role { true } else { false }
            _ = try Int.fetchOne(
                self, sql: isForCheckpoints ? "PRAGMA main.schema_version" : "SELECT COUNT(*) FROM sqlite_schema")
        } catch let error as DatabaseError {
            guard let paths = fileKey.paths else { throw error }
            throw FileDiagnosis(handle, path: paths.database).explain(error, settings: fileKey.pageKey?.settings)
        }
    }

    private func setUpWriter(fileKey: FileKey, wal: Bool) throws {
        guard !configuration.readonly else { return try verifyLength(fileKey: fileKey) }
        CrashPoint.reach(.databaseKeyed)
        if wal, !fileKey.isInMemory { try switchToWAL() }
        CrashPoint.reach(.journalModeSet)
        if fileKey.sidecar?.state == .creating && handle.fileBytes == 0 {
            // Any write creates page 1; this one changes nothing.
            let version = try Int.fetchOne(self, sql: "PRAGMA user_version") ?? 0
            try runInternally("PRAGMA user_version = \(version)")
        }
        // Also while the sidecar says that the store is being created: it may have been reset to that state. For a new
        // store it is the first read in WAL mode, which creates -wal and -shm. They stay, for users who may not create
        // them.
        try verifyLength(fileKey: fileKey)
        if wal, !fileKey.isInMemory { restartEmptiedWAL() }
        guard fileKey.sidecar?.state == .creating else { return }
        CrashPoint.reach(.firstPageWritten)
        try fileKey.recordCreated()
        CrashPoint.reach(.storeCreated)
    }

    private func switchToWAL() throws {
        // Read first: setting a mode that is set already would need locks that others hold.
        if try String.fetchOne(self, sql: "PRAGMA journal_mode") != "wal" {
            // To the end of the statement: its row comes before its commit, which may fail.
            let mode = try String.fetchAll(self, sql: "PRAGMA journal_mode = WAL").first
            guard mode == "wal" else {
                throw DatabaseError(message: "could not activate WAL mode at path: \(path)")
            }
        }
        try runInternally("PRAGMA synchronous = NORMAL")
        try runInternally("PRAGMA journal_size_limit = \(DatabaseLimits.keptWALBytes)")
    }

    /// Compares the length of an existing file with what header and WAL require.
    private func verifyLength(fileKey: FileKey) throws {
        guard let paths = fileKey.paths, handle.fileBytes != 0 else { return }
        try run(.beginDeferred)
        defer { rollbackIfNeeded() }
        // A read starts the transaction's snapshot: from here on no process can shorten the file or reset the WAL.
        _ = try Int.fetchOne(self, sql: "SELECT COUNT(*) FROM sqlite_schema")
        guard let pages = try Int.fetchOne(self, sql: "PRAGMA page_count"),
            let pageBytes = try Int.fetchOne(self, sql: "PRAGMA page_size")
        else { return }
        try FileDiagnosis(handle, path: paths.database).verifyLength(
            pages: pages, pageBytes: pageBytes,
            // Only a plaintext header can be changed without its key.
            mayHaveTail: (fileKey.pageKey?.settings.plaintextHeaderBytes ?? 0) == 0)
    }

    private func lookForRefusedPages() throws {
        let effects = hooks.effects
        let record = hooks.compiledRecord
        try connectionKey.allowingInternalSQL { try pageReads.begin(handle) }
        (hooks.effects, hooks.compiledRecord) = (effects, record)
        hooks.isUnreported = { [pageReads] in pageReads.owns($0) }
    }

    /// Runs one of the library's own statements, without the authorizer.
    package func runInternally(_ sql: String) throws {
        try check(connectionKey.allowingInternalSQL { handle.runPragma(sql) }, sql: sql)
    }
}

extension SerialConnection {
    /// A placeholder for a connection that could not be opened, where nothing can be thrown: each of its statements
    /// throws the reason. It traps only when the process has no memory left.
    static func unopened(because error: any Error, _ configuration: Configuration) -> SerialConnection {
        do {
            let db = try Database(
                path: MemoryPath.own, label: configuration.label ?? "CipherStore.DatabaseQueue",
                configuration: configuration, fileKey: FileKey(path: MemoryPath.own, configuration: configuration),
                usesGate: false)
            db.discard()
            db.health.openingFailure = error
            return SerialConnection(db, qos: configuration.writeQoS, target: nil, allowsOpenTransaction: false)
        } catch let second {
            ProgrammerError.trap("\(error) (and no connection at all: \(second))")
        }
    }
}
