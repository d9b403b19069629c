import ChangesetSync
import CipherStore
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

/// A store of one table of ten integers, with a repository or without.
final class SyncedStore {
    let store: SharedStore
    let repository: ChangesetRepository
    let path: String
    private static let insertion = "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

    /// - Parameters:
    ///   - key: Of the repository; nil for a store without one.
    ///   - rows: What the table has when it is tracked.
    init(_ folder: BenchmarkFolder, key: RepositoryKey?, rows: Int = 0, readers: Int? = nil) throws {
        path = folder.url.appendingPathComponent("\(UUID().uuidString).db").path
        var configuration = Configuration()
        if let readers { configuration.maximumReaderCount = readers }
        store = try SharedStore.open(at: path, unlockedBy: Fixture.keySource, configuration: configuration)
        repository = ChangesetRepository(store)
        try store.write { db in
            let columns = (0..<10).map { "c\($0)" }.joined(separator: ", ")
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, \(columns))")
            try db.execute(sql: "CREATE TABLE other (id INTEGER PRIMARY KEY, value)")
            for row in 0..<rows { try Self.insert(db, row) }
        }
        guard let key else { return }
        try repository.migrate()
        try repository.enable(["t"], key: key)
    }

    static func insert(_ db: Database, _ row: Int) throws {
        try db.cachedStatement(sql: insertion).execute(arguments: (0...10).map { row + 1 + $0 })
    }

    func commit(_ body: (Database) throws -> Void) throws { try repository.commit { try body($0) } }

    func push(to remote: any SyncRemote) throws { _ = try with(remote) { try await $0.push() } }

    func fetch(from remote: any SyncRemote) throws { _ = try with(remote) { try await $0.fetch() } }

    func sync(with remote: any SyncRemote) throws { try with(remote) { _ = try await $0.sync() } }

    func with<T: Sendable>(
        _ remote: any SyncRemote, _ body: @escaping @Sendable (SyncManager) async throws -> T
    ) throws -> T {
        let manager = SyncManager(repository, remote: remote)
        return try TaskWait.run {
            try await manager.setup()
            return try await body(manager)
        }
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

/// A remote in the memory of this process, so that no disk and no network is measured.
final class SharedMemory: SyncRemote {
    let name = "memory"
    let repository: RepositoryID

    private struct Content {
        var objects: [ObjectID: RemoteObject] = [:]
        var logs: [AuthorPseudonym: [ObjectID]] = [:]
    }

    private let content = Mutex(Content())

    init(repository: RepositoryID) { self.repository = repository }

    /// The bytes of each object.
    var sizes: [Int] { content.withLock { $0.objects.values.map(\.bytes.count) } }

    func put(_ objects: [RemoteObject]) async throws -> [PutResult] {
        content.withLock { content in
            objects.map { object in
                if let position = object.position {
                    var log = content.logs[position.author] ?? []
                    if position.sequence == UInt64(log.count) + 1 { log.append(object.id) }
                    content.logs[position.author] = log
                }
                return content.objects.updateValue(object, forKey: object.id) == nil ? .stored : .alreadyPresent
            }
        }
    }

    func list(after cursor: RemoteCursor, limit: Int) async throws -> RemotePage {
        content.withLock { content in
            var (entries, next, hasMore) = ([RemoteEntry](), cursor, false)
            for (author, log) in content.logs.sorted(by: { $0.key < $1.key }) {
                let first = Int(cursor.sequence(of: author))
                for index in first..<max(first, log.count) {
                    if entries.count == limit {
                        hasMore = true
                        break
                    }
                    let position = LogPosition(author: author, sequence: UInt64(index + 1))
                    entries.append(RemoteEntry(id: log[index], position: position))
                    next.advance(after: position)
                }
            }
            return RemotePage(entries: entries, next: next, hasMore: hasMore, stalled: [])
        }
    }

    func get(_ ids: [ObjectID]) async throws -> [RemoteObject] {
        content.withLock { content in ids.compactMap { content.objects[$0] } }
    }
}

/// Writes single rows to another table by a connection of its own, and notes the longest time.
final class BesideWriter {
    private struct State {
        var isEnding = false
        var longest = 0.0
        var error: (any Error)?
    }

    private final class Shared: Sendable {
        let state = Mutex(State())
    }

    private let shared = Shared()
    private let ended = DispatchSemaphore(value: 0)

    init(_ path: String) throws {
        var configuration = Configuration()
        // It waits as long as it takes: that is the figure.
        configuration.busyMode = .timeout(600)
        let store = try SharedStore.open(at: path, unlockedBy: Fixture.keySource, configuration: configuration)
        let (shared, ended) = (shared, ended)
        Thread.detachNewThread {
            defer { ended.signal() }
            while !shared.state.withLock({ $0.isEnding }) {
                let begin = DispatchTime.now().uptimeNanoseconds
                do {
                    try store.write { try $0.execute(sql: "INSERT INTO other (value) VALUES (1)") }
                } catch {
                    shared.state.withLock { $0.error = error }
                    return
                }
                let time = Double(DispatchTime.now().uptimeNanoseconds - begin) / 1e6
                shared.state.withLock { $0.longest = max($0.longest, time) }
            }
        }
    }

    /// - Returns: The longest write, in milliseconds.
    func end() throws -> Double {
        shared.state.withLock { $0.isEnding = true }
        ended.wait()
        let state = shared.state.withLock { $0 }
        if let error = state.error { throw error }
        return state.longest
    }
}
