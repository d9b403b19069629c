import CipherStore
import Foundation

// The code of a user of the library, in language mode 5, in the shape that GRDB's guides to sharing teach: a pool
// opened by hand inside a file coordinator, a migrator, and the errors that such a program catches.

/// One store of an app and its extensions.
final class DatabaseManager {
    static let shared = DatabaseManager()
    private(set) var pool: DatabasePool?
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("consumer5-\(UUID().uuidString)")

    /// Opens the store, and migrates it, while no other process does.
    func openSharedDatabase() throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let coordinator = FileCoordinator(filePresenter: nil)
        var coordinatorError: NSError?
        var openingError: Error?
        let url = folder.appendingPathComponent("app.db")
        coordinator.coordinate(writingItemAt: url, options: .forMerging, error: &coordinatorError) { url in
            do {
                self.pool = try self.openDatabase(at: url)
            } catch {
                openingError = error
            }
        }
        if let error = openingError ?? coordinatorError { throw error }
    }

    private func openDatabase(at url: URL) throws -> DatabasePool {
        let pool = try DatabasePool(path: url.path, configuration: configuration(isWriting: true))
        try migrator.migrate(pool)
        return pool
    }

    /// Opens the store for reading alone; nil when its schema is not the one that this program knows.
    func openReadOnlyDatabase() throws -> DatabasePool? {
        let coordinator = FileCoordinator(filePresenter: nil)
        var coordinatorError: NSError?
        var result: Result<DatabasePool?, Error> = .success(nil)
        let url = folder.appendingPathComponent("app.db")
        coordinator.coordinate(
            readingItemAt: url, options: .withoutChanges, error: &coordinatorError,
            byAccessor: { url in
                result = Result {
                    let pool = try DatabasePool(path: url.path, configuration: self.configuration(isWriting: false))
                    return try pool.read { db in
                        if try migrator.hasBeenSuperseded(db) { return nil }
                        return try migrator.hasCompletedMigrations(db) ? pool : nil
                    }
                }
            })
        if let coordinatorError { throw coordinatorError }
        return try result.get()
    }

    private func configuration(isWriting: Bool) -> Configuration {
        var config = Configuration()
        config.label = "app"
        config.readonly = !isWriting
        config.busyMode = .timeout(5.0)
        config.defaultTransactionKind = .immediate
        config.observesSuspensionNotifications = true
        config.prepareDatabase = { (db: Database) in
            try db.usePassphrase("correct horse battery staple")
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
        }
        config.prepareDatabase { db in
            guard !db.configuration.readonly else { return }
            var flag: CInt = 1
            let code = withUnsafeMutablePointer(to: &flag) { flagP in
                sqlite3_file_control(db.sqliteConnection, nil, SQLITE_FCNTL_PERSIST_WAL, flagP)
            }
            guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
        }
        return config
    }
}

var migrator: DatabaseMigrator {
    var migrator = DatabaseMigrator()
    migrator.registerMigration("createPlayer") { db in
        try db.execute(
            sql: "CREATE TABLE player(id INTEGER PRIMARY KEY, name TEXT UNIQUE, born DATETIME, score INTEGER)")
    }
    return migrator
}

/// A failed check ends the program with an exit code of its own.
func require(_ condition: Bool, _ what: String) {
    guard !condition else { return }
    print("failed: \(what)")
    exit(1)
}

/// Which kind of error an access ends with.
func outcome(_ access: () throws -> Void) -> String {
    do {
        try access()
        return "done"
    } catch DatabaseError.SQLITE_CONSTRAINT_UNIQUE {
        return "twice"
    } catch DatabaseError.SQLITE_INTERRUPT, DatabaseError.SQLITE_ABORT {
        return "interrupted"
    } catch let error as DatabaseError where error.resultCode == .SQLITE_READONLY {
        return "read-only"
    } catch let error as DatabaseError {
        return "\(error.extendedResultCode.rawValue) \(error.message ?? "") \(error.sql ?? "")"
    } catch {
        return "\(error)"
    }
}

/// Observations as programs wrote them before Swift's concurrency: variables that functions change.
func observeWithoutConcurrency() throws {
    let queue = DatabaseQueue()
    try queue.write { try $0.execute(sql: "CREATE TABLE t (a)") }
    var values: [Int] = []
    var failure: Error?
    var fetches = 0
    let observation = ValueObservation.tracking { db -> Int in
        fetches += 1
        return try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM t") ?? 0
    }.map { count -> Int in count * 2 }
    let cancellable = observation.start(
        in: queue, scheduling: .immediate, onError: { failure = $0 }, onChange: { values.append($0) })
    require(values == [0] && fetches == 1 && failure == nil, "the first value is there at once")
    let counted = ValueObservation.tracking(Table("t").fetchCount).start(
        in: queue, onError: { failure = $0 }, onChange: { values.append($0) })
    counted.cancel()
    var changes = 0
    let region = DatabaseRegionObservation(tracking: Table("t"))
        .start(in: queue, onError: { failure = $0 }, onChange: { _ in changes += 1 })
    try queue.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
    require(changes == 1 && fetches == 2, "the region has changed")
    region.cancel()
    cancellable.cancel()
}

let manager = DatabaseManager.shared
try manager.openSharedDatabase()
guard let pool = manager.pool else { exit(2) }
let insert = "INSERT INTO player (name, born, score) VALUES (:name, :born, :score)"
let born = Date(timeIntervalSince1970: 86_400)
require(
    outcome { try pool.write { try $0.execute(sql: insert, arguments: ["name": "Ann", "born": born, "score": 7]) } }
        == "done", "a player is inserted")
require(
    outcome { try pool.write { try $0.execute(sql: insert, arguments: ["name": "Ann", "born": nil, "score": nil]) } }
        == "twice", "the same name is refused")
try pool.writeInTransaction { db in
    try db.execute(sql: "UPDATE player SET score = ?", arguments: [8])
    return .commit
}
let players = try pool.read { db in try Row.fetchAll(db, sql: "SELECT * FROM player") }
let score: Int = players[0]["score"]
let birth = players[0]["born"] as Date?
let team: String? = players[0]["team"]
require(players.count == 1 && score == 8 && birth == born && team == nil, "the player is read back")
require(try pool.read(migrator.hasCompletedMigrations), "every migration has run")
let reading = try manager.openReadOnlyDatabase()
require(reading != nil, "the store opens for reading")
require(try reading?.read { try String.fetchOne($0, sql: "SELECT name FROM player") } == "Ann", "the reader reads")
require(
    outcome { try reading?.write { try $0.execute(sql: "DELETE FROM player") } } == "read-only", "it does not write")
try reading?.close()
try pool.close()
require(FileManager.default.fileExists(atPath: manager.folder.path + "/app.db-wal"), "the log is kept")
require(outcome { try pool.read { _ in } }.hasPrefix("21 Connection is closed"), "a closed pool says so")
try FileManager.default.removeItem(at: manager.folder)
try showEverything()
try observeWithoutConcurrency()
print("a consumer in language mode 5 shares a store")
