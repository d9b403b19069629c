import CipherDatabase
import Foundation
import Synchronization
import TestKit

@testable import ChangesetSync

/// A store in a file with its repository, on a device with a clock of its own.
final class Device {
    static let sql = """
        CREATE TABLE IF NOT EXISTS player (id INTEGER PRIMARY KEY, name TEXT, score INTEGER);
        CREATE TABLE IF NOT EXISTS team (code TEXT PRIMARY KEY COLLATE NOCASE, city TEXT UNIQUE) WITHOUT ROWID;
        """

    let path: String
    let pool: DatabasePool
    let repository: ChangesetRepository

    /// Opens a store; its repository is founded if it has none.
    init(_ path: String, sliceRows: Int = 50_000, sql: String = sql, functions: [DatabaseFunction] = []) throws {
        self.path = path
        pool = try Self.open(path, sql, functions: functions)
        repository = try ChangesetRepository(pool, named: path, settings: Self.settings(sliceRows))
    }

    /// Joins the repository of another device by an invitation.
    init(
        _ path: String, invitedBy other: Device, at remote: any ObjectStore, sliceRows: Int = 50_000,
        sql: String = sql, encoding: String = "UTF-8", functions: [DatabaseFunction] = [], as role: Role = .writer
    ) throws {
        self.path = path
        pool = try Self.open(path, sql, encoding: encoding, functions: functions)
        let invitation = try other.repository.invite(as: role, until: .max)
        try other.repository.sync(remote, named: "remote")
        repository = try ChangesetRepository.join(
            pool, invitation, at: remote, remoteName: "remote", named: path, settings: Self.settings(sliceRows))
    }

    /// Joins the repository of an invitation, whose record is at the remote.
    init(_ path: String, _ invitation: InvitationContent, at remote: any ObjectStore, sql: String = sql) throws {
        self.path = path
        pool = try Self.open(path, sql)
        repository = try ChangesetRepository.join(
            pool, invitation, at: remote, remoteName: "remote", named: path, settings: Self.settings(50_000))
    }

    /// The store joins the repository again, by an invitation of another device.
    init(
        _ former: Device, joiningAgainBy other: Device, at remote: any ObjectStore, as role: Role = .writer,
        tracking: ChangesetRepository.Tracking = .all
    ) throws {
        (path, pool) = (former.path, former.pool)
        let invitation = try other.repository.invite(as: role, until: .max)
        try other.repository.sync(remote, named: "remote")
        repository = try ChangesetRepository.join(
            pool, invitation, at: remote, remoteName: "remote", tracking: tracking, named: path,
            settings: Self.settings(50_000))
    }

    /// Opens a store with its program's tables.
    static func open(
        _ path: String, _ sql: String = sql, encoding: String = "UTF-8", functions: [DatabaseFunction] = []
    ) throws -> DatabasePool {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            for function in functions { db.add(function: function) }
            try db.useRawKey(Data(repeating: 7, count: 32))
            if encoding != "UTF-8" { try db.execute(sql: "PRAGMA encoding = '\(encoding)'") }
        }
        let pool = try DatabasePool(path: path, configuration: configuration)
        try pool.write { try $0.execute(sql: sql) }
        return pool
    }

    private static func settings(_ sliceRows: Int) -> Replica.Settings {
        var settings = Replica.Settings()
        (settings.sliceRows, settings.sliceTime) = (sliceRows, nil)
        return settings
    }

    func write(_ sql: String) throws { try repository.commit { try $0.execute(sql: sql) } }

    @discardableResult
    func sync(_ remote: any ObjectStore) throws -> ExchangeReport {
        try repository.sync(remote, named: "remote").exchange
    }

    /// The rows of the program's tables, each as a text.
    func rows() throws -> [String] {
        try pool.read { db in
            try ["player", "team"].flatMap { table in
                try Row.fetchAll(db, sql: "SELECT * FROM \(table) ORDER BY 1").map { row in
                    table + " "
                        + row.databaseValues.map { $0.isNull ? "NULL" : String.fromDatabaseValue($0) ?? "\($0)" }
                        .joined(separator: " ")
                }
            }
        }
    }

    func texts(_ sql: String) throws -> [String] {
        try pool.read { db in
            try Row.fetchAll(db, sql: sql).map { row in
                row.databaseValues.map { $0.isNull ? "NULL" : String.fromDatabaseValue($0) ?? "\($0)" }
                    .joined(separator: " ")
            }
        }
    }

    /// Writes tables of the engine, which the program cannot.
    func writeOwnRows(_ sql: String) throws {
        try pool.write { db in try db.writingOwnRows { try db.execute(sql: sql) } }
    }

    func count(_ table: String) throws -> Int {
        try pool.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM cipherstore_repository_\(table)") ?? -1 }
    }

    func vector() throws -> VersionVector {
        try pool.writeWithoutTransaction { db in
            try repository.replica.inspect(db, clock: repository.clock()) { try $0.vector() }
        }
    }

    func close() throws { try pool.close() }
}

/// Closed stores and the objects of their remote, which are made once and written for each test.
struct MadeStores: Sendable {
    private let files: [String: Data]
    private let objects: [String: [UInt8]]

    /// - Parameter make: Makes the stores in a folder, and closes them.
    init(_ make: (TemporaryFolder, MemoryRemote) throws -> Void) throws {
        let (folder, remote) = (TemporaryFolder(), MemoryRemote())
        try make(folder, remote)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.url.path)
        files = try Dictionary(
            uniqueKeysWithValues: names.map { ($0, try Data(contentsOf: folder.url.appending(path: $0))) })
        objects = remote.objects
    }

    func write(to folder: TemporaryFolder, _ remote: MemoryRemote) throws {
        for (name, bytes) in files { try bytes.write(to: folder.url.appending(path: name)) }
        remote.objects = objects
    }
}

/// A remote that ends the process at one of its calls, as SIGKILL does at any time.
final class KillingRemote: ObjectStore {
    private let remote: FolderStore
    private let calls = Mutex(0)
    private let killAt: Int
    private let isAfter: Bool

    /// - Parameters:
    ///   - killAt: The call, from 1; 0 for none.
    ///   - isAfter: Whether the call is done before the process ends.
    init(_ remote: FolderStore, killAt: Int = 0, isAfter: Bool = false) {
        (self.remote, self.killAt, self.isAfter) = (remote, killAt, isAfter)
    }

    var description: String { remote.description }
    var callCount: Int { calls.withLock { $0 } }

    private func call<T>(_ body: () throws -> T) throws -> T {
        let isLast = calls.withLock { count in
            count += 1
            return count == killAt
        }
        if isLast, !isAfter { kill(getpid(), SIGKILL) }
        let result = try body()
        if isLast { kill(getpid(), SIGKILL) }
        return result
    }

    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome { try call { try remote.put(name, bytes) } }
    func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        try call { try remote.get(name, limitBytes: limitBytes) }
    }
    func list(_ prefix: String) throws -> [ListedObject] { try call { try remote.list(prefix) } }
    func delete(_ name: String) throws { try call { try remote.delete(name) } }
}
