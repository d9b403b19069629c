import CipherStore
import ChangesetSync
import Foundation
import Synchronization

/// A temporary folder that is removed at the end.
final class BenchmarkFolder {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("sync-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }
}

/// A store in a file with one table of ten integers, with a repository or without.
final class SyncedStore {
    let store: SharedStore
    let path: String
    private let made: ChangesetRepository?
    private static let insertion = "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

    /// A store that founds a repository, or has none.
    ///
    /// - Parameter rows: The rows of the table before it is tracked.
    init(_ folder: BenchmarkFolder, tracked: Bool = true, rows: Int = 0) throws {
        (path, store) = try Self.open(folder)
        try store.write { db in for row in 0..<rows { try Self.insert(db, row) } }
        made = tracked ? try ChangesetRepository(store, tracking: .only(["t", "file"])) : nil
    }

    /// A store that joins the repository of another one.
    init(_ folder: BenchmarkFolder, invitedBy other: SyncedStore, at remote: any ObjectStore) throws {
        (path, store) = try Self.open(folder)
        let invitation = try other.repository.invite(until: .max)
        try other.push(to: remote)
        made = try .join(store, invitation, at: remote, remoteName: "remote", tracking: .only(["t", "file"]))
    }

    private static func open(_ folder: BenchmarkFolder) throws -> (String, SharedStore) {
        let path = folder.url.appendingPathComponent("\(UUID().uuidString).db").path
        let store = try SharedStore.open(at: path, unlockedBy: Fixture.keySource)
        try store.write { db in
            let columns = (0..<10).map { "c\($0)" }.joined(separator: ", ")
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, \(columns))")
            try db.execute(sql: "CREATE TABLE file (id INTEGER PRIMARY KEY NOT NULL, content BLOB)")
            try db.execute(sql: "CREATE TABLE other (id INTEGER PRIMARY KEY, value)")
        }
        return (path, store)
    }

    var repository: ChangesetRepository {
        guard let made else { preconditionFailure("The store has no repository.") }
        return made
    }

    static func insert(_ db: Database, _ row: Int) throws {
        try db.cachedStatement(sql: insertion).execute(arguments: (0...10).map { row + 1 + $0 })
    }

    func commit(_ body: (Database) throws -> Void) throws { try repository.commit { try body($0) } }

    func fetch(from remote: any ObjectStore) throws { try exchange(remote, .fetching) }
    func push(to remote: any ObjectStore) throws { try exchange(remote, .putting) }

    private func exchange(_ remote: any ObjectStore, _ direction: Exchange.Direction) throws {
        let exchange = try Exchange(repository.store(), with: remote, named: "remote")
        if let failure = try repository.run(exchange, direction).failures.first { throw failure }
    }

    func sync(with remote: any ObjectStore) throws {
        if let failure = try repository.sync(remote, named: "remote").exchange.failures.first { throw failure }
    }

    func head() throws -> String? { try store.read { try Head.fetchOne($0)?.uuid } }

    func count() throws -> Int { try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") ?? 0 } }

    /// The bytes of all tables, without pages that are free.
    func bytes() throws -> Int {
        try store.read { db in
            let pages = try ["page_count", "freelist_count", "page_size"].map { name in
                try Int.fetchOne(db, sql: "PRAGMA \(name)") ?? 0
            }
            return (pages[0] - pages[1]) * pages[2]
        }
    }
}

/// A store in memory, for measurements of many: they are of one process, and no file is measured.
final class CrowdStore {
    let queue = DatabaseQueue()
    let repository: ChangesetRepository
    /// It knows the last listing, as ``SyncManager`` does.
    private let exchange: Exchange

    init(invitedBy other: CrowdStore?, at remote: any ObjectStore) throws {
        try queue.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, x, y)") }
        if let other {
            let invitation = try other.repository.invite(until: .max)
            try other.sync()
            repository = try .join(queue, invitation, at: remote, remoteName: "remote")
        } else {
            repository = try ChangesetRepository(queue)
        }
        exchange = try Exchange(repository.store(), with: remote, named: "remote")
    }

    func insert(_ row: Int) throws {
        try repository.commit { db in
            try db.cachedStatement(sql: "INSERT INTO t VALUES (?, ?, ?)").execute(arguments: [row, row, "row"])
        }
    }

    func sync() throws {
        for direction in [Exchange.Direction.fetching, .both] {
            if let failure = try repository.run(exchange, direction).failures.first { throw failure }
            try repository.join()
        }
    }

    func push() throws {
        if let failure = try repository.run(exchange, .putting).failures.first { throw failure }
    }

    func count() throws -> Int { try queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") ?? 0 } }
}

/// A remote in the memory of this process, so that no disk and no network is measured.
final class SharedMemory: ObjectStore {
    private struct Content {
        var objects: [String: [UInt8]] = [:]
        var listed: [ListedObject]?
        var calls = 0
        var fetchedBytes = 0
        var storedBytes = 0
    }

    private let content = Mutex(Content())
    let description = "memory"

    var calls: Int { content.withLock { $0.calls } }
    var fetchedBytes: Int { content.withLock { $0.fetchedBytes } }
    /// All bytes that were put, also those that were deleted again.
    var storedBytes: Int { content.withLock { $0.storedBytes } }

    func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome {
        content.withLock { content in
            content.calls += 1
            if content.objects[name] != nil { return .alreadyPresent }
            content.objects[name] = bytes
            content.listed = nil
            content.storedBytes += bytes.count
            return .stored
        }
    }

    func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        content.withLock { content in
            content.calls += 1
            content.fetchedBytes += content.objects[name]?.count ?? 0
            return content.objects[name]
        }
    }

    func list(_ prefix: String) throws -> [ListedObject] {
        content.withLock { content in
            content.calls += 1
            let listed = content.listed ?? content.objects.keys.map { ListedObject(name: $0, byteCount: nil) }
            content.listed = listed
            return prefix.isEmpty ? listed : listed.filter { $0.name.hasPrefix(prefix) }
        }
    }

    func delete(_ name: String) throws {
        content.withLock { content in
            content.calls += 1
            content.objects[name] = nil
            content.listed = nil
        }
    }
}
