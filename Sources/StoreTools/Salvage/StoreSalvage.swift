import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// Copies every row of a damaged store that can still be authenticated into a new store.
///
/// ```swift
/// let report = try StoreSalvage(of: "app.db", to: "salvaged.db", unlockedBy: .keyFile(path: "app.key")).run()
/// for table in report.tables { print(table.name, table.rowCount, table.lostPages.count) }
/// ```
///
/// SQLite is not asked to open the damaged database. Each page is authenticated, and each table is read from all of its
/// pages that are authentic, also where the pages above them are lost. Rows that are not certain are listed in tables
/// of their own, named `salvaged_1` and so on. The damaged store is not changed, and no program may have it open.
public struct StoreSalvage: StoreTool {
    /// The damaged store, or the folder of a backup.
    public let source: String
    /// The database file of the store to create; the path must be free.
    public let target: String
    /// The permissions of its files, one of `Configuration.fileModes`; nil for the default of a new store.
    public var fileMode: Int?
    /// The WAL to read in the place of the store's own, such as a copy that an opening kept of a damaged one; nil for that
    /// of the store.
    public var wal: String?
    /// Its `prepareDatabase` gives the connections the functions, collations and modules that the schema needs.
    public var configuration = Configuration()
    private let key: ToolKey

    /// - Parameters:
    ///   - source: The database file of the damaged store, or the folder of a backup.
    ///   - target: The database file of the store to create.
    ///   - keySource: Where the key comes from; it is read once, and opens the new store as well.
    public init(of source: String, to target: String, unlockedBy keySource: KeySource) {
        self.init(of: source, to: target, key: ToolKey(keySource))
    }

    package init(of source: String, to target: String, key: ToolKey) {
        self.source = source
        self.target = target
        self.key = key
    }

    /// The salvaged rows of a table, and the lost ones.
    public struct Table: Sendable {
        public let name: String
        /// Rows that are in the new store.
        public internal(set) var rowCount = 0
        /// Those of them that were below a lost page, and whose content fits this table only.
        public internal(set) var matchedRowCount = 0
        /// Lost pages of the table, as far as other pages name them.
        public internal(set) var lostPages: [LostPage] = []
        /// Rows of which a part is lost.
        public internal(set) var lostRowCount = 0
        /// The first of these rows.
        public internal(set) var lostRows: [LostRow] = []

        init(name: String) { self.name = name }

        /// Whether something of it is lost.
        ///
        /// An index that only the program can build is no loss.
        public var hasLosses: Bool { !lostPages.isEmpty || lostRowCount > 0 }
    }

    /// A row of which a part is lost.
    public struct LostRow: Hashable, Sendable {
        /// Nil in a table WITHOUT ROWID.
        public let rowID: Int64?
        /// The page with its beginning.
        public let page: UInt32
        /// The page with its continuation, which is lost.
        public let missingPage: UInt32
    }

    /// A table with rows that are not certain: their page, their row id, and their values. Their table is not known, or
    /// their pages may be of different moments.
    public struct Listing: Sendable {
        public let name: String
        /// Whether they may be the entries of an index: they are of the tree of an index, or of a table WITHOUT ROWID.
        public let mayBeEntries: Bool
        /// The tables to which they may belong; none where they fit no table that is known.
        public let candidates: [String]
        public internal(set) var rowCount = 0

        init(name: String, candidates: [String], mayBeEntries: Bool) {
            self.name = name
            self.candidates = candidates
            self.mayBeEntries = mayBeEntries
        }
    }

