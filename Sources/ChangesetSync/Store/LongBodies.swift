import CipherDatabase

/// The bodies of long commits, in a table of their own. Inside a transaction.
///
/// A body goes from the inbox to the joined commits as a number: to write a body of megabytes again would hold up other
/// writers. The row of the commit has an empty body then, and the number in `long`.
struct LongBodies {
    /// The fewest bytes of a body that is stored here.
    static let fewestBytes = 64 * 1024

    let db: Database

    /// The body of a row of `inbox` or `commit`, whose alias is given.
    ///
    /// - Parameter table: The table of long bodies, as views name it.
    static func content(of alias: String, from table: String = EngineTables.body) -> String {
        "CASE WHEN \(alias).long IS NULL THEN \(alias).body "
            + "ELSE (SELECT bytes FROM \(table) AS b WHERE b.n = \(alias).long) END"
    }

    /// The length of that. SQLite finds it without reading the bytes.
    static func byteCount(of alias: String) -> String {
        "CASE WHEN \(alias).long IS NULL THEN length(\(alias).body) "
            + "ELSE (SELECT length(bytes) FROM \(EngineTables.body) AS b WHERE b.n = \(alias).long) END"
    }

    func add(_ bytes: ArraySlice<UInt8>) throws -> Int64 {
        try db.cachedStatement(sql: "INSERT INTO \(EngineTables.body) (bytes) VALUES (?)")
            .execute(exact: [.blob(bytes)])
        return db.lastInsertedRowID
    }

    func remove(_ n: Int64) throws {
        try db.cachedStatement(sql: "DELETE FROM \(EngineTables.body) WHERE n = ?").execute(exact: [.integer(n)])
    }
}
