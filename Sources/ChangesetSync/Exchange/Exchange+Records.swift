import StoreCrypto

/// Member records, damage and complaints.
extension Exchange {
    func fetchRecords() throws {
        var found: [MemberRecord] = []
        do {
            try fetchRecords(into: &found)
        } catch let failure as RemoteFailure {
            // The records before the failure are kept: they count as held from here on.
            try add(found)
            throw failure
        }
        try add(found)
    }

    private func fetchRecords(into found: inout [MemberRecord]) throws {
        for name in listed.sorted() where name.content == .memberRecord && isWanted(name) {
            try step {
                do {
                    guard let bytes = try open(name, .memberRecord) else { return }
                    do {
                        let record = try MemberRecord(decoding: bytes)
                        guard record.repository == store.repository else { throw ObjectError.otherRepository }
                        found.append(record)
                        remember(name, .held)
                    } catch let error as CommitError {
                        if case .unsupportedVersion(let version) = error.code {
                            throw ObjectError.laterVersion(version)
                        }
                        throw ObjectError.malformed(error)
                    }
                } catch let error as ObjectError {
                    try note(error, name)
                }
            }
        }
    }

    private func add(_ found: [MemberRecord]) throws {
        let new = try list.add(found)
        guard !new.isEmpty else { return }
        try store.add(new)
        report.receivedRecords += new.count
        try membersChanged()
    }

    /// Puts all records that the listing lacks, of any author, each after the records that it refers to. If a record
    /// cannot be put, the records that refer to it wait: a remote that lacks a record admits no device, and no other
    /// replica may have that record.
    func putRecords() throws {
        let present = Set(listed.lazy.filter { $0.content == .memberRecord }.map(\.digest))
        var lacking: Set<RecordHash> = []
        for record in list.ordered {
            var isThere = false
            if lacking.isDisjoint(with: record.known) {
                try step {
                    try put(record, unless: present)
                    isThere = true
                }
            }
            if !isThere { lacking.insert(record.hash) }
        }
    }

    private func put(_ record: MemberRecord, unless present: Set<String>) throws {
        if let digest = recordDigests[record.hash], present.contains(digest), memory["m/" + digest] == .held { return }
        let bytes = try roster.seal(record.bytes, .memberRecord)
        let digest = try ObjectName.digest(of: bytes)
        recordDigests[record.hash] = digest
        let name = ObjectName(.memberRecord, digest: digest)
        if present.contains(digest), !memory[name.text].isDamaged {
            return remember(name, .held)
        }
        let used = try put(record.bytes, .memberRecord, with: roster) { ObjectName(.memberRecord, digest: $0) }
        recordDigests[record.hash] = used.digest
    }

    // MARK: Damage

    /// Leaves damaged records out of the report if the remote has their content under another edition: nobody has to do
    /// anything. The damaged object stays, unlike that of commits, which a longer segment replaces.
    func leaveOutReplacedRecords() throws {
        guard report.damaged.contains(where: { ObjectName($0)?.content == .memberRecord }) else { return }
        for record in list.records.values {
            let replaced = try replacedNames(of: record)
            if !replaced.isEmpty { report.damaged.removeAll { replaced.contains($0) } }
        }
    }

    /// The names of the damaged editions of a record; none if the remote has no whole one.
    private func replacedNames(of record: MemberRecord) throws -> Set<String> {
        var (damaged, isThere) = (Set<String>(), false)
        for edition in UInt8.min...UInt8.max {
            let name = try ObjectName(.memberRecord, of: roster.seal(record.bytes, .memberRecord, edition: edition))
            // No edition follows one that was never put.
            guard memory[name.text] != nil || listed.contains(name) else { break }
            if memory[name.text].isDamaged { damaged.insert(name.text) }
            if memory[name.text] == .held, listed.contains(name) { isThere = true }
        }
        return isThere ? damaged : []
    }

    /// Leaves damaged segments and snapshots out of the report if the remote has their commits in other objects, as after
    /// this exchange has put them again.
    func leaveOutReplacedCommits() throws {
        guard !report.damaged.isEmpty else { return }
        let held = heldSegments()
        let isWhole = report.unsent == 0 && report.failures.isEmpty
        report.damaged = try report.damaged.filter { text in
            guard let name = ObjectName(text) else { return true }
            switch name.content {
            case .segment(let author, let first, let last, let tip, _, _):
                return try !(held[author] ?? []).contains { try has($0, first...last, tip) }
            case .snapshot, .snapshotPart:
                guard isWhole, let vectors = damagedSnapshots[text] else { return true }
                return try vectors.contains { try store.lacks($0) }
            case .memberRecord, .complaint: return true
            }
        }
    }

    /// Whether a segment has the commits of another one, of the same author.
    private func has(_ segment: HeldSegment, _ range: ClosedRange<UInt64>, _ tip: String) throws -> Bool {
        guard segment.range.lowerBound <= range.lowerBound, range.upperBound <= segment.range.upperBound else {
            return false
        }
        if segment.range.upperBound == range.upperBound { return segment.tip == tip }
        return try store.branches().contains { branch in
            guard let end = try store.hash(of: branch, at: segment.range.upperBound),
                let inner = try store.hash(of: branch, at: range.upperBound)
            else { return false }
            return try tag(ofTip: end) == segment.tip && tag(ofTip: inner) == tip
        }
    }

    // MARK: Complaints

    /// Says that an object is damaged, for those who have the content.
    func complain(of name: ObjectName) throws {
        let complaint = ObjectName(.complaint, digest: name.digest)
        guard !listed.contains(complaint) else { return }
        try step {
            do {
                _ = try remote.put(complaint, Array(name.text.utf8))
            } catch let failure as RemoteFailure where failure.isRefusal {
                // A replica that may write will find the damage.
                return
            }
            listed.insert(complaint)
            remember(complaint, .held)
        }
    }

    /// Gets the objects that others have found damaged. If they are, they no longer count as what the remote has, so
    /// their content is put again under another name.
    func answerComplaints() throws {
        let accused = Dictionary(grouping: listed.filter { $0.content != .complaint }, by: \.digest)
        for complaint in listed.sorted() where complaint.content == .complaint {
            let (names, failures) = (accused[complaint.digest] ?? [], report.failures.count)
            for name in names { try step { try examine(name) } }
            // Nothing is wrong, or no longer. If nothing may be deleted, the next exchange examines it again.
            let isRefuted = !names.isEmpty && names.allSatisfy { memory[$0.text] == .held }
            if isRefuted, report.failures.count == failures { try remove([complaint]) }
        }
    }

    /// The vectors of the snapshots that an object is, or is a part of; nil for another object.
    private func snapshots(with name: ObjectName) -> [VersionVector]? {
        let found = manifests.filter { manifest in
            manifest.key == name
                || name.content == .snapshotPart && manifest.value.parts.contains { $0 == name.digest }
        }
        return found.isEmpty ? nil : found.map(\.value.vector)
    }

    private func examine(_ name: ObjectName) throws {
        guard memory[name.text] == .held else { return }
        let bytes = try remote.get(name)
        let isDamaged = try bytes.map { try ObjectName.digest(of: $0) != name.digest } ?? true
        if isDamaged {
            report.damaged.append(name.text)
            remember(name, .damaged)
            damagedSnapshots[name.text] = snapshots(with: name)
            manifests[name] = nil
            return
        }
        // The bytes are those of the name: the content may be another one than the name says.
        if case .segment(_, _, _, _, 1, 1) = name.content {
            do {
                _ = try commits(of: [name])
            } catch let error as NamedObjectError {
                try note(error.error, name)
            }
        }
    }
}
