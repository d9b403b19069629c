import CipherDatabase
import CipherStore

/// Indexes of a source that do not fit their tables by the functions and collations of this program.
///
/// A program may replace a function or a collation of SQLite, such as `lower` or `NOCASE`. Its indexes have another order
/// or other values then. A copy builds them by the functions that it knows, and the program would not find its rows.
enum RebuiltIndexes {
    /// Reports each table of a source whose indexes a copy has built in another way. `INTEGER` keys, and indexes of columns
    /// in the order of bytes, are the same for each program.
    ///
    /// - Throws: `DatabaseError`, `CancellationError`.
    static func report(_ source: Database, _ run: ToolRun) throws {
        for table in try exposedTables(source) {
            try run.check()
            guard let finding = try finding(table, source) else { continue }
            run.notice(
                "an index of table \"\(table)\" was built anew, because the index of the source does not fit by the functions "
                    + "and collations of this program (\"\(finding)\"): let the program that replaces one of SQLite's, as "
                    + "lower or NOCASE, run REINDEX in the copy; without such a program the source is damaged")
        }
    }

    /// Refuses a table of which two pages refer to one: `integrity_check` counts the entries of each index, for ever if its
    /// pages refer to each other, and `quick_check` does not. The rows of the table have been read.
    ///
    /// - Throws: `DatabaseError` `SQLITE_CORRUPT`.
    private static func requireSeparatePages(_ table: String, _ db: Database) throws {
        let findings = try String.fetchAll(db, sql: "PRAGMA main.quick_check(\(table.quotedIdentifier))")
            .flatMap { $0.split(separator: "\n") }
        let shared = findings.first { $0.contains("2nd reference to page") }
        // After so many findings SQLite has not looked at all pages.
        guard let damage = shared ?? (findings.count < Limits.quickCheckFindings ? nil : findings.first) else { return }
        throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: String(damage))
    }

    /// The tables with an index that depends on a function or on a collation other than BINARY.
    private static func exposedTables(_ db: Database) throws -> [String] {
        try String.fetchAll(
            db,
            sql: """
                SELECT DISTINCT t.name
                FROM main.sqlite_schema t, pragma_index_list(t.name, 'main') i, pragma_index_xinfo(i.name, 'main') c
                WHERE t.type = 'table' AND t.rootpage > 0 AND c.key AND (
                    i.partial OR c.cid = -2 OR c.coll <> 'BINARY'
                    OR c.cid IN (SELECT cid FROM pragma_table_xinfo(t.name, 'main') WHERE hidden IN (2, 3)))
                ORDER BY t.name
                """)
    }

    /// SQLite's first finding; nil without any, and for a table that needs what only the program has.
    private static func finding(_ table: String, _ db: Database) throws -> String? {
        do {
            try requireSeparatePages(table, db)
            let found = try String.fetchOne(db, sql: "PRAGMA main.integrity_check(\(table.quotedIdentifier))")
            return found == "ok" ? nil : found
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
            return nil
        }
    }
}
