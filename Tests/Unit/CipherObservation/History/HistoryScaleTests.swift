import CipherDatabase
import CipherObservation
import Foundation
import Synchronization
import Testing

/// The history of a database with very many tables.
// Story: 2,000 tables took 9.9 s to record and 45.6 s to stop, and each of 5,000 triggers scanned the whole schema again.
@Suite(.serialized) struct HistoryScaleTests {
    private let path = NSTemporaryDirectory() + "/history-\(UUID().uuidString).db"
    private let configuration: Configuration = {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        return configuration
    }()
    /// An encrypted database is defensive: SQL may not write its schema.
    private let encrypted: Configuration = {
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.useRawKey(Data(repeating: 0x2a, count: 32)) }
        return configuration
    }()

    private func open(tables count: Int, _ configuration: Configuration? = nil) throws -> DatabasePool {
        let pool = try DatabasePool(path: path, configuration: configuration ?? self.configuration)
        try pool.write { db in
            for number in 0..<count {
                try db.execute(sql: "CREATE TABLE t\(number) (id INTEGER PRIMARY KEY, a TEXT UNIQUE, b)")
            }
        }
        return pool
    }

    private func remove() {
        for end in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + end) }
    }

    private func triggers(_ db: Database) throws -> Int? {
        try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'trigger'")
    }

    private func changes(_ db: Database) throws -> Int? {
        try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM cipherstore_history WHERE kind & 7 <> 5")
    }

    @Test("recording of thousands of tables begins and ends in a time that grows with their number")
    func manyTables() throws {
        defer { remove() }
        let count = Int(ProcessInfo.processInfo.environment["CIPHERSTORE_HISTORY_TABLES"] ?? "") ?? 1_500
        let pool = try open(tables: count)
        let other = try DatabasePool(path: path, configuration: configuration)
        #expect(try other.read(triggers) == 0)
        let clock = ContinuousClock()
        let beginning = try clock.measure { try pool.write { try $0.recordHistory(of: .allTables) } }
        #expect(try pool.read(triggers) == count * 6)
        // Connections that had read the former schema record as well.
        for (number, writer) in [other, pool].enumerated() {
            try writer.write { try $0.execute(sql: "INSERT INTO t\(count - 1) (a) VALUES (?)", arguments: [number]) }
        }
        #expect(try other.read(changes) == 2)
        try other.close()
        let opening = try clock.measure {
            let third = try DatabasePool(path: path, configuration: configuration)
            try third.close()
        }
        let end = try clock.measure { try pool.write { try $0.stopRecordingHistory(of: .allTables) } }
        #expect(try pool.read(triggers) == 0)
        try pool.write { try $0.execute(sql: "INSERT INTO t0 (a) VALUES ('x')") }
        #expect(try pool.read(changes) == 2)
        #expect(try pool.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
        // A debug build takes 4, 1 and 2 s; the quadratic way took 50 and 340 s for 2,000.
        #expect(beginning < .seconds(15) && end < .seconds(15) && opening < .seconds(15))
    }

    // Story: the triggers were entered as rows of the schema, which DEFENSIVE refused: an encrypted store recorded no more
    // than 24 tables in one call.
    @Test("an encrypted database begins and ends the recording of many tables, and its schema stays closed to SQL")
    func encryptedTables() throws {
        defer { remove() }
        let pool = try open(tables: 60, encrypted)
        try pool.write { try $0.recordHistory(of: .allTables) }
        #expect(try pool.read(triggers) == 360)
        try pool.write { try $0.execute(sql: "INSERT INTO t7 (a) VALUES ('x')") }
        #expect(try pool.read(changes) == 1)
        func expectDefended() {
            #expect(throws: DatabaseError.self) {
                try pool.writeWithoutTransaction { db in
                    try db.execute(sql: "PRAGMA writable_schema = ON")
                    try db.execute(sql: "DELETE FROM sqlite_schema WHERE name = 't9'")
                }
            }
        }
        expectDefended()
        try pool.write { try $0.stopRecordingHistory(of: .allTables) }
        #expect(try pool.read(triggers) == 0)
        expectDefended()
        try pool.recordHistory(of: .allTables)
        #expect(try pool.read(triggers) == 360)
        expectDefended()
        try pool.close()
    }

    // Story: all tables were recorded in one transaction, for which every other writer waited.
    @Test("a recording of many tables in parts is continued after a process has ended between two parts")
    func parts() throws {
        defer { remove() }
        let pool = try open(tables: 50, encrypted)
        func status() throws -> (tables: Int, all: Bool)? {
            try pool.read { db in
                try db.historyState().map { (try db.recordedTables()?.count ?? 0, $0.settings.recordsAllTables) }
            }
        }
        let request = HistoryRequest(tables: nil, notesColumns: false, kept: [:])
        let parts = HistoryParts(beginning: request, tablesInPart: 20)
        #expect(try !pool.writeWithoutTransaction(parts.next))
        #expect(try status()?.tables == 20 && status()?.all == false)
        // A table is recorded as a whole, or not at all.
        #expect(try pool.read(triggers) == 120)
        // The process ends. An opening does not record the others.
        try pool.close()
        let second = try DatabasePool(path: path, configuration: encrypted)
        #expect(try second.read(triggers) == 120)
        let more = HistoryParts(beginning: request, tablesInPart: 20)
        #expect(try !second.writeWithoutTransaction(more.next))
        // Another connection changes the schema between two parts: the work is determined again.
        try second.write { db in
            try db.execute(sql: "DROP TABLE t49; CREATE TABLE u (a)")
        }
        #expect(try second.writeWithoutTransaction(more.next))
        #expect(try second.read { try $0.recordedTables()?.count } == 50)
        #expect(try second.read { try $0.recordedTables()?.contains("u") } == true)
        try second.write { try $0.execute(sql: "CREATE TABLE v (a)") }
        #expect(try second.read { try $0.recordedTables()?.contains("v") } == true, "those that are created later too")

        let end = HistoryParts(ending: nil, tablesInPart: 20)
        #expect(try !second.writeWithoutTransaction(end.next))
        try second.close()
        let third = try DatabasePool(path: path, configuration: encrypted)
        #expect(try third.read { try $0.recordedTables()?.count } == 31, "an opening records none of them again")
        try third.stopRecordingHistory(of: .allTables)
        #expect(try third.read(triggers) == 0)
        try third.recordHistory(of: .tables(["t1", "T1", "u"]))
        #expect(try third.read { try $0.recordedTables() } == ["t1", "u"])
        try third.close()
    }

    // Story: each part compiled statements after its triggers, so SQLite read all triggers of the database again while every
    // other writer waited.
    @Test("a part writes the schema last: no statement after it makes SQLite read the schema before the commit")
    func orderOfStatements() throws {
        defer { remove() }
        let pool = try open(tables: 60)
        let lines = Mutex<[String]>([])
        pool.writeWithoutTransaction { db in db.trace { event in lines.withLock { $0.append("\(event)") } } }
        /// The statements between the last row of the schema and the commit, of all parts.
        func last(_ parts: HistoryParts) throws -> (transactions: Int, statements: [String]) {
            lines.withLock { $0 = [] }
            while try !pool.writeWithoutTransaction(parts.next) {}
            var (transactions, statements): (Int, [String]) = (0, [])
            for part in lines.withLock({ $0 }).split(whereSeparator: { $0.hasPrefix("COMMIT") }) {
                guard let place = part.lastIndex(where: { $0.contains("main.sqlite_schema") && !$0.contains("SELECT") })
                else { continue }
                transactions += 1
                statements += part[part.index(after: place)...]
            }
            return (transactions, statements)
        }
        let request = HistoryRequest(tables: nil, notesColumns: false, kept: [:])
        for parts in [HistoryParts(beginning: request, tablesInPart: 20), HistoryParts(ending: nil, tablesInPart: 20)] {
            let (transactions, statements) = try last(parts)
            #expect(transactions == 3)
            #expect(statements.allSatisfy { $0.hasPrefix("PRAGMA") || $0.hasPrefix("RELEASE") }, "\(statements)")
        }
        #expect(try pool.read(triggers) == 0)
        try pool.close()
    }

    @Test("a trigger of the program that has the name of one of many new triggers is an error, and stays")
    func takenName() throws {
        defer { remove() }
        let pool = try open(tables: 60)
        let name = "CipherStore_History_57_Insert"
        try pool.write { try $0.execute(sql: "CREATE TRIGGER \(name) AFTER INSERT ON t0 BEGIN SELECT 1; END") }
        #expect(throws: DatabaseError.self) { try pool.write { try $0.recordHistory(of: .allTables) } }
        #expect(try pool.read(triggers) == 1)
        try pool.write { try $0.execute(sql: "DROP TRIGGER \(name); INSERT INTO t0 (a) VALUES ('x')") }
        try pool.recordHistory(of: .allTables)
        #expect(try pool.read(triggers) == 360)
        try pool.close()
    }

    @Test("many triggers that were rolled back are gone, for this connection and others, and the schema stays closed")
    func rolledBack() throws {
        struct Failure: Error {}
        defer { remove() }
        let pool = try open(tables: 60)
        #expect(throws: Failure.self) {
            try pool.write { db in
                try db.recordHistory(of: .allTables)
                #expect(try triggers(db) == 360)
                throw Failure()
            }
        }
        #expect(try pool.read(triggers) == 0)
        try pool.write { try $0.execute(sql: "INSERT INTO t7 (a) VALUES ('x')") }
        try pool.write { try $0.recordHistory(of: .allTables) }
        try pool.write { try $0.execute(sql: "UPDATE t7 SET a = 'y'") }
        #expect(try pool.read(changes) == 1)
        #expect(throws: DatabaseError.self) {
            try pool.write { try $0.execute(sql: "DELETE FROM sqlite_schema WHERE name = 't9'") }
        }
        #expect(throws: Failure.self) {
            try pool.write { db in
                try db.stopRecordingHistory(of: .allTables)
                throw Failure()
            }
        }
        try pool.write { try $0.execute(sql: "UPDATE t7 SET a = 'z'") }
        #expect(try pool.read(changes) == 2)
        try pool.close()
    }

    @Test("the rows are those of CREATE TRIGGER: an opening finds nothing to repair")
    func sameRows() throws {
        defer { remove() }
        let pool = try open(tables: 40)
        try pool.write { try $0.recordHistory(of: .allTables) }
        func rows(_ pattern: String) throws -> [Row] {
            try pool.read { db in
                try Row.fetchAll(
                    db,
                    sql: """
                        SELECT type, tbl_name, rootpage, sql FROM sqlite_schema
                        WHERE type = 'trigger' AND tbl_name GLOB ? ORDER BY rowid
                        """, arguments: [pattern])
            }
        }
        let entered = try rows("t3")
        let version = try pool.read { try $0.schemaVersion() }
        let notices = Mutex<[String]>([])
        var observed = configuration
        observed.onNotice = { notice in notices.withLock { $0.append(notice) } }
        try DatabasePool(path: path, configuration: observed).close()
        #expect(notices.withLock { $0 } == [])
        #expect(try pool.read { try $0.schemaVersion() } == version)
        // One table alone gets its triggers by CREATE TRIGGER.
        try pool.write { db in
            let sql = entered.map { $0["sql"] as String }
            for row in entered {
                let name = (row["sql"] as String).split(separator: "\"")[1]
                try db.execute(sql: "DROP TRIGGER \"\(name)\"")
            }
            // Made again after the first statement that dropped one.
            #expect(
                try String.fetchAll(db, sql: "SELECT sql FROM sqlite_schema WHERE tbl_name = 't3' AND type = 'trigger'")
                    .sorted() == sql.sorted())
        }
        try pool.close()
    }
}
