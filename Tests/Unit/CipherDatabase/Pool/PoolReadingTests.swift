import CipherDatabase
import Foundation
import Synchronization
import TestKit
import Testing

@Suite struct PoolReadingTests {
    struct NotNow: Error {}
    let folder = TemporaryFolder()

    // MARK: What a read sees

    @Test("a read does not wait for a writer, and sees what was committed before")
    func readBesideWrite() throws {
        let pool = try Databases.poolWithTable(folder)
        let (isWriting, mayEnd) = (Gate(), Gate())
        let threads = Threads()
        threads.start {
            try pool.write { db in
                try db.insert(1)
                isWriting.open()
                mayEnd.wait()
            }
        }
        #expect(isWriting.wait())
        #expect(try pool.read { try $0.rowCount() } == 0)
        mayEnd.open()
        threads.join()
        #expect(try pool.read { try $0.rowCount() } == 1)
    }

    @Test("a read sees one moment, and an unsafe read sees each commit")
    func isolation() throws {
        let pool = try Databases.poolWithTable(folder)
        let counts = try pool.read { db in
            let before = try db.rowCount()
            try pool.write { try $0.insert(1) }
            return [before, try db.rowCount()]
        }
        #expect(counts == [0, 0])
        let unsafeCounts = try pool.unsafeRead { db in
            let before = try db.rowCount()
            try pool.write { try $0.insert(2) }
            return [before, try db.rowCount()]
        }
        #expect(unsafeCounts == [1, 2])
    }

    @Test("readers see a write as soon as it has returned, and a schema that it changed")
    func freshness() throws {
        let pool = try Databases.poolWithTable(folder)
        for count in 1...200 {
            try pool.write { try $0.insert(count) }
            #expect(try pool.read { try $0.rowCount() } == count)
        }
        for column in 1...5 {
            try pool.write { try $0.execute(sql: "ALTER TABLE t ADD b\(column) DEFAULT \(column)") }
            #expect(try pool.read { try Row.fetchOne($0, sql: "SELECT * FROM t") }?.count == column + 1)
        }
    }

    @Test("a read that writes throws SQLITE_READONLY, and the pool goes on")
    func writingRead() throws {
        let pool = try Databases.poolWithTable(folder)
        #expect(databaseError { try pool.read { try $0.insert(1) } }?.resultCode == .SQLITE_READONLY)
        #expect(databaseError { try pool.unsafeRead { try $0.insert(1) } }?.resultCode == .SQLITE_READONLY)
        #expect(try pool.read { try $0.rowCount() } == 0)
    }

    // MARK: Readers

    @Test("no more readers than allowed read at once; the others wait and go on", arguments: [1, 3])
    func maximumReaderCount(limit: Int) throws {
        let pool = try Databases.poolWithTable(folder) { $0.maximumReaderCount = limit }
        let inside = Mutex(0)
        let most = Mutex(0)
        let mayEnd = Gate()
        let threads = Threads()
        for _ in 0..<limit * 3 {
            threads.start {
                try pool.read { db in
                    let count = inside.withLock {
                        $0 += 1; return $0
                    }
                    most.withLock { $0 = max($0, count) }
                    _ = try db.rowCount()
                    mayEnd.wait()
                    inside.withLock { $0 -= 1 }
                }
            }
        }
        #expect(waitUntil { inside.withLock { $0 } == limit })
        mayEnd.open(limit * 3)
        threads.join()
        #expect(most.withLock { $0 } == limit)
    }

    @Test("readers are opened side by side")
    func parallelOpening() throws {
        let opening = Mutex(0)
        let pool = try Databases.poolWithTable(folder) { config in
            config.prepareDatabase { db in
                guard db.description.contains("reader") else { return }
                opening.withLock { $0 += 1 }
                // Opened one after another, the first would wait here for ever.
                if !waitUntil(within: .seconds(10), { opening.withLock { $0 } >= 3 }) { throw NotNow() }
            }
        }
        let threads = Threads()
        let mayEnd = Gate()
        for _ in 0..<3 {
            threads.start {
                try pool.read { _ in
                    mayEnd.open(2)
                    mayEnd.wait()
                }
            }
        }
        threads.join()
        #expect(opening.withLock { $0 } == 3)
    }

