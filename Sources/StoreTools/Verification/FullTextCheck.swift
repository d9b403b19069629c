import CipherStore
import KeyCustody
import StorePlatform

/// A full-text index that does not find what its texts say. No row is affected: the index can be made again.
public struct FullTextFault: Hashable, Sendable {
    /// The full-text table.
    public let index: String
    /// Whether the index contradicts itself, or the texts that it keeps. Otherwise it differs from a table of the program,
    /// which may be meant: a program may index other words than those of the table.
    public let isDamage: Bool
    /// The fault, as a sentence without its full stop.
    public let what: String
    /// The SQL statement that makes the index again; nil where the texts are stored nowhere.
    public let rebuilding: String?
    /// The remedy where another one than a rebuilding is needed.
    var ownRemedy: String?

    /// The remedy, as a sentence without its full stop.
    ///
    /// - Parameter path: The store.
    public func remedy(_ path: String) -> String {
        if let ownRemedy { return ownRemedy }
        guard let rebuilding else {
            return "drop the table \"\(index)\", create it again, and insert its texts again: it keeps none"
        }
        return "make the index again: `cipherctl sql \(ShellWord.path(path)) --write \(ShellWord.quoted(rebuilding))`"
    }
}

/// Runs the check that each full-text index has of its own, FTS3, FTS4 and FTS5.
///
/// SQLite's check is an INSERT. On the store itself it would need the right to write, and would keep all writers waiting
/// while it runs. So it runs in the temporary database of the connection, which is in memory:
///
/// | part of the index | there |
/// |---|---|
/// | the full-text table | a table with the same definition |
/// | blocks of words, small tables, texts that FTS5 keeps | copies |
/// | other texts, and the lengths of texts | views of those of the store |
///
/// - SeeAlso: <https://www.sqlite.org/fts5.html#the_integrity_check_command>,
///   <https://www.sqlite.org/fts3.html#integcheck>
struct FullTextCheck {
    private(set) var faults: [FullTextFault] = []
    /// The indexes that could not be checked, each with the reason, as sentences without their full stops.
    private(set) var unchecked: [String] = []
    /// The indexes that could not be checked because this connection lacks parts of the program, with these parts.
    private(set) var needing: [NeedingIndex] = []
    /// The messages of `integrity_check` about indexes that have a fault or could not be checked.
    private var messages: Set<String> = []

    /// - Parameters:
    ///   - db: A connection inside a read transaction. Its temporary database may be written.
    ///   - check: Called between two indexes; an error ends the check.
    /// - Throws: `DatabaseError` where the store itself cannot be read; the error of `check`.
    init(_ db: Database, check: () throws -> Void) throws {
        for index in try FullTextIndex.all(db) {
            try check()
            let found = try Copy(index).fault(db)
            if let reason = found.unchecked {
                if let index = try NeedingIndex(index, db) {
                    needing.append(index)
                } else {
                    unchecked.append("the full-text index \"\(index.name)\" was not checked: \(reason)")
                }
            }
            if let fault = found.fault { faults.append(fault) }
            guard found.fault != nil || found.unchecked != nil, !found.isUnsafe else { continue }
            // Newer versions of SQLite check some indexes there too, and call one damaged that they cannot check.
            let sql = "PRAGMA main.integrity_check(\(index.name.quotedIdentifier))"
            messages.formUnion((try? String.fetchAll(db, sql: sql)) ?? [])
        }
    }

    /// The other messages of `integrity_check`.
    func rest(of integrity: [String]) -> [String] {
        let rest = integrity.filter { $0 == "ok" || !messages.contains($0) }
        return rest.isEmpty ? ["ok"] : rest
    }

    /// One index in the temporary database.
    private struct Copy {
        let index: FullTextIndex
        /// The name that the temporary database does not have.
        private var name: String { index.name.quotedIdentifier }

        init(_ index: FullTextIndex) { self.index = index }

