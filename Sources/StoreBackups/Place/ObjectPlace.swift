import CipherStore
import ObjectStorage
import StorePlatform
import Synchronization

/// A repository at a server without locks: ``PlaceMarks`` has the rule that replaces them.
package final class ObjectPlace: BackupPlace {
    private let objects: any ServedObjects
    private let marks: PlaceMarks
    private let uses = Mutex<[ObjectIdentifier: UseMark]>([:])
    private let removal = Mutex<RemovalMark?>(nil)
    private let packs: PackCache

    package init(_ objects: any ServedObjects, times: PlaceTimes = PlaceTimes()) {
        self.objects = objects
        marks = PlaceMarks(objects, times)
        packs = PackCache(objects)
    }

    package var description: String { objects.description }
    package var simultaneousCalls: Int { BackupLimits.serverCalls }

    /// The name of an object that no repository has; nil if there is none.
    func foreignName() throws -> String? {
        let kinds = ObjectKind.allCases.map(\.rawValue) + [PlaceMarks.uses, PlaceMarks.removals]
        return try objects.list("").map(\.name).filter { name in !kinds.contains { name.hasPrefix($0 + "/") } }.min()
    }

    // MARK: Objects

    package func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome {
        guard name.hasPrefix(ObjectKind.backup.rawValue + "/") else { return try objects.put(name, bytes) }
        let held = uses.withLock { Array($0.values) }
        try marks.require(held)
        let outcome = try objects.put(name, bytes)
        do {
            // A prune that begins from now on finds the record.
            try marks.require(held)
        } catch {
            if outcome == .stored { try? objects.delete(name) }
            throw error
        }
        return outcome
    }

    package func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        try objects.get(name, limitBytes: limitBytes)
    }

    package func read(_ name: String, at offset: Int, byteCount: Int) throws -> [UInt8]? {
        guard ObjectKind.pack.hash(ofName: name) != nil, byteCount >= BackupLimits.cachedReadBytes else {
            return try objects.read(name, at: offset, byteCount: byteCount)
        }
        return try packs.read(name, at: offset, byteCount: byteCount)
    }

    /// Everybody who may write objects there is trusted as the owner of a folder is.
    package func attributed(_ name: String, limitBytes: Int) throws -> AttributedObject? {
        try objects.get(name, limitBytes: limitBytes).map { AttributedObject(bytes: $0, isUnproven: false) }
    }

    package func list(_ prefix: String) throws -> [ListedObject] { try objects.list(prefix) }

    package func removable(_ prefix: String) throws -> [String] {
        let listing = try objects.listing(prefix)
        return listing.entries.filter { listing.now - $0.stored > marks.times.graceSeconds }.map(\.name)
    }

    package func delete(_ name: String) throws { try objects.delete(name) }

    package func delete(_ names: [String]) throws {
        _ = try map(names) { try self.remove($0) }
    }

    package func deleteUnneeded(_ names: [String]) throws -> Int {
        try map(names) { name in
            do {
                try self.remove(name)
                return true
            } catch {
                guard self.objects.isDenied(error) else { throw error }
                return false
            }
        }.count { !$0 }
    }

    /// Removes an object, if no other process has taken this prune for killed.
    private func remove(_ name: String) throws {
        let held = removal.withLock(\.self)
        try held?.require()
        try objects.delete(name)
    }

    package func removeUploads() throws -> Int {
        do {
            return try objects.removeUploads(olderThan: marks.times.graceSeconds)
        } catch  where objects.isDenied(error) {
            // They are no objects of the repository, and another user may list them.
            return 0
        }
    }

    // MARK: Marks

    package func lockForUse(isWriting: Bool, _ isCancelled: () -> Bool) throws -> any PlaceLock {
        do {
            let mark = try marks.use(isCancelled)
            uses.withLock { $0[ObjectIdentifier(mark)] = mark }
            return MarkLock { [self] in
                uses.withLock { $0[ObjectIdentifier(mark)] = nil }
                mark.end()
            }
        } catch  where !isWriting && objects.isDenied(error) {
            // A user who may only read.
            return MarkLock {}
        }
    }

    package func lockForRemoval(_ isCancelled: () -> Bool) throws -> any PlaceLock {
        let mark = try marks.removal(isCancelled)
        removal.withLock { $0 = mark }
        return MarkLock { [self] in
            removal.withLock { $0 = nil }
            mark.end()
        }
    }
}

/// The lock that a mark is.
private final class MarkLock: PlaceLock {
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    func release() { end() }
}

/// The packs that were read last, whole: a server takes about as long for a page as for a pack.
private final class PackCache: Sendable {
    private let objects: any ServedObjects
    private let packs = Mutex<[Pack]>([])

    init(_ objects: any ServedObjects) { self.objects = objects }

    func read(_ name: String, at offset: Int, byteCount: Int) throws -> [UInt8]? {
        guard let bytes = try pack(name).bytes(from: objects) else { return nil }
        return Array(bytes.dropFirst(offset).prefix(byteCount))
    }

    /// The pack of a name, the last one used at the end.
    private func pack(_ name: String) -> Pack {
        packs.withLock { packs in
            let found = packs.firstIndex { $0.name == name }.map { packs.remove(at: $0) } ?? Pack(name)
            if packs.count >= BackupLimits.cachedPacks { packs.removeFirst() }
            packs.append(found)
            return found
        }
    }

    private final class Pack: Sendable {
        let name: String
        private let content = Mutex<[UInt8]?>(nil)

        init(_ name: String) { self.name = name }

        /// Fetched once; other threads that want the same pack wait for it.
        func bytes(from objects: any ServedObjects) throws -> [UInt8]? {
            try content.withLock { content in
                if content == nil { content = try objects.get(name, limitBytes: PageTable.longestPackBytes) }
                return content
            }
        }
    }
}
