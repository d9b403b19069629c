import StoreCrypto

/// Putting what the remote lacks.
extension Exchange {
    /// A segment of the listing whose content the store has.
    struct HeldSegment {
        let range: ClosedRange<UInt64>
        let tip: String
        let names: [ObjectName]
    }

    func putSegments() throws {
        let held = heldSegments()
        let lost = try forgetVanished()
        var needsSnapshot = false
        for branch in try store.branches().sorted(by: {
            ($0.author, $0.number, $0.hash) < ($1.author, $1.number, $1.hash)
        }) {
            let tag = try tag(ofAuthor: branch.author)
            let coverage = try coverage(of: branch, held[tag] ?? [])
            for gap in coverage.gaps(upTo: branch.number) {
                report.lostCommits += (lost[tag] ?? []).reduce(0) { $0 + $1.overlap(with: gap) }
                let isWhole = try put(gap, of: branch)
                needsSnapshot = needsSnapshot || !isWhole
            }
        }
        if !needsSnapshot, mayMakeSnapshots { needsSnapshot = try hasLackingSnapshot() }
        if needsSnapshot, report.failures.isEmpty { try step { _ = try putSnapshot() } }
        if report.sentSnapshots > 0 { report.unsent = 0 }
        try keepMemory()
    }

    /// The whole segments that the listing has and the store has too, by the tag of their author.
    func heldSegments() -> [String: [HeldSegment]] {
        var held: [String: [HeldSegment]] = [:]
        for segment in segments(where: { memory[$0.text] == .held }) where segment.isWhole {
            held[segment.author, default: []].append(
                HeldSegment(
                    range: segment.first...segment.last, tip: segment.tip, names: segment.parts.flatMap { $0 }))
        }
        return held
    }

    /// The commits of a branch at the remote, by its segments and by its snapshots.
    private func coverage(of branch: CommitBranch, _ held: [HeldSegment]) throws -> Coverage {
        var coverage = Coverage()
        for segment in held {
            // Of a segment that goes beyond the branch, the store has the rest as another branch.
            guard segment.range.upperBound <= branch.number,
                let hash = try store.hash(of: branch, at: segment.range.upperBound),
                try tag(ofTip: hash) == segment.tip
            else { continue }
            coverage.insert(segment.range)
        }
        for (_, manifest) in wholeSnapshots() {
            for tip in manifest.vector.tips[branch.author] ?? [] where try follows(tip, branch) {
                coverage.insert(1...min(tip.number, branch.number))
            }
        }
        return coverage
    }

    /// Whether a tip of a snapshot is on a branch, or after its last commit. The tip of another branch does not cover the
    /// branch, whatever its number is: a store that was copied makes two commits with one number.
    private func follows(_ tip: Tip, _ branch: CommitBranch) throws -> Bool {
        if tip.number <= branch.number { return try store.hash(of: branch, at: tip.number)?.tag == tip.tag }
        let known = try store.hashes(of: branch.author, tip.number).first { $0.tag == tip.tag }
        // A snapshot that is not joined yet: it is examined again after that.
        guard let known else { return true }
        let other = CommitBranch(author: branch.author, number: tip.number, hash: known)
        return try store.hash(of: other, at: branch.number) == branch.hash
    }

    /// Segments that the remote had at the last exchange and lacks, or has damaged.
    private func forgetVanished() throws -> [String: [ClosedRange<UInt64>]] {
        let present = Set(listed.map(\.text))
        var lost: [String: [ClosedRange<UInt64>]] = [:]
        // Damage is not forgotten: a listing may lack a name that is taken.
        for (text, state) in memory where state == .held && !present.contains(text) {
            guard let name = ObjectName(text) else { continue }
            remember(name, nil)
            if case .segment(let author, let first, let last, _, _, _) = name.content {
                lost[author, default: []].append(first...last)
            }
        }
        for name in report.damaged.compactMap(ObjectName.init) {
            if case .segment(let author, let first, let last, _, _, _) = name.content {
                lost[author, default: []].append(first...last)
            }
        }
        return lost
    }

    // MARK: One gap