        /// - Returns: The fault, the reason why the index was not checked, and whether SQLite must not use it.
        func fault(_ db: Database) throws -> (fault: FullTextFault?, unchecked: String?, isUnsafe: Bool) {
            if isFive, let record = try FullTextStructure.fault(ofTable: blocks, in: db) {
                return (fault(isDamage: true, record, rebuilds: false), nil, true)
            }
            let found = try checked(db)
            return (found.fault, found.unchecked, false)
        }

        private func checked(_ db: Database) throws -> (fault: FullTextFault?, unchecked: String?) {
            do {
                // SQLite compares an index of FTS4 with its texts alone.
                if index.module != .fts5, index.content == .none {
                    return (nil, "it keeps no texts, so SQLite cannot compare it with them")
                }
                if let missing = try missingTable(db) {
                    return (fault(isDamage: true, "its table \"\(missing)\" is missing", rebuilds: false), nil)
                }
                if case .table(let content) = index.content, try !exists(content, db) {
                    return (missingTexts(content), nil)
                }
                let bytes = try copiedBytes(db)
                if bytes > ToolLimits.indexBytes {
                    return (nil, "it has \(bytes >> 20) MiB. To check it: \(index.checking())")
                }
                try db.execute(sql: "SAVEPOINT \(Self.savepoint)")
                defer {
                    try? db.execute(sql: "ROLLBACK TO \(Self.savepoint)")
                    try? db.execute(sql: "RELEASE \(Self.savepoint)")
                }
                // The tables of a full-text table are its own, also in the temporary database.
                let outer = db.mayChangeStoreTables
                db.mayChangeStoreTables = true
                defer { db.mayChangeStoreTables = outer }
                try make(db)
                return (try comparison(db), nil)
            } catch let error as DatabaseError {
                switch error.resultCode {
                case .SQLITE_CORRUPT where error.extendedResultCode == .SQLITE_CORRUPT_VTAB:
                    return (fault(isDamage: true, "it contradicts itself"), nil)
                // Pages that cannot be read are what `integrity_check` is for.
                case .SQLITE_ERROR, .SQLITE_NOMEM, .SQLITE_READONLY, .SQLITE_AUTH, .SQLITE_CORRUPT:
                    return (nil, error.message ?? error.description)
                default: throw error
                }
            }
        }

        private static let savepoint = "cipherstore_fulltext_check"

        private func comparison(_ db: Database) throws -> FullTextFault? {
            if try index.fits(in: "temp", db) { return nil }
            guard case .table(let content) = index.content, try agreesWithItself(db) else {
                return fault(isDamage: true, "it contradicts itself, or the texts that it keeps")
            }
            return fault(isDamage: false, "it does not have the words of \"\(content)\"")
        }

        /// Without the rank, FTS5 compares nothing with texts that are elsewhere. FTS4 has no such check.
        private func agreesWithItself(_ db: Database) throws -> Bool {
            if index.module != .fts5 { return true }
            do {
                try db.execute(sql: "INSERT INTO temp.\(name)(\(name)) VALUES('integrity-check')")
                return true
            } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CORRUPT_VTAB {
                return false
            }
        }

        /// Whether the table, or the view, of the texts is there.
        private func exists(_ content: String, _ db: Database) throws -> Bool {
            try db.tableExists(content, in: "main") || db.viewExists(content, in: "main")
        }

        private func missingTexts(_ content: String) -> FullTextFault {
            FullTextFault(
                index: index.name, isDamage: false,
                what: "the full-text index \"\(index.name)\": the table \"\(content)\" of its texts is missing",
                rebuilding: nil,
                ownRemedy: "create \"\(content)\" again, or drop \"\(index.name)\": until then its queries fail")
        }

        private func fault(isDamage: Bool, _ what: String, rebuilds: Bool = true) -> FullTextFault {
            FullTextFault(
                index: index.name, isDamage: isDamage, what: "the full-text index \"\(index.name)\": \(what)",
                rebuilding: rebuilds ? index.rebuilding : nil)
        }

        // MARK: Tables

        private var isFive: Bool { index.module == .fts5 }

        /// The places of the words, in blocks.
        private var blocks: String { index.name + (isFive ? "_data" : "_segments") }

