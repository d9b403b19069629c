import StoreCrypto

/// Fetching segments.
extension Exchange {
    /// All parts of one segment; of each part the names that the listing has.
    struct SegmentParts {
        let author: String
        let first: UInt64
        let last: UInt64
        let tip: String
        var parts: [[ObjectName]]

        var isWhole: Bool { parts.allSatisfy { !$0.isEmpty } }
    }

    private struct SegmentKey: Hashable {
        let author: String
        let first: UInt64
        let last: UInt64
        let tip: String
        let parts: Int
    }

    /// The segments of the listing whose names fulfil a condition, the longest of those that begin with one commit first.
    func segments(where isWanted: (ObjectName) -> Bool) -> [SegmentParts] {
        var found: [SegmentKey: SegmentParts] = [:]
        for name in listed where isWanted(name) {
            guard case .segment(let author, let first, let last, let tip, let part, let parts) = name.content else {
                continue
            }
            let key = SegmentKey(author: author, first: first, last: last, tip: tip, parts: parts)
            let none = SegmentParts(
                author: author, first: first, last: last, tip: tip, parts: Array(repeating: [], count: parts))
            found[key, default: none].parts[part - 1].append(name)
        }
        return found.values.sorted {
            ($0.author, $0.first, $1.last, $0.tip) < ($1.author, $1.first, $0.last, $1.tip)
        }
    }

    func fetchSegments() throws {
        var batch = Batch()
        try removeParts()
        do {
            try fetchSegments(into: &batch)
        } catch let failure as RemoteFailure {
            // The objects before the failure are kept.
            try add(&batch)
            throw failure
        }
        try add(&batch)
        try removeParts()
        try keepMemory()
    }

    /// Removes the parts of long segments that are not fetched any further: they are here as a whole, were refused, or are
    /// gone.
    private func removeParts() throws {
        let wanted = segments(where: isWanted).filter { $0.isWhole && $0.parts.count > 1 }
        try store.removeParts(except: Set(wanted.flatMap { $0.parts.joined() }.map(\.text)), of: remoteName)
    }

    private func fetchSegments(into batch: inout Batch) throws {
        for segment in segments(where: isWanted) where segment.isWhole {
            let names = segment.parts.flatMap { $0 }
            guard let author = author(ofTag: segment.author) else {
                for name in names { waiting[name] = .unknownAuthor }
                continue
            }
            if try has(segment, of: author) {
                for name in names where memory[name.text] == nil { remember(name, .held) }
                continue
            }
            try step { try fetch(segment, into: &batch) }
            if batch.byteCount >= ExchangeLimits.segmentBytes { try add(&batch) }
        }
    }

    /// Verified commits that one transaction of the store adds.
    struct Batch {
        fileprivate(set) var commits: [VerifiedCommit] = []
        fileprivate(set) var names: [ObjectName] = []
        fileprivate(set) var byteCount = 0
    }

    private func add(_ batch: inout Batch) throws {
        guard !batch.commits.isEmpty else { return }
        try store.addToInbox(batch.commits)
        try noteTwoContents(batch.commits)
        report.receivedCommits += batch.commits.count
        for name in batch.names { remember(name, .held) }
        batch = Batch()
    }

    /// Whether the store has all commits of a segment. Its inbox may have gaps.
    private func has(_ segment: SegmentParts, of author: ReplicaID) throws -> Bool {
        guard let hash = try store.hashes(of: author, segment.last).first(where: { try tag(ofTip: $0) == segment.tip })
        else { return false }
        let branch = CommitBranch(author: author, number: segment.last, hash: hash)
        return try (segment.first...segment.last).allSatisfy { try store.hash(of: branch, at: $0) != nil }
    }

    private func fetch(_ segment: SegmentParts, into batch: inout Batch) throws {
        // One name of each part: a damaged one only if there is no other.
        let names = segment.parts.compactMap { part in
            part.filter { !memory[$0.text].isDamaged }.min() ?? part.min()
        }
        do {
            guard let commits = try commits(of: names) else { return }
            batch.commits += commits
            batch.names += names
            batch.byteCount += commits.reduce(0) { $0 + $1.encoded.bodyBytes }
        } catch let error as NamedObjectError {
            try note(error.error, error.name)
            if names.count > 1 || segment.parts[0].count > 1 { try fetchOther(segment, than: error.name, into: &batch) }
        }
    }

    private func fetchOther(_ segment: SegmentParts, than name: ObjectName, into batch: inout Batch) throws {
        var rest = segment
        rest.parts = segment.parts.map { $0.filter { $0 != name } }
        if rest.isWhole { try fetch(rest, into: &batch) }
    }

    /// The commits of a segment, verified.
    ///
    /// - Returns: nil if the remote lacks a part.
    /// - Throws: ``NamedObjectError``; ``RemoteFailure``; ``CryptoError``.
    func commits(of names: [ObjectName]) throws -> [VerifiedCommit]? {
        var content: [UInt8] = []
        for name in names {
            do {
                if names.count > 1, let kept = try store.part(name.text, of: remoteName) {
                    content += kept
                    continue
                }
                guard let part = try open(name, .segment) else { return nil }
                if names.count == 1 {
                    content = part
                } else {
                    try store.keepPart(part, name.text, of: remoteName)
                    content += part
                }
            } catch let error as ObjectError {
                throw NamedObjectError(name: name, error: error)
            }
        }
        let name = names[names.count - 1]
        do {
            let commits = try Segment.commits(of: content, in: store.repository, verifyingKey: verifyingKey)
            guard case .segment(let author, let first, let last, let tip, _, _) = name.content,
                let start = commits.first?.encoded.commit, let end = commits.last?.encoded,
                start.number == first, end.commit.number == last, try tag(ofAuthor: start.author) == author,
                try tag(ofTip: end.hash) == tip
            else { throw ObjectError.otherContent }
            return commits
        } catch let error as ObjectError {
            throw NamedObjectError(name: name, error: error)
        }
    }

    /// Names pairs of commits of one number (F16).
    private func noteTwoContents(_ commits: [VerifiedCommit]) throws {
        for commit in commits {
            let (author, number) = (commit.encoded.commit.author, commit.encoded.commit.number)
            let others = try store.hashes(of: author, number).filter { $0 != commit.encoded.hash }
            if !others.isEmpty { report.twoContents.insert(.init(author: author, number: number)) }
        }
    }
}

/// An ``ObjectError`` with the object.
struct NamedObjectError: Error {
    let name: ObjectName
    let error: ObjectError
}
