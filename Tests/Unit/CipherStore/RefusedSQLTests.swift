import CSQLCipher
import CipherStore
import Foundation
import Synchronization
import TestKit
import Testing

/// SQL that would show a key, change encryption or break sharing.
@Suite struct RefusedSQLTests {
    private static let secret = "correct horse battery"
    let fixture: StoreFixture

    init() throws { fixture = try StoreFixture() }

    /// Runs SQL in every place where a program can, and expects a refusal that leaves the store whole.
    private func expectRefusal(
        of sql: String, arguments: StatementArguments = StatementArguments(), hides secret: String? = nil,
        at location: SourceLocation = #_sourceLocation
    ) throws {
        let texts = Notices()
        for way in [Opening.sharedStore, .pool, .queue] {
            try way.open(fixture.path, fixture.key) { writer in
                let accesses: [((Database) throws -> Void) throws -> Void] = [
                    { body in try writer.writeWithoutTransaction(body) }, { body in try writer.write(body) },
                    { body in try writer.unsafeRead(body) },
                ]
                for access in accesses {
                    let error = #expect(throws: DatabaseError.self, "\(way): \(sql)", sourceLocation: location) {
                        try access { db in
                            db.trace(options: [.statement, .profile]) { texts.add("\($0) \($0.expandedDescription)") }
                            try db.execute(sql: sql, arguments: arguments)
                        }
                    }
                    #expect(error?.resultCode == .SQLITE_AUTH, "\(way): \(sql)", sourceLocation: location)
                    texts.add(
                        "\(String(describing: error)) \(error?.expandedDescription ?? "") \(error?.message ?? "")")
                }
            }
        }
        if let secret { #expect(!texts.all.joined().contains(secret), "\(sql)", sourceLocation: location) }
        fixture.expectWhole(ways: [.sharedStore], at: location)
    }

    // The other processes of a shared store rely on WAL mode; it was left by a statement.
    @Test(
        "a shared store stays in WAL mode, and a queue may have any",
        arguments: ["DELETE", "truncate", "Persist", "memory", "OFF", "'delete'"])
    func journalMode(mode: String) throws {
        let sql = "PRAGMA main.journal_mode = \(mode)"
        try Opening.sharedStore.open(fixture.path, fixture.key) { writer in
            let accesses: [((Database) throws -> Void) throws -> Void] = [
                { body in try writer.writeWithoutTransaction(body) }, { body in try writer.unsafeRead(body) },
            ]
            for access in accesses {
                let error = #expect(throws: DatabaseError.self) { try access { try $0.execute(sql: sql) } }
                #expect(error?.resultCode == .SQLITE_AUTH)
            }
            for sql in ["PRAGMA journal_mode = WAL", "PRAGMA journal_mode"] {
                let mode = try writer.writeWithoutTransaction { try String.fetchOne($0, sql: sql) }
                #expect(mode == "wal")
            }
        }
        try Opening.queue.open(fixture.path, fixture.key) { queue in
            try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = DELETE") }
            #expect(try queue.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") } == "delete")
        }
        fixture.expectWhole(ways: [.sharedStore])
    }

