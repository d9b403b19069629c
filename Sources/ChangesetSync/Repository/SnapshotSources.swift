import CipherDatabase

/// A snapshot that is read from a view of a pool while it is put. Nobody waits for it.
final class PooledSnapshotSource: SnapshotSource {
    let vector: VersionVector
    let time: HybridTime
    private let view: DatabaseSnapshot
    private let maker: SnapshotMaker

    /// - Returns: nil between two slices.
    init?(_ pool: DatabasePool, _ settings: Replica.Settings, _ clock: HybridTime) throws {
        let view = try pool.makeSnapshot()
        let maker = try view.read { db in
            try SnapshotMaker(Work(db, settings, DefinitionCache(), clock: clock))
        }
        guard let maker else { return nil }
        (self.view, self.maker, vector, time) = (view, maker, maker.vector, maker.time)
    }

    func nextPart() throws -> [UInt8]? { try view.read { _ in try maker.nextPart() } }
}

/// A snapshot of a store with one connection: its parts are made at once, and stored until they are put.
final class StoredSnapshotSource: SnapshotSource {
    let vector: VersionVector
    let time: HybridTime
    private let writer: any DatabaseWriter
    private let snapshot: Int64
    private var number = 0

    init?(_ writer: any DatabaseWriter, _ replica: Replica, _ clock: HybridTime) throws {
        let made = try writer.writeWithoutTransaction { db in
            try replica.makeParts(db, clock: clock)
        }
        guard let made else { return nil }
        (self.writer, snapshot, vector, time) = (writer, made.snapshot, made.vector, made.time)
    }

    func nextPart() throws -> [UInt8]? {
        let part = try writer.read { try ReceivedSnapshots(db: $0).part(number, of: snapshot) }
        number += 1
        if part == nil { try remove() }
        return part
    }

    private func remove() throws {
        try writer.writeWithoutTransaction { db in
            try db.writingOwnRows {
                try db.inTransaction(.immediate) {
                    try ReceivedSnapshots(db: db).remove(snapshot)
                    return .commit
                }
            }
        }
    }
}
