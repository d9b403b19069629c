import CipherStore

extension BackupRepository {
    /// Verifies the bases and the segments of all replicas.
    ///
    /// - Returns: The packs that bases need, and their page sizes.
    func verifyReplicas(
        _ result: inout RepositoryVerification, _ isCancelled: () -> Bool
    ) throws -> [ObjectHash: Int] {
        var packs: [ObjectHash: Int] = [:]
        for replica in try replicas() {
            result.unproven += replica.leftOut.map(\.object)
            for segment in replica.unconnected {
                result.problems.append(
                    .init(
                        object: segment.object, sentence: "The object before \(segment.object) is missing.", backups: []
                    ))
            }
            for base in replica.bases {
                var former: ReplicaObject.Parsed?
                for name in replica.names(ofBase: base) {
                    if isCancelled() { throw CancellationError() }
                    if name.isBase { result.bases += 1 } else { result.segments += 1 }
                    do {
                        let found = try replicaObject(name)
                        try verify(found.object, after: former)
                        for pack in found.object.packs { packs[pack] = found.object.pageBytes }
                        result.bytesRead += found.object.frames.count
                        former = found
                    } catch let error as StoreError where error.code == .backupDamaged {
                        result.problems.append(.init(object: name.object, sentence: error.why, backups: []))
                        former = nil
                    }
                }
            }
        }
        return packs
    }

    private func verify(_ object: ReplicaObject, after former: ReplicaObject.Parsed?) throws {
        if object.name.isBase { _ = try map(of: object.record()) }
        guard let former, !MomentSource.follows(object, former) else { return }
        throw damaged("its object \(object.name.object) does not continue the one before it")
    }
}
