import ChangesetSync
import CipherStore
import Dispatch
import Foundation
import StoreCrypto
import Synchronization
import TestKit

#if PostgreSQL
    import PostgreSQLRemote
#endif

extension Actor {
    /// Sync with remotes, folders or URLs of servers, with one key for all stores:
    ///
    /// - `sync-enable REMOTE...`: makes the tables, tracks them, and makes remotes ones of this store.
    /// - `sync-tables`: makes the tables. `sync-join FILE REMOTE`: joins by an invitation with the key of ``TestKeys``.
    /// - `sync-invite FILE`: makes one.
    /// - `sync-commit FILE NAME COUNT`: that many commits, with one byte in FILE for each.
    /// - `sync-work FILE NAME SEED`: commits of random changes until it is killed, with one byte in FILE for each. This and
    ///   `sync-for-ever` end with the process that has started them, too.
    /// - `sync-step STEP REMOTE`: `fetch`, `merge`, `pull`, `push` or `rejoin`.
    /// - `sync-checkpoint REMOTE`: retires all other replicas and makes a checkpoint; answers whether there is one.
    /// - `sync-head`: answers with the head and the number of items; tables that differ from it are an error.
    /// - `sync REMOTE...`: syncs once with each; answers with head and status.
    /// - `sync-for-ever FILE PAUSE REMOTE...`: syncs until it is killed, with one byte in FILE for each time and a random
    ///   pause of up to so many milliseconds. A remote that cannot be reached does not end it.
    static let syncCommands: [String: Command] = [
        "sync-enable": { actor, words in
            try actor.makeTables()
            try actor.repository().enable(
                trackedTables,
                key: RepositoryKey(
                    repository: repositoryID(), epoch: 1,
                    secret: SecretBytes(copying: [UInt8](repeating: 0x5a, count: 32))))
            for address in words { try actor.setUp(actor.manager(address)) }
            return ""
        },
        "sync-tables": { actor, _ in
            try actor.makeTables()
            return ""
        },
        "sync-invite": { actor, words in
            let address = try RemoteAddress("dir:/nowhere")
            try actor.repository().invitation(lockedBy: TestKeys.source("raw"), remote: address).write(to: words[0])
            return ""
        },
        "sync-join": { actor, words in
            let repository = try actor.repository()
            try repository.migrate()
            try repository.join(
                Invitation(contentsOf: words[0]), unlockedBy: TestKeys.source("raw"), tables: trackedTables)
            try actor.setUp(actor.manager(words[1]))
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
            let manager = try actor.manager(words[1])
            switch words[0] {
            case "fetch": try awaiting { try await manager.fetch() }
            case "merge": try manager.repository.mergeAll()
            case "pull": try manager.repository.pull()
            case "push": try awaiting { try await manager.push() }
            case "rejoin": try awaiting { try await manager.rejoin() }
            default: throw ActorError.badArguments(words)
            }
            return ""
        },
        "sync-checkpoint": { actor, words in
            let manager = try actor.manager(words[0])
            for replica in try manager.status().replicas where !replica.isThisStore && !replica.isRetired {
                try awaiting { try await manager.retire(replica.author) }
            }
            return try awaiting { try await manager.checkpoint() != nil } == true ? "made" : "none"
        },
        "sync-head": { actor, _ in
            let differing = try actor.repository().verify()
            guard differing.isEmpty else { throw ActorError.badArguments(differing) }
            return try actor.writer().read { db in
                let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM item") ?? 0
                return "\(try Head.fetchOne(db)?.uuid ?? "none") \(count)"
            }
        },
        "sync": { actor, words in
            var isInSync = true
            var report = ""
            for manager in try words.map(actor.manager) {
                try awaiting { try await manager.sync() }
                try manager.repository.removeConflicts()
                let (status, differing) = (try manager.status(), try manager.repository.verify())
                if !status.isInSync || !differing.isEmpty {
                    isInSync = false
                    report += " \(status) \(differing)"
                }
            }
            let head = try actor.writer().read { try Head.fetchOne($0)?.uuid ?? "none" }
            return head + (isInSync ? " in-sync" : report)
        },
        "sync-for-ever": { actor, words in
            guard words.count > 2, let pause = UInt32(words[1]) else { throw ActorError.badArguments(words) }
            let managers = try words.dropFirst(2).map(actor.manager)
            let acknowledged = try Acknowledgements(words[0])
            let starter = getppid()
            while getppid() == starter {
                for manager in managers {
                    do {
                        try awaiting { try await manager.sync() }
                        acknowledged.add()
                    } catch  where isOutage(error) {
                        usleep(20_000)
                    }
                }
                usleep(UInt32.random(in: 0...pause) * 1000)
            }
            return ""
        },
    ]

    // MARK: Tables

    private static let trackedTables = ["item", "tally", "slot", "part"]

    /// Rows of `item` are inserted only. Those of the others are few, so that stores change the same ones.
    private static let tables = """
        CREATE TABLE IF NOT EXISTS item (id TEXT PRIMARY KEY NOT NULL, n INTEGER);
        CREATE TABLE IF NOT EXISTS tally (id INTEGER PRIMARY KEY NOT NULL, last TEXT);
        CREATE TABLE IF NOT EXISTS slot (id INTEGER PRIMARY KEY NOT NULL, name TEXT UNIQUE, n INTEGER NOT NULL);
        CREATE TABLE IF NOT EXISTS part (
            id INTEGER PRIMARY KEY NOT NULL, slot INTEGER REFERENCES slot (id) ON DELETE CASCADE, item TEXT);
        """

    private func makeTables() throws {
        try writer().write { try $0.execute(sql: Self.tables) }
        try repository().migrate()
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

    private static func repositoryID() throws -> RepositoryID {
        guard let id = RepositoryID(bytes: [UInt8](repeating: 0x17, count: 16)) else { throw ActorError.nothingIsOpen }
        return id
    }

    private func repository() throws -> ChangesetRepository { ChangesetRepository(try writer()) }

    private func manager(_ address: String) throws -> SyncManager {
        let (repository, id) = (try repository(), try Self.repositoryID())
        #if PostgreSQL
            if address.hasPrefix("postgresql:") {
                return SyncManager(repository, remote: try PostgreSQLRemote(url: address, repository: id))
            }
        #endif
        return SyncManager(repository, remote: DirectoryRemote(path: address, repository: id))
    }

    private func setUp(_ manager: SyncManager) throws {
        #if PostgreSQL
            if let server = manager.remote as? PostgreSQLRemote {
                try Self.awaiting { try await server.setup() }
            }
        #endif
        try Self.awaiting { try await manager.setup() }
    }

    /// Whether a server was away, as while it is started again.
    private static func isOutage(_ error: any Error) -> Bool {
        #if PostgreSQL
            if let error = error as? SyncFailure { return isOutage(error.first) && isOutage(error.push) }
            guard let error = error as? PostgreSQLError else { return false }
            return [.unreachable, .connectionLost, .timedOut].contains(error.code)
        #else
            return false
        #endif
    }

    /// Waits for a task; the main thread of a process that tests drive has nothing else to do.
    @discardableResult
    private static func awaiting<T: Sendable>(_ body: @escaping @Sendable () async throws -> T) throws -> T? {
        let result = Mutex<Result<T, any Error>?>(nil)
        let isDone = DispatchSemaphore(value: 0)
        Task.detached {
            let outcome: Result<T, any Error>
            do { outcome = .success(try await body()) } catch { outcome = .failure(error) }
            result.withLock { $0 = outcome }
            isDone.signal()
        }
        isDone.wait()
        return try result.withLock { $0 }?.get()
    }
}