    /// The result of a salvage.
    public struct Report: Sendable {
        /// The database file of the new store.
        public let path: String
        /// The identifier of the new store.
        public let storeID: StoreID
        public let tables: [Table]
        public let listings: [Listing]
        /// Pages of the damaged store that were read.
        public let pageCount: Int
        /// The page size in bytes.
        public let pageBytes: Int
        /// Pages that are not authentic, and those after the end of the file.
        public let lostPages: PageRanges
        /// Those of them that belonged to indexes, which were built again.
        public let indexPages: PageRanges
        /// Those of them of which no table is known.
        public let unknownPages: PageRanges
        /// Pages of which an older image was used, because the newest one, in the WAL, is not authentic.
        public let olderPages: PageRanges
        /// Pages of the schema that are lost: tables may be missing, and their rows listed.
        public let lostSchemaPages: [UInt32]
        /// Tables, indexes and triggers that could not be created, each with its reason.
        public let notCreated: [String]
        /// The indexes that were not built, because they need what only the program has.
        public let leftOut: [LeftOutIndex]
        /// The things that could not be checked because only the program brings them, such as `collation prog`.
        public let notChecked: [String]
        /// Commits of the WAL that could not be read, as a sentence without its full stop; nil where none are missed.
        public let lostCommits: String?
        /// The commits that were read behind the damage of a WAL; nil where it has no damage.
        public let passedDamage: PassedDamage?
        /// Rows that refer to missing rows.
        public let foreignKeyViolations: Int
        /// How long it took.
        public let duration: Duration
        /// Notices that are not failures.
        public let notices: [String]

        /// Rows in the new store, without what may be entries of indexes.
        public var rowCount: Int {
            tables.reduce(0) { $0 + $1.rowCount }
                + listings.filter { !$0.mayBeEntries }.reduce(0) { $0 + $1.rowCount }
        }

        /// Whether something is lost, or not in the place where it was.
        ///
        /// An index that only the program can build is no loss.
        public var hasLosses: Bool {
            !lostPages.isEmpty || !listings.isEmpty || !olderPages.isEmpty || !notCreated.isEmpty || lostCommits != nil
                || tables.contains(where: \.hasLosses)
        }

        /// The sidecar is older than the store records: a key that was removed or changed since may have opened it.
        public let isRolledBack: Bool

        /// Whether something is lost, was left out or could not be checked, or the sidecar is not the newest.
        public var needsAttention: Bool { hasLosses || !leftOut.isEmpty || !notChecked.isEmpty || isRolledBack }
    }

    /// - Throws: ``ToolError`` `exists`, `storeName`, `noDirectory`, `sparse`, `foreignWAL`; `StoreError` `storeInUse`, `wrongKey`, `noSuchStore`,
    ///   and the errors of the sidecar, without which no page can be authenticated; `pageDamaged` when no page is
    ///   authentic; `SystemError`; `CancellationError`. The new store is removed then.
    public func perform(_ run: ToolRun) throws -> Report {
        let start = ContinuousClock.now
        let path = BackupBundle.database(meantBy: source)
        let hasDatabase = try self.hasDatabase(path)
        if hasDatabase { try ExaminedFile.requireSuitable(path) }
        let place = TargetPlace(path: target, source: source, run: run)
        try ToolError.requireForeign(target, to: source, place.noun)
        try place.removeAbandoned(.importing, whose: "a killed run had left")
        try place.requireFree()
        let key = try key.unlocked()
        let choice = try hasDatabase ? StoreOpening.sidecar(path, key, onNotice: run.notice) : sidecarAlone(path, key)
        if choice.sidecar.state == .creating { throw StoreOpening.noSuchStore(path) }
        let isRolledBack = hasDatabase && noteRollback(path, choice, run)
        let lock = try SalvageLock(path, run)
        defer { lock.release() }
        let log = try SalvagedWAL(path, given: wal, choice.pageKey)
        if let note = log.note { run.notice(note) }
        let pages = try AuthenticPages(
            file: hasDatabase ? RawFile(path) : nil, log: log.file, key: choice.pageKey, readsPastDamage: true,
            isMixed: log.isMixed, trustsCount: !log.hasChangedHeader)
        guard pages.pageCount > 0 else { throw noPage(path, bytes: try Files.byteCount(path) ?? 0) }
        if let fault = pages.settledFault { run.notice(fault.text) }
        let lostCommits = log.lostCommits(pages)
        let found = try SalvageSource(pages, run)
        guard found.lostPages.count < Int(pages.claimedPageCount) else { throw nothingLeft(path) }
        if !found.knowsFreePages {
            run.notice("the list of free pages is damaged: rows that were deleted may be among the salvaged ones")
        }
        let (outcome, check) = try makeStore(found, key, choice.sidecar, at: place, run)
        let store = try SharedStore.open(
            at: target, unlockedBy: key.source, configuration: StoreOpening.configuration(of: configuration))
        defer { try? store.close() }
        StoreOpening.logCreation(target, scheme(choice.sidecar), run)
        return Report(
            path: target, storeID: store.storeID, tables: outcome.tables, listings: outcome.listings,
            pageCount: Int(pages.pageCount), pageBytes: pages.layout.pageBytes, lostPages: found.lostPages,
            indexPages: outcome.indexPages, unknownPages: outcome.unknownPages, olderPages: found.olderPages,
            lostSchemaPages: outcome.lostSchemaPages, notCreated: outcome.notCreated,
            leftOut: outcome.leftOut, notChecked: check.notChecked, lostCommits: lostCommits,
            passedDamage: pages.readingPastDamage,
            foreignKeyViolations: check.violations, duration: .now - start, notices: run.notices,
            isRolledBack: isRolledBack)
    }

