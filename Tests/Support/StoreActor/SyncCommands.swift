import CipherStore
import ChangesetSync
import Foundation
import StoreCrypto
import TestKit

#if PostgreSQL
    import PostgreSQLRemote
#endif

extension Actor {
    /// Sync with remotes, folders or URLs of servers:
    ///
    /// - `sync-found REMOTE...`: makes the tables and a repository, and syncs once with each remote.
    /// - `sync-tables`: makes the tables.
    /// - `sync-invite FILE REMOTE [reader]`: makes an invitation that the key of ``TestKeys`` opens, and puts it.
    /// - `sync-join FILE REMOTE...`: joins by an invitation, which the first remote has, also again, and syncs once with each.
    /// - `sync-commit FILE NAME COUNT`: that many commits, with one byte in FILE for each.
    /// - `sync-work FILE NAME SEED`: commits of random changes until it is killed, with one byte in FILE for each. This and
    ///   `sync-for-ever` end with the process that has started them, too.
    /// - `sync-step STEP REMOTE`: `fetch`, `pull`, `push` or `compact`.
    /// - `sync-head`: answers with the head and the number of items; tables that differ from it are an error.
    /// - `sync REMOTE...`: syncs once with each; answers with the head, the digest, and the status.
    /// - `sync-for-ever FILE PAUSE REMOTE...`: syncs until it is killed, with one byte in FILE for each time and a random
    ///   pause of up to so many milliseconds. A remote that cannot be reached does not end it.
    static let syncCommands: [String: Command] = [
        "sync-found": { actor, words in
            try actor.makeTables()
            for address in words { try actor.sync(address) }
            return ""
        },
        "sync-tables": { actor, _ in
            try actor.makeTables(withRepository: false)
            return ""
        },
        "sync-invite": { actor, words in
            let invitation = try Invitation(
                actor.repository().invite(as: words.contains("reader") ? .reader : .writer, until: .max),
                lockedBy: TestKeys.material("raw"))
            try actor.sync(words[1])
            try Data(invitation.bytes).write(to: URL(fileURLWithPath: words[0]))
            return ""
        },
        "sync-join": { actor, words in
            try actor.makeTables(withRepository: false)
            let content = try Invitation(bytes: Array(Data(contentsOf: URL(fileURLWithPath: words[0]))))
                .open(with: TestKeys.material("raw"))
            _ = try ChangesetRepository.join(
                actor.writer(), content, at: remote(words[1], content.repository), remoteName: words[1],
                tracking: tracking)
            for address in words.dropFirst() { try actor.sync(address) }
            return ""
        },
        "sync-commit": { actor, words in
            guard words.count == 3, let count = Int(words[2]) else { throw ActorError.badArguments(words) }
            let acknowledged = try Acknowledgements(words[0])
            let repository = try actor.repository()
            for number in 0..<count {
                try repository.commit { db in
                    try db.execute(
                        sql: """
                            INSERT INTO item (id, n) VALUES (?1 || '-' || ?2, ?2);
                            INSERT INTO tally VALUES (?2 % 3, ?1) ON CONFLICT DO UPDATE SET last = excluded.last;
                            """,
                        arguments: [words[1], number, number, words[1]])
                }
                acknowledged.add()
            }
            return ""
        },
        "sync-work": { actor, words in
            guard words.count == 3, let seed = UInt64(words[2]) else { throw ActorError.badArguments(words) }
            var numbers = Seed(value: seed).numbers(0)
            let acknowledged = try Acknowledgements(words[0])
            let repository = try actor.repository()
            var number = 0
            let starter = getppid()
            while getppid() == starter {
                try repository.commit { try change($0, words[1], number, &numbers) }
                acknowledged.add()
                number += 1
                usleep(UInt32.random(in: 0...1_500_000, using: &numbers))
            }
            return ""
        },
        "sync-step": { actor, words in
            let repository = try actor.repository()
            let remote = try remote(words[1], repository.store().repository)
            switch words[0] {
            case "fetch", "push":
                let exchange = try Exchange(repository.store(), with: remote, named: words[1])
                try check(repository.run(exchange, words[0] == "push" ? .putting : .fetching))
            case "pull": try repository.pull()
            case "compact": try check(repository.compact(remote, named: words[1]))
            default: throw ActorError.badArguments(words)
            }
            return ""
        },
        "sync-head": { actor, _ in
            let differences = try actor.repository().verify().differences
            guard differences.isEmpty else { throw ActorError.badArguments(["\(differences)"]) }
            return try actor.writer().read { db in
                let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM item") ?? 0
                return "\(try Head.fetchOne(db)?.uuid ?? "none") \(count)"
            }
        },
        "sync": { actor, words in
            for address in words { try actor.sync(address) }
            let repository = try actor.repository()
            let (status, verification) = (try repository.status(), try repository.verify())
            // Rows that a constraint hides are no fault.
            let obstacles = status.obstacles.filter { if case .conflict = $0 { false } else { true } }
            let isInSync =
                status.readyCount == 0 && obstacles.isEmpty && verification.differences.isEmpty
                && status.remotes.allSatisfy { $0.isUpToDate && $0.problems.isEmpty }
            return "\(status.head ?? "none") \(verification.digest) "
                + (isInSync ? "in-sync" : "\(status) \(verification.differences)")
        },
        "sync-for-ever": { actor, words in
            guard words.count > 2, let pause = UInt32(words[1]) else { throw ActorError.badArguments(words) }
            let acknowledged = try Acknowledgements(words[0])
            let repository = try actor.repository()
            let remotes = try words.dropFirst(2).map { ($0, try remote($0, repository.store().repository)) }
            let starter = getppid()
            while getppid() == starter {
                for (name, remote) in remotes {
                    do {
                        try check(repository.sync(remote, named: name).exchange)
                        acknowledged.add()
                    } catch let failure as RemoteFailure where isOutage(failure) {
                        usleep(20_000)
                    }
                }
                usleep(UInt32.random(in: 0...pause) * 1000)
            }
            return ""
        },
    ]