    @Test(
        "keys as SQL text are refused, and show in no error and no trace",
        arguments: [
            "PRAGMA key = '\(secret)'", "PRAGMA rekey = '\(secret)'", "PRAGMA main.key('\(secret)')",
            "PRAGMA hexkey = '\(secret)'", "PRAGMA hexrekey = '\(secret)'", "PRAGMA textkey = '\(secret)'",
            "PRAGMA textrekey = '\(secret)'", "pragma/**/KEY=\"x'\(secret)'\"",
            "SELECT 1; PRAGMA key = '\(secret)'; SELECT 2", "ATTACH '/tmp/nothing' AS other KEY '\(secret)'",
        ])
    func keysAsText(sql: String) throws {
        try expectRefusal(of: sql, hides: Self.secret)
        // In a hook, with and without a key in front of it.
        for isKeyed in [true, false] {
            var config = Configuration()
            config.prepareDatabase { db in
                if isKeyed { try TestKey.raw(0x2a).use(on: db) }
                try db.execute(sql: sql)
            }
            let error = #expect(throws: (any Error).self) {
                try DatabasePool(path: fixture.path, configuration: config)
            }
            let text = "\(String(describing: error)) \((error as? DatabaseError)?.expandedDescription ?? "")"
            #expect(!text.contains(Self.secret), "\(text)")
        }
        fixture.expectWhole(ways: [.pool])
    }

    @Test(
        "pragmas that change the encryption of an open store are refused",
        arguments: [
            "PRAGMA cipher_plaintext_header_size = 0", "PRAGMA cipher_salt = \"x'000102030405060708090a0b0c0d0e0f'\"",
            "PRAGMA cipher_page_size = 1024", "PRAGMA kdf_iter = 1", "PRAGMA cipher_compatibility = 3",
            "PRAGMA cipher_migrate", "PRAGMA cipher_use_hmac = OFF", "PRAGMA cipher_hmac_algorithm = HMAC_SHA1",
            "PRAGMA cipher_default_plaintext_header_size = 32", "PRAGMA cipher_default_kdf_iter = 1",
            "PRAGMA cipher_memory_security = ON", "PRAGMA cipher_kdf_algorithm = PBKDF2_HMAC_SHA1",
            "PRAGMA fast_kdf_iter = 1", "PRAGMA cipher_add_random = \"x'00'\"", "PRAGMA cipher_test_on = 1",
        ])
    func cipherPragmas(sql: String) throws { try expectRefusal(of: sql) }

    @Test(
        "pragmas that break sharing are refused",
        arguments: [
            "PRAGMA wal_checkpoint", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA main.wal_checkpoint",
            "PRAGMA wal_autocheckpoint = 100", "PRAGMA locking_mode = EXCLUSIVE", "PRAGMA main.locking_mode(exclusive)",
            "PRAGMA temp_store = FILE", "PRAGMA temp_store = 1", "PRAGMA temp_store = 0",
            "PRAGMA temp_store_directory = '/tmp'",
        ])
    func enginePragmas(sql: String) throws { try expectRefusal(of: sql) }

    // VACUUM after `page_size` ended in SIGSEGV; rows in sqlite_schema and a log appended to the file damaged the store.
    @Test(
        "pragmas that make SQLCipher crash, or write the file behind the cipher, are refused",
        arguments: [
            "PRAGMA page_size = 8192", "PRAGMA main.page_size = 1024", "PRAGMA page_size(65536)",
            "SELECT 1; PRAGMA page_size = 8192; VACUUM", "PRAGMA writable_schema = ON",
            "PRAGMA writable_schema = 1; DELETE FROM sqlite_master", "PRAGMA main.writable_schema = 5",
        ])
    func crashingPragmas(sql: String) throws { try expectRefusal(of: sql) }

    @Test("neither is a log of SQLCipher appended to a file of the store")
    func cipherLog() throws {
        for suffix in ["", "-wal", "-sidecar"] {
            try expectRefusal(of: "PRAGMA cipher_log = '\(fixture.path)\(suffix)'")
        }
        // Story: a reading command appended a log to the sidecars of another store, which then did not open.
        let other = fixture.path + "-of-somebody-else"
        try expectRefusal(of: "PRAGMA cipher_log = '\(other)'")
        #expect(!FileManager.default.fileExists(atPath: other))
    }

    @Test("the page size of the store may be set to itself, and a schema that is not writable stays so")
    func harmlessPragmas() throws {
        for way in [Opening.sharedStore, .pool, .queue] {
            try way.open(fixture.path, fixture.key) { writer in
                try writer.writeWithoutTransaction { db in
                    let size = try Int.fetchOne(db, sql: "PRAGMA page_size") ?? 0
                    try db.execute(sql: "PRAGMA page_size = \(size); VACUUM; PRAGMA writable_schema = OFF")
                }
            }
        }
        fixture.expectWhole()
    }

    // `DELETE FROM cipherstore_custody` ended the protection against an older sidecar without a word.
    @Test(
        "the row that protects the sidecar is not written by statements of a program",
        arguments: [
            "DELETE FROM cipherstore_custody", "delete from main.CipherStore_Custody WHERE id = 1",
            "UPDATE cipherstore_custody SET generation = 1", "INSERT INTO cipherstore_custody VALUES (1, x'00', 1)",
            "REPLACE INTO cipherstore_custody VALUES (1, x'00', 1)", "DROP TABLE cipherstore_custody",
            "ALTER TABLE cipherstore_custody RENAME TO t2",
            "CREATE TRIGGER tr BEFORE INSERT ON cipherstore_custody BEGIN SELECT RAISE(IGNORE); END",
            "CREATE TEMP TRIGGER tr BEFORE INSERT ON cipherstore_custody BEGIN SELECT RAISE(IGNORE); END",
            "CREATE TEMP TRIGGER IF NOT EXISTS tr AFTER UPDATE ON note BEGIN DELETE FROM cipherstore_custody; END; "
                + "UPDATE note SET text = text",
            "CREATE UNIQUE INDEX ix ON cipherstore_custody (store)",
        ])
    func custody(sql: String) throws {
        try Opening.sharedStore.open(fixture.path, fixture.key) { writer in
            try writer.write { db in
                db.mayChangeStoreTables = true
                defer { db.mayChangeStoreTables = false }
                try db.execute(sql: "CREATE TABLE cipherstore_custody (id INTEGER PRIMARY KEY, store, generation)")
            }
            try writer.writeWithoutTransaction { try $0.execute(sql: "VACUUM") }
        }
        try expectRefusal(of: sql)
    }

    // They were written without a word: the history lost changes, and a repository took other rows for its head.
    @Test(
        "rows of the history and of a repository are written by the library alone",
        arguments: [
            "DELETE FROM cipherstore_history", "delete from main.CipherStore_History WHERE seq > 0",
            "UPDATE cipherstore_history_table SET state = 0",
            "INSERT INTO cipherstore_history_reader (name) VALUES ('a')",
            "REPLACE INTO cipherstore_history_state (id) VALUES (1)",
            "UPDATE cipherstore_history_author SET label = 'x'",
            "DELETE FROM cipherstore_sync_conflict", "INSERT INTO cipherstore_sync_conflict VALUES (1)",
            "WITH c AS (SELECT 1) UPDATE cipherstore_sync_conflict SET n = 2",
            "CREATE TEMP TRIGGER IF NOT EXISTS tr AFTER UPDATE ON note BEGIN DELETE FROM cipherstore_history; END; "
                + "UPDATE note SET text = text",
            "CREATE TRIGGER tr BEFORE INSERT ON cipherstore_history BEGIN SELECT RAISE(IGNORE); END",
            "CREATE TEMP TRIGGER tr BEFORE INSERT ON main.cipherstore_history_reader BEGIN SELECT RAISE(IGNORE); END",
            "CREATE TRIGGER cipherstore_history_9_insert AFTER UPDATE ON note BEGIN DELETE FROM cipherstore_history; END",
            "CREATE TEMP TRIGGER cipherstore_sync_x AFTER UPDATE ON note BEGIN DELETE FROM cipherstore_history; END",
            "CREATE UNIQUE INDEX ix ON cipherstore_history (kind)",
        ])
    func ownRows(sql: String) throws {
        try Opening.sharedStore.open(fixture.path, fixture.key) { writer in
            try writer.write { db in
                try db.recordHistory(of: .tables(["note"]))
                db.mayChangeStoreTables = true
                defer { db.mayChangeStoreTables = false }
                try db.execute(sql: "CREATE TABLE cipherstore_sync_conflict (n INTEGER PRIMARY KEY)")
            }
            // The triggers of the history write, in statements of the program and in its own triggers.
            try writer.write { db in
                try db.execute(
                    sql: """
                        CREATE TABLE other (a);
                        CREATE TRIGGER copies AFTER INSERT ON other BEGIN UPDATE note SET text = text; END;
                        INSERT INTO other VALUES (1); DROP TABLE other
                        """)
                #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM cipherstore_history") ?? 0 > 1)
                let error = #expect(throws: DatabaseError.self) { try db.execute(sql: sql) }
                let wanted = sql.contains("sync") ? "cipherctl sync" : "cipherctl history"
                #expect(error?.message?.contains(wanted) == true, "\(error?.message ?? "")")
                try? db.execute(sql: "DROP TRIGGER temp.tr")
            }
        }
        try expectRefusal(of: sql)
    }

    // A row that says 1 << 50 keeps every key from opening the store.
    @Test(
        "no table takes the name of the row that protects the sidecar",
        arguments: [
            "ALTER TABLE other RENAME TO cipherstore_custody",
            "alter table main.other rename to \"CipherStore_Custody\"",
            "CREATE TABLE cipherstore_custody (id INTEGER PRIMARY KEY, store, generation)",
            "CREATE VIEW cipherstore_custody AS SELECT 1 AS id",
            "ALTER TABLE other RENAME TO cipherstore_history_state",
        ])
    func ownNames(sql: String) throws {
        try Opening.sharedStore.open(fixture.path, fixture.key) { writer in
            try writer.write { try $0.execute(sql: "CREATE TABLE other (id INTEGER PRIMARY KEY, store, generation)") }
        }
        try expectRefusal(of: sql)
    }

    // `DELETE FROM ft_data` made the index unreadable, and a statement like it wrote the schema.
    @Test(
        "tables that belong to a virtual table are written by its module alone",
        arguments: [
            "DELETE FROM ft_data", "UPDATE ft_config SET v = 9", "INSERT INTO ft_docsize VALUES (9, x'00')",
            "DROP TABLE ft_content", "DELETE FROM box_node", "UPDATE four_segdir SET level = 1",
        ])
    func shadowTables(sql: String) throws {
        for way in [Opening.sharedStore, .pool, .queue] {
            try way.open(fixture.path, fixture.key) { writer in
                try writer.writeWithoutTransaction { db in
                    try db.execute(
                        sql: """
                            CREATE VIRTUAL TABLE IF NOT EXISTS ft USING fts5(t);
                            CREATE VIRTUAL TABLE IF NOT EXISTS four USING fts4(t);
                            CREATE VIRTUAL TABLE IF NOT EXISTS box USING rtree(id, a, b);
                            INSERT INTO ft VALUES ('word'); INSERT INTO four VALUES ('word');
                            INSERT INTO box (a, b) VALUES (1, 2);
                            """)
                    let error = #expect(throws: DatabaseError.self, "\(way)") { try db.execute(sql: sql) }
                    #expect(error?.resultCode == .SQLITE_ERROR, "\(way)")
                    try db.execute(
                        sql: """
                            INSERT INTO ft(ft) VALUES('rebuild'); INSERT INTO ft(ft) VALUES('integrity-check');
                            UPDATE ft SET t = 'other'; DELETE FROM box; VACUUM;
                            ALTER TABLE ft RENAME TO ft2; ALTER TABLE ft2 RENAME TO ft; DROP TABLE ft; DROP TABLE four;
                            DROP TABLE box
                            """)
                }
            }
        }
        fixture.expectWhole()
    }

    @Test("the refusal of a temporary file says why, and does not name checkpoints")
    func temporaryFiles() throws {
        let fixture = fixture
        try Opening.sharedStore.open(fixture.path, fixture.key) { writer in
            writer.writeWithoutTransaction { db in
                let error = #expect(throws: DatabaseError.self) { try db.execute(sql: "PRAGMA temp_store = FILE") }
                let text = error?.message ?? ""
                #expect(text.contains("not encrypted") && !text.contains("checkpoint()"), "\(text)")
                let other = #expect(throws: DatabaseError.self) { try db.execute(sql: "PRAGMA wal_checkpoint") }
                #expect(other?.message?.contains("checkpoint()") == true)
            }
        }
    }

    @Test("forms that only read are allowed")
    func readingForms() throws {
        try Opening.sharedStore.open(fixture.path, fixture.key) { writer in
            try writer.writeWithoutTransaction { db in
                let header = try String.fetchOne(db, sql: "PRAGMA cipher_plaintext_header_size")
                #expect(header == "32")
                let version = try String.fetchOne(db, sql: "PRAGMA cipher_version")
                #expect(version?.hasPrefix("4.") == true)
                #expect(try Int.fetchOne(db, sql: "PRAGMA temp_store") == 2)
                #expect(try Int.fetchOne(db, sql: "PRAGMA wal_autocheckpoint") == 0)
                #expect(try String.fetchOne(db, sql: "PRAGMA locking_mode") == "normal")
                try db.execute(sql: "PRAGMA temp_store = MEMORY; PRAGMA temp_store = 2")
            }
        }
    }

    @Test("other files are not attached, however they are named; VACUUM and databases in memory work")
    func attaching() throws {
        let other = fixture.folder.path("other.db")
        try expectRefusal(of: "ATTACH '\(other)' AS other")
        try expectRefusal(of: "ATTACH '\(other)' AS other KEY ''")
        try expectRefusal(of: "ATTACH DATABASE '\(other.dropLast())' || 'b' AS other")
        try expectRefusal(of: "ATTACH ? AS other KEY ''", arguments: [other])
        try expectRefusal(of: "ATTACH 'file:\(other)?mode=rwc' AS other")
        #expect(!FileManager.default.fileExists(atPath: other))
        for way in Opening.allCases {
            try way.open(fixture.path, fixture.key) { writer in
                try writer.writeWithoutTransaction { db in
                    try db.execute(sql: "ATTACH ':memory:' AS scratch; CREATE TABLE scratch.t (a); DETACH scratch")
                    try db.execute(sql: "CREATE TABLE gone AS SELECT * FROM note; DROP TABLE gone; VACUUM")
                    let error = #expect(throws: DatabaseError.self) { try db.execute(sql: "VACUUM INTO '\(other)'") }
                    #expect(error?.resultCode == .SQLITE_AUTH)
                }
            }
            fixture.expectWhole(ways: [way])
        }
        #expect(!FileManager.default.fileExists(atPath: other))
    }

    @Test("a passphrase is never changed in place")
    func changePassphrase() throws {
        for way in Opening.allCases {
            try way.open(fixture.path, fixture.key) { writer in
                writer.writeWithoutTransaction { db in
                    let error = #expect(throws: DatabaseError.self) { try db.changePassphrase(Self.secret) }
                    #expect(error?.message?.contains("store.keys.change") == true)
                    #expect(error?.description.contains(Self.secret) == false)
                    #expect(throws: DatabaseError.self) { try db.changePassphrase(Data(Self.secret.utf8)) }
                }
            }
        }
        fixture.expectWhole()
    }

    @Test("a key given outside of a preparing function is refused, the store stays whole")
    func keyTooLate() throws {
        try Opening.pool.open(fixture.path, fixture.key) { writer in
            try writer.writeWithoutTransaction { db in
                let error = #expect(throws: DatabaseError.self) { try db.usePassphrase(Self.secret) }
                #expect(error?.resultCode == .SQLITE_MISUSE)
                #expect(throws: DatabaseError.self) { try TestKey.raw(0x2a).use(on: db) }
                try db.execute(sql: "UPDATE note SET text = text")
            }
        }
        fixture.expectWhole()
    }

    @Test("a trace that begins before the key shows neither key nor salt")
    func traceOfPreparing() throws {
        let texts = Notices()
        let path = fixture.folder.path("traced.db")
        var config = Configuration()
        config.prepareDatabase { db in
            db.trace(options: [.statement, .profile]) { texts.add("\($0) \($0.expandedDescription)") }
            try db.usePassphrase(Self.secret)
            try db.execute(sql: "PRAGMA kdf_iter = 1000")
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
        }
        let pool = try DatabasePool(path: path, configuration: config)
        try pool.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        _ = try pool.read { try $0.tableNames() }
        try pool.close()
        let sidecar = try #require(SidecarFiles(databasePath: path).read().main.parsed?.claimed)
        let traced = texts.all.joined(separator: "\n")
        #expect(traced.contains("cipher_plaintext_header_size"))
        #expect(!traced.contains(Self.secret))
        #expect(!traced.contains(sidecar.salt.hex))
    }

    @Test("a plain database that was asked for explicitly may attach others")
    func plainDatabase() throws {
        var config = Configuration()
        config.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: fixture.folder.path("plain.db"), configuration: config)
        try queue.inDatabase { db in
            try db.execute(
                sql: "ATTACH '\(fixture.folder.path("plain2.db"))' AS two; CREATE TABLE two.t (a); DETACH two")
        }
        #expect(FileManager.default.fileExists(atPath: fixture.folder.path("plain2.db")))
    }

    @Test("connections check the sizes of cells")
    func cellSizes() throws {
        for way in Opening.allCases {
            try way.open(fixture.path, fixture.key) { writer in
                let checks = try writer.read { try Bool.fetchOne($0, sql: "PRAGMA cell_size_check") }
                #expect(checks == true, "\(way)")
            }
        }
    }
}
