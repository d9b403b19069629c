import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform

/// Verifies a store: authenticates every page of the file and of the WAL, then checks header, length and content.
///
/// ```swift
/// let report = try StoreVerification("app.db", unlockedBy: .keyFile(path: "app.key")).run()
/// for problem in report.problems { print(problem) }
/// ```
///
/// The store may be in use by other processes. One read transaction spans the whole verification, so the WAL is not
/// reset meanwhile. Nothing is changed.
public struct StoreVerification: StoreTool {
    /// The store, or the folder of a backup.
    public let path: String
    /// Sees each page that is read; nil for none.
    package var inspector: (any PageInspector)?
    /// Its `prepareDatabase` gives the connection the functions, collations and modules that the schema needs. Without
    /// them what needs them is listed in ``Report/notChecked``.
    public var configuration = Configuration()
    private let key: ToolKey

    /// - Parameters:
    ///   - path: The database file of the store, or the folder of a backup.
    ///   - source: Where the key comes from; it is read once.
    public init(_ path: String, unlockedBy source: KeySource) { self.init(path, key: ToolKey(source)) }

    package init(_ path: String, key: ToolKey) {
        self.path = path
        self.key = key
    }

    /// The result of a verification.
    public struct Report: Sendable {
        /// The database file.
        public let path: String
        /// The page size in bytes.
        public let pageBytes: Int
        package let scan: StoreScan.Report
        /// The report of `integrity_check`, `ok` alone for valid content; nil when it was not run, as where pages are
        /// damaged.
        public internal(set) var integrity: [String]?
        /// How many rows refer to rows which do not exist; nil when that was not checked. It is no damage: SQLite
        /// permits such rows while `foreign_keys` is off.
        public internal(set) var foreignKeyViolations: Int?
        /// Full-text indexes that do not find what their texts say; no row is damaged for them.
        public internal(set) var fullTextFaults: [FullTextFault] = []
        /// The first rows that refer to rows which do not exist.
        public internal(set) var orphans: [OrphanRow] = []
        /// The things that could not be checked: those that only the program brings, such as `collation prog`, and foreign
        /// keys that SQLite cannot use.
        public internal(set) var notChecked: [String] = []
        /// The problems, each as a sentence without its full stop.
        public internal(set) var problems: [String] = []
        /// Checks that were not possible.
        package internal(set) var impossible: [String] = []
        /// The loss in the WAL; nil for none.
        package internal(set) var walLoss: WALContent.Loss?
        /// Checks that were not possible, and what the WAL has lost, which is not damage.
        public var unchecked: [String] {
            // A fault that prevents each opening is a problem already.
            notChecked.map { "not checked: \($0)" } + impossible
                + (walLoss.flatMap { $0.preventsOpening ? nil : [$0.note] } ?? [])
        }
        /// Whether a WAL or a journal is in the folder of a backup, of which it is no part; a notice names it.
        package internal(set) var hasForeignFiles = false
        /// The notices of opening the store.
        public internal(set) var notices: [String] = []

        /// Whether nothing is damaged.
        public var isSound: Bool { problems.isEmpty }
        /// Whether a sound store needs attention: rows refer to rows which do not exist, something could not be checked
        /// for want of a part of the program, commits are lost because the header or a frame of the WAL is damaged, or a
        /// WAL is beside the database of a backup.
        public var needsAttention: Bool {
            !fullTextFaults.isEmpty || hasOtherFindings
        }
        /// Whether nothing but full-text indexes needs attention.
        public var hasOnlyFullTextFaults: Bool { !fullTextFaults.isEmpty && !hasOtherFindings }
        private var hasOtherFindings: Bool {
            foreignKeyViolations ?? 0 > 0 || !notChecked.isEmpty || walLoss?.needsAttention == true || hasForeignFiles
        }
        /// Pages of the main file that were read and authenticated.
        public var pagesChecked: Int { scan.pagesChecked }
        /// Pages that are not authentic.
        public var damagedPages: PageRanges { scan.damagedPages }
        /// Pages that are not authentic in the file, where the WAL contains a valid image, which replaces them: a
        /// checkpoint may have been interrupted there.
        public var supersededPages: PageRanges { scan.supersededPages }
        /// Pages that belong to the database and are neither in the file nor in the WAL.
        public var missingPages: PageRanges { scan.missingPages }
        /// Pages of zeros: never written, or wiped. Those that no list of free pages names are problems.
        public var zeroPages: PageRanges { scan.zeroPages }
        /// Committed frames of the WAL that were authenticated.
        public var framesChecked: Int { scan.framesChecked }
        /// Committed frames of the WAL whose page is not authentic.
        public var damagedFrames: [DamagedFrame] { scan.damagedFrames }
        /// Bytes that were authenticated.
        public var checkedBytes: Int { scan.checkedBytes }
        /// How long the authentication took.
        public var duration: Duration { scan.duration }
    }

