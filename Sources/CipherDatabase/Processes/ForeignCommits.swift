/// Finds out whether other connections have committed since the last look, by the number that SQLite changes with each
/// of their commits. The connection's own commits never count.
/// - SeeAlso: <https://www.sqlite.org/pragma.html#pragma_data_version>
package struct ForeignCommits {
    private enum Seen {
        /// Nothing: the next look counts as a change.
        case nothing
        /// The number of the open connection. The position is that before the number was read: while it is the same,
        /// nobody has committed.
        case version(Int64, CommitPosition?)
        /// The last commit that a connection saw which was closed since.
        case closed(CommitPosition)
    }

    private var seen = Seen.nothing

    package init() {}

    /// Begins: what was committed before does not count.
    package mutating func begin(_ db: Database) {
        seen = .nothing
        let position = db.commitPosition
        if let version = try? db.foreignVersion() { seen = .version(version, position) }
    }

    /// Looks, outside of transactions.
    ///
    /// - Returns: Whether another connection has committed since the last look.
    /// - Throws: ``DatabaseError``; the next look finds what this one has missed.
    package mutating func look(_ db: Database) throws -> Bool {
        let position = db.commitPosition
        if case .version(_, let known?) = seen, known == position { return false }
        let version = try db.foreignVersion()
        defer { seen = .version(version, position) }
        guard case .version(let known, _) = seen else { return true }
        return known != version
    }

    /// Called in the last access of a connection in whose place another one will be opened.
    package mutating func connectionWillClose(_ db: Database) {
        let position = db.isInsideTransaction ? nil : db.commitPosition
        guard let position, let isChanged = try? look(db), !isChanged else { return seen = .nothing }
        seen = .closed(position)
    }

    /// Called before the first use of a connection that was opened in place of another one.
    package mutating func connectionDidOpen(_ db: Database) {
        guard case .closed(let known) = seen else { return }
        seen = .nothing
        let position = db.commitPosition
        // Read after the number: what was committed up to it is in this position.
        guard let version = try? db.foreignVersion(), db.commitPosition == known else { return }
        seen = .version(version, position)
    }
}

extension Database {
    /// A number that changes with every commit of another connection, by the last one of them.
    // Not SQLITE_FCNTL_DATA_VERSION, which changes with the connection's own commits too.
    fileprivate func foreignVersion() throws -> Int64 {
        if isClosed { throw closedError }
        // Nobody is told of the end of its transaction.
        let outer = transaction.isUpkeep
        transaction.isUpkeep = true
        defer { transaction.isUpkeep = outer }
        return try withoutWatching {
            try readOnly { try Int64.fetchOne(self, sql: "PRAGMA data_version") ?? 0 }
        }
    }
}
