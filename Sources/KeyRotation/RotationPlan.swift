import CipherDatabase
import CipherStore
import Foundation
import KeyCustody
import PageFormat
import RotationCore
import StoreCrypto
import StorePlatform
import StoreSharing

/// The needs, obstacles and risks of a rotation: the result of ``KeyRotation/preflight(isCancelled:)``.
public struct RotationPlan: Sendable {
    /// A fact that the user should know before the rotation.
    public struct Finding: Hashable, Sendable {
        /// The finding, as a sentence.
        public let what: String
        /// The remedy.
        public let remedy: String
    }

    /// The epoch of the present data key.
    public internal(set) var epoch: UInt64
    /// Whether the store has keyslots.
    public internal(set) var hasSlots: Bool
    /// Pages of the database.
    public internal(set) var pages: Int
    /// Bytes of the database.
    public internal(set) var databaseBytes: Int
    /// Bytes of the WAL now.
    public internal(set) var walBytes: Int
    /// The longest WAL allowed during the rotation.
    public internal(set) var walLimitBytes: Int
    /// Bytes that are free for this process on the filesystem.
    public internal(set) var freeBytes: Int
    /// The speed at which sample pages were re-encrypted in memory, on all threads.
    public internal(set) var sampleBytesPerSecond: Int
    /// How many threads re-encrypt.
    public internal(set) var workers: Int
    /// The expected time of copy and verification at this speed, or at the throttled one.
    public internal(set) var expectedDuration: Duration
    /// Every process that has the store open, including this one.
    public internal(set) var holders: [StoreHolder]
    /// The type of the filesystem, such as `ext4`.
    public internal(set) var filesystem: String
    /// The versions of SQLCipher and SQLite in this process.
    public internal(set) var library: String
    /// When the last verified backup was made, in seconds since 1970, according to the key log; nil for never.
    public internal(set) var lastBackup: UInt64?
    /// Whether a keyslot is a recovery key; nil for stores without slots.
    public internal(set) var hasRecoverySlot: Bool?
    /// The findings of `integrity_check`, one line each; empty without any. Nil when the check was not requested.
    ///
    /// They are an obstacle where a page fails its authentication, and else a warning.
    public internal(set) var damage: [String]?
    /// A page that fails its authentication, where `integrity_check` has found something.
    var damagedPage: UInt32?

    /// The things that `integrity_check` needs and this program lacks, such as `collation prog`; then the check was not
    /// run.
    public internal(set) var notChecked: [String] = []

    /// Obstacles: the rotation would be refused.
    public internal(set) var obstacles: [Finding] = []
    /// Risks: the rotation would still begin.
    public internal(set) var warnings: [Finding] = []

    /// Whether a rotation can begin.
    public var canBegin: Bool { obstacles.isEmpty }
}

extension RotationPlan {
    /// Bytes for the copy, and for the growth of the WAL during the rotation.
    var neededBytes: Int { databaseBytes + RotationLimits.smallestLogGrowthBytes }
}