    /// Whether the database file is there. Without it the WAL may have every page.
    private func hasDatabase(_ path: String) throws -> Bool {
        guard BackupBundle(holding: path) == nil, try Files.kindOfName(path) == nil else { return true }
        let log = wal ?? StorePaths(path).wal
        return try MissingDatabase.interruptedDestruction(StorePaths(path)) != nil || Files.byteCount(log) ?? 0 == 0
    }

    /// The sidecar of a store whose database file is missing.
    private func sidecarAlone(_ path: String, _ key: UnlockedKey) throws -> AuthenticatedSidecar {
        let files = SidecarFiles(databasePath: StorePaths(path).database)
        let choice = try key.explainingRefusal { try files.choose(files.read(), unlock: key.unlock) }
        guard let choice else { throw StoreOpening.noSuchStore(path) }
        return choice
    }

    /// An older sidecar may be the only one that is left, so its rows are salvaged, and the report says so.
    private func noteRollback(_ path: String, _ choice: AuthenticatedSidecar, _ run: ToolRun) -> Bool {
        guard BackupBundle(holding: path) == nil, case .rolledBack(let error) = SidecarAge(path, choice) else {
            return false
        }
        run.notice(
            "the sidecar is older than the store records, so the given key may have been removed since. \(error.why) If "
                + "none of you put the older sidecar back, add no other key to the new store, and change its key")
        return true
    }

    private func scheme(_ sidecar: Sidecar) -> KeyScheme { KeyScheme(rawValue: sidecar.scheme.name) ?? .slots }

    private func noPage(_ path: String, bytes: Int) -> StoreError {
        StoreError(
            .truncated, what: "Nothing of \"\(path)\" can be salvaged.",
            why: "It has \(CountText.text(bytes, "byte")), less than one page, and its WAL has no commit.",
            remedy: "Restore the store from a backup.")
    }

    private func nothingLeft(_ path: String) -> StoreError {
        StoreError(
            .pageDamaged(1), what: "Nothing of \"\(path)\" can be salvaged.",
            why: "None of its pages is authentic under the key of its sidecar.",
            remedy: "Check that the sidecar belongs to this database; else restore the store from a backup.")
    }

    // MARK: The new store

    private func makeStore(
        _ found: SalvageSource, _ key: UnlockedKey, _ sidecar: Sidecar, at place: TargetPlace, _ run: ToolRun
    ) throws -> (SalvageOutcome, Check) {
        let staging = try StagingDirectory(for: target, .importing)
        defer { staging.remove() }
        let (outcome, keys) = try copy(found, key, sidecar, to: staging, run)
        let check = try check(staging, keys, run)
        try run.check()
        try place.publish(staging)
        try place.removeSecondName(in: staging)
        return (outcome, check)
    }

    private func copy(
        _ found: SalvageSource, _ key: UnlockedKey, _ sidecar: Sidecar, to staging: StagingDirectory, _ run: ToolRun
    ) throws -> (SalvageOutcome, SidecarKeys?) {
        let path = staging.filePath
        var settings = CipherSettings.plaintextHeader
        settings.pageBytes = max(found.pages.layout.pageBytes, settings.pageBytes)
        let program = configuration
        var configuration = found.layout.configuration(
            label: "StoreTools.salvage", setsPageSize: false, program: program)
        configuration.keyScheme = scheme(sidecar)
        if let fileMode { configuration.fileMode = fileMode }
        let fileKey = FileKey(path: path, configuration: configuration)
        let queue = try DatabaseQueue(
            path: path, configuration: configuration, fileKey: fileKey,
            key: .secret(key.secret, creatingWith: settings))
        do {
            try staging.requireOpened()
            let outcome = try queue.inDatabase { db in
                // The copy is nobody's store yet.
                db.mayChangeStoreTables = true
                try db.execute(sql: "PRAGMA writable_schema = ON; PRAGMA ignore_check_constraints = ON")
                let copy = SalvageCopy(found, into: db, program: program, run)
                try db.endingStatements(when: { run.isCancelled }) {
                    try db.inTransaction(.immediate) {
                        try db.withoutHistoryUpkeep { try copy.write() }
                        return .commit
                    }
                }
                return copy.outcome
            }
            try queue.close()
            return (outcome, fileKey.keys)
        } catch {
            try? queue.close()
            throw error
        }
    }

