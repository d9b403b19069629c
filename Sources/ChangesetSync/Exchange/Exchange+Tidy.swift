/// Fewer and longer segments, so that a listing stays short.
extension Exchange {
    /// This many consecutive segments of about one length become one.
    private static let fanOut = 16

    /// Merges short segments of this replica, and deletes those that a longer one of the listing contains.
    ///
    /// Segments are merged only with others that have about as many commits, so a commit is put again once for each power
    /// of 16 in the number of commits. If nothing may be deleted, the short ones stay.
    func tidySegments() throws {
        let tag = try tag(ofAuthor: store.keys.id)
        let held = heldSegments()[tag] ?? []
        for branch in try store.branches() where branch.author == store.keys.id {
            let own = try held.filter { try isOn(branch, $0) }.sorted {
                ($0.range.lowerBound, $1.range.upperBound) < ($1.range.lowerBound, $0.range.upperBound)
            }
            var (outer, inner) = ([HeldSegment](), [HeldSegment]())
            for segment in own {
                if let last = outer.last, segment.range.upperBound <= last.range.upperBound {
                    inner.append(segment)
                } else {
                    outer.append(segment)
                }
            }
            try remove(inner.flatMap(\.names))
            for run in Self.mergeable(outer) {
                guard let key = try sealingKey() else { return }
                try step { try merge(run, of: branch, with: key) }
            }
        }
        try keepMemory()
    }

    private func isOn(_ branch: CommitBranch, _ segment: HeldSegment) throws -> Bool {
        guard let hash = try store.hash(of: branch, at: segment.range.upperBound) else { return false }
        return try tag(ofTip: hash) == segment.tip
    }

    /// Deletes objects if the remote lets this replica do it.
    func remove(_ names: [ObjectName]) throws {
        for name in names where mayDelete {
            do { try delete(name) } catch is RemoteFailure { mayDelete = false }
        }
    }

    private func merge(_ run: [HeldSegment], of branch: CommitBranch, with key: ObjectKey) throws {
        guard let first = run.first?.range.lowerBound, let last = run.last?.range.upperBound else { return }
        let commits = try store.commits(of: branch, from: first, limitBytes: ExchangeLimits.segmentBytes)
            .prefix { $0.number <= last }
        guard commits.first?.number == first, commits.last?.number == last, commits.last?.signature != nil else {
            return
        }
        try put(Array(commits), with: key)
        // They were sent before.
        report.sentCommits -= commits.count
    }

    /// Runs of segments that follow each other and have about one length.
    static func mergeable(_ segments: [HeldSegment]) -> [[HeldSegment]] {
        func size(_ segment: HeldSegment) -> Int {
            let count = segment.range.upperBound - segment.range.lowerBound + 1
            return (UInt64.bitWidth - 1 - count.leadingZeroBitCount) / 4
        }
        var found: [[HeldSegment]] = []
        var run: [HeldSegment] = []
        for segment in segments {
            if let last = run.last, last.range.upperBound + 1 != segment.range.lowerBound || size(last) != size(segment)
            {
                run = []
            }
            run.append(segment)
            if run.count == fanOut {
                found.append(run)
                run = []
            }
        }
        return found
    }
}
