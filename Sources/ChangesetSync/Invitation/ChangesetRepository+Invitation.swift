import CipherDatabase
import KeyCustody
import StoreCrypto

extension ChangesetRepository {
    /// Makes an invitation for another device.
    ///
    /// - Parameters:
    ///   - source: Gives the key of the invitation: a passphrase (stretched by scrypt), or 32 random bytes. It need not be
    ///     a key of the store, and better is not.
    ///   - address: Where the remote is. It goes without user and password.
    /// - Throws: ``SyncError`` `.notEnabled`; what the source throws; `DatabaseError`.
    public func invitation(lockedBy source: KeySource, remote address: RemoteAddress? = nil) throws -> Invitation {
        try invitation(lockedBy: source.read(), remote: address)
    }

    /// The same with a secret that was read already.
    package func invitation(lockedBy secret: Secret, remote address: RemoteAddress? = nil) throws -> Invitation {
        let key = try writer.unsafeReentrantRead { db in
            try db.isolated {
                _ = try RepositoryState(db)
                return try RepositoryState.key(db)
            }
        }
        // The derivation takes a moment: it is made outside of the access.
        return try Invitation(key, address, lockedBy: secret)
    }

    /// Joins the repository of an invitation: the store gets its key and tracks tables. What the remote has comes with
    /// ``SyncManager/sync()``; rows that the tables have already become commits of this store.
    ///
    /// - Parameters:
    ///   - source: Gives the key of the invitation.
    ///   - tables: The tables to track. They must be there, with the columns that the others have.
    /// - Returns: Where the remote is, if the invitation names it.
    /// - Throws: ``InvitationError`` `.wrongKey`, `.damaged`, `.otherEpoch`; ``SyncError`` `.otherRepository` where the
    ///   store has another one, and as ``enable(_:)``; what the source throws; `StoreError` and `DatabaseError`, as of a
    ///   store whose key is being rotated. Nothing is changed then.
    @discardableResult
    public func join(
        _ invitation: Invitation, unlockedBy source: KeySource, tables: [String]
    ) throws -> RemoteAddress? {
        // Before a key is asked for.
        try requireRoom(for: invitation)
        return try join(invitation, unlockedBy: source.read(), tables: tables)
    }

    /// The same with a secret that was read already.
    @discardableResult
    package func join(
        _ invitation: Invitation, unlockedBy secret: Secret, tables: [String]
    ) throws -> RemoteAddress? {
        try requireRoom(for: invitation)
        let (key, address) = try invitation.open(with: secret)
        try enable(tables, key: key)
        return address
    }

    /// Throws where the store belongs to another repository.
    package func requireRoom(for invitation: Invitation) throws {
        let state = try writer.unsafeReentrantRead { db -> RepositoryState? in
            do {
                return try RepositoryState(db)
            } catch let error as SyncError where error.code == .notEnabled {
                return nil
            }
        }
        guard let state else { return }
        guard state.repository == invitation.repository else { throw SyncError(.otherRepository) }
        guard state.epoch == invitation.epoch else {
            throw InvitationError(.otherEpoch, "It is \(state.epoch) there and \(invitation.epoch) here.")
        }
    }
}