    /// - Throws: `StoreError` `wrongKey`, `noSuchStore`, `sidecarDamaged`, `sidecarForged`, and any other error of
    ///   opening the store, unless it is damage of its pages; `keyRotated` or `storeMoved` where the store is given
    ///   other keys or is replaced again and again meanwhile; ``ToolError`` `needsWriting`; `SystemError`;
    ///   `CancellationError`. Damage is in the report.
    public func perform(_ run: ToolRun) throws -> Report {
        let path = BackupBundle.database(meantBy: path)
        var choice = try KeyChange(of: path).settledSidecar(key.unlocked(), run)
        for _ in 1..<ToolLimits.readings {
            do {
                return try perform(run, choice)
            } catch let error as StoreError where error.isChangeMeanwhile && !KeyChange(of: path).isInterrupted() {
                try run.check()
                choice = try KeyChange(of: path).sidecar(after: choice, run)
            }
        }
        return try perform(run, choice)
    }

    /// The same with a sidecar that is authenticated already.
    ///
    /// - Throws: `StoreError` `keyRotated` or `storeMoved` where the store was given another key or was replaced since
    ///   the sidecar was read, and its pages do not fit therefore.
    package func perform(_ run: ToolRun, _ choice: AuthenticatedSidecar) throws -> Report {
        let path = BackupBundle.database(meantBy: path)
        try ExaminedFile.requireSuitable(path)
        let file = try RawFile(path)
        let found = Result {
            try VerificationRun(
                path: path, file: file, choice: choice, run: run, inspector: inspector, configuration: configuration
            ).report()
        }
        try run.check()
        // A file that is at the path no more may be sound, but nothing is known of what is there now.
        let isInPlace = try file.isInPlace
        if !isInPlace || (try? found.get())?.isSound != true {
            try KeyChange(of: path).requireNone(since: choice, file)
        }
        var report = try found.get()
        if let bundle = BackupBundle(holding: path) {
            report.hasForeignFiles = bundle.companions.contains(where: \.mayHoldWrites)
        } else {
            report.walLoss = try WALContent.loss(of: path, choice.pageKey)
            // A rotation that ended since gives WAL and file another key.
            if report.walLoss?.preventsOpening == true { try KeyChange(of: path).requireNone(since: choice, file) }
        }
        report.notices = run.notices
        return report
    }
}

private struct VerificationRun {
    typealias Report = StoreVerification.Report

    let path: String
    let file: RawFile
    let choice: AuthenticatedSidecar
    let run: ToolRun
    let inspector: (any PageInspector)?
    let configuration: Configuration

    func report() throws -> Report {
        let scan = StoreScan(path: path, file: file, key: choice.pageKey, run: run, inspector: inspector)
        let store: SharedStore
        do {
            store = try StoreOpening.readOnly(
                path, holding: choice.keys, configuration: configuration, onNotice: run.notice)
        } catch  where Self.isDamage(error) {
            return try withoutSQLite(scan, error)
        } catch let error as StoreError where [.foreignSidecar, .notEncrypted].contains(error.code) {
            return try withoutBeginning(scan, error)
        }
        defer { try? store.close() }
        // One transaction around everything: until it ends no process overwrites what it reads. It is rolled back,
        // since a commit can fail where there was damage.
        return try store.unsafeRead { db in
            let snapshot = try beginReading(db)
            defer { try? db.rollback() }
            return try withSQLite(scan, db, snapshot)
        }
    }

    /// Whether an opening failed because of damage about which the pages themselves show more.
    private static func isDamage(_ error: any Error) -> Bool {
        switch error {
        case let error as StoreError:
            switch error.code {
            case .headerDamaged, .pageDamaged, .truncated, .walDamaged: true
            default: false
            }
        case let error as DatabaseError:
            [.SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_ERROR, .SQLITE_NOMEM].contains(error.resultCode)
        default: false
        }
    }

    private func withoutSQLite(_ scan: StoreScan, _ error: any Error) throws -> Report {
        var result = try scanned(scan)
        let header = DatabaseHeader(try file.bytes(at: 0, count: DatabaseHeader.headerBytes))
        let length = lengthProblems(result.scan, Int(header?.pageCount ?? .max))
        if !Self.isNamed(error, by: result.scan, length) {
            var message = ToolError.explanation(of: error)
            // The pages may all be sound: then only this says what to do.
            if let error = error as? StoreError, error.code == .walDamaged { message += " \(error.remedy)" }
            result.problems = [message.hasSuffix(".") ? String(message.dropLast()) : message]
        }
        // Zeros after the last page that the header counts are no pages that were wiped.
        result.problems += length + pageProblems(result.scan, to: length.isEmpty ? nil : header?.pageCount)
        return result
    }

