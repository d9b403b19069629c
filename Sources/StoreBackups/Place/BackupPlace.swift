import ObjectStorage

/// Where a repository keeps its objects.
///
/// Beside the calls of an ``ObjectStore`` it reads parts of objects, and excludes removals while objects are used: a
/// backup that is being made refers to objects of earlier ones, and no other object refers to its own ones yet.
package protocol BackupPlace: ObjectStore {
    /// Reads a part of an object.
    ///
    /// - Returns: Fewer bytes where the object ends before; nil if there is no such object.
    func read(_ name: String, at offset: Int, byteCount: Int) throws -> [UInt8]?
    /// Reads an object, and whether another user may have written it.
    ///
    /// - Parameter limitBytes: Longer objects are returned up to this length and one byte more.
    /// - Returns: nil if there is no such object.
    func attributed(_ name: String, limitBytes: Int) throws -> AttributedObject?
    /// Removes objects; those that are not there are no error.
    func delete(_ names: [String]) throws
    /// Removes objects that nothing needs. One that this user cannot remove, because another user has put it there, stays.
    ///
    /// - Returns: How many stay.
    func deleteUnneeded(_ names: [String]) throws -> Int
    /// Removes what killed uploads have left. Only while ``lockForRemoval(_:)`` is held.
    ///
    /// - Returns: How many there were.
    func removeUploads() throws -> Int
    /// Keeps objects from being removed. Any number of users may hold it; a killed one releases it.
    ///
    /// - Parameter isWriting: Whether objects will be put. A reader needs no lock where nobody can remove objects.
    /// - Throws: `StoreError` `storeInUse` while objects are removed; `CancellationError`.
    func lockForUse(isWriting: Bool, _ isCancelled: () -> Bool) throws -> any PlaceLock
    /// Waits until nobody uses the objects, and keeps it so.
    ///
    /// - Throws: `StoreError` `storeInUse` where that takes too long; `CancellationError`.
    func lockForRemoval(_ isCancelled: () -> Bool) throws -> any PlaceLock
}

/// An object, and what the place knows of its writer.
package struct AttributedObject: Sendable {
    /// nil where this user may not read it.
    package let bytes: [UInt8]?
    /// Whether another user may have written it: neither this user, root nor the owner of the place has, as far as the
    /// place can tell.
    package let isUnproven: Bool
}

/// A lock of a place, until it is released or its process ends.
package protocol PlaceLock: Sendable {
    func release()
}
