import CipherStore
import PageFormat
import StoreCrypto

/// The objects of a replica, as their names list them.
///
/// Another user who may write the folder can add names without a key, and in a folder with the sticky bit nobody but the
/// owner can remove them. Objects that another user may have written are no part of a replica.
struct Replica: Sendable {
    let storeID: StoreID
    /// The numbers of bases, in order.
    private(set) var bases: [UInt32] = []
    /// The number of the last segment of each base that no missing one precedes.
    private(set) var lastSegments: [UInt32: UInt32] = [:]
    /// Segments after a missing one, or without a base.
    private(set) var unconnected: [ReplicaName] = []
    /// The largest number of a base that any object of it has.
    private(set) var highest: UInt32 = 0
    /// The objects that are no part of it, because another user may have written them, in order.
    private(set) var leftOut: [ReplicaName] = []
    /// The numbers of bases that any object has, of whatever user.
    private var taken: Set<UInt32> = []

    /// - Parameter isCounted: Whether an object is one of the replica.
    fileprivate init(_ storeID: StoreID, _ names: [ReplicaName], isCounted: (ReplicaName) throws -> Bool) rethrows {
        self.storeID = storeID
        taken = Set(names.map(\.base))
        for name in names.sorted() {
            if name.isBase {
                guard try isCounted(name) else {
                    leftOut.append(name)
                    continue
                }
                bases.append(name.base)
                lastSegments[name.base] = 0
            } else if let last = lastSegments[name.base], name.segment == last + 1 {
                lastSegments[name.base] = name.segment
            } else if try isCounted(name) {
                unconnected.append(name)
            } else {
                leftOut.append(name)
            }
        }
        // The names of all others were taken when they were written.
        for base in bases {
            while let last = lastSegments[base], last > 0, try !isCounted(lastName(ofBase: base)) {
                leftOut.append(lastName(ofBase: base))
                lastSegments[base] = last - 1
            }
        }
        leftOut.sort()
        highest = max(bases.last ?? 0, unconnected.map(\.base).max() ?? 0)
    }

    /// The number of the next base; nil where none is left.
    var nextBase: UInt32? {
        var next = highest
        repeat {
            guard next < .max else { return nil }
            next += 1
        } while taken.contains(next)
        return next
    }

    func baseName(_ base: UInt32) -> ReplicaName { ReplicaName(storeID, base: base, segment: 0) }

    /// The last object of a base.
    func lastName(ofBase base: UInt32) -> ReplicaName {
        ReplicaName(storeID, base: base, segment: lastSegments[base] ?? 0)
    }

    /// The objects of a base: itself, then its segments.
    func names(ofBase base: UInt32) -> [ReplicaName] {
        (0...(lastSegments[base] ?? 0)).map { ReplicaName(storeID, base: base, segment: $0) }
    }
}

extension BackupRepository {
    /// The replicas in the repository, by their names.
    ///
    /// - Parameter countsAll: Whether objects that another user may have written are counted too.
    func replicas(of storeID: StoreID? = nil, countsAll: Bool = false) throws -> [Replica] {
        let prefix = storeID.map(ReplicaName.prefix) ?? ObjectKind.replica.rawValue + "/"
        let names = try place.list(prefix).compactMap { ReplicaName($0.name) }
        return try Dictionary(grouping: names, by: \.storeID)
            .map { try Replica($0.key, $0.value) { try countsAll || !place.isUnproven($0.object) } }
            .sorted { "\($0.storeID)" < "\($1.storeID)" }
    }

    /// Reads an object of a replica, and verifies it by its hash.
    ///
    /// - Throws: `StoreError` `backupDamaged` where it is missing, changed, or another user may have written it;
    ///   `sidecarAhead` for one of a newer version.
    func replicaObject(_ name: ReplicaName) throws -> ReplicaObject.Parsed {
        guard let found = try place.attributed(name.object, limitBytes: ReplicationLimits.objectBytes) else {
            throw damaged("its object \(name.object) is missing")
        }
        guard !found.isUnproven, let bytes = found.bytes else {
            throw unproven(name)
        }
        do {
            return try ReplicaObject.parse(bytes, named: name)
        } catch let fault as FormatFault {
            throw self.fault(fault, name)
        }
    }

    func unproven(_ name: ReplicaName) -> StoreError {
        StoreError(
            .backupDamaged, what: "The last moment in \"\(place.description)\" is not certain.",
            why: "Its object \(name.object) may be of another user, who needs no key to write one.",
            remedy: "Restore a time before it (`--at`), or an ordinary backup (`--backup`). Or let that user remove it."
        )
    }

    /// Reads the fields of fixed width of an object.
    func replicaHeader(_ name: ReplicaName) throws -> ReplicaObject {
        guard let bytes = try place.read(name.object, at: 0, byteCount: ReplicaObject.Offset.body) else {
            throw damaged("its object \(name.object) is missing")
        }
        do {
            return try ReplicaObject.header(bytes, named: name)
        } catch {
            throw fault(error, name)
        }
    }

    private func fault(_ fault: FormatFault, _ name: ReplicaName) -> StoreError {
        guard fault.isAhead else { return damaged("its object \(name.object) \(fault)") }
        return StoreError(
            .sidecarAhead, what: "The backup repository \"\(place.description)\" has objects of a newer version.",
            why: "The object \(name.object) \(fault).", remedy: "Use the newer version; nothing was changed.")
    }
}
