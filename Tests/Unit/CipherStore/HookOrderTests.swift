import CSQLCipher
import CipherStore
import Foundation
import TestKit
import Testing

/// Other acts of a preparing function, before and after the key and the header pragma.
@Suite struct HookOrderTests {
    private static let header = "PRAGMA cipher_plaintext_header_size = 32"
    private static let otherPragmas = [
        "PRAGMA cache_size = -4000", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA user_version",
        "PRAGMA foreign_keys = ON", "PRAGMA busy_timeout = 1000", "PRAGMA mmap_size = 0", "PRAGMA secure_delete = ON",
        "PRAGMA temp_store = MEMORY", "PRAGMA recursive_triggers = ON", "-- a comment\n;",
        "/* a; b */ PRAGMA cache_size = 9; -- c\n PRAGMA synchronous = 'normal';;PRAGMA \"busy_timeout\" = 99 ;  ",
    ]
    /// Pragmas that a connection which only reads cannot run.
    private static let writingPragmas = [
        "PRAGMA user_version = 7", "PRAGMA application_id = 7", "PRAGMA auto_vacuum = FULL",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA encoding = 'UTF-8'",
    ]
    /// Where another pragma stands.
    enum Place: CaseIterable { case first, betweenKeyAndHeader, last }

    let folder = TemporaryFolder()

    /// Opens with a hook, writes a row, closes; then opens as a shared store by the key alone and reads it.
    private func expectSound(
        _ name: String, key: TestKey = .raw(9), at location: SourceLocation = #_sourceLocation,
        _ hook: @escaping @Sendable (Database) throws -> Void
    ) throws {
        let path = folder.path(name)
        var config = Configuration()
        config.prepareDatabase(hook)
        // Three times: the first creates, the others find what it left.
        for round in 1...3 {
            let pool = try DatabasePool(path: path, configuration: config)
            try pool.write { db in
                try db.execute(sql: "CREATE TABLE IF NOT EXISTS t (a); INSERT INTO t VALUES (\(round))")
            }
            let rows = try pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") }
            #expect(rows == round, sourceLocation: location)
            try pool.close()
        }
        let first = try Data(contentsOf: URL(fileURLWithPath: path)).prefix(16)
        #expect(first == Data("SQLite format 3\0".utf8), sourceLocation: location)
        let store = try SharedStore.open(at: path, unlockedBy: key.source)
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT SUM(a) FROM t") } == 6, sourceLocation: location)
        #expect(
            try store.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok", sourceLocation: location)
        #expect(store.notices.isEmpty, sourceLocation: location)
        try store.close()
    }

    @Test("other pragmas before, between and after key and header do no harm", arguments: otherPragmas, Place.allCases)
    func otherPragma(sql: String, place: Place) throws {
        try expectSound("app.db") { db in
            if place == .first { try db.execute(sql: sql) }
            try TestKey.raw(9).use(on: db)
            if place == .betweenKeyAndHeader { try db.execute(sql: sql) }
            try db.execute(sql: Self.header)
            if place == .last { try db.execute(sql: sql) }
        }
    }

    @Test(
        "pragmas that write before, between and after key and header do no harm", arguments: writingPragmas,
        Place.allCases)
    func writingPragma(sql: String, place: Place) throws {
        try expectSound("app.db") { db in
            let others = db.configuration.readonly ? "" : sql
            if place == .first { try db.execute(sql: others) }
            try TestKey.raw(9).use(on: db)
            if place == .betweenKeyAndHeader { try db.execute(sql: others) }
            try db.execute(sql: Self.header)
            if place == .last { try db.execute(sql: others) }
        }
        if sql == "PRAGMA user_version = 7" {
            let version = try Opening.queue.open(folder.path("app.db"), .raw(9)) { writer in
                try writer.read { try Int.fetchOne($0, sql: "PRAGMA user_version") }
            }
            #expect(version == 7)
        }
    }

