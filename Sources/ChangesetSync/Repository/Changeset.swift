import CipherDatabase
import CipherStore
import Foundation

/// A commit, or a union of commits, with the names that programs use: a record of a view.
public struct Changeset: Codable, Hashable, Identifiable, Sendable, FetchableRecord, TableRecord {
    public static let databaseTableName = EngineTables.changesetView

    /// The name: 64 hexadecimal digits. That of a commit is a hash of all that it has.
    public let uuid: String
    /// The previous commit of the same author; nil of the first one. Of a union, the head before it.
    public let parent_uuid: String?
    /// The changes, as Docs/Formats/Commit.md describes them; empty of a union, and of a commit that a snapshot stands for.
    public let parent_changeset: Data
    /// Of a union, the latest commit that was joined; nil of a commit.
    public let merge_uuid: String?
    /// Empty of a union, whose commits have all changes; nil of a commit.
    public let merge_changeset: Data?
    /// Whether every remote of this store has it. False where there is no remote, and of a union, which is never sent.
    public let pushed: Bool
    /// The text that the program gave to it; empty for a union.
    public let meta: String

    public var id: String { uuid }
}

/// The commit of which the tracked tables show the state: a record of a view with one row, or none before the first commit.
///
/// Stores with equal heads have joined the same commits.
public struct Head: Codable, Hashable, Sendable, FetchableRecord, TableRecord {
    public static let databaseTableName = EngineTables.headView

    /// The name of a commit that knew all others, or of a union.
    public let uuid: String
}

extension Changeset {
    /// A joined commit, by its number in this store.
    static func joined(_ n: Int64, _ db: Database) throws -> Changeset {
        try one("kind = \(EngineTables.RecordKind.joined) AND n = ?", [n], db)
    }

    /// A record by its name. It reads the names of all commits.
    static func named(_ uuid: String, _ db: Database) throws -> Changeset {
        try one("uuid = ? ORDER BY kind LIMIT 1", [uuid], db)
    }

    /// The record of the head; nil before the first commit.
    static func head(_ work: Work) throws -> Changeset? {
        let db = work.db
        guard let head = work.state.head, let last = try work.headNames.latest(work.state.vector.all) else {
            return nil
        }
        if try work.commits.hash(of: last) == head { return try joined(last, db) }
        return try one(
            "kind = \(EngineTables.RecordKind.merge) AND uuid = ? ORDER BY n DESC LIMIT 1", [head.description], db)
    }

    private static func one(_ condition: String, _ arguments: StatementArguments, _ db: Database) throws -> Changeset {
        let sql = "SELECT * FROM main.\(EngineTables.changesetView) WHERE \(condition)"
        guard let record = try Changeset.fetchOne(db, sql: sql, arguments: arguments) else {
            throw EngineError(.noSuchCommit)
        }
        return record
    }
}
