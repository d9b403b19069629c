import CipherObservation
import CipherRecords
import CipherSchema
import Foundation
import Testing

@testable import CipherDatabase

/// However tables are renamed, dropped and made again, each is recorded once.
@Suite struct HistoryRebuildTests {
    private let file = TemporaryFile()

    private func open() throws -> DatabaseQueue {
        var config = Configuration()
        config.allowsUnencrypted = true
        return try DatabaseQueue(path: file.path, configuration: config)
    }

    /// A database with the recorded tables `t` and `u`.
    private func recorded(_ scope: HistoryScope) throws -> DatabaseQueue {
        let queue = try open()
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (id INTEGER PRIMARY KEY, a, file); INSERT INTO t VALUES (1, 'x', 'f');
                    CREATE TABLE u (id INTEGER PRIMARY KEY, a, file); INSERT INTO u VALUES (1, 'x', 'f');
                    """)
            try db.recordHistory(of: scope, keeping: ["t": ["file"]])
        }
        return queue
    }

    /// Expects that each change of a table is recorded once, with the value that is to be kept.
    private func expectOnce(
        _ queue: DatabaseQueue, _ table: String = "t", at location: SourceLocation = #_sourceLocation
    ) throws {
        let token = try queue.read { try $0.historyToken() }
        try queue.write { db in
            try db.execute(sql: "INSERT INTO \(table) VALUES (5, 6, 7); DELETE FROM \(table) WHERE id = 5")
        }
        let found = try queue.history(since: token).transactions.flatMap(\.changes)
        #expect(found.map(\.kind) == [.inserted, .deleted], sourceLocation: location)
        #expect(found.last?.formerValues == ["file": 7.databaseValue], sourceLocation: location)
        let isInOrder = try queue.read { try $0.isHistoryInOrder() }
        #expect(isInOrder, sourceLocation: location)
    }

    // If all tables are recorded, the new table was recorded before it got the old name, and then under both.
    @Test("where all tables are recorded, a table that is made again in a migration is recorded once")
    func twelveSteps() throws {
        let queue = try recorded(.allTables)
        var migrator = DatabaseMigrator()
        for number in 1...2 {
            migrator.registerMigration("rebuild \(number)") { db in
                try db.execute(
                    sql: """
                        CREATE TABLE new_t (id INTEGER PRIMARY KEY, a NOT NULL, file);
                        INSERT INTO new_t SELECT * FROM t;
                        DROP TABLE t;
                        ALTER TABLE new_t RENAME TO t;
                        """)
            }
        }
        try migrator.migrate(queue)
        try expectOnce(queue)
        let tables = try queue.read { try $0.historyStatus() }?.tableNames
        #expect(tables == ["t", "u"])
    }

    @Test("a recorded table that gets the name of a dropped one is recorded once", arguments: [false, true])
    func renamed(byStock: Bool) throws {
        var queue = try recorded(.tables(["t", "u"]))
        let sql = "DROP TABLE t; ALTER TABLE u RENAME TO t"
        if byStock {
            try queue.close()
            #expect(StockConnection(file.path).execute(sql) == 0)
            queue = try open()
        } else {
            try queue.write { try $0.execute(sql: sql) }
        }
        try expectOnce(queue)
    }

    @Test("two recorded tables that exchange their names stay recorded")
    func exchangedNames() throws {
        let queue = try recorded(.tables(["t", "u"]))
        try queue.close()
        #expect(
            StockConnection(file.path).execute(
                "ALTER TABLE t RENAME TO v; ALTER TABLE u RENAME TO t; ALTER TABLE v RENAME TO u") == 0)
        let again = try open()
        try expectOnce(again, "u")
        let names = try again.read { try $0.historyStatus() }?.tableNames
        #expect(names == ["t", "u"])
    }

    @Test("a store in which a table is recorded twice is repaired when it is opened")
    func repaired() throws {
        let queue = try recorded(.tables(["t"]))
        try queue.write { db in
            db.isInHistoryUpkeep = true
            defer { db.isInHistoryUpkeep = false }
            try db.execute(
                sql: """
                    INSERT INTO cipherstore_history_table (name, state, definition)
                    SELECT name, state, definition FROM cipherstore_history_table
                    """)
            let facts = try #require(try TableFacts(of: "t", in: db))
            let definition = HistoryUpkeep.definition(facts, notesColumns: false, kept: ["file"])
            for sql in HistoryUpkeep.expectedTriggers(2, facts, definition).values { try db.execute(sql: sql) }
        }
        let token = try queue.read { try $0.historyToken() }
        try queue.write { try $0.execute(sql: "INSERT INTO t VALUES (3, 3, 3)") }
        let doubled = try queue.history(since: token).transactions.flatMap(\.changes)
        #expect(doubled.count == 2)
        #expect(try queue.read { try $0.isHistoryInOrder() } == false)
        try queue.close()
        try expectOnce(try open())
    }

    @Test("a table that is named several times is recorded once")
    func namedTwice() throws {
        let queue = try recorded(.tables(["t", "T", "t"]))
        try expectOnce(queue)
        try queue.write { try $0.recordHistory(of: .tables(["T", "t"]), keeping: ["T": ["FILE", "file"]]) }
        try expectOnce(queue)
        #expect(try queue.read { try $0.historyEntries(after: 0, limit: 99) }.count { $0.operation == .reset } == 1)
    }
}
