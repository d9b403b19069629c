import CipherDatabase

/// Devices that accepted an invitation which was withdrawn, or which another device had used.
///
/// Such a device is treated as a member that was removed before its first commit (F15): from the time at which a store
/// learns of it, the store joins those commits alone for which a member vouches that had joined them before.
extension Replica {
    /// Adds records of members.
    func add(_ db: Database, clock: HybridTime, _ records: [MemberRecord]) throws {
        try inTransaction(db, clock, seesForeign: false) { try $0.add(records) }
    }
}

extension Work {
    func add(_ added: [MemberRecord]) throws {
        let rows = MemberRows(db: db)
        let known = try rows.records()
        guard try rows.add(added) else { return }
        state.revision += 1
        // The others reject nobody.
        guard Self.mayReject(known + added) else { return }
        var list = MemberList(repository: state.repository)
        try list.add(known)
        let former = list.rejected
        try list.add(added)
        try noteRejected(list, former: former)
    }

    /// - Parameter former: The devices that were rejected before.
    func noteRejected(_ list: MemberList, former: Set<ReplicaID>) throws {
        for member in former.subtracting(list.rejected) where list.removals[member] == nil {
            guard let n = try index.knownAuthor(member) else { continue }
            state.removed[n] = nil
            try db.execute(sql: "DELETE FROM \(EngineTables.removed) WHERE author = ?", arguments: [n])
        }
        var isNew = false
        for member in list.rejected {
            let n = try index.author(member)
            if state.removed[n] != nil { continue }
            try state.remove(n, knowing: LocalVector(), index)
            isNew = true
        }
        vouchedTips = nil
        if isNew { try vouch() }
    }

    /// Notes the devices that are no members, of a store that has no commits yet.
    static func noteRejected(_ db: Database, _ records: [MemberRecord], of repository: RepositoryID) throws {
        guard mayReject(records) else { return }
        var list = MemberList(repository: repository)
        try list.add(records)
        for member in list.rejected {
            try db.cachedStatement(sql: "INSERT OR IGNORE INTO \(EngineTables.removed) (author, known) VALUES (?, ?)")
                .execute(exact: [.integer(CommitIndex(db).author(member)), ExactValue(LocalVector().bytes)])
        }
    }

    /// Whether records may have a device that is no member: an invitation was withdrawn, or two devices accepted it.
    static func mayReject(_ records: [MemberRecord]) -> Bool {
        var accepted: Set<RecordHash> = []
        return records.contains { record in
            switch record.content {
            case .withdrawal: true
            case .acceptance(let invitation, _): !accepted.insert(invitation).inserted
            default: false
            }
        }
    }
}
