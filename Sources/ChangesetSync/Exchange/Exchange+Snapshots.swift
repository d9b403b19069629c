import StoreCrypto

/// Snapshots of a remote.
extension Exchange {
    /// Reads the new manifests, and receives a snapshot if its vector has commits that the store lacks.
    func fetchSnapshots() throws {
        try readManifests { !$0.isSettled }
        // Those with all values first, then the greatest vectors: one snapshot may cover the others.
        let candidates = wholeSnapshots(evenDamaged: true).sorted {
            let (one, other) = ($0.manifest, $1.manifest)
            if one.lacksValues != other.lacksValues { return other.lacksValues }
            let (count, otherCount) = (one.vector.commitCount, other.vector.commitCount)
            return count > otherCount || count == otherCount && $0.name < $1.name
        }
        for (name, manifest) in candidates where memory[name.text] != .held {
            if try !store.lacks(manifest.vector), try manifest.lacksValues || !store.lacksValues() {
                remember(name, .held)
                continue
            }
            try step { try receive(name, manifest) }
        }
        try keepMemory()
    }

    /// Reads the manifests of snapshots that an earlier exchange has examined or put. Without them, an exchange that only
    /// puts would put again all commits that a snapshot has replaced.
    func readKnownManifests() throws { try readManifests { $0 == .held } }

    private func readManifests(where isWanted: (RememberedObject?) -> Bool) throws {
        for name in listed.sorted() where manifests[name] == nil && waiting[name] == nil {
            guard case .snapshot = name.content, isWanted(memory[name.text]) else { continue }
            try step { try readManifest(name) }
        }
        manifests = manifests.filter { listed.contains($0.key) }
    }

    private func readManifest(_ name: ObjectName) throws {
        do {
            guard let content = try open(name, .snapshot) else { return }
            let manifest = try SnapshotManifest(
                decoding: content, in: store.repository, verifyingKey: verifyingKey)
            guard name.content == .snapshot(author: try tag(ofAuthor: manifest.maker)) else {
                throw ObjectError.otherContent
            }
            // A removed member may have made it before its removal or after it. It proves nothing against the member.
            guard list.members[manifest.maker] != nil else { return remember(name, .unused) }
            manifests[name] = manifest
        } catch let error as ObjectError {
            try note(error, name)
        }
    }

    private func receive(_ name: ObjectName, _ manifest: SnapshotManifest) throws {
        do {
            try store.receive(manifest) { index in
                let part = ObjectName(.snapshotPart, digest: manifest.parts[index])
                do {
                    guard let content = try open(part, .snapshotPart) else { throw MissingPart() }
                    return content
                } catch let error as ObjectError {
                    throw NamedObjectError(name: part, error: error)
                }
            }
            report.receivedSnapshots += 1
            remember(name, .held)
        } catch let error as NamedObjectError {
            try note(error.error, error.name)
        } catch is MissingPart {
            // It was deleted since the listing: the next listing has what replaced it.
        }
    }

    /// The snapshots that have all of their parts at the remote.
    ///
    /// - Parameter evenDamaged: Also those with a damaged part: the damage may have happened on the way.
    func wholeSnapshots(evenDamaged: Bool = false) -> [(name: ObjectName, manifest: SnapshotManifest)] {
        manifests.filter { _, manifest in
            manifest.parts.allSatisfy { digest in
                let part = ObjectName(.snapshotPart, digest: digest)
                return listed.contains(part) && (evenDamaged || !memory[part.text].isDamaged)
            }
        }.map { ($0.key, $0.value) }
    }

    /// The vector of the remote's complete snapshot with the most commits; nil if the remote has none. A store forgets
    /// nothing because of a snapshot that lacks values.
    var greatestSnapshot: VersionVector? {
        wholeSnapshots().filter { !$0.manifest.lacksValues }.map(\.manifest.vector)
            .max { $0.commitCount < $1.commitCount }
    }

    /// Whether the remote has a snapshot that lacks values, which this store has, and no other one for its commits.
    func hasLackingSnapshot() throws -> Bool {
        let snapshots = wholeSnapshots().map(\.manifest)
        let whole = snapshots.filter { !$0.lacksValues }
        let lacking = try snapshots.filter { manifest in
            try manifest.lacksValues && !whole.contains { try includes($0.vector, manifest.vector) }
        }
        if lacking.isEmpty { return false }
        return try lacking.contains { try !store.lacks($0.vector) } && !store.lacksValues()
    }

    /// Whether this store may make a snapshot, and the remote has many commits that its snapshots do not cover.
    ///
    /// - Parameter count: The least number of such commits.
    func needsSnapshot(after count: Int) -> Bool {
        guard mayMakeSnapshots else { return false }
        let snapshots = wholeSnapshots().map(\.manifest)
        let least = max(count, 1_000 * (snapshots.map(\.parts.count).max() ?? 0))
        var found = 0
        for (tag, segments) in heldSegments() {
            guard let author = author(ofTag: tag) else { continue }
            var end = snapshots.compactMap { $0.vector.tips[author]?.last?.number }.max() ?? 0
            for segment in segments.sorted(by: { $0.range.lowerBound < $1.range.lowerBound })
            where segment.range.upperBound > end {
                found += Int(clamping: segment.range.upperBound - max(end, segment.range.lowerBound - 1))
                end = segment.range.upperBound
            }
        }
        return found >= least
    }

    // MARK: Making

