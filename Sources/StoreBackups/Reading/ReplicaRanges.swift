import CipherStore
import StorePlatform

/// A time in which a store can be restored as it was at any moment. Times are milliseconds since 1970, by the clock of the
/// machine that replicated it.
public struct ReplicatedRange: Hashable, Sendable {
    public let storeID: StoreID
    /// The moment of its first base.
    public let since: UInt64
    /// Everything that was committed up to this time is there.
    public let until: UInt64
    /// The number of bases in it.
    public let bases: Int
    /// The number of segments in it.
    public let segments: Int
}

/// A moment of a replica, to be restored.
public struct ReplicatedMoment: Hashable, Sendable {
    public let storeID: StoreID
    /// The last poll that found a commit of it, in milliseconds since 1970.
    public let time: UInt64
    /// The first poll that found a later commit, in milliseconds since 1970; nil if it is the last moment.
    public let next: UInt64?
    /// The last poll that did not find that commit.
    let nextAfter: UInt64?
    /// The time up to which nothing else was committed, in milliseconds since 1970.
    public let completeUntil: UInt64
    let base: UInt32
    /// The last segment that is needed, for its sidecar if not for frames; 0 for none.
    let segment: UInt32
    /// The segment with the last commit; 0 for the base. Later ones may have the beginning of what a later poll has found.
    let commitSegment: UInt32
    /// The frame of the last commit in that segment.
    let frame: UInt32

    /// Whether commits between this moment and the next one were found together, because nobody replicated the store
    /// meanwhile: their times are not known.
    public var precedesPause: Bool { next.map { $0 > max(time, nextAfter ?? 0) + Self.pauseMilliseconds } ?? false }

    private static let pauseMilliseconds: UInt64 = 1000
}

extension BackupRepository {
    /// The times in which stores can be restored as they were at any moment, by store, in order. Between two of a store there is a
    /// gap.
    ///
    /// It reads what objects say; nothing of it is authenticated.
    ///
    /// - Parameter onDamage: Called with a sentence for each base that cannot be read, and where segments are missing.
    public func replicatedRanges(onDamage: (String) -> Void = { _ in }) throws -> [ReplicatedRange] {
        var ranges: [ReplicatedRange] = []
        for replica in try replicas() {
            var open: (since: UInt64, until: UInt64, bases: Int, segments: Int)?
            func end() {
                if let found = open {
                    ranges.append(
                        ReplicatedRange(
                            storeID: replica.storeID, since: found.since, until: found.until, bases: found.bases,
                            segments: found.segments))
                }
                open = nil
            }
            if let first = replica.unconnected.first {
                onDamage("The object \(first.object) of \"\(place.description)\" has lost the one before it.")
            }
            for base in replica.bases {
                do {
                    let first = try replicaHeader(replica.baseName(base))
                    let last = try replicaHeader(replica.lastName(ofBase: base))
                    let isCut = replica.unconnected.contains { $0.base == base - 1 }
                    if first.gapSince > 0 || first.previous == .none || isCut { end() }
                    open = (
                        open?.since ?? first.until, last.until, (open?.bases ?? 0) + 1,
                        (open?.segments ?? 0) + Int(last.name.segment)
                    )
                } catch let error as StoreError where error.code == .backupDamaged {
                    onDamage("\(error.what) \(error.why)")
                    end()
                }
            }
            end()
        }
        return ranges
    }

