import CipherDatabase
import CipherRecords
import Foundation

/// A commit, with the names that programs use: a record of a view.
public struct Changeset: Codable, Hashable, Identifiable, Sendable, FetchableRecord, TableRecord {
    public static let databaseTableName = SyncTables.changesetView

    /// The identifier of the commit, 64 hexadecimal digits. It is a code over everything in the commit.
    public let uuid: String
    /// The identifier of the parent; nil of the first commit.
    public let parent_uuid: String?
    /// The changes since the parent, as Docs/Formats/Changeset.md describes them.
    public let parent_changeset: Data
    /// The identifier of the second parent; nil unless it is a merge.
    public let merge_uuid: String?
    /// The changes since the second parent; nil unless it is a merge.
    public let merge_changeset: Data?
    /// Whether every remote of this store has it. False where there is no remote.
    public let pushed: Bool
    /// What the program says of it; empty in a merge.
    public let meta: String

    public var id: String { uuid }
}

/// The commit that the rows of the tracked tables are the state of: a record of a view with one row, or none before the
/// first commit.
public struct Head: Codable, Hashable, Sendable, FetchableRecord, TableRecord {
    public static let databaseTableName = SyncTables.headView

    /// The identifier of the commit.
    public let uuid: String
}
