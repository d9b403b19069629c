import CipherStore
import Foundation
import StoreTools
import Synchronization
import TestKit
import Testing

/// A folder with databases that tools work on. Raw keys cost no derivation.
final class ToolFixture: Sendable {
    let folder = TemporaryFolder()
    var source: KeySource { TestKeys.source("raw") }
    var plain: String { path("plain.db") }
    var store: String { path("app.db") }

    static let rows = 4000

    func path(_ name: String) -> String { folder.path(name) }
    func names() -> [String] { FolderSnapshot(of: folder).names }

    /// The files that were made, removed or changed, but for those in which readers show themselves.
    func changes(since before: FolderSnapshot) -> [String] {
        before.changes(until: FolderSnapshot(of: folder)).filter { !["app.db-lock", "app.db-shm"].contains($0) }
    }

    private static let content = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
        WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < \(rows))
        INSERT INTO note SELECT i, printf('note %d %s', i, hex(zeroblob(150))) FROM c;
        """

    func makePlain() throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: plain, configuration: configuration)
        try queue.inDatabase { try $0.execute(sql: Self.content) }
        try queue.close()
    }

    func openStore() throws -> SharedStore { try SharedStore.open(at: store, unlockedBy: source) }

    func makeStore() throws {
        let store = try openStore()
        try store.write { try $0.execute(sql: Self.content) }
        try store.checkpoint(.truncate)
        try store.close()
    }

    private static var standard: Configuration {
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.useRawKey(Data(TestKeys.rawKey)) }
        return configuration
    }

    /// The store of ``makeStandard()``, open.
    func openStandard() throws -> DatabasePool { try DatabasePool(path: store, configuration: Self.standard) }

    /// A database of SQLCipher 4 as programs without this library make it.
    func makeStandard() throws {
        let queue = try DatabaseQueue(path: store, configuration: Self.standard)
        try queue.inDatabase { try $0.execute(sql: Self.content) }
        try queue.close()
    }

    /// Changes a byte of the store's database, which nobody has open.
    func damage(page: Int) throws {
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: store))
        try file.seek(toOffset: UInt64((page - 1) * 4096 + 99))
        try file.write(contentsOf: [1, 2, 3, 4])
        try file.close()
    }

    func rowCount() throws -> Int? {
        let store = try openStore()
        defer { try? store.close() }
        return try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM note") }
    }
}

/// Keeps what a tool reports, and cancels it in a phase if asked.
final class ProgressRecord: Sendable {
    private let values = Mutex<[ToolProgress]>([])
    private let cancelled = Mutex(false)
    private let last: ToolProgress.Phase?

    /// - Parameter last: The phase in which the run is to end.
    init(cancellingIn last: ToolProgress.Phase? = nil) { self.last = last }

    var all: [ToolProgress] { values.withLock { $0 } }
    var phases: [ToolProgress.Phase] {
        all.map(\.phase).reduce(into: []) { if $0.last != $1 { $0.append($1) } }
    }

    @Sendable
    func add(_ value: ToolProgress) {
        values.withLock { $0.append(value) }
        if value.phase == last { cancelled.withLock { $0 = true } }
    }

    @Sendable
    func isCancelled() -> Bool { cancelled.withLock { $0 } }

    /// Expects that no value goes back, and that phases come in their order, each once.
    func expectMonotone() {
        let order = ToolProgress.Phase.allCases
        for (before, after) in zip(all, all.dropFirst()) {
            if before.phase == after.phase {
                #expect(before.done <= after.done)
            } else if let first = order.firstIndex(of: before.phase), let second = order.firstIndex(of: after.phase) {
                #expect(first < second)
            }
        }
        for value in all { if let total = value.total { #expect(value.done <= total) } }
    }
}
