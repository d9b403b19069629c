import CipherDatabase
import Foundation
import Synchronization
import TestKit
import Testing

@Suite struct PoolOpeningTests {
    struct NotNow: Error {}
    let folder = TemporaryFolder()

    private func bytes(_ name: String) -> Data? { try? Data(contentsOf: URL(fileURLWithPath: folder.path(name))) }

    private func schemaVersion(_ reader: any DatabaseReader) throws -> Int? {
        try reader.read { try Int.fetchOne($0, sql: "PRAGMA schema_version") }
    }

    // MARK: What opening leaves alone

    @Test("opening an existing database changes neither its schema nor a byte of its file", arguments: [false, true])
    func opensWithoutChange(readonly: Bool) throws {
        let pool = try Databases.poolWithTable(folder)
        let version = try schemaVersion(pool)
        try pool.close()
        #expect(bytes("app.db-wal") == nil, "the log goes with the last close")
        let before = bytes("app.db")
        for _ in 0..<3 {
            let again = try Databases.pool(folder) { $0.readonly = readonly }
            #expect(try schemaVersion(again) == version)
            #expect(try again.read { try $0.rowCount() } == 0)
            try again.close()
        }
        #expect(before != nil && bytes("app.db") == before)
    }

    @Test("opening beside another process's connection changes nothing that it sees")
    func opensUnnoticed() throws {
        let first = try Databases.poolWithTable(folder)
        func dataVersion() throws -> Int? {
            try first.unsafeRead { try Int.fetchOne($0, sql: "PRAGMA data_version") }
        }
        let (data, schema) = (try dataVersion(), try schemaVersion(first))
        let second = try Databases.pool(folder)
        #expect(try second.read { try $0.rowCount() } == 0)
        #expect(try dataVersion() == data)
        #expect(try schemaVersion(first) == schema)
    }

    // MARK: Configuration

    @Test("a read-only pool reads, and refuses to write")
    func readonlyPool() throws {
        let writing = try Databases.poolWithTable(folder)
        let reading = try Databases.pool(folder) { $0.readonly = true }
        #expect(databaseError { try reading.write { try $0.insert(1) } }?.resultCode == .SQLITE_READONLY)
        try writing.write { try $0.insert(1) }
        #expect(try reading.read { try $0.rowCount() } == 1)
        #expect(try reading.write { try $0.rowCount() } == 1)
    }

    @Test("a read-only database that does not exist is not made")
    func readonlyMissing() throws {
        #expect(throws: (any Error).self) { try Databases.pool(folder) { $0.readonly = true } }
        #expect(bytes("app.db") == nil)
    }

    @Test("a file that was opened and never written opens for reading alone", arguments: [false, true])
    func readonlyOfUnwritten(isEncrypted: Bool) throws {
        func configuration(readonly: Bool) -> Configuration {
            var config = isEncrypted ? Databases.configuration() : Configuration()
            config.allowsUnencrypted = !isEncrypted
            config.readonly = readonly
            return config
        }
        let path = folder.path("app.db")
        let queue = try DatabaseQueue(path: path, configuration: configuration(readonly: false))
        #expect(bytes("app.db") == Data())
        let config = configuration(readonly: true)
        let readers: [any DatabaseReader] = [
            try DatabaseQueue(path: path, configuration: config), try DatabasePool(path: path, configuration: config),
        ]
        for reader in readers { #expect(try reader.read { try Int.fetchOne($0, sql: "PRAGMA page_count") } == 0) }
        #expect(bytes("app.db") == Data())
        try queue.write { try $0.execute(sql: "CREATE TABLE t(a)") }
        for reader in readers {
            #expect(try reader.read { try $0.rowCount() } == 0)
            try reader.close()
        }
    }

    @Test("accesses run on the queues that the program gives; a database that is only read has no queue for writes")
    func targetQueues() throws {
        // Story: writeTargetQueue was used by a read-only database as well.
        let key = DispatchSpecificKey<String>()
        func queue(_ name: String) -> DispatchQueue {
            let queue = DispatchQueue(label: name)
            queue.setSpecific(key: key, value: name)
            return queue
        }
        let (reading, writing) = (queue("reading"), queue("writing"))
        for readonly in [false, true] {
            let pool = try Databases.pool(folder) { config in
                config.targetQueue = reading
                config.writeTargetQueue = writing
                config.readonly = readonly
            }
            let name: (Database) -> String? = { _ in DispatchQueue.getSpecific(key: key) }
            #expect(try pool.read(name) == "reading")
            #expect(try pool.write(name) == (readonly ? "reading" : "writing"))
            try pool.close()
        }
    }

    @Test("pools use WAL; queues keep the file's mode unless they are told otherwise")
    func journalModes() throws {
        func mode(_ reader: any DatabaseReader) throws -> String? {
            try reader.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") }
        }
        let path = folder.path("queue.db")
        #expect(try mode(DatabaseQueue(path: path, configuration: Databases.configuration())) == "delete")
        let wal = Databases.configuration { $0.journalMode = .wal }
        #expect(try mode(DatabaseQueue(path: path, configuration: wal)) == "wal")
        #expect(try mode(DatabaseQueue(path: path, configuration: Databases.configuration())) == "wal")
        #expect(try mode(Databases.pool(folder)) == "wal")
    }

    @Test("a pool needs a file: its connections would have databases of their own", arguments: [":memory:", ""])
    func memoryPool(path: String) {
        let error = databaseError { try DatabasePool(path: path) }
        #expect(error?.message == "could not activate WAL mode at path: \(path)")
    }

    @Test("queues in memory need no key, and each has its own database")
    func memoryQueues() throws {
        let (first, second) = (DatabaseQueue(), try DatabaseQueue(path: ":memory:"))
        try first.write { try $0.execute(sql: "CREATE TABLE t(a)") }
        #expect(databaseError { try second.read { try $0.rowCount() } }?.message == "no such table: t")
        #expect(first.path == ":memory:")
    }

    @Test("an error of opening a queue in memory surfaces at its accesses")
    func failingMemoryQueue() {
        var config = Configuration()
        config.prepareDatabase { _ in throw NotNow() }
        let queue = DatabaseQueue(configuration: config)
        #expect(throws: NotNow.self) { try queue.read { _ in } }
        #expect(throws: NotNow.self) { try queue.write { _ in } }
        queue.interrupt()
    }

    @Test("the functions of prepareDatabase run in order on each connection; assigning replaces them, nil removes them")
    func preparation() throws {
        let calls = Mutex<[String]>([])
        let pool = try Databases.pool(folder) { config in
            config.prepareDatabase { db in calls.withLock { $0.append("first \(db)") } }
            config.prepareDatabase { db in calls.withLock { $0.append("second \(db)") } }
            config.label = "L"
        }
        try pool.read { _ in }
        #expect(
            calls.withLock { $0 } == ["first L.writer", "second L.writer", "first L.reader.1", "second L.reader.1"])
        var config = Configuration()
        config.prepareDatabase { _ in throw NotNow() }
        config.prepareDatabase = { (db: Database) in calls.withLock { $0 = ["\(db)"] } }
        try DatabaseQueue(configuration: config).read { _ in }
        #expect(calls.withLock { $0 } == ["CipherStore.DatabaseQueue"])
        config.prepareDatabase = nil
        #expect(config.prepareDatabase == nil)
        try DatabaseQueue(configuration: config).read { _ in }
        #expect(calls.withLock { $0.count } == 1)
    }