    var mayMakeSnapshots: Bool { list.members[store.keys.id].map { $0.role >= .writer } == true }

    /// Makes a snapshot of the store and puts it, the manifest last.
    ///
    /// - Returns: Whether the store could make one.
    func putSnapshot() throws -> Bool {
        guard mayMakeSnapshots, let key = try sealingKey(),
            let source = try store.makeSnapshot()
        else { return false }
        var parts: [String] = []
        while let part = try source.nextPart() {
            parts.append(
                try put(part, .snapshotPart, with: key) { ObjectName(.snapshotPart, digest: $0) }.digest)
        }
        let manifest = try SnapshotManifest(
            store.repository, time: source.time, vector: source.vector, parts: parts,
            lacksValues: source.lacksValues, by: store.keys)
        let tag = try tag(ofAuthor: manifest.maker)
        let name = try put(manifest.bytes, .snapshot, with: key) { ObjectName(.snapshot(author: tag), digest: $0) }
        manifests[name] = manifest
        report.sentSnapshots += 1
        return true
    }

    // MARK: Compaction

    /// Puts a snapshot, and deletes what it covers: segments, and snapshots whose vector it includes (F23).
    ///
    /// - Parameter now: Milliseconds since 1970.
    /// - Returns: What was done. Nothing is deleted if the new snapshot is not whole at the remote.
    func compact(now: UInt64) throws -> ExchangeReport {
        var whole = try run(now: now)
        report = ExchangeReport()
        try withRemoteFailures {
            // The commits at the remote may have the values that a snapshot of this store would lack.
            guard try !store.lacksValues(), try putSnapshot() else { return }
            // A part that was put counts only if a listing has it.
            listed = Set(try remote.list().lazy.compactMap { ObjectName($0.name) })
            try deleteCovered()
        }
        try keepMemory()
        whole.sentSnapshots += report.sentSnapshots
        whole.sentObjects += report.sentObjects
        whole.sentBytes += report.sentBytes
        whole.deletedObjects += report.deletedObjects
        whole.failures += report.failures
        return whole
    }

    private func deleteCovered() throws {
        let snapshots = wholeSnapshots()
        let covering = snapshots.filter { !$0.manifest.lacksValues }
        for segment in segments(where: { memory[$0.text] == .held }) {
            guard let author = author(ofTag: segment.author),
                let hash = try store.hashes(of: author, segment.last).first(where: { try tag(ofTip: $0) == segment.tip }
                ),
                try covering.contains(where: {
                    try covers($0.manifest.vector, CommitBranch(author: author, number: segment.last, hash: hash))
                })
            else { continue }
            for name in segment.parts.flatMap({ $0 }) { try deleteIfPermitted(name) }
        }
        var kept = snapshots
        for (name, manifest) in snapshots {
            // Of two with the same vector the one that is examined later stays; and one with all values.
            let others = kept.filter { $0.name != name && (manifest.lacksValues || !$0.manifest.lacksValues) }
            guard try others.contains(where: { try includes($0.manifest.vector, manifest.vector) }) else { continue }
            kept.removeAll { $0.name == name }
            try deleteIfPermitted(name)
            if !listed.contains(name) { manifests[name] = nil }
        }
        let needed = Set(manifests.filter { listed.contains($0.key) }.flatMap(\.value.parts))
        let removed = Set(snapshots.flatMap(\.manifest.parts)).subtracting(needed)
        for part in removed.sorted() { try deleteIfPermitted(ObjectName(.snapshotPart, digest: part)) }
    }

    /// Deletes an object. One that another user has put stays if only that user may delete it.
    private func deleteIfPermitted(_ name: ObjectName) throws {
        try step {
            do { try delete(name) } catch let failure as RemoteFailure where failure.isRefusal {}
        }
    }

    func delete(_ name: ObjectName) throws {
        try remote.delete(name)
        listed.remove(name)
        remember(name, nil)
        report.deletedObjects += 1
    }

    /// Whether a vector covers a commit that the store has.
    private func covers(_ vector: VersionVector, _ commit: CommitBranch) throws -> Bool {
        try (vector.tips[commit.author] ?? []).contains { tip in
            guard tip.number >= commit.number else { return false }
            if tip.number == commit.number { return tip.tag == commit.hash.tag }
            return try store.hashes(of: commit.author, tip.number).contains { hash in
                let branch = CommitBranch(author: commit.author, number: tip.number, hash: hash)
                return try hash.tag == tip.tag && store.hash(of: branch, at: commit.number) == commit.hash
            }
        }
    }

    /// Whether a vector covers all that another one does.
    private func includes(_ one: VersionVector, _ other: VersionVector) throws -> Bool {
        try other.entries.allSatisfy { entry in
            try entry.tips.allSatisfy { tip in
                if one.tips[entry.author]?.contains(tip) == true { return true }
                return try store.hashes(of: entry.author, tip.number).contains { hash in
                    let commit = CommitBranch(author: entry.author, number: tip.number, hash: hash)
                    return try hash.tag == tip.tag && covers(one, commit)
                }
            }
        }
    }
}

/// A part of a snapshot is not at the remote.
private struct MissingPart: Error {}

extension VersionVector {
    /// The number of commits, apart from branches.
    fileprivate var commitCount: UInt64 {
        tips.values.reduce(0) { $0.addingReportingOverflow($1.last?.number ?? 0).partialValue }
    }
}
