import ChangesetSync
import CipherStore
import Dispatch
import Foundation
import StoreCrypto
import Synchronization

extension Actor {
    /// Sync through a folder, with one key for all stores:
    ///
    /// - `sync-enable FOLDER`: makes the tables, tracks them, and makes the folder a remote.
    /// - `sync-commit FILE NAME COUNT`: that many commits, with one byte in FILE for each.
    /// - `sync FOLDER`: syncs once; answers with head and status.
    /// - `sync-for-ever FOLDER FILE`: syncs until it is killed, with one byte in FILE for each time.
    static let syncCommands: [String: Command] = [
        "sync-enable": { actor, words in
            let writer = try actor.writer()
            try writer.write { try $0.execute(sql: tables) }
            let repository = ChangesetRepository(writer)
            try repository.migrate()
            try repository.enable(
                ["item", "tally"],
                key: RepositoryKey(
                    repository: repositoryID(), epoch: 1,
                    secret: SecretBytes(copying: [UInt8](repeating: 0x5a, count: 32))))
            let manager = try actor.manager(words[0])
            try awaiting { try await manager.setup() }
            return ""
        },
        "sync-commit": { actor, words in
            guard words.count == 3, let count = Int(words[2]) else { throw ActorError.badArguments(words) }
            let acknowledged = try Acknowledgements(words[0])
            let repository = ChangesetRepository(try actor.writer())
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
        "sync": { actor, words in
            let manager = try actor.manager(words[0])
            try awaiting { try await manager.sync() }
            try manager.repository.removeConflicts()
            let status = try manager.status()
            let head = try actor.writer().read { try Head.fetchOne($0)?.uuid ?? "none" }
            let differing = try manager.repository.verify()
            return "\(head) \(status.isInSync && differing.isEmpty ? "in-sync" : "\(status) \(differing)")"
        },
        "sync-for-ever": { actor, words in
            let manager = try actor.manager(words[0])
            let acknowledged = try Acknowledgements(words[1])
            while true {
                try awaiting { try await manager.sync() }
                acknowledged.add()
            }
        },
    ]

    private static let tables = """
        CREATE TABLE IF NOT EXISTS item (id TEXT PRIMARY KEY NOT NULL, n INTEGER);
        CREATE TABLE IF NOT EXISTS tally (id INTEGER PRIMARY KEY NOT NULL, last TEXT);
        """

    private static func repositoryID() throws -> RepositoryID {
        guard let id = RepositoryID(bytes: [UInt8](repeating: 0x17, count: 16)) else { throw ActorError.nothingIsOpen }
        return id
    }

    private func manager(_ folder: String) throws -> SyncManager {
        SyncManager(
            ChangesetRepository(try writer()),
            remote: DirectoryRemote(path: folder, repository: try Self.repositoryID()))
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