        private func missingTable(_ db: Database) throws -> String? {
            let needed = isFive ? ["data", "idx", "config"] : ["segments", "segdir"]
            return try needed.map { "\(index.name)_\($0)" }.first { try !db.tableExists($0, in: "main") }
        }

        private func copiedBytes(_ db: Database) throws -> Int64 {
            var bytes = try byteCount(of: ["block"], in: blocks, db)
            let texts = index.name + "_content"
            if isFive, try db.tableExists(texts, in: "main") {
                bytes += try byteCount(of: db.columns(in: texts, in: "main").map(\.name), in: texts, db)
            }
            return bytes
        }

        private func byteCount(of columns: [String], in table: String, _ db: Database) throws -> Int64 {
            let sum = columns.map { "ifnull(length(\($0.quotedIdentifier)), 0)" }
                .joinedAsExpression(by: " + ")
            return try Int64.fetchOne(db, sql: "SELECT sum(\(sum)) FROM main.\(table.quotedIdentifier)") ?? 0
        }

        private func make(_ db: Database) throws {
            if case .table(let content) = index.content { try makeView(of: content, db) }
            let former = try Set(temporaryTables(db))
            try db.execute(sql: index.creation(in: "temp"))
            for table in try temporaryTables(db) where !former.contains(table) {
                let quoted = table.quotedIdentifier
                if table == "\(index.name)_docsize" || !isFive && table == "\(index.name)_content" {
                    try db.execute(
                        sql: "DROP TABLE temp.\(quoted); CREATE TEMP VIEW \(quoted) AS SELECT * FROM main.\(quoted)")
                } else {
                    try db.execute(
                        sql: "DELETE FROM temp.\(quoted); INSERT INTO temp.\(quoted) SELECT * FROM main.\(quoted)")
                }
            }
        }

        /// Stands for the content, which is looked for in the schema of the full-text table.
        private func makeView(of content: String, _ db: Database) throws {
            let rowID = index.contentRowID ?? "rowid"
            let columns = try db.columns(in: content, in: "main").map { $0.name.lowercased() }
            let table = "main.\(content.quotedIdentifier)"
            // A view has no rowid, so it gets a column of that name.
            let name = rowID.quotedIdentifier
            let first = columns.contains(rowID.lowercased()) ? "" : "\(name) AS \(name), "
            try db.execute(sql: "CREATE TEMP VIEW \(content.quotedIdentifier) AS SELECT \(first)* FROM \(table)")
        }

        private func temporaryTables(_ db: Database) throws -> [String] {
            try String.fetchAll(db, sql: "SELECT name FROM temp.sqlite_schema WHERE type = 'table' AND rootpage > 0")
        }
    }
}

extension FullTextCheck {
    /// The findings about the indexes of a store, which is opened read-only for that if it has any.
    ///
    /// - Returns: A note where it cannot be opened now: other findings say why.
    static func findings(
        _ path: String, _ choice: AuthenticatedSidecar, _ configuration: Configuration, _ run: ToolRun
    ) throws -> [Finding] {
        let checked: FullTextCheck
        do {
            guard try StorePages.schema(of: path, choice, has: { $1.contains("virtual table") && $1.contains("fts") })
            else { return [] }
            let store = try StoreOpening.readOnly(
                path, holding: choice.keys, configuration: configuration, onNotice: run.notice)
            defer { try? store.close() }
            checked = try store.unsafeRead { db in
                try db.beginTransaction(.deferred)
                defer { try? db.rollback() }
                return try FullTextCheck(db, check: run.check)
            }
        } catch let error where !(error is CancellationError) {
            return [
                Finding(
                    .note, "fullTextUnchecked",
                    "the full-text indexes were not checked: \(ToolError.explanation(of: error))",
                    remedy: "see: `cipherctl verify`")
            ]
        }
        return checked.faults.map { Finding(.risk, "fullTextIndex", $0.what, remedy: $0.remedy(path)) }
            + checked.unchecked.map { Finding(.note, "fullTextUnchecked", $0) }
            + checked.needing.map { index in
                Finding(
                    .note, "fullTextUnchecked", "not checked: \(index.text)",
                    remedy: "let the program that has them check it, with StoreVerification.configuration")
            }
    }
}