    /// Puts the commits of a gap.
    ///
    /// - Returns: False if only a snapshot can stand for some of them.
    private func put(_ gap: ClosedRange<UInt64>, of branch: CommitBranch) throws -> Bool {
        guard list.mayWrite(branch.author) else {
            report.unsent += gap.upperBound - gap.lowerBound + 1
            return true
        }
        var next = gap.lowerBound
        var isWhole = true
        while next <= gap.upperBound {
            let run = try store.commits(of: branch, from: next, limitBytes: ExchangeLimits.segmentBytes)
            let commits = try signed(run, upTo: gap.upperBound)
            guard let first = commits.first, let last = commits.last, first.number <= gap.upperBound else {
                return try isWhole && !isForgotten(next...gap.upperBound, of: branch)
            }
            if first.number > next, try isForgotten(next...first.number - 1, of: branch) { isWhole = false }
            guard let key = try sealingKey() else {
                report.unsent += gap.upperBound - next + 1
                return true
            }
            do {
                try put(commits, with: key)
            } catch let failure as RemoteFailure where failure.isRefusal && branch.author != store.keys.id {
                // Only their author may put them there.
                report.unsent += gap.upperBound - next + 1
                return true
            } catch let failure as RemoteFailure {
                try tolerate(failure)
            }
            next = last.number + 1
        }
        return isWhole
    }

    /// Whether the store has had commits whose bodies it lacks: a snapshot stands for them. Others it has never had.
    private func isForgotten(_ numbers: ClosedRange<UInt64>, of branch: CommitBranch) throws -> Bool {
        guard try store.hash(of: branch, at: numbers.upperBound) != nil else { return false }
        report.unsent += numbers.upperBound - numbers.lowerBound + 1
        return true
    }

    /// The part of a run that ends with a signature: at the end of the gap or before it, or else the first one after it.
    private func signed(_ run: [StoredCommit], upTo end: UInt64) throws -> [StoredCommit] {
        let run = run.prefix(ExchangeLimits.segmentCommits)
        if let wanted = run.lastIndex(where: { $0.number <= end }), run[wanted].author == store.keys.id,
            run[wanted].signature == nil
        {
            var commits = Array(run[...wanted])
            let signature = try CommitSignature.make(run[wanted].hash, by: store.keys)
            try store.keep(signature, of: run[wanted])
            commits[commits.count - 1] = run[wanted].signed(signature)
            return commits
        }
        let index = run.lastIndex { $0.number <= end && $0.signature != nil } ?? run.firstIndex { $0.signature != nil }
        return index.map { Array(run[...$0]) } ?? []
    }

    /// Puts a segment, in several objects if it is one long commit.
    func put(_ commits: [StoredCommit], with key: ObjectKey) throws {
        guard let first = commits.first, let last = commits.last else { return }
        let content = Segment.content(commits, in: store.repository)
        let (author, tip) = (try tag(ofAuthor: first.author), try tag(ofTip: last.hash))
        let parts = (content.count + ExchangeLimits.segmentBytes - 1) / ExchangeLimits.segmentBytes
        // A segment of several commits is a little longer than the bodies that its limit counts.
        let count = commits.count == 1 ? parts : 1
        for part in 1...count {
            let start = (part - 1) * ExchangeLimits.segmentBytes
            let end = part == count ? content.count : start + ExchangeLimits.segmentBytes
            _ = try put(count == 1 ? content : Array(content[start..<end]), .segment, with: key) { digest in
                ObjectName(
                    .segment(
                        author: author, first: first.number, last: last.number, tip: tip, part: part, parts: count),
                    digest: digest)
            }
        }
        report.sentCommits += commits.count
    }
}

extension StoredCommit {
    func signed(_ signature: [UInt8]) -> StoredCommit {
        StoredCommit(
            author: author, number: number, previous: previous, hash: hash, body: body, signature: signature)
    }
}

extension ClosedRange<UInt64> {
    /// How many numbers two ranges have in common.
    fileprivate func overlap(with other: ClosedRange<UInt64>) -> UInt64 {
        let (low, high) = (Swift.max(lowerBound, other.lowerBound), Swift.min(upperBound, other.upperBound))
        return low <= high ? high - low + 1 : 0
    }
}
