import CipherStore
import Foundation
import TestKit
import Testing

@testable import cipherctl

@Suite("cipherctl adopt")
struct AdoptTests {
    private let fixture: AdoptionFixture
    private var place: Workplace { fixture.place }

    init() throws { fixture = try AdoptionFixture() }

    // MARK: Version 4

    @Test("a database keeps its content, and every page but the first byte for byte")
    func pages() throws {
        try fixture.makeStandard("s.db")
        let before = try place.bytes("s.db")
        let rows = try fixture.standardRows("s.db")
        let outcome = try fixture.adopt("s.db")
        try #require(outcome.status == 0, "\(outcome.errors)")
        #expect(outcome.json["verified"] as? Bool == true)
        let after = try place.bytes("s.db")
        #expect(after.count == before.count)
        #expect(after.dropFirst(4096) == before.dropFirst(4096))
        #expect(after.starts(with: Array("SQLite format 3\0".utf8)))
        #expect(try fixture.storeRows("s.db") == rows)
        let hash = try place.ctl("hash", place.path("s.db"), "--json").json["content_hash"] as? String
        #expect(outcome.json["content_hash"] as? String == hash)
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
        #expect(try place.ctl("status", place.path("s.db")).status == 0)
        let sidecar = ["s.db-sidecar", "s.db-sidecar.bak", "s.db-lock", "s.db-keylog", "s.db-wal", "s.db-shm"]
        #expect(try place.names() == Set(["raw.key", "s.db"] + sidecar))
    }

    /// A sound file was refused: SQLite takes the next change counter from bytes 24 to 27, which are encrypted there.
    @Test("the WAL of a killed program is applied, with page 1 in it and without", arguments: [false, true])
    func log(hasFirstPage: Bool) throws {
        try fixture.makeStandard("live.db", journal: "WAL")
        let queue = try fixture.openStandard("live.db")
        try queue.inDatabase { try $0.execute(sql: "INSERT INTO t (text) VALUES ('only in the log')") }
        if hasFirstPage { try queue.inDatabase { try $0.execute(sql: "CREATE TABLE u (a)") } }
        for ending in ["", "-wal"] { try place.copy("live.db\(ending)", to: "s.db\(ending)") }
        try queue.close()
        try #require(place.bytes("s.db-wal").count > 4096)
        #expect(try fixture.adopt("s.db").status == 0)
        #expect(try fixture.storeRows("s.db").contains("only in the log"))
    }

    @Test(
        "page size and page authentication are found out",
        arguments: [
            "PRAGMA cipher_page_size = 8192", "PRAGMA cipher_page_size = 65536", "PRAGMA cipher_page_size = 1024",
            "PRAGMA cipher_hmac_algorithm = HMAC_SHA256",
        ])
    func settings(_ pragma: String) throws {
        try fixture.makeStandard("s.db", settings: pragma)
        let rows = try fixture.standardRows("s.db", settings: pragma)
        let outcome = try fixture.adopt("s.db")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(try fixture.storeRows("s.db") == rows)
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
    }

