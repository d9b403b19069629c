import CipherStore
import StorePlatform

/// The part of a prune that is about replicas.
struct ReplicaPruning {
    /// The packs and maps that kept bases need.
    var needed: Set<String> = []
    /// Bases that no kept moment needs.
    var bases: [String] = []
    /// The segments of such bases, and of those that a killed prune has removed.
    var segments: [String] = []
    var kept = 0
    var notices: [String] = []

    var counts: (kept: Int, removed: Int) { (kept, bases.count) }
}

extension BackupRepository {
    /// Decides which objects of replicas are kept.
    ///
    /// - Parameter seconds: The time up to now of which each moment is kept; nil keeps all.
    /// - Throws: `StoreError` `backupDamaged` for a base that cannot be read, because its packs are not known then;
    ///   `sidecarAhead`; `SystemError`.
    func replicaPruning(keepingSeconds seconds: UInt64?) throws -> ReplicaPruning {
        var result = ReplicaPruning()
        let now = WallClock.secondsSince1970
        for replica in try replicas(countsAll: true) {
            var bases: [(name: ReplicaName, object: ReplicaObject)] = []
            for base in replica.bases {
                if let object = try prunedBase(replica.baseName(base), &result) {
                    bases.append((replica.baseName(base), object))
                }
            }
            let start = seconds.map { $0 < now ? (now - $0) * 1000 : 0 } ?? 0
            let first = bases.lastIndex { $0.object.until <= start } ?? 0
            for (name, _) in bases[..<min(first, bases.count)] {
                result.bases.append(name.object)
                result.segments += replica.names(ofBase: name.base).dropFirst().map(\.object)
            }
            for (_, object) in bases.dropFirst(first) {
                result.kept += 1
                result.needed.insert(ObjectKind.blob.name(object.map))
                result.needed.formUnion(object.packs.map(ObjectKind.pack.name))
            }
            let removed = Set(bases[..<min(first, bases.count)].map(\.name.base))
            // A listing may not show the newest base yet.
            result.segments += replica.unconnected.filter { segment in
                removed.contains(segment.base)
                    || !replica.bases.contains(segment.base) && segment.base < replica.bases.last ?? 0
            }.map(\.object)
        }
        return result
    }

    /// Reads a base; nil for one that another user may have written, which is kept and needs nothing.
    private func prunedBase(_ name: ReplicaName, _ result: inout ReplicaPruning) throws -> ReplicaObject? {
        guard let found = try place.attributed(name.object, limitBytes: ReplicationLimits.objectBytes) else {
            return nil
        }
        if found.isUnproven {
            result.notices.append("The object \(name.object) may be of another user. Its pages are not kept for it.")
            return nil
        }
        do {
            guard let bytes = found.bytes else { throw FormatFault("may not be read by this user") }
            return try ReplicaObject.parse(bytes, named: name).object
        } catch let fault as FormatFault {
            throw refusal(
                .init(name: name.object, why: fault.description, isAhead: fault.isAhead, isUnproven: false))
        }
    }
}