    /// An opening looks at the first pages only. If others are authentic, the file is that of the sidecar.
    private func withoutBeginning(_ scan: StoreScan, _ error: StoreError) throws -> Report {
        if choice.pageKey.isSaltInFront(of: try file.bytes(at: 0, count: Salt.byteCount)) { throw error }
        var result = try scanned(scan)
        let unreadable = result.damagedPages.count + result.zeroPages.count
        guard result.pagesChecked > unreadable else { throw error }
        result.problems = try headerProblems() + pageProblems(result.scan)
        return result
    }

    private func scanned(_ scan: StoreScan) throws -> Report {
        Report(path: path, pageBytes: choice.sidecar.settings.pageBytes, scan: try scan.authenticate(pageCount: nil))
    }

    /// Whether the scan of the pages names what prevented the opening: it is one problem, not two.
    ///
    /// - Parameter length: The problem of the length of the file, if it has one.
    private static func isNamed(_ error: any Error, by scan: StoreScan.Report, _ length: [String]) -> Bool {
        switch (error as? StoreError)?.code {
        case .pageDamaged(let page): scan.damagedPages.contains(page)
        case .truncated: !scan.missingPages.isEmpty
        case .headerDamaged: !length.isEmpty
        default: false
        }
    }

    /// The state that a read transaction sees.
    private struct Snapshot {
        let pages: Int
        let moment: CommitPosition?
        var isBusy = false
    }

    /// Begins a read transaction.
    ///
    /// - Returns: The number of pages, and the moment that the transaction keeps: nil where nothing shows it, as without a
    ///   WAL, or where other processes committed at each beginning (`isBusy`).
    private func beginReading(_ db: Database) throws -> Snapshot {
        var attempt = 1
        // A backup has no WAL, and nothing may be made beside it.
        let isBackup = BackupBundle(holding: path) != nil
        while true {
            try db.beginTransaction(.deferred)
            do {
                // The first read gives the transaction its snapshot.
                let before = isBackup ? nil : db.commitPosition
                let pages = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
                _ = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_schema")
                // A commit in between is before the snapshot or after it.
                if isBackup || before == db.commitPosition { return Snapshot(pages: pages, moment: before) }
                if attempt == ToolLimits.beginnings { return Snapshot(pages: pages, moment: nil, isBusy: true) }
            } catch {
                try? db.rollback()
                throw error
            }
            attempt += 1
            try db.rollback()
        }
    }

    private func withSQLite(_ scan: StoreScan, _ db: Database, _ snapshot: Snapshot) throws -> Report {
        guard try file.isInPlace else { throw ExaminedFile.moved(path) }
        var result = Report(
            path: path, pageBytes: choice.sidecar.settings.pageBytes,
            scan: try scan.authenticate(pageCount: snapshot.pages, at: snapshot.moment))
        result.problems =
            try headerProblems() + lengthProblems(result.scan, try countedPages(result.scan) ?? snapshot.pages)
            + pageProblems(result.scan)
        if snapshot.moment != nil, let fault = WALContent.LengthFault(counts: result.scan.pagesByWAL, snapshot.pages) {
            result.problems.append(fault.text)
        }
        if result.scan.isClean {
            try run.check()
            run.report(ToolProgress(.checkingContent))
            try checkContent(db, &result)
            try checkFreeList(scan, db, snapshot, &result)
        }
        return result
    }

    // MARK: Checks

    private func headerProblems() throws -> [String] {
        let settings = choice.sidecar.settings
        guard settings.plaintextHeaderBytes > 0 else { return [] }
        let first = try file.bytes(at: 0, count: settings.pageBytes)
        switch try WALContent.verdict(of: path, first: first, fileBytes: file.byteCount, settings: settings) {
        case .plaintextHeader: return []
        case .damagedHeader(let damage):
            return ["byte \(damage.offset) of the header holds \(damage.found) where \(damage.expected) belongs"]
        default: return ["the header is not that of a store"]
        }
    }

    /// The pages that the header counts; nil where the WAL has commits, which count instead. SQLite takes the length of the
    /// file for a count of 0, or of another program.
    private func countedPages(_ scan: StoreScan.Report) throws -> Int? {
        guard scan.pagesByWAL == 0 else { return nil }
        return DatabaseHeader(try file.bytes(at: 0, count: DatabaseHeader.headerBytes)).map { Int($0.pageCount) }
    }