    @Test("mode and owner of the file stay, and its sidecar takes them")
    func mode() throws {
        try fixture.makeStandard("s.db")
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: place.path("s.db"))
        #expect(try fixture.adopt("s.db").status == 0)
        for name in ["s.db", "s.db-sidecar", "s.db-sidecar.bak", "s.db-lock", "s.db-wal"] {
            #expect(try fixture.mode(name) == 0o640, "\(name)")
        }
    }

    @Test("a link leads to the file that is adopted, and still leads there")
    func link() throws {
        try FileManager.default.createDirectory(atPath: place.path("real"), withIntermediateDirectories: false)
        try fixture.makeStandard("real/s.db")
        try FileManager.default.createSymbolicLink(atPath: place.path("link.db"), withDestinationPath: "real/s.db")
        #expect(try fixture.adopt("link.db").status == 0)
        #expect(try fixture.storeRows("link.db") == fixture.storeRows("real/s.db"))
        #expect(try place.names() == ["raw.key", "real", "link.db"])
    }

    // MARK: The stock shell

    @Test(
        "the stock shell's database is adopted, and the shell opens it again",
        .enabled(if: AdoptionFixture.shell != nil))
    func stockShell() throws {
        try place.write(Workplace.passphrase, to: "pass")
        let key = "PRAGMA key = '\(Workplace.passphrase)';\n"
        try fixture.runShell("s.db", key + "PRAGMA journal_mode = WAL;" + AdoptionFixture.content)
        let outcome = try place.run(["adopt", place.path("s.db"), "--key-file", place.path("pass")])
        #expect(outcome.status == 0, "\(outcome.errors)")
        let pragmas = try place.run(["key", "reveal", place.path("s.db"), "--key-file", place.path("pass")]).output
        #expect(try fixture.runShell("s.db", pragmas + "SELECT count(*) FROM t;").contains("500"))
    }

    @Test(
        "the stock shell's databases of SQLCipher 1, 2 and 3 are copied, and the originals kept",
        .enabled(if: AdoptionFixture.shell != nil), arguments: [1, 2, 3])
    func olderVersions(_ version: Int) throws {
        try place.write(Workplace.passphrase, to: "pass")
        let key = "PRAGMA key = '\(Workplace.passphrase)'; PRAGMA cipher_compatibility = \(version);\n"
        try fixture.runShell("s.db", key + "PRAGMA user_version = 7;" + AdoptionFixture.content)
        let before = try place.bytes("s.db")
        let source = ["--key-file", place.path("pass")]
        let without = try place.run(["adopt", place.path("s.db")] + source)
        // Pages of version 1 have no code: their decrypted header shows the version.
        #expect(without.status == 64)
        #expect(without.errors.contains("--compatibility \(version)"), "\(without.errors)")
        #expect(try place.bytes("s.db") == before)

        let outcome = try place.run(["adopt", place.path("s.db"), "--compatibility", "\(version)", "--json"] + source)
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(outcome.json["original"] as? String == place.path("s.db.sqlcipher\(version)"))
        #expect(try place.bytes("s.db.sqlcipher\(version)") == before)
        let rows = try place.run(
            ["sql", place.path("s.db"), "SELECT count(*), sum(id) FROM t; PRAGMA user_version", "--mode", "csv"]
                + source)
        #expect(rows.output.contains("500,125250"), "\(rows.errors)")
        #expect(rows.output.contains("user_version\r\n7"))
        #expect(try place.run(["verify", place.path("s.db")] + source).status == 0)
        #expect(try fixture.runShell("s.db.sqlcipher\(version)", key + "SELECT count(*) FROM t;").contains("500"))
    }

    @Test(
        "the fixtures of SQLCipher 4 and 3, by several versions of it, are adopted",
        arguments: [
            ("v4-standard.db", 4), ("v3-standard.db", 3), ("sqlcipher-3.4.1.db", 3),
            ("sqlcipher-4.12.0-standard.db", 4),
        ])
    func fixtures(_ name: String, _ version: Int) throws {
        try place.write("test only: sesame street", to: "pass")
        try FileManager.default.copyItem(atPath: Workplace.fixture(name), toPath: place.path("s.db"))
        let key = ["--key-file", place.path("pass")]
        let outcome = try place.run(["adopt", place.path("s.db"), "--compatibility", "\(version)"] + key)
        #expect(outcome.status == 0, "\(outcome.errors)")
        let rows = try place.run(["sql", place.path("s.db"), "SELECT text FROM note", "--mode", "csv"] + key)
        #expect(rows.output.hasPrefix("text\r\none\r\ntwo\r\nΩ and ß\r\n"), "\(rows.errors)")
    }

    @Test("an original is never overwritten")
    func originalExists() throws {
        try place.write("test only: sesame street", to: "pass")
        try FileManager.default.copyItem(atPath: Workplace.fixture("v3-standard.db"), toPath: place.path("s.db"))
        try place.write("something else", to: "s.db.sqlcipher3")
        let outcome = try place.run(
            ["adopt", place.path("s.db"), "--compatibility", "3", "--key-file", place.path("pass")])
        #expect(outcome.status == 64)
        #expect(outcome.errors.contains("s.db.sqlcipher3\" exists"))
        #expect(try place.names() == ["raw.key", "pass", "s.db", "s.db.sqlcipher3"])
    }

    // The link was followed to the database itself, so the original seemed to be kept, and was lost.
    @Test("a link with the name of the original keeps nothing, and is refused")
    func linkedOriginal() throws {
        try place.write("test only: sesame street", to: "pass")
        try FileManager.default.copyItem(atPath: Workplace.fixture("v3-standard.db"), toPath: place.path("s.db"))
        let original = try place.bytes("s.db")
        try FileManager.default.createSymbolicLink(
            atPath: place.path("s.db.sqlcipher3"), withDestinationPath: "s.db")
        let outcome = try place.run(
            ["adopt", place.path("s.db"), "--compatibility", "3", "--key-file", place.path("pass")])
        #expect(outcome.status == 64 && outcome.errors.contains("s.db.sqlcipher3\" exists"), "\(outcome.errors)")
        #expect(try place.bytes("s.db") == original)
    }
}
