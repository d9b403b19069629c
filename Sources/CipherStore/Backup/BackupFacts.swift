import CipherDatabase
import KeyCustody
import PageFormat

/// The store and the moment of a backup, whatever holds its pages.
package struct BackupFacts: Hashable, Sendable {
    /// The store that was backed up.
    package let storeID: StoreID
    /// Its data key.
    package let epoch: UInt64
    /// The version of its sidecar.
    package let generation: UInt64
    /// When the backup was made, in seconds since 1970.
    package let created: UInt64
    /// The page size in bytes.
    package let pageBytes: Int
    /// The number of pages of the database.
    package let pages: UInt32

    package init(storeID: StoreID, epoch: UInt64, generation: UInt64, created: UInt64, pageBytes: Int, pages: UInt32) {
        self.storeID = storeID
        self.epoch = epoch
        self.generation = generation
        self.created = created
        self.pageBytes = pageBytes
        self.pages = pages
    }
}
