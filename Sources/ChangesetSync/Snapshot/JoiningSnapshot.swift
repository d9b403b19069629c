import CipherDatabase

/// A snapshot of which some items are joined, with the numbers of this store.
struct JoiningSnapshot {
    let parts: any SnapshotParts
    private var reader = SnapshotReader()
    var numbers = Translation()
    /// The vectors of the snapshot.
    var vectors: [Int64: LocalVector] = [:]
    /// The state of the snapshot, once its names are known.
    var state: SnapshotItem.State?
    /// The last key that is joined.
    var last: (table: Name, key: RowKey)?
    /// Keys that are read and not joined yet.
    private(set) var block: ArraySlice<SnapshotItem.Key> = []
    private(set) var isAtEnd = false
    /// The names of its tables, by their numbers from 1.
    var tables: [Name] = []
    /// Keys up to it were joined by another process, and are read over.
    private var skipped: (table: Name, key: RowKey)?
    var isSkipping: Bool { skipped != nil }

    init(_ parts: any SnapshotParts) { self.parts = parts }

    /// The most keys that are read at once, and the most bytes.
    private static let blockKeys = 1_000
    private static let blockBytes = 4 * 1024 * 1024

    var vector: LocalVector { state.flatMap { vectors[$0.vector] } ?? LocalVector() }

    mutating func nextItem(_ db: Database) throws -> SnapshotItem? {
        let parts = self.parts
        return try reader.next { try parts.part($0, db) }?.item
    }

    /// Reads keys, if none is left.
    ///
    /// - Parameter adopt: Called for other items: the vectors that tombstones name.
    /// - Returns: Whether keys were read.
    mutating func fill(_ db: Database, _ adopt: (SnapshotItem, inout JoiningSnapshot) throws -> Void) throws -> Bool {
        guard block.isEmpty, !isAtEnd else { return false }
        let parts = self.parts
        var (keys, byteCount) = ([SnapshotItem.Key](), 0)
        while keys.count < Self.blockKeys, byteCount < Self.blockBytes {
            guard let (item, count) = try reader.next({ try parts.part($0, db) }) else {
                isAtEnd = true
                break
            }
            byteCount += count
            if case .key(let key) = item { keys.append(key) } else { try adopt(item, &self) }
        }
        block = keys[...]
        return !keys.isEmpty
    }

    mutating func resume(after table: Name, _ key: RowKey) {
        last = (table, key)
        skipped = last
    }

    /// Reads over the next keys that are joined already.
    mutating func skip(_ db: Database, _ adopt: (SnapshotItem, inout JoiningSnapshot) throws -> Void) throws {
        let parts = self.parts
        var byteCount = 0
        while let skipped, byteCount < Self.blockBytes {
            guard let (item, count) = try reader.next({ try parts.part($0, db) }) else {
                (isAtEnd, self.skipped) = (true, nil)
                return
            }
            byteCount += count
            guard case .key(let key) = item else {
                try adopt(item, &self)
                continue
            }
            let table = tables[Int(key.table) - 1]
            if table == skipped.table ? skipped.key < key.key : skipped.table < table {
                block = [key]
                self.skipped = nil
            }
        }
    }

    mutating func takeKey() -> SnapshotItem.Key? { block.popFirst() }
}
