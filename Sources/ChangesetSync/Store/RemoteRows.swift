import CipherDatabase

/// The knowledge of each remote after the last exchange with it. Inside a transaction.
struct RemoteRows {
    let db: Database

    private enum Kind: Int64 {
        case damaged = 1
        case refused = 2
        case unknownAuthor = 3
        case unknownEpoch = 4
        /// `detail` is the version.
        case laterVersion = 5
        /// `detail` is a number of commits.
        case unsent = 6
        /// `name` is the call.
        case failure = 7
    }

    /// The kinds that name an object.
    private static let objects = "\(Kind.damaged.rawValue) AND \(Kind.laterVersion.rawValue)"

    /// One remote.
    struct Known {
        let name: String
        /// The greatest local number of a commit when the remote had all commits; 0 before.
        let upto: Int64
        /// Milliseconds since 1970 of the last exchange.
        let time: Int64
    }

    func all() throws -> [Known] {
        var found: [Known] = []
        try db.cachedStatement(sql: "SELECT name, upto, time FROM \(EngineTables.remote) ORDER BY name").forEach([]) {
            found.append(Known(name: $0.text(0), upto: $0.integer(1), time: $0.integer(2)))
        }
        return found
    }

    /// The commits that every remote has, by local numbers; nil without a remote.
    func sentUpTo() throws -> Int64? { try all().map(\.upto).min() }

    /// The vector of the greatest snapshot of each remote at the last exchange; nil if it had none.
    func snapshots() throws -> [VersionVector?] {
        var found: [VersionVector?] = []
        try db.cachedStatement(sql: "SELECT snapshot FROM \(EngineTables.remote)").forEach([]) { row in
            found.append(row.isNull(0) ? nil : try VersionVector(bytes: row.bytes(0)))
        }
        return found
    }

    /// The local number of the latest commit.
    func lastCommit() throws -> Int64 {
        try db.cachedStatement(sql: "SELECT max(n) FROM \(EngineTables.commit)").first([]) { $0.integer(0) } ?? 0
    }

    // MARK: After an exchange

    /// - Parameters:
    ///   - last: ``lastCommit()`` when the exchange began; nil if it did not end.
    ///   - snapshot: The vector of the greatest snapshot of the remote; nil if it has none.
    func note(
        _ report: ExchangeReport, of remote: String, last: Int64?, time: Int64, snapshot: VersionVector?
    ) throws {
        let former = try all().first { $0.name == remote }?.upto ?? 0
        let upto =
            if let last, report.unsent == 0, report.failures.isEmpty {
                max(last, former)
            } else if report.lostCommits > 0 {
                Int64(0)
            } else {
                former
            }
        try db.cachedStatement(
            sql: "INSERT OR REPLACE INTO \(EngineTables.remote) (name, upto, time, snapshot) VALUES (?, ?, ?, ?)"
        ).execute(exact: [
            ExactValue(text: remote), .integer(upto), .integer(time), snapshot.map { ExactValue($0.bytes) } ?? .null,
        ])
        try db.cachedStatement(sql: "DELETE FROM \(EngineTables.problem) WHERE remote = ?")
            .execute(exact: [ExactValue(text: remote)])
        for name in report.damaged { try add(.damaged, name, 0, remote) }
        for problem in report.refused { try add(.refused, problem.name, 0, remote) }
        for problem in report.waiting {
            switch problem.error {
            case .laterVersion(let version): try add(.laterVersion, problem.name, Int64(version), remote)
            case .unknownEpoch: try add(.unknownEpoch, problem.name, 0, remote)
            default: try add(.unknownAuthor, problem.name, 0, remote)
            }
        }
        if report.unsent > 0 { try add(.unsent, "", Int64(clamping: report.unsent), remote) }
        for failure in report.failures { try add(.failure, failure.call, 0, remote) }
    }

    /// Notes that an exchange could not begin; the next one that ends removes the note.
    func noteFailure(of call: String, at remote: String) throws { try add(.failure, call, 0, remote) }

    /// Ends the attention for objects that cannot be used.
    ///
    /// - Returns: Their number.
    func acknowledge() throws -> Int {
        let (refused, acknowledged) = (RememberedObject.refused.rawValue, RememberedObject.acknowledged.rawValue)
        try db.execute(
            sql: "UPDATE \(EngineTables.object) SET state = ? WHERE state = ?", arguments: [acknowledged, refused])
        var count = db.changesCount
        // Damage may be repaired, a secret or a later version of this library may come: these are tried again.
        let named =
            "FROM \(EngineTables.problem) WHERE kind BETWEEN \(Self.objects) AND kind <> \(Kind.refused.rawValue)"
        try db.execute(
            sql: "INSERT OR REPLACE INTO \(EngineTables.object) (remote, name, state) SELECT remote, name, ? \(named)",
            arguments: [RememberedObject.retried.rawValue])
        count += db.changesCount
        try db.execute(sql: "DELETE FROM \(EngineTables.problem) WHERE kind BETWEEN \(Self.objects)")
        return count
    }

    private func add(_ kind: Kind, _ name: String, _ detail: Int64, _ remote: String) throws {
        try db.cachedStatement(
            sql: "INSERT OR REPLACE INTO \(EngineTables.problem) (remote, kind, name, detail) VALUES (?, ?, ?, ?)"
        ).execute(exact: [ExactValue(text: remote), .integer(kind.rawValue), ExactValue(text: name), .integer(detail)])
    }

    // MARK: For the status

    func problems(of remote: String) throws -> [RemoteStatus.Problem] {
        var found: [RemoteStatus.Problem] = []
        try db.cachedStatement(
            sql: "SELECT kind, name, detail FROM \(EngineTables.problem) WHERE remote = ? ORDER BY kind, name"
        ).forEach([ExactValue(text: remote)]) { row in
            guard let kind = Kind(rawValue: row.integer(0)) else { throw EngineError(.damagedStore) }
            let (name, detail) = (row.text(1), row.integer(2))
            switch kind {
            case .damaged: found.append(.damaged(object: name))
            case .refused: found.append(.refused(object: name))
            case .unknownAuthor: found.append(.unknownMember(object: name))
            case .unknownEpoch: found.append(.unknownSecret(object: name))
            case .laterVersion:
                found.append(.laterVersion(object: name, version: UInt8(truncatingIfNeeded: detail)))
            case .unsent: found.append(.unsent(commits: Int(clamping: detail)))
            case .failure: found.append(.failed(call: name))
            }
        }
        // Evidence is reported once by an exchange, and it is known from then on.
        try db.cachedStatement(
            sql: "SELECT name FROM \(EngineTables.object) WHERE remote = ? AND state = ? ORDER BY name"
        ).forEach([ExactValue(text: remote), .integer(Int64(RememberedObject.refused.rawValue))]) { row in
            let problem = RemoteStatus.Problem.refused(object: row.text(0))
            if !found.contains(problem) { found.append(problem) }
        }
        return found
    }

    /// The objects that could not be used and need no attention.
    func evidence(of remote: String) throws -> [String] {
        var found: [String] = []
        try db.cachedStatement(
            sql: "SELECT name FROM \(EngineTables.object) WHERE remote = ? AND state IN (?, ?) ORDER BY name"
        ).forEach([
            ExactValue(text: remote), .integer(Int64(RememberedObject.acknowledged.rawValue)),
            .integer(Int64(RememberedObject.retried.rawValue)),
        ]) { found.append($0.text(0)) }
        return found
    }
}
