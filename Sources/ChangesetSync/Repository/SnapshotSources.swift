import CipherDatabase

/// A snapshot that is read from a view of a pool while it is put. Nobody waits for it.
final class PooledSnapshotSource: SnapshotSource {
    let vector: VersionVector
    let time: HybridTime
    private let view: DatabaseSnapshot
    private let maker: SnapshotMaker

    /// - Returns: nil between two slices, and if a row was written outside of commits: its stamps are of another value.
    init?(_ view: DatabaseSnapshot, _ settings: Replica.Settings, _ clock: HybridTime) throws {
        let maker = try view.read { db in
            let work = try Work(db, settings, DefinitionCache(), clock: clock)
            return try ForeignWrites(work: work).hasAny() ? nil : SnapshotMaker(work)
        }
        guard let maker else { return nil }
        (self.view, self.maker, vector, time) = (view, maker, maker.vector, maker.time)
    }

    var lacksValues: Bool { maker.lacksValues }

    func nextPart() throws -> [UInt8]? { try view.read { _ in try maker.nextPart() } }
}

/// A snapshot whose parts are made at once, and stored until they are put: of a store with one connection, and of a
/// shared store, whose views hold up a change of the key.
final class StoredSnapshotSource: SnapshotSource {
    let vector: VersionVector
    let time: HybridTime
    let lacksValues: Bool
    private let writer: any DatabaseWriter
    private let snapshot: Int64
    private var number = 0

    init?(_ writer: any DatabaseWriter, _ replica: Replica, _ clock: HybridTime) throws {
        let made = try writer.writeWithoutTransaction { db in
            try replica.makeParts(db, clock: clock)
        }
        guard let made else { return nil }
        (self.writer, snapshot, vector, time) = (writer, made.snapshot, made.vector, made.time)
        lacksValues = made.lacksValues
    }

    /// Makes the parts from a view, each in a transaction of its own, so that other writers wait for one part at most.
    init?(_ writer: any DatabaseWriter, _ view: DatabaseSnapshot, _ settings: Replica.Settings, _ clock: HybridTime)
        throws
    {
        guard let source = try PooledSnapshotSource(view, settings, clock) else { return nil }
        let snapshot = try Self.write(writer) { try $0.beginOwn() }
        var count = 0
        while let part = try source.nextPart() {
            try Self.write(writer) { try $0.add(part, count, to: snapshot) }
            count += 1
        }
        (self.writer, self.snapshot, vector, time) = (writer, snapshot, source.vector, source.time)
        lacksValues = source.lacksValues
    }

    func nextPart() throws -> [UInt8]? {
        let part = try writer.read { try ReceivedSnapshots(db: $0).part(number, of: snapshot) }
        try Self.write(writer) { rows in
            if part == nil { try rows.remove(snapshot) } else { try rows.removePart(number, of: snapshot) }
        }
        number += 1
        return part
    }

    private static func write<T>(_ writer: any DatabaseWriter, _ body: (ReceivedSnapshots) throws -> T) throws -> T {
        try writer.writeWithoutTransaction { db in
            var result: T?
            try db.writingOwnRows {
                try db.inTransaction(.immediate) {
                    result = try body(ReceivedSnapshots(db: db))
                    return .commit
                }
            }
            guard let result else { throw EngineError(.damagedStore) }
            return result
        }
    }
}
