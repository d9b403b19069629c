import CipherStore
import Foundation
import StoreTools

// The code of a user of the library, in language mode 6: the same store as in mode 5, with tasks.

/// A failed check of this program.
struct Failure: Error, CustomStringConvertible {
    let description: String

    static func require(_ condition: Bool, _ what: String) throws {
        if !condition { throw Failure(description: what) }
    }
}

/// One store of an app and its extensions.
final class DatabaseManager: Sendable {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("consumer6-\(UUID().uuidString)")
    let pool: DatabasePool

    init() throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let url = folder.appendingPathComponent("app.db")
        pool = try FileCoordinator(filePresenter: nil).coordinate(writingItemAt: url, options: .forMerging) { url in
            let pool = try DatabasePool(path: url.path, configuration: Self.configuration)
            try Self.migrator.migrate(pool)
            return pool
        }
    }

    static var configuration: Configuration {
        var config = Configuration()
        config.busyMode = .timeout(5.0)
        config.prepareDatabase = { (db: Database) in
            try db.usePassphrase(Data("correct horse battery staple".utf8))
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
            var flag: CInt = 1
            let code = withUnsafeMutablePointer(to: &flag) { flagP in
                sqlite3_file_control(db.sqliteConnection, nil, SQLITE_FCNTL_PERSIST_WAL, flagP)
            }
            guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
        }
        return config
    }

    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("createPlayer") { db in
            try db.execute(sql: "CREATE TABLE player(id TEXT PRIMARY KEY, name TEXT NOT NULL)")
        }
        return migrator
    }

    func insert(_ name: String) async throws -> UUID {
        try await pool.write { db in
            let id = UUID()
            try db.execute(sql: "INSERT INTO player VALUES (?, ?)", arguments: [id, name])
            return id
        }
    }

    func name(of id: UUID) async throws -> String? {
        try await pool.read { db in
            try String.fetchOne(db, sql: "SELECT name FROM player WHERE id = :id", arguments: ["id": id])
        }
    }
}

/// A program's work with its store.
func useStore() async throws {
    let manager = try DatabaseManager()
    let pool = manager.pool
    let id = try await manager.insert("Ann")
    try Failure.require(try await manager.name(of: id) == "Ann", "the player is read back")
    let migrator = DatabaseManager.migrator
    try Failure.require(try await pool.read { try migrator.hasCompletedMigrations($0) }, "migrated")
    try await cancelAnInsert(manager)
    do {
        try await pool.write { try $0.execute(sql: "INSERT INTO player VALUES (?, NULL)", arguments: [UUID()]) }
        throw Failure(description: "a player without a name was inserted")
    } catch DatabaseError.SQLITE_CONSTRAINT_NOTNULL {}
    do {
        try await pool.read { try $0.execute(sql: "DELETE FROM player") }
        throw Failure(description: "a read deleted a player")
    } catch let error as DatabaseError where error.resultCode == .SQLITE_READONLY {}
    let names = try await pool.read { db in
        try Row.fetchAll(db, sql: "SELECT id, name FROM player").map { $0["name"] as String }
    }
    try Failure.require(names == ["Ann"], "one player is left")
    try pool.close()
    try await useRecordsInTasks(in: manager.folder)
    try await useTools(manager.folder)
    try FileManager.default.removeItem(at: manager.folder)
}

/// A service's other work with its store: verify it, look at it, take its content out and in again.
func useTools(_ folder: URL) async throws {
    let source = KeySource.passphrase("correct horse battery staple")
    let path = folder.appendingPathComponent("app.db").path
    let verification = try await StoreVerification(path, unlockedBy: source).run { progress in
        if let total = progress.total { precondition(progress.done <= total) }
    }
    try Failure.require(verification.isSound, "the store is sound")
    let status = try await StoreStatus(path).run()
    try Failure.require(status.state == .ready && status.keys?.scheme == .direct, "it is a direct store")
    let examination = try await StoreExamination(path, unlockedBy: source).run()
    try Failure.require(!examination.findings.contains { $0.severity == .problem }, "it has no problem")
    let plain = folder.appendingPathComponent("plain.db").path
    let export = try await StoreExport(of: path, toInsecurePlaintext: plain, unlockedBy: source).run()
    let copy = StoreImport(of: plain, to: folder.appendingPathComponent("copy.db").path, unlockedBy: source)
    let imported = try await copy.run()
    try Failure.require(imported.contentHash == export.contentHash, "the copy has the same content")
    do {
        try await copy.run()
        throw Failure(description: "a store was written over")
    } catch let error as ToolError where error.code == .exists {}
}

/// A task that is cancelled inserts nothing, or ended before.
func cancelAnInsert(_ manager: DatabaseManager) async throws {
    let task = Task { try await manager.insert("nobody") }
    task.cancel()
    do {
        _ = try await task.value
        try await manager.pool.write { try $0.execute(sql: "DELETE FROM player WHERE name = 'nobody'") }
    } catch is CancellationError {}
}

/// A database in memory, without tasks.
func useQueue() throws {
    let queue = DatabaseQueue()
    try queue.write { try $0.execute(sql: "CREATE TABLE t(a)") }
    try queue.inTransaction { db in
        try db.execute(sql: "INSERT INTO t VALUES (1)")
        return .rollback
    }
    let count = try queue.inDatabase { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") }
    try Failure.require(count == 0, "rolled back")
}

try useQueue()
try showEverything()
try await useStore()
print("a consumer in language mode 6 shares a store")