    @Test("the header pragma may come before the key, in one text with others, or twice")
    func headerElsewhere() throws {
        try expectSound("before.db") { db in
            try db.execute(sql: Self.header)
            try TestKey.raw(9).use(on: db)
        }
        try expectSound("many.db") { db in
            try TestKey.raw(9).use(on: db)
            try db.execute(sql: "\(Self.header); PRAGMA cache_size = -100; PRAGMA user_version; SELECT 1;")
        }
        try expectSound("late.db") { db in
            try TestKey.raw(9).use(on: db)
            try db.execute(sql: "PRAGMA cache_size = -100; PRAGMA journal_mode = WAL; \(Self.header); SELECT 1;")
        }
        try expectSound("all.db") { db in
            try db.execute(sql: "PRAGMA cache_size = -100; \(Self.header); PRAGMA synchronous = FULL")
            try TestKey.raw(9).use(on: db)
        }
        try expectSound("twice.db") { db in
            try TestKey.raw(9).use(on: db)
            try db.execute(sql: Self.header)
            try db.execute(sql: Self.header)
        }
        try expectSound("spelled.db") { db in
            try TestKey.raw(9).use(on: db)
            try db.execute(sql: "/* 32 */ pragma  main.CIPHER_plaintext_header_SIZE=32 -- bytes")
        }
    }

    @Test("the same key may be given twice, with the header pragma behind either")
    func keyTwice() throws {
        try expectSound("app.db") { db in
            try TestKey.raw(9).use(on: db)
            try TestKey.raw(9).use(on: db)
            try db.execute(sql: Self.header)
        }
        try expectSound("header.db") { db in
            try TestKey.raw(9).use(on: db)
            try db.execute(sql: Self.header)
            try TestKey.raw(9).use(on: db)
            try db.execute(sql: Self.header)
        }
    }

