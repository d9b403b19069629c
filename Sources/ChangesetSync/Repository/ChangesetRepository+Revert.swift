import CipherDatabase

/// Taking commits back.
extension ChangesetRepository {
    /// Makes a commit that takes another one back: rows have the values that they would have without it.
    ///
    /// A cell that another commit has written since stays; so does a row that it has changed. The result lists them.
    ///
    /// - Parameters:
    ///   - uuid: ``Changeset/uuid`` of a joined commit.
    ///   - meta: JSON of the program that describes the new commit.
    /// - Throws: ``EngineError`` `.noSuchCommit`; `.forgottenCommit`, `.insideTransaction`; `DatabaseError`. Nothing is
    ///   changed then.
    @discardableResult
    public func revert(_ uuid: String, meta: String = "{}") throws -> ReversalResult {
        try revert(meta) { work in
            guard let hash = CommitHash(uuid) else { throw EngineError(.noSuchCommit) }
            return [try work.joined(hash)]
        }
    }

    /// Takes back the commits of this store that a remote lacks; without a remote, all of them.
    ///
    /// It is a commit like ``revert(_:meta:)``, because commits that another process may be sending at this moment cannot
    /// be discarded without two contents of one number. So nothing is lost: the commit can be taken back too.
    ///
    /// - Throws: ``EngineError`` `.forgottenCommit`, `.insideTransaction`; `DatabaseError`. Nothing is changed then.
    @discardableResult
    public func reset(meta: String = "{}") throws -> ReversalResult {
        try revert(meta) { work in
            let upto = try RemoteRows(db: work.db).sentUpTo()
            var own: [Int64] = []
            try work.db.cachedStatement(sql: "SELECT n FROM \(EngineTables.commit) WHERE author = ? AND n > ?")
                .forEach([.integer(work.state.author), .integer(upto ?? 0)]) { own.append($0.integer(0)) }
            return Set(try own.filter { try work.state.vector.covers($0, work.index) })
        }
    }

    /// Takes back all commits, of whatever author, that a former head did not have.
    ///
    /// - Parameter uuid: ``Head/uuid`` or ``Changeset/uuid``
    /// - Throws: ``EngineError`` `.noSuchCommit`, also for a union that this store has not had among its latest 1,000;
    ///   `.forgottenCommit`, `.insideTransaction`; `DatabaseError`. Nothing is changed then.
    @discardableResult
    public func reset(to uuid: String, meta: String = "{}") throws -> ReversalResult {
        try revert(meta) { work in
            Set(try work.commits(in: work.state.vector, notIn: work.vector(named: uuid)))
        }
    }

    private func revert(_ meta: String, _ commits: (Work) throws -> Set<Int64>) throws -> ReversalResult {
        let (result, name) = try working { work in
            var reversal = Reversal(work, of: try commits(work))
            let writes = try reversal.makeWrites()
            let commit = try writes.isEmpty ? nil : work.commit(writes, meta: meta)
            return (reversal.kept, commit?.hash.description)
        }
        let changeset = try name.map { name in try looking { try Changeset.named(name, $0.db) } }
        return ReversalResult(changeset: changeset, kept: result)
    }
}
