import CipherObservation
import Foundation
import Testing

@testable import CipherDatabase

/// The tables of the history may contain anything: a program without this library can write them. Nothing traps.
@Suite struct HistoryDamageTests {
    private let file = TemporaryFile()

    private func open() throws -> DatabaseQueue {
        var config = Configuration()
        config.allowsUnencrypted = true
        return try DatabaseQueue(path: file.path, configuration: config)
    }

    /// A database with a history, that a stock program has written to.
    private func damaged(_ sql: String, at location: SourceLocation = #_sourceLocation) throws -> DatabaseQueue {
        let queue = try open()
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE, file)")
            try db.recordHistory(of: .allTables, columns: true, keeping: ["t": ["file"]])
            try db.execute(sql: "INSERT INTO t VALUES (1, 'a', 'f'), (2, 'b', 'f'); UPDATE t SET a = 'c' WHERE id = 1")
            try db.execute(sql: "DELETE FROM t WHERE id = 2; INSERT OR IGNORE INTO t VALUES (8, 'c', 0)")
            try db.registerHistoryReader("good")
        }
        try queue.close()
        #expect(StockConnection(file.path).execute(sql) == 0, sourceLocation: location)
        return try open()
    }

    /// Everything that reads the history.
    private static let uses: [(String, @Sendable (DatabaseQueue) throws -> Void)] = [
        ("status", { queue in _ = try queue.read { try $0.historyStatus() } }),
        ("readers", { queue in _ = try queue.read { try $0.historyReaders() } }),
        ("limits", { queue in _ = try queue.read { try $0.historyLimits() } }),
        ("page", { queue in _ = try queue.read { try $0.history(since: $0.oldestHistoryToken(), limit: 2) } }),
        (
            "all",
            { queue in
                _ = try queue.read { try $0.history(since: $0.oldestHistoryToken(), excluding: $0.historyAuthor) }
            }
        ),
        ("token", { queue in _ = try queue.read { try $0.historyToken(beforeLast: 3) } }),
        ("entries", { queue in _ = try queue.read { try $0.historyEntries(after: 0, limit: 99) } }),
        ("order", { queue in _ = try queue.read { try $0.isHistoryInOrder() } }),
        ("faults", { queue in _ = try queue.read { try $0.historyTriggerFaults() } }),
        (
            "look",
            { queue in
                var commits = ExternalCommits()
                try queue.inDatabase { db in
                    commits.begin(db)
                    _ = try commits.poll(db)
                }
            }
        ),
        ("write", { queue in try queue.write { try $0.execute(sql: "INSERT INTO t VALUES (10, 10, 10)") } }),
        ("record", { queue in try queue.write { try $0.recordHistory(of: .allTables) } }),
        ("create", { queue in try queue.write { try $0.execute(sql: "CREATE TABLE later (a)") } }),
        (
            "acknowledge",
            { queue in try queue.write { try $0.acknowledgeHistory(upTo: $0.historyToken(), by: "good") } }
        ),
        ("purge", { queue in try queue.purgeHistory() }),
        ("stop", { queue in try queue.write { try $0.stopRecordingHistory(of: .allTables) } }),
    ]

    /// Uses the history in every way.
    ///
    /// - Returns: The uses that failed because the history is damaged.
    private func failures(_ queue: DatabaseQueue, at location: SourceLocation = #_sourceLocation) -> [String] {
        Self.uses.compactMap { name, use in
            do {
                try use(queue)
                return nil
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
                let message = error.message ?? ""
                #expect(message.contains("the history of changes is damaged"), sourceLocation: location)
                return name
            } catch {
                Issue.record("\(name): \(error)", sourceLocation: location)
                return name
            }
        }
    }

    private static func definition(_ change: String) -> String {
        "UPDATE cipherstore_history_table SET definition = json_set(definition, \(change))"
    }

    @Test(
        "a description of a recorded table without valid content is an error",
        arguments: [
            "INSERT INTO cipherstore_history_table DEFAULT VALUES",
            "UPDATE cipherstore_history_table SET name = NULL",
            "UPDATE cipherstore_history_table SET name = x'ff'",
            "UPDATE cipherstore_history_table SET state = NULL",
            "UPDATE cipherstore_history_table SET state = 'x'",
            "UPDATE cipherstore_history_table SET definition = NULL",
            "UPDATE cipherstore_history_table SET definition = 5",
            "UPDATE cipherstore_history_table SET id = 9223372036854775807",
            "UPDATE cipherstore_history_table SET id = -9223372036854775807",
            definition("'$.key', json('[]')"), definition("'$.key', json('[\"id\",\"a\",\"file\"]')"),
            definition("'$.key', json('[\"id\",\"a\"]'), '$.isRowID', json('false')"),
            definition("'$.kept', json('[\"a\",\"file\"]')"), definition("'$.kept', json('[\"missing\"]')"),
        ])
    func tables(sql: String) throws {
        let failures = failures(try damaged(sql))
        #expect(failures.contains("entries") && failures.contains("status"), "\(failures)")
    }

    @Test(
        "a state without valid content is an error",
        arguments: [
            "history = NULL", "history = x'ff'", "purged = NULL", "purged = 'x'", "purged = -1", "print = NULL",
            "settings = NULL", "settings = '{}'", "settings = x'ff'",
        ])
    func states(change: String) throws {
        let failures = failures(try damaged("UPDATE cipherstore_history_state SET \(change)"))
        #expect(failures.contains("status") && failures.contains("token"), "\(failures)")
    }

    @Test(
        "a change without valid content is an error where it is read",
        arguments: ["kind = NULL", "kind = 'x'", "kind = 9223372036854775807", "kind = -9", "kind = 8", "kind = 15"])
    func changes(change: String) throws {
        let failures = failures(try damaged("UPDATE cipherstore_history SET \(change) WHERE seq = 4"))
        #expect(failures.contains("entries") && failures.contains("all"), "\(failures)")
    }

    @Test(
        "numbers at the ends of their range, and values of other types, overflow nothing",
        arguments: [
            "UPDATE cipherstore_history SET seq = 9223372036854775807 WHERE seq = 5",
            "UPDATE cipherstore_history SET seq = 9223372036854775800 WHERE seq > 0 AND seq = 6",
            "UPDATE cipherstore_history SET seq = -9223372036854775808 WHERE seq = 2",
            "UPDATE cipherstore_history SET seq = -seq",
            "UPDATE cipherstore_history SET origin = 'x', columns = x'00', key1 = 'x', old1 = NULL",
            "UPDATE cipherstore_history SET origin = 9223372036854775807, columns = -1, key1 = NULL",
            "UPDATE cipherstore_history SET origin = -9223372036854775808",
            "UPDATE cipherstore_history_author SET label = x'ff'",
            "DELETE FROM cipherstore_history", "DELETE FROM cipherstore_history_author",
        ])
    func extremes(sql: String) throws {
        let queue = try damaged(sql)
        let found = failures(queue)
        #expect(!found.contains("write") && !found.contains("status"), "\(found)")
    }

    @Test("changes with the highest numbers are purged")
    func lastNumbers() throws {
        let queue = try damaged(
            """
            DELETE FROM cipherstore_history WHERE seq < 5;
            UPDATE cipherstore_history SET seq = seq + 9223372036854775795
            """)
        try queue.write { try $0.setHistoryLimits(HistoryLimits(count: 1)) }
        try queue.purgeHistory()
        #expect(try queue.read { try $0.historyStatus() }?.changeCount == 1)
    }

    @Test("an author without valid content is an error of pages, and its changes are those of others")
    func authors() throws {
        let found = failures(try damaged("UPDATE cipherstore_history_author SET identity = NULL"))
        #expect(found.contains("all") && !found.contains("entries") && !found.contains("look"), "\(found)")
    }

    @Test("what belongs to the store is not dropped, renamed or altered by statements of the program")
    func refused() throws {
        let queue = try damaged("SELECT 1")
        for sql in [
            "DROP TABLE cipherstore_history", "ALTER TABLE cipherstore_history_state RENAME TO x",
            "ALTER TABLE main.CipherStore_History ADD COLUMN x", "DROP TABLE IF EXISTS cipherstore_history_table",
        ] {
            let error = #expect(throws: DatabaseError.self) { try queue.write { try $0.execute(sql: sql) } }
            #expect(error?.resultCode == .SQLITE_AUTH && error?.message?.contains("belongs to the store") == true)
        }
        #expect(failures(queue) == [])
    }

    @Test("without a table of the history, its use is an error that says so; recording again makes a new one")
    func dropped() throws {
        for (table, _) in HistoryTables.all {
            let queue = try damaged("SELECT 1")
            #expect(StockConnection(file.path).execute("DROP TABLE \(table)") == 0)
            for use in [
                { _ = try $0.historyEntries(after: 0, limit: 99) }, { _ = try $0.historyReaderRows() },
                { _ = try $0.historyTriggerFaults() },
            ] as [(Database) throws -> Void] {
                let error = #expect(throws: DatabaseError.self) { try queue.read(use) }
                #expect(error?.resultCode == .SQLITE_CORRUPT && error?.message?.contains("has lost \(table)") == true)
            }
            #expect(try queue.read { try $0.isHistoryBroken() })
            try queue.write { db in
                try db.recordHistory(of: .tables(["t"]))
                try db.execute(sql: "INSERT INTO t VALUES (10, 10, 10)")
            }
            #expect(try queue.read { try !$0.isHistoryBroken() && $0.isHistoryInOrder() })
            #expect(try queue.read { try $0.historyEntries(after: 0, limit: 99).last?.operation } == .inserted)
            try queue.close()
            try FileManager.default.removeItem(atPath: file.path)
        }
    }

    @Test(
        "a registered reader without valid content has expired, keeps nothing, and can be registered again or removed",
        arguments: [
            "INSERT INTO cipherstore_history_reader (name) VALUES ('x')",
            "INSERT INTO cipherstore_history_reader VALUES ('x', 'y', 0, NULL, 0, NULL)",
            "INSERT INTO cipherstore_history_reader VALUES ('x', -9223372036854775808, 0, NULL, 0, NULL)",
            "INSERT INTO cipherstore_history_reader VALUES ('x', 1, NULL, NULL, 0, NULL)",
            "INSERT INTO cipherstore_history_reader VALUES ('x', 1, 0, 'y', 0, NULL)",
            "INSERT INTO cipherstore_history_reader VALUES ('x', 1, 0, NULL, 1e300, NULL)",
            "INSERT INTO cipherstore_history_reader VALUES ('x', 1, 0, NULL, NULL, NULL)",
            "INSERT INTO cipherstore_history_reader VALUES ('x', 1, 0, NULL, 0, x'ff')",
        ])
    func readers(sql: String) throws {
        let queue = try damaged(
            sql + "; INSERT INTO cipherstore_history_reader VALUES (x'00', 1, 0, NULL, 0, NULL)")
        let readers = try queue.read { try $0.historyReaders() }
        #expect(readers.map(\.name) == ["good", "x"] && readers.map(\.isExpired) == [false, true])
        #expect(readers[1].expirationReason?.isEmpty == false)
        #expect(abs(readers[1].date.timeIntervalSince1970) < 1e12)
        let error = #expect(throws: HistoryError.self) { try queue.read { try $0.historyToken(ofReader: "x") } }
        #expect(error?.code == .expired)
        try queue.writeWithoutTransaction { try $0.setHistoryLimits(HistoryLimits(count: 2)) }
        try queue.purgeHistory()
        #expect(try queue.read { try $0.historyStatus() }?.changeCount == 2)
        try queue.writeWithoutTransaction { db in
            try db.registerHistoryReader("x")
            #expect(try db.historyToken(ofReader: "x") == db.historyToken())
            try db.removeHistoryReader("x")
        }
        #expect(try queue.read { try $0.historyReaders() }.map(\.name) == ["good"])
    }

    // MARK: Limits

    @Test("limits of for ever purge nothing, and stop no writer")
    func endlessLimits() throws {
        let queue = try damaged("SELECT 1")
        for age in [Duration.seconds(Int64.max), .seconds(1e15), .nanoseconds(Int64.max)] {
            try queue.writeWithoutTransaction { db in
                try db.setHistoryLimits(HistoryLimits(count: .max, bytes: .max, age: age))
                let limits = try db.historyLimits()
                #expect(limits.count == .max && limits.bytes == .max && limits.age >= .seconds(1_000_000_000))
            }
            try queue.purgeHistory()
        }
        #expect(try queue.read { try $0.historyStatus() }?.changeCount == 6)
    }

    @Test(
        "stored limits beyond their range count as the nearest ones",
        arguments: [
            ("'$.maximumSeconds', 1e300", 6), ("'$.maximumSeconds', 9223372036854775807.0", 6),
            ("'$.maximumSeconds', -1e300", 1), ("'$.maximumCount', -9223372036854775807", 1),
            ("'$.maximumBytes', -9223372036854775807", 1),
        ])
    func storedLimits(change: String, count: Int64) throws {
        let queue = try damaged("UPDATE cipherstore_history_state SET settings = json_set(settings, \(change))")
        let limits = try queue.read { try $0.historyLimits() }
        #expect(limits.count >= 0 && limits.bytes >= 0 && limits.age >= .zero)
        // Later than the changes.
        let passed = ContinuousClock.now + .milliseconds(5)
        while ContinuousClock.now < passed {}
        try queue.purgeHistory()
        #expect(try queue.read { try $0.historyStatus() }?.changeCount == count)
    }

    @Test("a token before fewer than no changes is that of the end, and one before more than all that of the beginning")
    func tokenBefore() throws {
        let queue = try damaged("SELECT 1")
        for count in [Int.min, -1, 0] {
            #expect(try queue.read { try $0.historyToken(beforeLast: count) == $0.historyToken() }, "\(count)")
        }
        #expect(try queue.read { try $0.historyToken(beforeLast: .max) == $0.oldestHistoryToken() })
    }
}
