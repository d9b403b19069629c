import CipherDatabase
import CipherSchema
import Foundation
import StorePlatform
import TestKit
import Testing

/// Accesses that throw only what their closure throws: none of these calls stands behind a `try`.
@Suite struct RethrowingTests {
    let folder = TemporaryFolder()

    private func flags(_ db: Database) -> String { "\(db.isInsideTransaction) \(db.lastInsertedRowID)" }

    @Test("closures that throw nothing need no try, for a queue, a pool and a snapshot")
    func withoutTry() throws {
        let queue = DatabaseQueue()
        #expect(queue.inDatabase(flags) == "false 0")
        #expect(queue.writeWithoutTransaction(flags) == "false 0")
        #expect(queue.barrierWriteWithoutTransaction(flags) == "false 0")
        #expect(queue.unsafeRead(flags) == "false 0")
        #expect(
            queue.unsafeReentrantRead { db in queue.unsafeReentrantWrite(flags) + db.description }.hasPrefix("false"))
        let pool = try Databases.poolWithTable(folder)
        #expect(pool.writeWithoutTransaction(flags) == "false 0")
        #expect(pool.unsafeReentrantWrite { _ in pool.unsafeReentrantWrite(flags) } == "false 0")
        let snapshot = try pool.makeSnapshot()
        #expect(snapshot.read(flags) == "true 0")
        #expect(snapshot.unsafeRead(flags) == "true 0")
        #expect(snapshot.unsafeReentrantRead { _ in snapshot.unsafeReentrantRead(flags) } == "true 0")
        let writer: any DatabaseWriter = queue
        #expect(writer.writeWithoutTransaction(flags) == "false 0")
    }

    @Test("the error of the closure comes through, also of a generic writer")
    func errors() {
        struct Failure: Error {}
        func fail(_ writer: some DatabaseWriter) throws { try writer.writeWithoutTransaction { _ in throw Failure() } }
        #expect(throws: Failure.self) { try fail(DatabaseQueue()) }
        #expect(throws: Failure.self) { try DatabaseQueue().inDatabase { _ in throw Failure() } }
    }

    /// The answers of a closed connection: nothing of it may reach SQLite.
    private func expectClosed(_ db: Database) {
        #expect(db.sqliteConnection == nil)
        #expect(!db.isInsideTransaction)
        #expect(db.lastInsertedRowID == 0 && db.changesCount == 0 && db.totalChangesCount == 0)
        #expect(db.maximumStatementArgumentCount == 0 && db.lastErrorMessage == nil)
        #expect(db.lastErrorCode == .SQLITE_MISUSE)
        db.releaseMemory()
        db.interrupt()
        db.clearSchemaCache()
        db.trace { _ in }
        db.afterNextTransaction { _ in Issue.record("no transaction ever comes") }
        db.add(function: DatabaseFunction("f", argumentCount: 0) { _ in 1 })
        db.add(collation: DatabaseCollation("c") { _, _ in .orderedSame })
        db.remove(function: DatabaseFunction("f", argumentCount: 0) { _ in 1 })
        db.remove(collation: DatabaseCollation("c") { _, _ in .orderedSame })
        let uses: [(Database) throws -> Void] = [
            { try $0.execute(sql: "SELECT 1") }, { _ = try $0.makeStatement(sql: "SELECT 1") },
            { _ = try $0.cachedStatement(sql: "SELECT 1") }, { try $0.inTransaction { .commit } },
            { try $0.inSavepoint { .commit } }, { try $0.isolated {} }, { try $0.beginTransaction() },
            { try $0.commit() }, { _ = try $0.tableExists("t") }, { _ = try $0.columns(in: "t") },
            { try $0.backup(to: $0) }, { try $0.usePassphrase("x") }, { try $0.useRawKey(Data(count: 32)) },
            { try $0.checkpoint() }, { _ = try $0.schemaVersion() },
        ]
        for (index, use) in uses.enumerated() {
            #expect(databaseError { try use(db) }?.message == "Connection is closed", "use \(index)")
        }
    }

    @Test("on a closed database the closure runs, and every use of its connection is a typed error")
    func closed() throws {
        let queue = try Databases.queueWithTable()
        let pool = try Databases.poolWithTable(folder)
        let snapshot = try pool.makeSnapshot()
        for database in [queue as any DatabaseReader, pool, snapshot] { try database.close() }
        queue.inDatabase(expectClosed)
        queue.unsafeReentrantRead(expectClosed)
        pool.writeWithoutTransaction(expectClosed)
        snapshot.read(expectClosed)
        let ended = Gate()
        pool.asyncWriteWithoutTransaction { db in
            #expect(databaseError { try db.execute(sql: "SELECT 1") }?.resultCode == .SQLITE_MISUSE)
            ended.open()
        }
        #expect(ended.wait())
        #expect(databaseError { try queue.write { _ in } }?.resultCode == .SQLITE_MISUSE)
        #expect(databaseError { try pool.unsafeRead { _ in } }?.resultCode == .SQLITE_MISUSE)
    }

    @Test("where a database in memory could not be opened, the error of opening comes out of every access")
    func failedOpening() {
        struct Failure: Error {}
        var config = Configuration()
        config.prepareDatabase { _ in throw Failure() }
        let queue = DatabaseQueue(configuration: config)
        #expect(throws: Failure.self) { try queue.read { _ in } }
        #expect(throws: Failure.self) { try queue.write { _ in } }
        #expect(queue.inDatabase { $0.sqliteConnection } == nil)
        queue.releaseMemory()
        #expect(throws: Failure.self) { try queue.inDatabase { try $0.execute(sql: "SELECT 1") } }
        #expect(throws: Failure.self) { try queue.writeWithoutTransaction { try $0.inTransaction { .commit } } }
        #expect(throws: Failure.self) { try queue.inDatabase { try $0.usePassphrase("x") } }
    }

    @Test("a migrator without migrations tells of a closed database")
    func migratingClosed() async throws {
        let queue = DatabaseQueue()
        try queue.close()
        let outcome = Shared<String?>(nil)
        DatabaseMigrator().asyncMigrate(queue) { result in outcome.change { $0 = "\(result)" } }
        #expect(await eventually { outcome.value?.contains("Connection is closed") == true })
    }
}