    /// How a full-text index that does not fit the salvaged rows is built again; empty for other messages.
    private static func remedy(for message: String) -> String {
        guard let found = message.wholeMatch(of: #/malformed inverted index for FTS[0-9] table main\.(.+)/#) else {
            return ""
        }
        let table = String(found.1).quotedIdentifier
        return ": the index does not fit the salvaged rows. Build it again with INSERT INTO \(table) (\(table)) VALUES "
            + "('rebuild')"
    }

    /// The findings when the new store was read back.
    private struct Check {
        let messages: [String]
        /// Rows that refer to rows that do not exist.
        let violations: Int
        let notChecked: [String]
    }

    /// Reads the new database back through a new connection.
    private func check(_ staging: StagingDirectory, _ keys: SidecarKeys?, _ run: ToolRun) throws -> Check {
        let path = staging.filePath
        let program = configuration
        var configuration = Configuration.ofTool(program)
        configuration.label = "StoreTools.verify"
        // A pool: opening it sets WAL mode, which every store has; closing it removes the WAL.
        let pool = try DatabasePool(
            path: path, configuration: configuration,
            fileKey: FileKey(path: path, configuration: configuration, holding: keys), key: .knownKeys)
        defer { try? pool.close() }
        try staging.requireOpened()
        let check = try pool.read { db in
            let violations = (try? OrphanRow.find(db).count) ?? 0
            do {
                let content = try ContentCheck(db, run, kind: .quick)
                let (messages, needing) = try NeedingIndex.setAside(content.messages, db)
                return Check(
                    messages: messages, violations: violations,
                    notChecked: content.notChecked + needing.map(\.text))
            } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
                return Check(messages: [error.message ?? error.description], violations: violations, notChecked: [])
            }
        }
        // The damaged store may have had rows that violate a CHECK.
        if check.messages != ["ok"] {
            for message in check.messages { run.notice("quick_check: \(message)" + Self.remedy(for: message)) }
        }
        try pool.close()
        return check
    }
}

/// Keeps SQLite's connections out of a damaged store while it is read.
private struct SalvageLock {
    private let file: LiveFile?
    /// Others cannot read or write meanwhile.
    private let hold = StopHold()

    /// - Throws: `StoreError` `storeInUse`; `SystemError`.
    init(_ path: String, _ run: ToolRun) throws {
        // No program writes a backup.
        if BackupBundle(holding: path) != nil {
            file = nil
            return
        }
        if try Files.kindOfName(path) == nil {
            // A program that has the removed file open holds locks on the wal-index.
            let locks = try SystemLocks.posixLocks(on: StorePaths(path).sharedMemory) ?? []
            guard locks.isEmpty else { throw Self.inUse(path) }
            file = nil
            return
        }
        let live = try LiveFiles.descriptor(of: path)
        do {
            guard try live.tryLockSQLiteBytes() else { throw Self.inUse(path) }
            // A connection that has not read yet holds no lock.
            guard StoreHolders.unleased(of: StorePaths(path).database).isEmpty else {
                try? live.unlockSQLiteBytes()
                throw Self.inUse(path)
            }
            file = live
        } catch let error as SystemError where error.isPermission {
            run.notice("the store could not be locked, because this user may not write it; no program may use it now")
            file = nil
        }
    }

    private static func inUse(_ path: String) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" is in use.",
            why: "A program has it open, and could change it while it is read.",
            remedy: "End the programs that use it, then run this again. Nothing was changed.")
    }

    func release() { try? file?.unlockSQLiteBytes() }
}