    /// Finds the last moment of a store up to a time.
    ///
    /// - Parameters:
    ///   - time: In milliseconds since 1970; nil for the last moment that is there.
    ///   - store: The first digits of the identifier of the store; needed where several stores have a moment then.
    /// - Returns: nil where there is no replica of that time.
    /// - Throws: `StoreError` `alreadyExists` where it is not clear which store is meant, `noSuchStore` for a time in a gap,
    ///   `backupDamaged`, also for the last moment if another user may have written a later object; `SystemError`.
    public func moment(at time: UInt64?, store: String? = nil) throws -> ReplicatedMoment? {
        let named = try replicas().filter { store.map("\($0.storeID)".hasPrefix) ?? true }
        // With a time, what is proven is restored. Without one, an older state must not pass for the last one.
        if time == nil || named.allSatisfy(\.bases.isEmpty) {
            for replica in named {
                guard let last = replica.leftOut.last else { continue }
                if replica.bases.last.map({ replica.lastName(ofBase: $0) < last }) ?? true { throw unproven(last) }
            }
        }
        let found =
            try named.compactMap { replica in try baseIndex(of: replica, at: time).map { (replica, $0) } }
        guard found.count <= 1 else {
            throw StoreError(
                .alreadyExists, what: "It is not clear which store of \"\(place.description)\" is meant.",
                why: "It has replicas of several stores.", remedy: "Name the store by its identifier (--store).")
        }
        return try found.first.map { try moment(of: $0.0, base: $0.1, at: time) }
    }

    /// The last base whose moment is not after a time.
    private func baseIndex(of replica: Replica, at time: UInt64?) throws -> Int? {
        guard let time else { return replica.bases.indices.last }
        var (low, high) = (0, replica.bases.count)
        while low < high {
            let middle = (low + high) / 2
            if try replicaHeader(replica.baseName(replica.bases[middle])).until <= time {
                low = middle + 1
            } else {
                high = middle
            }
        }
        return low > 0 ? low - 1 : nil
    }

    private func moment(of replica: Replica, base index: Int, at time: UInt64?) throws -> ReplicatedMoment {
        let base = replica.bases[index]
        let first = try replicaHeader(replica.baseName(base))
        var (found, place) = (first.until, (segment: UInt32(0), commit: UInt32(0), frame: first.position.frame))
        var next: ReplicaObject.Group?
        var number: UInt32 = 1
        var complete = first.until
        while next == nil, number <= replica.lastSegments[base] ?? 0 {
            let name = ReplicaName(replica.storeID, base: base, segment: number)
            let object = try replicaObject(name).object
            for group in object.groups {
                if let time, group.seen > time {
                    next = group
                    break
                }
                (found, place) = (group.seen, (number, number, group.frame))
            }
            if next == nil {
                complete = object.until
                // A segment without commits may have a sidecar.
                if object.until <= time ?? .max { place.segment = number }
            }
            number += 1
        }
        if next == nil, let time {
            try requireCovered(time, since: complete, replica, index)
            if index + 1 < replica.bases.count {
                let later = try replicaHeader(replica.baseName(replica.bases[index + 1]))
                next = .init(frame: 0, after: later.after, seen: later.until)
            }
        }
        return ReplicatedMoment(
            storeID: replica.storeID, time: found, next: next?.seen, nextAfter: next?.after,
            completeUntil: max(found, next?.after ?? complete), base: base, segment: place.segment,
            commitSegment: place.commit, frame: place.frame)
    }

    /// Refuses a time after the last object of a base, where commits before the next base are missing.
    private func requireCovered(_ time: UInt64, since complete: UInt64, _ replica: Replica, _ index: Int) throws {
        let isCut = replica.unconnected.contains { $0.base == replica.bases[index] }
        let later = index + 1 < replica.bases.count ? replica.bases[index + 1] : nil
        let header = try later.map { try replicaHeader(replica.baseName($0)) }
        guard time > complete, isCut || header.map({ $0.gapSince > 0 || $0.previous == .none }) ?? false
        else { return }
        throw StoreError(
            .noSuchStore, what: "The store cannot be restored as it was at that time.",
            why: "Commits after \(MomentText.text(complete)) are missing"
                + (header.map { " up to \(MomentText.text($0.until))" } ?? "") + ".",
            remedy: "Give a time outside of that gap, or a backup (--backup). See `cipherctl backup list`.")
    }
}

/// Times in messages.
package enum MomentText {
    /// A time in UTC with milliseconds: `2026-11-28T10:15:30.250Z`.
    package static func text(_ milliseconds: UInt64) -> String {
        let whole = WallClock.utc(milliseconds / 1000)
        let part = String(milliseconds % 1000)
        return whole.dropLast() + "." + String(repeating: "0", count: 3 - part.count) + part + "Z"
    }
}