    @Test("foreign keys and double-quoted strings follow the configuration")
    func sqlSettings() throws {
        func run(_ sql: String, _ change: (inout Configuration) -> Void) -> ResultCode? {
            databaseError { try Databases.queueWithTable(change).write { try $0.execute(sql: sql) } }?.resultCode
        }
        let orphan = "CREATE TABLE c(a REFERENCES t(a)); CREATE UNIQUE INDEX i ON t(a); INSERT INTO c VALUES (1)"
        #expect(run(orphan) { _ in } == .SQLITE_CONSTRAINT)
        #expect(run(orphan) { $0.foreignKeysEnabled = false } == nil)
        let quoted = "INSERT INTO t VALUES (\"text\")"
        #expect(run(quoted) { _ in } == .SQLITE_ERROR)
        #expect(run(quoted) { $0.acceptsDoubleQuotedStringLiterals = true } == nil)
        #expect(run("BEGIN") { $0.allowsUnsafeTransactions = true } == .SQLITE_ERROR, "inside write it is too late")
        let unsafeQueue = try Databases.queueWithTable { $0.allowsUnsafeTransactions = true }
        try unsafeQueue.inDatabase { try $0.beginTransaction() }
        try unsafeQueue.inDatabase { try $0.commit() }
    }

    // MARK: Failed openings

    /// How many descriptors of this process are open on the database file.
    private func openDescriptors() throws -> Int {
        let target = URL(fileURLWithPath: folder.path("app.db")).resolvingSymlinksInPath().path
        return try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count {
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")) == target
        }
    }

    #if os(Linux)
        @Test("an opening that fails after it has read lets go of the file")
        func failedOpening() throws {
            try Databases.poolWithTable(folder).close()
            for _ in 0..<3 {
                #expect(throws: NotNow.self) {
                    try Databases.pool(folder) { config in
                        config.prepareDatabase { db in
                            #expect(try db.rowCount() == 0)
                            _ = try db.cachedStatement(sql: "SELECT a FROM t")
                            throw NotNow()
                        }
                    }
                }
            }
            #expect(try openDescriptors() == 0)
            let pool = try Databases.pool(folder)
            #expect(try pool.read { try $0.rowCount() } == 0)
            #expect(try openDescriptors() == 2)
        }

        @Test("a database that goes away closes its connections, busy statements of the program among them")
        func deallocation() throws {
            var pool: DatabasePool? = try Databases.poolWithTable(folder)
            try pool?.write { try $0.insert(1) }
            try pool?.read { _ = try $0.cachedStatement(sql: "SELECT a FROM t") }
            var statement: Statement? = try pool?.read { try $0.makeStatement(sql: "SELECT a FROM t") }
            #expect(try openDescriptors() == 2)
            pool = nil
            #expect(try openDescriptors() > 0, "the statement keeps its connection")
            _ = statement
            statement = nil
            #expect(try openDescriptors() == 0)
        }
    #endif
}
