import CipherDatabase

/// A remote that a store has been set up for.
public struct KnownRemote: Hashable, Sendable {
    /// The name by which the store keeps it (``SyncRemote/name``).
    public let name: String
    /// Where it is, without password; nil where no program has said so.
    public let address: RemoteAddress?
}

extension ChangesetRepository {
    /// The remotes of this store, by name.
    ///
    /// - Throws: ``SyncError`` `.notEnabled`; `DatabaseError`.
    public func knownRemotes() throws -> [KnownRemote] {
        try writer.unsafeReentrantRead { db in
            try db.isolated {
                _ = try RepositoryState(db)
                var addresses: [String: String] = [:]
                for row in try Row.fetchAll(db, sql: "SELECT name, address FROM main.\(SyncTables.address)") {
                    addresses[try row.stored(0)] = try row.stored(1, as: String.self)
                }
                let names = try String.fetchAll(db, sql: "SELECT name FROM main.\(SyncTables.remote) ORDER BY name")
                return names.map { name in
                    // The name of a folder is its address. That of a server lacks the settings for TLS.
                    let text = addresses[name] ?? (name.hasPrefix("dir:") ? name : nil)
                    return KnownRemote(name: name, address: text.flatMap { try? RemoteAddress($0) })
                }
            }
        }
    }

    /// Forgets a remote: nothing is pushed to it or fetched from it any more. Commits and rows stay, also what came from
    /// there; the remote stays as it is. Objects of it that were refused are given up, or asked for at another remote.
    ///
    /// - Parameter name: The name of the remote (``SyncRemote/name``).
    /// - Returns: The number of commits that were not pushed to it; nil where the store has no such remote.
    /// - Throws: ``SyncError`` `.notEnabled`; `DatabaseError`.
    @discardableResult
    public func forgetRemote(named name: String) throws -> Int? { try forgetRemote(named: name, onlyIfUnused: false) }

    /// The same.
    ///
    /// - Parameter onlyIfUnused: Whether it stays where it has acknowledged or given anything.
    package func forgetRemote(named name: String, onlyIfUnused: Bool) throws -> Int? {
        try writer.unsafeReentrantWrite { db in
            try Self.inTransaction(db) {
                _ = try RepositoryState(db)
                guard let state = try RemoteState(named: name, db) else { return nil }
                if onlyIfUnused, try !state.isUnused(db) { return nil }
                let left = try Int.fetchOne(
                    db, sql: "SELECT count(*) FROM main.\(SyncTables.outbox) WHERE remote = ?", arguments: [state.n])
                try Inbox(db: db).giveUpAll(at: state.n)
                try state.remove(db)
                try db.execute(sql: "DELETE FROM main.\(SyncTables.address) WHERE name = ?", arguments: [name])
                return left
            }
        }
    }

    /// Keeps the address of a remote in the store, without its password, so that it need not be given again. The name of
    /// a server is not enough: the address also says how to connect.
    ///
    /// - Parameter name: The name of the remote (``SyncRemote/name``).
    /// - Throws: ``SyncError`` `.notEnabled`; `DatabaseError`.
    public func remember(_ address: RemoteAddress, of name: String) throws {
        let text = address.withoutPassword.text
        guard try knownRemotes().first(where: { $0.name == name })?.address?.text != text else { return }
        try writer.unsafeReentrantWrite { db in
            try Self.inTransaction(db) {
                _ = try RepositoryState(db)
                try db.execute(
                    sql: "INSERT OR REPLACE INTO main.\(SyncTables.address) (name, address) VALUES (?, ?)",
                    arguments: [name, text])
            }
        }
    }
}
