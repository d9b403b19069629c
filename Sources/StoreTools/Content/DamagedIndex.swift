import CipherDatabase
import CipherStore

/// A table of a source whose indexes do not fit its rows. A copy builds its indexes from the rows, and so hides that.
///
/// A program may replace a function or a collation of SQLite, such as `lower` or `NOCASE`. Its indexes have another order
/// or other values then, and are not damaged. Indexes of columns in the order of bytes are the same for each program.
public struct DamagedIndex: Hashable, Sendable {
    /// The table.
    public let table: String
    /// The first finding of SQLite about each index, such as `row 2 missing from index i`.
    public let findings: [String]
    /// Whether an index of the table depends on a function or a collation that a program can replace.
    public let dependsOnProgram: Bool

    /// A sentence without its full stop, for a copy whose indexes were built from the rows.
    package var textOfCopy: String {
        if dependsOnProgram {
            return "an index of table \"\(table)\" was built anew, because the index of the source does not fit by the "
                + "functions and collations of this program (\(quoted)): let the program that replaces one of SQLite's, as "
                + "lower or NOCASE, run REINDEX in the copy; without such a program the source is damaged"
        }
        return
            "table \"\(table)\" of the source is damaged (\(quoted)): the copy has the rows of the table, and indexes that "
            + "were built from them; rows that only the index still names are in no copy: compare with a backup"
    }

    /// The same for a store that keeps the pages of its source.
    ///
    /// - Parameter path: The database file.
    package func textOfOriginal(_ path: String) -> String {
        let repair = "`cipherctl sql \(ShellWord.path(path)) \"REINDEX\" --write`"
        if dependsOnProgram {
            return
                "an index of table \"\(table)\" does not fit by the functions and collations of this program (\(quoted)): it "
                + "is sound if a program replaces one of SQLite's, as lower or NOCASE; otherwise build it anew: \(repair)"
        }
        return
            "table \"\(table)\" is damaged (\(quoted)), as it was before: rows that only the index still names are lost, so "
            + "compare with a backup; then build the indexes anew: \(repair)"
    }

    private var quoted: String { findings.joined(separator: "; ") }

    /// The damaged indexes of a database.
    ///
    /// - Throws: `DatabaseError`, `CancellationError`.
    static func find(_ source: Database, _ run: ToolRun) throws -> [DamagedIndex] {
        try source.endingStatements(when: { run.isCancelled }) {
            try indexedTables(source).compactMap { table in
                try run.check()
                let findings = try findings(table.name, source)
                guard !findings.isEmpty else { return nil }
                return DamagedIndex(table: table.name, findings: findings, dependsOnProgram: table.dependsOnProgram)
            }
        }
    }

    /// The tables with an index, and whether an index depends on a function or on a collation other than BINARY.
    private static func indexedTables(_ db: Database) throws -> [(name: String, dependsOnProgram: Bool)] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT t.name, max(i.partial OR c.cid = -2 OR c.coll <> 'BINARY'
                    OR c.cid IN (SELECT cid FROM pragma_table_xinfo(t.name, 'main') WHERE hidden IN (2, 3)))
                FROM main.sqlite_schema t, pragma_index_list(t.name, 'main') i, pragma_index_xinfo(i.name, 'main') c
                WHERE t.type = 'table' AND t.rootpage > 0 AND c.key
                GROUP BY t.name ORDER BY t.name
                """
        ).map { ($0[0], $0[1]) }
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
        guard let damage = shared ?? (findings.count < ToolLimits.quickCheckFindings ? nil : findings.first) else {
            return
        }
        throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: String(damage))
    }

    /// SQLite's first finding about each index, and the first of all; none for a table that needs what only the program
    /// has.
    private static func findings(_ table: String, _ db: Database) throws -> [String] {
        let found: [String]
        do {
            try requireSeparatePages(table, db)
            found = try String.fetchAll(db, sql: "PRAGMA main.integrity_check(\(table.quotedIdentifier))")
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_ERROR {
            return []
        }
        guard found != ["ok"], let first = found.first else { return [] }
        let names = try String.fetchAll(db, sql: "SELECT name FROM pragma_index_list(?, 'main')", arguments: [table])
        let named = names.compactMap { name in found.first { $0.hasSuffix(" index \(name)") } }
        return named.contains(first) ? named : [first] + named
    }
}