    private func lengthProblems(_ scan: StoreScan.Report, _ pages: Int) -> [String] {
        let pageBytes = choice.sidecar.settings.pageBytes
        let length = DatabaseLength(fileBytes: scan.fileBytes, pageBytes: pageBytes)
        // The scan has listed the pages that are missing.
        let verdict = length.verdict(pages: pages) { scan.pagesByWAL > 0 ? [] : nil }
        guard verdict == .pageCountLowered else { return [] }
        return [
            "bytes 28 to 31 of the header count \(CountText.text(pages, "page")) of \(pageBytes) bytes, but the file has "
                + "\(CountText.text(scan.fileBytes, "byte"))"
        ]
    }

    /// - Parameter last: The last page that can have been wiped; nil for any.
    private func pageProblems(_ scan: StoreScan.Report, to last: UInt32? = nil) -> [String] {
        let pageBytes = choice.sidecar.settings.pageBytes
        return scan.damagedPages.lines("damaged", pageBytes: pageBytes)
            + scan.missingPages.lines("missing", pageBytes: pageBytes)
            + PageRanges(scan.wipedPages.ranges.joined().filter { $0 <= last ?? .max }).lines(
                "all zeros", pageBytes: pageBytes)
            + scan.damagedFrames.map { "frame \($0.number) of the WAL is damaged (page \($0.page))" }
    }

    private func checkContent(_ db: Database, _ result: inout Report) throws {
        do {
            try db.endingStatements(when: { [run] in run.isCancelled }) {
                let check = try ContentCheck(db, run)
                let fullText = try FullTextCheck(db, check: run.check)
                result.fullTextFaults = fullText.faults
                result.impossible += fullText.unchecked
                result.notChecked = check.notChecked + fullText.needing.map(\.text)
                let messages = fullText.rest(of: check.messages)
                result.integrity = messages
                if messages != ["ok"] { result.problems += Self.firstLines(messages).map { "integrity_check: \($0)" } }
                try checkForeignKeys(db, &result)
            }
        } catch let error as DatabaseError where Self.isDamage(error) {
            result.problems.append("SQLite cannot read all of the database: \(error.message ?? error.description)")
        }
    }

    /// Checks the list of free pages where integrity_check may have left it out: that takes a virtual table or a view,
    /// which has no pages, for the mark of a check of some tables only.
    ///
    /// - SeeAlso: <https://www.sqlite.org/pragma.html#pragma_integrity_check>
    private func checkFreeList(
        _ scan: StoreScan, _ db: Database, _ snapshot: Snapshot, _ result: inout Report
    ) throws {
        guard result.integrity == ["ok"] else { return }
        let rows = try Row.fetchAll(db, sql: "SELECT type, rootpage FROM sqlite_schema")
        let roots = rows.map { (type: $0[0] as String?, page: ($0[1] as Int64?) ?? 0) }
        // A check of single tables leaves the list out too.
        guard
            !result.notChecked.isEmpty
                || roots.contains(where: { ["table", "view"].contains($0.type) && $0.page == 0 })
        else { return }
        guard !snapshot.isBusy else {
            result.impossible.append("the list of free pages was not checked: other processes wrote all the time")
            return
        }
        let free = result.scan.freeList
        result.problems += free.problems
        guard free.pages.count > 0 else { return }
        let used = try free.pagesInUse(
            scan.pages(at: snapshot.moment), roots: [TableReader.schemaRoot] + roots.map { UInt32(clamping: $0.page) },
            check: run.check)
        result.problems += Self.firstLines(used.lines("free and in use at once", pageBytes: result.pageBytes))
    }

    /// The first lines of messages. One message can have a hundred, nearly all of which follow from the first: after a
    /// page that SQLCipher cannot read, it reads no other one.
    private static func firstLines(_ messages: [String]) -> [String] {
        let lines = messages.flatMap { $0.split(separator: "\n").map(String.init) }
            .filter { $0 != "*** in database main ***" }
        let rest = lines.count - ToolLimits.integrityLines
        return lines.prefix(ToolLimits.integrityLines)
            + (rest > 0 ? ["\(CountText.text(rest, "more line")), which may follow from these"] : [])
    }

    private func checkForeignKeys(_ db: Database, _ result: inout Report) throws {
        do {
            let orphans = try OrphanRow.find(db)
            result.foreignKeyViolations = orphans.count
            result.orphans = orphans.first
            result.notChecked += orphans.unchecked.map { "foreign keys of \($0)" }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            // The functions and collations of the program may be missing.
            if !result.notChecked.isEmpty {
                result.impossible.append("foreign keys were not checked")
            } else if result.problems.isEmpty {
                throw error
            }
        }
    }
}
