import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform

/// The whole check of a store: every page, header, length, SQLite's own checks, foreign keys.
struct StoreVerification {
    let path: String
    let choice: SidecarChoice
    let progress: ProgressBar

    struct Result {
        var scan: StoreScan.Report
        /// What `integrity_check` says; nil when it was not run.
        var integrity: [String]?
        /// Rows that refer to rows which do not exist; nil when that was not checked.
        var foreignKeyViolations: Int?
        /// What is wrong.
        var problems: [String] = []
        /// What could not be checked and is no damage.
        var notes: [String] = []
    }

    private static let integrityMessages = 100

    /// - Throws: What opening the store throws, where that is no damage; `SystemError`.
    func run(_ console: Console) throws -> Result {
        let file = try RawFile(path)
        return try withExtendedLifetime(file) {
            let scan = StoreScan(
                path: path, file: file, dataKey: choice.dataKey, sidecar: choice.sidecar, progress: progress)
            let store: SharedStore
            do {
                store = try StoreOpening.readOnly(path, holding: choice.keys, console)
            } catch  where Self.isDamage(error) {
                return try withoutSQLite(scan, error, file)
            }
            defer { try? store.close() }
            // One transaction around everything: until it ends nobody overwrites what it sees. It is rolled back, since
            // a commit can fail where damage was met.
            return try store.unsafeRead { db in
                try db.beginTransaction(.deferred)
                defer { try? db.rollback() }
                return try withSQLite(scan, db, file)
            }
        }
    }

    /// Whether an opening failed by damage that the pages themselves can tell more about.
    private static func isDamage(_ error: any Error) -> Bool {
        switch error {
        case let error as StoreError:
            switch error.code {
            case .headerDamaged, .pageDamaged, .truncated: true
            default: false
            }
        case let error as DatabaseError:
            [.SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_ERROR, .SQLITE_NOMEM].contains(error.resultCode)
        default: false
        }
    }

    private func withoutSQLite(_ scan: StoreScan, _ error: any Error, _ file: RawFile) throws -> Result {
        var result = Result(scan: try scan.run(pageCount: nil))
        progress.end()
        let header = DatabaseHeader(try file.bytes(at: 0, count: DatabaseHeader.headerBytes))
        if !Self.isNamed(error, by: result.scan) {
            let message = ErrorReport(error).message
            result.problems = [message.hasSuffix(".") ? String(message.dropLast()) : message]
        }
        result.problems += lengthProblems(result.scan, Int(header?.pageCount ?? .max)) + pageProblems(result.scan)
        return result
    }

    /// Whether the scan of the pages names what kept the store from being opened: it is one problem, not two.
    private static func isNamed(_ error: any Error, by scan: StoreScan.Report) -> Bool {
        switch (error as? StoreError)?.code {
        case .pageDamaged(let page): scan.damagedPages.contains(page)
        case .truncated: !scan.missingPages.isEmpty
        default: false
        }
    }

    private func withSQLite(_ scan: StoreScan, _ db: Database, _ file: RawFile) throws -> Result {
        // The first read gives the transaction its view.
        let pages = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
        _ = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_schema")
        guard try file.isInPlace else {
            throw StoreError(
                .storeMoved, what: "\"\(path)\" was replaced by another file.", why: "That happened during the check.",
                remedy: "Run the check again.")
        }
        var result = Result(scan: try scan.run(pageCount: pages))
        result.problems = try headerProblems(file) + lengthProblems(result.scan, pages) + pageProblems(result.scan)
        if result.scan.isClean {
            progress.show("integrity_check")
            try checkContent(db, &result)
        }
        progress.end()
        return result
    }

    // MARK: Checks

    private func headerProblems(_ file: RawFile) throws -> [String] {
        let settings = choice.sidecar.settings
        guard settings.plaintextHeaderBytes > 0 else { return [] }
        let first = try file.bytes(at: 0, count: settings.pageBytes)
        switch DatabaseHeader.examine(first, fileBytes: try file.byteCount, settings: settings) {
        case .plaintextHeader: return []
        case .damagedHeader(let damage):
            return ["byte \(damage.offset) of the header holds \(damage.found) where \(damage.expected) belongs"]
        default: return ["the header is not that of a store"]
        }
    }

    private func lengthProblems(_ scan: StoreScan.Report, _ pages: Int) -> [String] {
        let pageBytes = choice.sidecar.settings.pageBytes
        guard scan.pagesByLog == 0, pages * pageBytes < scan.fileBytes else { return [] }
        return [
            "bytes 28 to 31 of the header count \(pages) pages of \(pageBytes) bytes, but the file has "
                + "\(scan.fileBytes) bytes"
        ]
    }

    private func pageProblems(_ scan: StoreScan.Report) -> [String] {
        let pageBytes = choice.sidecar.settings.pageBytes
        return scan.damagedPages.lines("damaged", pageBytes: pageBytes)
            + scan.missingPages.lines("missing", pageBytes: pageBytes)
            + scan.damagedFrames.map { "frame \($0.number) of the write-ahead log is damaged (page \($0.page))" }
    }

    private func checkContent(_ db: Database, _ result: inout Result) throws {
        do {
            let messages = try String.fetchAll(db, sql: "PRAGMA integrity_check(\(Self.integrityMessages))")
            result.integrity = messages
            if messages != ["ok"] { result.problems += messages.map { "integrity_check: \($0)" } }
            try checkForeignKeys(db, &result)
        } catch let error as DatabaseError where Self.isDamage(error) {
            result.problems.append("SQLite cannot read all of the database: \(error.message ?? error.description)")
        }
    }

    private func checkForeignKeys(_ db: Database, _ result: inout Result) throws {
        do {
            let violations = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM pragma_foreign_key_check") ?? 0
            result.foreignKeyViolations = violations
            if violations > 0 { result.problems.append("\(violations) rows refer to rows that do not exist") }
        } catch DatabaseError.SQLITE_ERROR {
            // A foreign key whose other side has no unique index: a mistake of the schema, with which SQLite lives.
            result.notes.append("foreign keys were not checked: \(db.lastErrorMessage ?? "SQLite refused")")
        }
    }
}
