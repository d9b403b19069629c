import ObjectStorage
import StorePlatform
import Synchronization

/// Where a repository keeps its objects.
///
/// Beside the calls of an ``ObjectStore`` it reads parts of objects, and excludes removals while objects are used: a
/// backup that is being made refers to objects of earlier ones, and no other object refers to its own ones yet.
package protocol BackupPlace: ObjectStore {
    /// How many calls are made at once where many are to be made.
    var simultaneousCalls: Int { get }
    /// The names with a prefix that a prune may remove if no backup needs them.
    func removable(_ prefix: String) throws -> [String]
    /// Reads a part of an object.
    ///
    /// - Returns: Fewer bytes where the object ends before; nil if there is no such object.
    func read(_ name: String, at offset: Int, byteCount: Int) throws -> [UInt8]?
    /// Reads an object, and whether another user may have written it.
    ///
    /// - Parameter limitBytes: Longer objects are returned up to this length and one byte more.
    /// - Returns: nil if there is no such object.
    func attributed(_ name: String, limitBytes: Int) throws -> AttributedObject?
    /// Whether another user may have written an object, as far as the place can tell without reading it.
    func isUnproven(_ name: String) throws -> Bool
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
    /// Keeps other processes from replicating a store to this place.
    ///
    /// - Parameter store: The bytes of the identifier of the store.
    /// - Returns: nil where another one does.
    func lockReplica(of store: [UInt8]) throws -> (any PlaceLock)?
}

extension BackupPlace {
    /// A place without such locks: the second of two processes finds objects that it has not made.
    package func lockReplica(of store: [UInt8]) throws -> (any PlaceLock)? { NoPlaceLock() }
}

private struct NoPlaceLock: PlaceLock {
    func release() {}
}

extension BackupPlace {
    package var simultaneousCalls: Int { 1 }

    package func removable(_ prefix: String) throws -> [String] { try list(prefix).map(\.name) }

    /// Calls a function for each item, several at once where the place permits that.
    ///
    /// - Returns: The results in the order of the items.
    /// - Throws: The first error; no call begins after it.
    func map<Item: Sendable, Result: Sendable>(
        _ items: [Item], _ body: @Sendable (Item) throws -> Result
    ) throws -> [Result] {
        let count = min(simultaneousCalls, items.count)
        guard count > 1 else { return try items.map(body) }
        let state = Mutex<SimultaneousCalls<Result>>(SimultaneousCalls(count: items.count))
        Workers.run(count) { _ in
            while let index = state.withLock({ $0.take() }) {
                do {
                    let result = try body(items[index])
                    state.withLock { $0.results[index] = result }
                } catch {
                    state.withLock { $0.failure = $0.failure ?? error }
                }
            }
        }
        return try state.withLock { state in
            if let failure = state.failure { throw failure }
            return state.results.compactMap(\.self)
        }
    }
}

private struct SimultaneousCalls<Result: Sendable> {
    var results: [Result?]
    var failure: (any Error)?
    private var next = 0

    init(count: Int) { results = [Result?](repeating: nil, count: count) }

    mutating func take() -> Int? {
        guard failure == nil, next < results.count else { return nil }
        next += 1
        return next - 1
    }
}

extension BackupPlace {
    package func isUnproven(_ name: String) throws -> Bool { false }
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
