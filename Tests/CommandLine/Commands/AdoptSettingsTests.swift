import CipherStore
import Foundation
import TestKit
import Testing

/// "The key does not open" was said of files that their key opens with settings that are not the default.
@Suite("cipherctl adopt and files with other settings")
struct AdoptSettingsTests {
    private let fixture: AdoptionFixture
    private var place: Workplace { fixture.place }

    init() throws {
        fixture = try AdoptionFixture()
        try place.write(Workplace.passphrase, to: "pass")
    }

    private func make(_ settings: String) throws {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            try db.usePassphrase(Workplace.passphrase)
            try db.execute(sql: settings)
        }
        let queue = try DatabaseQueue(path: place.path("s.db"), configuration: configuration)
        try queue.inDatabase { try $0.execute(sql: AdoptionFixture.content) }
        try queue.close()
        for name in try place.names() where name.hasPrefix("s.db-") { try place.remove(name) }
    }

    private func adopt(_ more: String...) throws -> CommandRun.Outcome {
        try place.run(["adopt", place.path("s.db"), "--json", "--key-file", place.path("pass")] + more)
    }

    @Test(
        "a file with another number of rounds or another hash for its passphrase is adopted as it is",
        arguments: [
            "PRAGMA kdf_iter = 64000", "PRAGMA kdf_iter = 4000", "PRAGMA cipher_kdf_algorithm = PBKDF2_HMAC_SHA256",
            "PRAGMA cipher_kdf_algorithm = PBKDF2_HMAC_SHA1; PRAGMA kdf_iter = 10000",
        ])
    func derivation(settings: String) throws {
        try make(settings)
        let outcome = try adopt()
        #expect(outcome.status == 0, "\(outcome.errors)")
        let rows = try place.run(
            ["sql", place.path("s.db"), "SELECT count(*) FROM t", "--key-file", place.path("pass")])
        #expect(rows.output.contains("500"), "\(rows.output)\(rows.errors)")
    }

    @Test("a file without authentication codes, or with readable first bytes, is refused with what it is")
    func refused() throws {
        try make("PRAGMA cipher_use_hmac = OFF")
        var before = try place.bytes("s.db")
        let codes = try adopt()
        #expect(codes.status == 65 && codes.errorJSON["code"] as? String == "notAdoptable", "\(codes.errors)")
        #expect(codes.errors.contains("cipher_use_hmac"), "\(codes.errors)")
        #expect(try place.bytes("s.db") == before)
        try place.remove("s.db")
        try make("PRAGMA cipher_page_size = 4096")
        // As with PRAGMA cipher_plaintext_header_size = 16.
        try place.poke("s.db", at: 0, Array("SQLite format 3\0".utf8))
        before = try place.bytes("s.db")
        let header = try adopt()
        #expect(header.status == 65 && header.errorJSON["code"] as? String == "notAdoptable", "\(header.errors)")
        #expect(header.errors.contains("cipher_plaintext_header_size"), "\(header.errors)")
        #expect(try place.bytes("s.db") == before)
    }

    @Test("a file of SQLCipher 1 is named by its version")
    func firstVersion() throws {
        try make("PRAGMA cipher_compatibility = 1")
        let outcome = try adopt()
        #expect(outcome.status == 64 && outcome.errors.contains("--compatibility 1"), "\(outcome.errors)")
        #expect(try adopt("--compatibility", "1").status == 0)
    }

    /// An adoption copied the WAL into the file and removed it, with the commits behind the damage.
    @Test("a file with a damaged WAL is refused, and file and WAL stay")
    func damagedWAL() throws {
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.useRawKey(Data(repeating: 0x2a, count: 32)) }
        let pool = try DatabasePool(path: place.path("w.db"), configuration: configuration)
        try pool.write { try $0.execute(sql: AdoptionFixture.content) }
        try pool.checkpoint(.truncate)
        for step in 0..<4 { try pool.write { try $0.execute(sql: "UPDATE t SET text = '\(step)' WHERE id = 1") } }
        for ending in ["", "-wal"] { try place.copy("w.db" + ending, to: "s.db" + ending) }
        try pool.close()
        try place.flip("s.db-wal", at: 32 + 24 + 4096 + 24 + 700)
        let (file, log) = (try place.bytes("s.db"), try place.bytes("s.db-wal"))
        let outcome = try fixture.adopt("s.db")
        #expect(outcome.status == 65 && outcome.errorJSON["code"] as? String == "notAdoptable", "\(outcome.errors)")
        #expect(outcome.errors.contains("the WAL has commits that do not") || outcome.errors.contains("The WAL has"))
        #expect(try place.bytes("s.db") == file && place.bytes("s.db-wal") == log)
    }
}