    // MARK: Tables

    private static let tracking = ChangesetRepository.Tracking.only(["item", "tally", "slot", "part"])

    /// Rows of `item` are inserted only. Those of the others are few, so that stores change the same ones.
    private static let tables = """
        CREATE TABLE IF NOT EXISTS item (id TEXT PRIMARY KEY NOT NULL, n INTEGER);
        CREATE TABLE IF NOT EXISTS tally (id INTEGER PRIMARY KEY NOT NULL, last TEXT);
        CREATE TABLE IF NOT EXISTS slot (id INTEGER PRIMARY KEY NOT NULL, name TEXT UNIQUE, n INTEGER NOT NULL);
        CREATE TABLE IF NOT EXISTS part (
            id INTEGER PRIMARY KEY NOT NULL, slot INTEGER REFERENCES slot (id) ON DELETE CASCADE, item TEXT);
        """

    private func makeTables(withRepository: Bool = true) throws {
        try writer().write { try $0.execute(sql: Self.tables) }
        if withRepository { _ = try repository() }
    }

    /// Inserts an item, and changes one of a few rows.
    private static func change(
        _ db: Database, _ name: String, _ number: Int, _ numbers: inout RandomNumbers
    ) throws {
        try db.execute(
            sql: "INSERT INTO item (id, n) VALUES (?1 || '-' || ?2, ?2)", arguments: [name, number])
        let statements = [
            "INSERT INTO tally VALUES (:row, :name) ON CONFLICT DO UPDATE SET last = excluded.last",
            "DELETE FROM tally WHERE id = :row",
            "INSERT OR REPLACE INTO slot VALUES (:row, 'name ' || :other, :number)",
            "UPDATE OR IGNORE slot SET name = 'name ' || :other WHERE id = :row",
            "UPDATE slot SET n = n + 1 WHERE id = :row",
            "DELETE FROM slot WHERE id = :row",
            """
            INSERT INTO part SELECT :other, id, :name FROM slot WHERE id = :row
            ON CONFLICT (id) DO UPDATE SET slot = excluded.slot, item = excluded.item
            """,
        ]
        let values: [String: (any DatabaseValueConvertible)?] = [
            "row": Int.random(in: 0..<8, using: &numbers), "other": Int.random(in: 0..<8, using: &numbers),
            "name": name, "number": number,
        ]
        guard let sql = statements.randomElement(using: &numbers) else { return }
        try db.execute(sql: sql, arguments: StatementArguments(values.filter { sql.contains(":" + $0.key) }))
    }

    // MARK: Remotes

    private func repository() throws -> ChangesetRepository {
        try ChangesetRepository(writer(), tracking: Self.tracking)
    }

    private static func remote(_ address: String, _ repository: RepositoryID) throws -> any ObjectStore {
        #if PostgreSQL
            if address.hasPrefix("postgresql:") {
                return try PostgreSQLObjectStore(url: address, repository: repository)
            }
        #endif
        return FolderStore(path: address, repository: repository)
    }

    private func sync(_ address: String) throws {
        let repository = try repository()
        let remote = try Self.remote(address, repository.store().repository)
        try Self.check(repository.sync(remote, named: address).exchange)
    }

    private static func check(_ report: ExchangeReport) throws {
        if let failure = report.failures.first { throw failure }
    }

    /// Whether a server was away, as while it is started again.
    private static func isOutage(_ failure: RemoteFailure) -> Bool {
        #if PostgreSQL
            guard let error = failure.cause as? PostgreSQLError else { return false }
            return [.unreachable, .connectionLost, .timedOut].contains(error.code)
        #else
            return false
        #endif
    }
}
