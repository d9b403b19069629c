import CipherDatabase
import CipherStore

/// SQLite's `integrity_check` of a whole database, or table by table where only the program has something that the
/// schema names: a missing function or collation is no damage.
struct ContentCheck {
    /// How thorough it is.
    enum Kind: String {
        /// With the entries of each index.
        case whole = "integrity_check"
        /// Without them.
        case quick = "quick_check"
    }

    /// The messages; `ok` alone where nothing was found.
    private(set) var messages: [String]
    /// The tables that SQLite could not check, with what they need, and the parts that are missing.
    private(set) var notChecked: [String] = []
    private let kind: Kind

    /// - Throws: `DatabaseError` where SQLite cannot read the database; `CancellationError`.
    init(_ db: Database, _ run: ToolRun, kind: Kind = .whole) throws {
        self = try db.endingStatements(when: { run.isCancelled }) { try ContentCheck(watched: db, run, kind) }
    }

    private init(watched db: Database, _ run: ToolRun, _ kind: Kind) throws {
        self.kind = kind
        let faults = try FullTextStructure.faults(in: db)
        guard faults.isEmpty else {
            // SQLite's own check would follow the record.
            messages = faults
            return
        }
        do {
            let missing = try MissingParts(of: db)
            notChecked = missing.modules.sorted().map { "module \($0)" }
            messages = try String.fetchAll(db, sql: "PRAGMA \(kind.rawValue)(\(ToolLimits.integrityMessages))")
            if messages != ["ok"] { try db.requireNoFailedRead() }
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
            let missing = try MissingParts(of: db)
            guard !missing.isEmpty else { throw error }
            notChecked = missing.names
            messages = []
            try checkTables(db, run)
        }
    }

    private mutating func checkTables(_ db: Database, _ run: ToolRun) throws {
        let tables = try SchemaEntry.all(db).filter(\.isStoredTable).map(\.name)
        for table in tables {
            try run.check()
            do {
                let found = try String.fetchAll(db, sql: "PRAGMA \(kind.rawValue)(\(table.quotedIdentifier))")
                if found != ["ok"] {
                    try db.requireNoFailedRead()
                    messages += found
                }
            } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
                let missing = try MissingParts(of: db, table: table)
                guard !missing.isEmpty else { throw error }
                notChecked.append("table \"\(table)\", which needs \(missing.names.joined(separator: ", "))")
                messages += try Self.problems(of: table, missing, db)
            }
        }
        if messages.isEmpty { messages = ["ok"] }
    }

    private static func problems(of table: String, _ missing: MissingParts, _ db: Database) throws -> [String] {
        do {
            return try UncheckedTable(table, missing, in: db).problems
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_CORRUPT {
            return ["table \(table): \(error.message ?? error.description)"]
        }
    }
}

/// A row that refers to a row which does not exist.
public struct OrphanRow: Hashable, Sendable {
    /// The table of the row.
    public let table: String
    /// The row id; nil in a table WITHOUT ROWID.
    public let rowID: Int64?
    /// The table to which it refers.
    public let parent: String

    /// As in `row 1 of table "child" refers to a row of table "parent" that does not exist`.
    public var text: String {
        "\(rowID.map { "row \($0)" } ?? "a row") of table \"\(table)\" refers to a row of table \"\(parent)\" that does "
            + "not exist"
    }

    /// Such rows of a database.
    struct Found {
        /// The first of them.
        var first: [OrphanRow] = []
        /// The number of all.
        var count = 0
        /// The tables that SQLite could not check, each with the reason.
        var unchecked: [String] = []
    }

    /// Reports the first such rows as notices. A database that SQLite cannot read is left to a verification.
    static func report(_ db: Database, _ run: ToolRun) {
        guard let found = try? db.endingStatements(when: { run.isCancelled }, { try find(db) }) else { return }
        var said: Set<String> = []
        // A row may refer to two rows of one table that do not exist.
        for row in found.first where said.insert(row.text).inserted { run.notice(row.text) }
        let more = found.count - found.first.count
        if more > 0 { run.notice("further rows without a parent: \(more)") }
        for reason in found.unchecked { run.notice("foreign keys were not checked: \(reason)") }
    }

    /// SQLite's text for an error of which it knows no more.
    private static let anyError = "SQL logic error"

    /// Looks for such rows, table by table: a foreign key that SQLite cannot check ends the check of its table only. It
    /// refers to columns without a unique index, or to columns that do not exist, which SQLite tolerates.
    ///
    /// - Throws: `DatabaseError`.
    static func find(_ db: Database) throws -> Found {
        var found = Found()
        let tables = try String.fetchAll(
            db,
            sql: """
                SELECT DISTINCT m.name FROM main.sqlite_schema AS m JOIN pragma_foreign_key_list(m.name, 'main')
                WHERE m.type = 'table' ORDER BY m.rowid
                """)
        for table in tables {
            do {
                try find(db, table, &found)
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                // After a page that SQLCipher cannot read every other one is an error without a text of its own.
                guard let message = db.lastErrorMessage, message != anyError else { throw error }
                found.unchecked.append("table \"\(table)\": \(message)")
            }
        }
        return found
    }

    private static func find(_ db: Database, _ table: String, _ found: inout Found) throws {
        let rows = try Row.fetchCursor(
            db, sql: "SELECT \"table\", rowid, parent FROM pragma_foreign_key_check(?, 'main')", arguments: [table])
        while let row = try rows.next() {
            found.count += 1
            if found.first.count < ToolLimits.listedOrphans {
                found.first.append(OrphanRow(table: row[0], rowID: row[1], parent: row[2]))
            }
        }
    }
}

extension DoubleQuotedStrings {
    /// Reports triggers and views that fail in the connections of a store. A store that cannot be read is left to a
    /// verification.
    static func report(_ store: SharedStore, _ run: ToolRun) {
        guard let found = try? store.read({ try DoubleQuotedStrings(in: $0) }) else { return }
        for object in found.objects {
            run.notice(
                "\(object) has a text in double quotes, which connections of a store take for the name of a column: "
                    + "write the text in single quotes, or open the store with "
                    + "Configuration.acceptsDoubleQuotedStringLiterals")
        }
    }
}