    @Test("an error of opening a reader is thrown to its caller, and the place of the reader stays")
    func failingReader() throws {
        let failures = Mutex(0)
        let pool = try Databases.poolWithTable(folder) { config in
            config.maximumReaderCount = 1
            config.prepareDatabase { db in
                guard db.description.contains("reader") else { return }
                if failures.withLock({
                    $0 += 1; return $0
                }) <= 4 {
                    throw NotNow()
                }
            }
        }
        #expect(throws: NotNow.self) { try pool.read { _ in } }
        // Those who wait while another's opening fails try for themselves.
        let results = Mutex<[Bool]>([])
        let threads = Threads()
        for _ in 0..<8 {
            threads.start {
                let isRead = (try? pool.read { try $0.rowCount() }) == 0
                results.withLock { $0.append(isRead) }
            }
        }
        threads.join()
        #expect(results.withLock { $0.filter { !$0 }.count } == 3)
        #expect(try pool.read { try $0.rowCount() } == 0)
    }

    @Test("readers that are free can be closed, and the next reads open new ones")
    func invalidation() throws {
        let pool = try Databases.poolWithTable(folder)
        #expect(try pool.read { $0.description } == "CipherStore.DatabasePool.reader.1")
        #expect(try pool.read { $0.description } == "CipherStore.DatabasePool.reader.1")
        pool.invalidateReadOnlyConnections()
        #expect(try pool.read { $0.description } == "CipherStore.DatabasePool.reader.2")
    }

    // MARK: Names

    @Test("connections are named by the label, or by the kind of database")
    func names() throws {
        for (label, base) in [(nil, "CipherStore.DatabasePool"), ("L", "L")] as [(String?, String)] {
            let folder = TemporaryFolder()
            let pool = try Databases.pool(folder) { $0.label = label }
            #expect(try pool.write { $0.description } == base + ".writer")
            #expect(try pool.read { $0.description } == base + ".reader.1")
            #expect(try pool.read { $0.configuration.label } == label)
            #expect(try pool.read { $0.configuration.readonly })
            #expect(try pool.write { !$0.configuration.readonly })
        }
        #expect(try DatabaseQueue().read { $0.description } == "CipherStore.DatabaseQueue")
        var config = Configuration()
        config.label = "L"
        #expect(try DatabaseQueue(configuration: config).write { $0.description } == "L")
    }

    @Test("an interruption ends the statements under way of writer and readers, and nothing after them")
    func interruption() throws {
        let pool = try Databases.poolWithTable(folder)
        let errors = Mutex<[ResultCode]>([])
        let started = Gate()
        let threads = Threads()
        @Sendable func run(_ access: ((Database) throws -> Void) throws -> Void) {
            let error = databaseError {
                try access { db in
                    started.open()
                    _ = try Int.fetchOne(db, sql: endlessSQL)
                }
            }
            if let error { errors.withLock { $0.append(error.resultCode) } }
        }
        threads.start { run { try pool.write($0) } }
        threads.start { run { try pool.read($0) } }
        threads.start { run { try pool.read($0) } }
        for _ in 0..<3 { #expect(started.wait()) }
        #expect(
            waitUntil {
                pool.interrupt(); return errors.withLock { $0.count } == 3
            })
        threads.join()
        #expect(errors.withLock { $0 } == Array(repeating: .SQLITE_INTERRUPT, count: 3))
        pool.interrupt()
        #expect(try pool.read { try $0.rowCount() } == 0)
        try pool.write { try $0.insert(1) }
    }
}
