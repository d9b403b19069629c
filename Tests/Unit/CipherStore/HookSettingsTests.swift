import CipherStore
import Foundation
import TestKit
import Testing

/// Salts and cipher settings that a preparing function chooses.
@Suite struct HookSettingsTests {
    private static let salt = "000102030405060708090a0b0c0d0e0f"
    let folder = TemporaryFolder()
    var path: String { folder.path("app.db") }

    private func configuration(_ key: TestKey, _ pragmas: [String]) -> Configuration {
        var config = Configuration()
        config.prepareDatabase { db in
            try key.use(on: db)
            for pragma in pragmas { try db.execute(sql: "PRAGMA \(pragma)") }
        }
        return config
    }

    /// Makes a file with these pragmas, and reads it back with these and with none.
    private func expectRoundTrip(
        _ key: TestKey, _ pragmas: [String], at location: SourceLocation = #_sourceLocation
    ) throws {
        for pragmas in [pragmas, pragmas, ["cipher_plaintext_header_size = 32"], []] {
            let pool = try DatabasePool(path: path, configuration: configuration(key, pragmas))
            try pool.write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS t (a); INSERT INTO t VALUES (1)") }
            try pool.close()
        }
        let store = try SharedStore.open(at: path, unlockedBy: key.source)
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 4, sourceLocation: location)
        try store.close()
    }

    private var recorded: Sidecar? {
        SidecarFiles(databasePath: path).read().main.parsed?.claimed
    }

    @Test("a salt that the hook sets is recorded, before or after the header pragma")
    func userSalt() throws {
        for order in [0, 1] {
            // Few rounds, since each opening derives the key.
            let pragmas = [
                "cipher_plaintext_header_size = 32", "cipher_salt = \"x'\(Self.salt)'\"", "kdf_iter = 1000",
            ]
            try? FileManager.default.removeItem(atPath: path)
            for copy in SidecarCopy.allCases {
                try? FileManager.default.removeItem(atPath: SidecarFiles(databasePath: path).path(of: copy))
            }
            try expectRoundTrip(.passphrase("secret"), order == 0 ? pragmas : pragmas.reversed())
            #expect(recorded?.salt == (try Salt(hex: Self.salt)))
        }
    }

    @Test("a salt that contradicts the record is refused, the store stays whole")
    func otherSalt() throws {
        try expectRoundTrip(.raw(5), ["cipher_plaintext_header_size = 32"])
        let pragma = "cipher_salt = \"x'\(Self.salt)'\""
        let before = FolderSnapshot(of: folder)
        #expect(
            storeError { try DatabasePool(path: path, configuration: configuration(.raw(5), [pragma])) }
                == .settingsConflict)
        #expect(before.changes(until: FolderSnapshot(of: folder)).isEmpty)
        #expect(try Opening.pool.open(path, .raw(5)) { writer in try writer.read { try $0.tableNames() } } == ["t"])
    }

    @Test(
        "a salt of another form is refused, where SQLCipher would quietly take another one",
        arguments: [
            "\"x''\"", "\"x'00'\"", "\"x'\(salt)00'\"", "\"x'\(salt.dropLast())g'\"", "'\(salt)'", "\"\(salt)\"", "7",
            "\"x'\(salt)\"", "\"X '\(salt)'\"",
        ])
    func malformedSalt(literal: String) throws {
        for order in [0, 1] {
            let pragmas = ["cipher_plaintext_header_size = 32", "cipher_salt = \(literal)"]
            let config = configuration(.raw(5), order == 0 ? pragmas : pragmas.reversed())
            let error = #expect(throws: DatabaseError.self) { try DatabasePool(path: path, configuration: config) }
            #expect(error?.message?.contains("32 hexadecimal digits") == true, "\(String(describing: error))")
        }
        // No trace of the refused salt stands in the way.
        try expectRoundTrip(.raw(5), ["cipher_plaintext_header_size = 32"])
    }

    @Test(
        "cipher settings of the hook are honoured, recorded, and not needed again",
        arguments: [
            ["kdf_iter = 1000"], ["cipher_page_size = 8192"], ["cipher_page_size = 1024", "kdf_iter = 4000"],
            ["cipher_hmac_algorithm = HMAC_SHA256"], ["cipher_kdf_algorithm = PBKDF2_HMAC_SHA256", "kdf_iter = 1000"],
            ["cipher_hmac_algorithm = HMAC_SHA1", "cipher_kdf_algorithm = PBKDF2_HMAC_SHA1", "kdf_iter = 500"],
            ["cipher_compatibility = 4"], ["cipher_compatibility = 3"], ["cipher_compatibility = 3", "kdf_iter = 900"],
        ])
    func settings(pragmas: [String]) throws {
        let header = "cipher_plaintext_header_size = 32"
        for (index, all) in [pragmas + [header], [header] + pragmas].enumerated() {
            let own = HookSettingsTests()
            // Only few rounds are worth a derivation.
            let derives = pragmas.contains { $0.hasPrefix("kdf_iter") }
            try own.expectRoundTrip(derives ? .passphrase("secret") : .raw(5), all)
            let settings = try #require(own.recorded?.settings)
            #expect(settings.plaintextHeaderBytes == 32, "order \(index)")
            for pragma in pragmas where pragma.hasPrefix("kdf_iter") {
                #expect(pragma == "kdf_iter = \(settings.kdfRounds)", "order \(index)")
            }
            for pragma in pragmas where pragma.hasPrefix("cipher_page_size") {
                #expect(pragma == "cipher_page_size = \(settings.pageBytes)", "order \(index)")
            }
            for pragma in pragmas where pragma.hasPrefix("cipher_hmac_algorithm") {
                #expect(pragma.lowercased().hasSuffix("hmac_\(settings.hmacHash.rawValue)"), "order \(index)")
            }
        }
    }

    // Connections are keyed raw, which needs no derivation, so SQLCipher had its default of 256,000 rounds and said so.
    @Test("PRAGMA kdf_iter tells the rounds in force, on every connection", arguments: [[], [plaintextHeader]])
    func roundsInForce(pragmas: [String]) throws {
        func rounds(_ db: Database) throws -> Int? { try Int.fetchOne(db, sql: "PRAGMA kdf_iter") }
        let config = configuration(.passphrase("secret"), ["kdf_iter = 1500"] + pragmas)
        for _ in 0..<2 {
            let pool = try DatabasePool(path: path, configuration: config)
            try pool.write { db in
                #expect(try rounds(db) == 1500)
                try db.execute(sql: "CREATE TABLE IF NOT EXISTS t(a); INSERT INTO t VALUES (1)")
            }
            #expect(try pool.read(rounds) == 1500)
            #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT MAX(a) FROM t") } == 1)
            try pool.close()
        }
    }

    private static let plaintextHeader = "cipher_plaintext_header_size = 32"

    @Test(
        "settings that contradict the record are refused, and change nothing",
        arguments: [
            "kdf_iter = 1000", "cipher_page_size = 8192", "cipher_plaintext_header_size = 0",
            "cipher_hmac_algorithm = HMAC_SHA1", "cipher_kdf_algorithm = PBKDF2_HMAC_SHA1", "cipher_use_hmac = OFF",
            "cipher_compatibility = 3", "cipher_compatibility = 1",
        ])
    func conflicting(pragma: String) throws {
        try expectRoundTrip(.raw(5), ["cipher_plaintext_header_size = 32"])
        let before = FolderSnapshot(of: folder)
        for open in [
            { _ = try DatabasePool(path: path, configuration: configuration(.raw(5), [pragma])) },
            { _ = try DatabaseQueue(path: path, configuration: configuration(.raw(5), [pragma])) },
        ] {
            #expect(storeError(open) == .settingsConflict)
        }
        var config = Configuration()
        config.prepareDatabase { try $0.execute(sql: "PRAGMA \(pragma)") }
        #expect(
            storeError { try SharedStore.open(at: path, unlockedBy: TestKey.raw(5).source, configuration: config) }
                == .settingsConflict)
        #expect(before.changes(until: FolderSnapshot(of: folder)).isEmpty)
        #expect(try Opening.pool.open(path, .raw(5)) { writer in try writer.read { try $0.tableNames() } } == ["t"])
    }

    @Test(
        "settings outside of what SQLCipher can do are refused before a file is made",
        arguments: [
            "kdf_iter = 0", "kdf_iter = many", "kdf_iter = 99999999999", "cipher_page_size = 1000",
            "cipher_page_size = 131072", "cipher_plaintext_header_size = 16", "cipher_plaintext_header_size = 31",
            "cipher_hmac_algorithm = HMAC_MD5", "cipher_kdf_algorithm = SCRYPT",
        ])
    func impossible(pragma: String) throws {
        let config = configuration(.raw(5), [pragma, "cipher_plaintext_header_size = 32"])
        #expect(throws: DatabaseError.self) { try DatabasePool(path: path, configuration: config) }
        #expect(!FileManager.default.fileExists(atPath: path + "-sidecar"))
        try expectRoundTrip(.raw(5), ["cipher_plaintext_header_size = 32"])
    }

    @Test("an SQLCipher 3 file opens by hand with its settings, and is not changed by being read")
    func version3() throws {
        let fixtures = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Keys/fixtures")
        let manifest = try String(contentsOf: fixtures.appendingPathComponent("../manifest.json"), encoding: .utf8)
        let passphrase = try #require(manifest.firstMatch(of: /"passphrase": "([^"]+)"/)).output.1
        for (name, pragmas) in [("v3-standard.db", ["cipher_compatibility = 3"]), ("v4-standard.db", [])] {
            let bytes = try Data(contentsOf: fixtures.appendingPathComponent(name))
            try bytes.write(to: URL(fileURLWithPath: path))
            let queue = try DatabaseQueue(
                path: path, configuration: configuration(.passphrase(String(passphrase)), pragmas))
            #expect(try queue.read { try $0.tableNames() }.isEmpty == false)
            try queue.close()
            #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == bytes)
            #expect(recorded == nil)
        }
    }
}
