import CipherDatabase
import StoreCrypto

/// Names vectors, so that stores with equal vectors have equal heads.
///
/// A vector has the name of the commit that knew all others in it. If there is none, several commits were joined, and the
/// name is a hash of the vector. Which commit that is follows from the vector alone: the one with the latest time can be it.
struct HeadNames {
    let repository: RepositoryID
    let index: CommitIndex
    let commits: CommitRows

    /// - Returns: nil for the vector of no commits.
    func name(of vector: LocalVector) throws -> (hash: CommitHash, isUnion: Bool)? {
        guard let last = try latest(vector.all) else { return nil }
        if try commits.vector(after: last) == vector { return (try commits.hash(of: last), false) }
        return (try Self.union(vector.vector(index), in: repository), true)
    }

    /// The commit with the latest time.
    func latest(_ candidates: [Int64]) throws -> Int64? {
        try candidates.map(index.entry).max {
            ($0.time, $0.authorID, $0.number, $0.tag) < ($1.time, $1.authorID, $1.number, $1.tag)
        }?.n
    }

    /// The name of a union of commits.
    static func union(_ vector: VersionVector, in repository: RepositoryID) throws -> CommitHash {
        var bytes = Array("ChangesetSync union".utf8) + repository.bytes
        bytes.append(vector)
        var digest = try ContentDigest()
        bytes.withUnsafeBytes { digest.update($0) }
        guard let hash = try CommitHash(bytes: digest.finish()) else {
            preconditionFailure("SHA-256 has another length than 32 bytes.")
        }
        return hash
    }
}

extension Work {
    var headNames: HeadNames { HeadNames(repository: state.repository, index: index, commits: commits) }

    /// How many unions are kept.
    private static let keptUnions = 1_000

    /// Names the vector after it has changed, and notes a union.
    func nameHead(was former: ReplicaState) throws {
        guard state.vector != former.vector, let head = try headNames.name(of: state.vector) else { return }
        state.head = head.hash
        guard head.isUnion else { return }
        let new = try state.vector.all.filter { try !former.vector.covers($0, index) }
        let other = try headNames.latest(new).map(commits.hash)
        try db.cachedStatement(
            sql: "INSERT INTO \(EngineTables.merge) (uuid, parent, other, vector) VALUES (?, ?, ?, ?)"
        ).execute(exact: [
            ExactValue(head.hash.bytes), former.head.map { ExactValue($0.bytes) } ?? .null,
            other.map { ExactValue($0.bytes) } ?? .null, ExactValue(state.vector.bytes),
        ])
        try db.cachedStatement(sql: "DELETE FROM \(EngineTables.merge) WHERE n <= ?")
            .execute(exact: [.integer(db.lastInsertedRowID - Int64(Self.keptUnions))])
    }

    /// The vector that a name stands for.
    ///
    /// - Throws: ``EngineError`` `.noSuchCommit`, also for a commit that is not joined and for a union that is forgotten.
    func vector(named name: String) throws -> LocalVector {
        guard let hash = CommitHash(name) else { throw EngineError(.noSuchCommit) }
        if hash == state.head { return state.vector }
        let union = try db.cachedStatement(sql: "SELECT vector FROM \(EngineTables.merge) WHERE uuid = ?")
            .first([ExactValue(hash.bytes)]) { $0.bytes(0) }
        if let union { return try LocalVector(union, index) }
        return try commits.vector(after: joined(hash))
    }

    /// A joined commit by its hash.
    ///
    /// - Throws: ``EngineError`` `.noSuchCommit`
    func joined(_ hash: CommitHash) throws -> Int64 {
        let n = try db.cachedStatement(sql: "SELECT n FROM \(EngineTables.commit) WHERE hash = ?")
            .first([ExactValue(hash.bytes)]) { $0.integer(0) }
        guard let n, try state.vector.covers(n, index) else { throw EngineError(.noSuchCommit) }
        return n
    }
}
