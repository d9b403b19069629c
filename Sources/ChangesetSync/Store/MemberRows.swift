import CipherDatabase
import StoreCrypto

/// The keys of this replica, the records of the members and the secrets of epochs. Inside a transaction.
///
/// They are as secret as the rows.
struct MemberRows {
    let db: Database

    // MARK: Keys

    func setIdentity(_ keys: ReplicaKeys, roster: SecretBytes) throws {
        try db.cachedStatement(
            sql: "INSERT INTO \(EngineTables.identity) (id, signing, agreement, roster) VALUES (1, ?, ?, ?)"
        ).execute(exact: [
            ExactValue(keys.signing.secret), ExactValue(keys.agreement.secret), ExactValue(roster),
        ])
    }

    /// - Parameter id: The name of the replica.
    func identity(_ id: ReplicaID) throws -> (keys: ReplicaKeys, roster: SecretBytes) {
        let found = try db.cachedStatement(sql: "SELECT signing, agreement, roster FROM \(EngineTables.identity)")
            .first([]) { ($0.secret(0), $0.secret(1), $0.secret(2)) }
        guard let found else { throw EngineError(.damagedStore) }
        let keys = ReplicaKeys(
            id: id, signing: try SigningKey(secret: found.0), agreement: try AgreementKey(secret: found.1))
        return (keys, found.2)
    }

    // MARK: Records

    func records() throws -> [MemberRecord] {
        var found: [[UInt8]] = []
        try db.cachedStatement(sql: "SELECT bytes FROM \(EngineTables.record)").forEach([]) {
            found.append($0.bytes(0))
        }
        return try found.map { try MemberRecord(decoding: $0) }
    }

    /// - Returns: Whether a record is new.
    func add(_ records: [MemberRecord]) throws -> Bool {
        let statement = try db.cachedStatement(
            sql: "INSERT OR IGNORE INTO \(EngineTables.record) (hash, bytes) VALUES (?, ?)")
        var isNew = false
        for record in records {
            try statement.execute(exact: [ExactValue(record.hash.bytes), ExactValue(record.bytes)])
            isNew = isNew || db.changesCount > 0
        }
        return isNew
    }

    // MARK: Epochs

    func secrets() throws -> EpochSecrets {
        var secrets = EpochSecrets()
        try db.cachedStatement(sql: "SELECT hash, secret FROM \(EngineTables.epoch)").forEach([]) { row in
            guard let hash = RecordHash(bytes: row.bytes(0)) else { throw EngineError(.damagedStore) }
            secrets.add(row.secret(1), of: hash)
        }
        return secrets
    }

    /// - Returns: Whether a secret is new.
    func keep(_ secrets: EpochSecrets) throws -> Bool {
        let statement = try db.cachedStatement(
            sql: "INSERT OR IGNORE INTO \(EngineTables.epoch) (hash, secret) VALUES (?, ?)")
        var isNew = false
        for (hash, secret) in secrets.secrets {
            try statement.execute(exact: [ExactValue(hash.bytes), ExactValue(secret)])
            isNew = isNew || db.changesCount > 0
        }
        return isNew
    }
}

extension EngineRow {
    /// A secret, copied from SQLite's memory into locked memory.
    fileprivate func secret(_ column: Int) -> SecretBytes {
        if case .blob(let bytes) = row[column] { SecretBytes(copying: bytes) } else { SecretBytes(copying: [UInt8]()) }
    }
}

extension ExactValue {
    fileprivate init(_ secret: SecretBytes) { self = .blob(secret.withBytes { Array($0) }[...]) }
}