    @Test("a hook may try one key and then another")
    func otherKeyAfterFailure() throws {
        try StoreFixture.fill(folder.path("app.db"), .raw(9))
        var config = Configuration()
        config.prepareDatabase { db in
            do {
                try TestKey.raw(1).use(on: db)
                Issue.record("the wrong key was taken")
            } catch StoreError.wrongKey {
                try TestKey.raw(9).use(on: db)
            }
        }
        let pool = try DatabasePool(path: folder.path("app.db"), configuration: config)
        #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM note") } == StoreFixture.rowCount)
        // A key that works is not exchanged for another one.
        config.prepareDatabase { try TestKey.raw(1).use(on: $0) }
        let error = #expect(throws: DatabaseError.self) {
            try DatabasePool(path: folder.path("app.db"), configuration: config)
        }
        #expect(error?.resultCode == .SQLITE_MISUSE)
    }

    @Test("settings that come after a statement which used the new file are refused, with the reason")
    func settingsTooLate() throws {
        var config = Configuration()
        config.prepareDatabase { db in
            try TestKey.raw(9).use(on: db)
            _ = try Int.fetchOne(db, sql: "PRAGMA user_version")
            try db.execute(sql: Self.header)
        }
        let path = folder.path("app.db")
        #expect(storeError { try DatabasePool(path: path, configuration: config) } == .settingsConflict)
        try StoreFixture.fill(path, .raw(9))
        #expect(throws: Never.self) { try DatabasePool(path: path, configuration: config) }
    }

    @Test("a passphrase, other pragmas around it and the header pragma make a store that opens by the passphrase")
    func passphrase() throws {
        try expectSound("app.db", key: .passphrase("secret")) { db in
            try db.execute(sql: "PRAGMA cache_size = 100")
            try db.usePassphrase(Data("secret".utf8))
            try db.execute(sql: "PRAGMA synchronous = NORMAL")
            try db.execute(sql: Self.header)
            try db.execute(sql: "PRAGMA journal_mode = WAL")
        }
    }

    @Test("the C functions work in a hook like SQL text does")
    func cFunctions() throws {
        try expectSound("after.db") { db in
            try TestKey.raw(9).use(on: db)
            #expect(sqlite3_exec(db.sqliteConnection, Self.header, nil, nil, nil) == SQLITE_OK)
            #expect(sqlite3_exec(db.sqliteConnection, "PRAGMA cache_size = 50", nil, nil, nil) == SQLITE_OK)
        }
        try expectSound("before.db") { db in
            _ = sqlite3_exec(db.sqliteConnection, Self.header, nil, nil, nil)
            try TestKey.raw(9).use(on: db)
        }
        try expectSound("touching.db") { db in
            try TestKey.raw(9).use(on: db)
            #expect(sqlite3_exec(db.sqliteConnection, Self.header, nil, nil, nil) == SQLITE_OK)
            // These read and write the file before the library does.
            if db.configuration.readonly { return }
            #expect(sqlite3_exec(db.sqliteConnection, "PRAGMA user_version = 3", nil, nil, nil) == SQLITE_OK)
            #expect(sqlite3_exec(db.sqliteConnection, "PRAGMA journal_mode = WAL", nil, nil, nil) == SQLITE_OK)
        }
        try expectSound("passphrase.db", key: .passphrase("secret")) { db in
            try db.usePassphrase("secret")
            #expect(sqlite3_exec(db.sqliteConnection, Self.header, nil, nil, nil) == SQLITE_OK)
            if db.configuration.readonly { return }
            #expect(sqlite3_exec(db.sqliteConnection, "PRAGMA user_version = 3", nil, nil, nil) == SQLITE_OK)
        }
    }

    @Test("persistent WAL set in the hook by sqlite3_file_control is honoured")
    func fileControl() throws {
        try expectSound("app.db") { db in
            try TestKey.raw(9).use(on: db)
            try db.execute(sql: Self.header)
            if !db.configuration.readonly {
                var flag: CInt = 1
                let code = withUnsafeMutablePointer(to: &flag) {
                    sqlite3_file_control(db.sqliteConnection, nil, SQLITE_FCNTL_PERSIST_WAL, $0)
                }
                guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
            }
        }
        #expect(FileManager.default.fileExists(atPath: folder.path("app.db-wal")))
    }

    @Test("a file without plaintext header, by passphrase alone, works and keeps its salt inside, without a sidecar")
    func standardFile() throws {
        let path = folder.path("standard.db")
        var config = Configuration()
        config.prepareDatabase { try $0.usePassphrase("secret") }
        for round in 1...2 {
            let pool = try DatabasePool(path: path, configuration: config)
            try pool.write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS t (a); INSERT INTO t VALUES (1)") }
            #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == round)
            try pool.close()
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)).prefix(6) != Data("SQLite".utf8))
        #expect(!FileManager.default.fileExists(atPath: path + "-sidecar"))
        var wrong = Configuration()
        wrong.prepareDatabase { try $0.usePassphrase("other") }
        #expect(storeError { try DatabasePool(path: path, configuration: wrong) } == .wrongKey)
        // It is no store, even for a holder of its key.
        #expect(storeError { try SharedStore.open(at: path, unlockedBy: .passphrase("secret")) } == .settingsConflict)
    }

    @Test("hooks added one after another run in their order, and an assigned one replaces them")
    func severalHooks() throws {
        var config = Configuration()
        config.prepareDatabase { try TestKey.raw(9).use(on: $0) }
        config.prepareDatabase { try $0.execute(sql: Self.header) }
        let path = folder.path("app.db")
        try DatabasePool(path: path, configuration: config).close()
        config.prepareDatabase = { db in try TestKey.raw(1).use(on: db) }
        #expect(storeError { try DatabasePool(path: path, configuration: config) } == .wrongKey)
        config.prepareDatabase = { (db: Database) in try TestKey.raw(9).use(on: db) }
        #expect(throws: Never.self) { try DatabasePool(path: path, configuration: config).close() }
    }

    @Test("an error thrown by a hook comes back as it is, and what was begun does not stand in the way")
    func throwingHook() throws {
        struct Mine: Error {}
        var config = Configuration()
        config.prepareDatabase { db in
            try TestKey.raw(9).use(on: db)
            try db.execute(sql: Self.header)
            throw Mine()
        }
        let path = folder.path("app.db")
        #expect(throws: Mine.self) { try DatabasePool(path: path, configuration: config) }
        try Opening.pool.open(path, .raw(9)) { writer in try writer.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        }
        let tables = try Opening.sharedStore.open(path, .raw(9)) { writer in try writer.read { try $0.tableNames() } }
        #expect(tables == ["t"])
    }
}
