import CipherDatabase

/// Making snapshots, and forgetting.
extension Replica {
    /// Makes a snapshot in memory; nil between two slices.
    func snapshot(
        _ db: Database, clock: HybridTime, partBytes: Int = ExchangeLimits.segmentBytes
    ) throws -> Snapshot? {
        try inTransaction(db, clock) { work in
            guard let maker = try SnapshotMaker(work, partBytes: partBytes) else { return nil }
            var parts: [[UInt8]] = []
            while let part = try maker.nextPart() { parts.append(part) }
            return Snapshot(parts: parts)
        }
    }

    /// Makes a snapshot and stores its parts; nil between two slices.
    func makeParts(
        _ db: Database, clock: HybridTime
    ) throws -> (snapshot: Int64, vector: VersionVector, time: HybridTime, lacksValues: Bool)? {
        try inTransaction(db, clock) { work in
            guard let maker = try SnapshotMaker(work) else { return nil }
            let rows = ReceivedSnapshots(db: db)
            let (snapshot, numbers) = (try rows.beginOwn(), sequence(first: 0) { $0 + 1 })
            for number in numbers {
                guard let part = try maker.nextPart() else { break }
                try rows.add(part, number, to: snapshot)
            }
            return (snapshot, maker.vector, maker.time, maker.lacksValues)
        }
    }

    /// Forgets the contents of commits that a snapshot covers. `tombstones` also forgets tombstones and the rows that were kept
    /// of deletions.
    func forget(_ db: Database, clock: HybridTime, tombstones: Bool) throws {
        try inTransaction(db, clock) { work in
            try work.commits.forgetBodies()
            if tombstones { try work.forgetTombstones(graves: true) }
        }
    }

    /// The grace period is over: tombstones go.
    func forgetTombstones(_ db: Database, clock: HybridTime) throws {
        try inTransaction(db, clock) { try $0.forgetTombstones(graves: false) }
    }
}
