import CipherStore
import Foundation
import Testing

@Suite("cipherctl key reveal")
struct RevealTests {
    private let place: Workplace

    init() throws { place = try Workplace() }

    @Test("prints key, salt, page size and header size as JSON")
    func json() throws {
        try place.makeStore()
        let json = try place.ctl("key", "reveal", place.path("s.db"), "--json").json
        #expect(Set(json.keys) == ["key", "salt", "page_bytes", "plaintext_header_bytes"])
        // The data key of slots is random; that of a direct store with a raw key is this key.
        #expect((json["key"] as? String)?.count == 64 && json["key"] as? String != String(repeating: "2a", count: 32))
        #expect(try place.ctl("create", place.path("d.db"), "--scheme", "direct").status == 0)
        let direct = try place.ctl("key", "reveal", place.path("d.db"), "--json").json
        #expect(direct["key"] as? String == String(repeating: "2a", count: 32))
        #expect((json["salt"] as? String)?.count == 32)
        #expect(json["page_bytes"] as? Int == 4096)
        #expect(json["plaintext_header_bytes"] as? Int == 32)
    }

    @Test("the stock shell opens the store with what is printed, and what it writes is seen", .enabled(if: hasShell))
    func stockShell() throws {
        try place.makeStore()
        let pragmas = try place.ctl("key", "reveal", place.path("s.db")).output
        let rows = try shell(
            pragmas + "SELECT count(*) FROM t;\nINSERT INTO t (id, text) VALUES (9000, 'from the shell');\n")
        #expect(rows.contains("3000"), "\(rows)")
        try expectRow("from the shell")
    }

    @Test("the stock shell opens a direct store with passphrase, header size and salt", .enabled(if: hasShell))
    func stockShellWithPassphrase() throws {
        try place.write(Workplace.passphrase, to: "pass")
        let key = ["--key-file", place.path("pass")]
        #expect(try place.run(["create", place.path("s.db"), "--scheme", "direct"] + key).status == 0)
        let salt = try place.run(["key", "reveal", place.path("s.db"), "--json"] + key).json["salt"] as? String
        let text = """
            PRAGMA key = '\(Workplace.passphrase)';
            PRAGMA cipher_plaintext_header_size = 32;
            PRAGMA cipher_salt = "x'\(try #require(salt))'";
            PRAGMA wal_autocheckpoint = 0;
            CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT);
            INSERT INTO t VALUES (9000, 'by passphrase');
            """
        _ = try shell(text)
        let rows = try place.run(["sql", place.path("s.db"), "SELECT text FROM t", "--mode", "csv"] + key)
        #expect(rows.output == "text\r\nby passphrase\r\n", "\(rows.errors)")
        #expect(try place.run(["verify", place.path("s.db")] + key).status == 0)
    }

    @Test("pages of another size are told to the stock shell", .enabled(if: hasShell))
    func pageSize() throws {
        try place.makePlain("PRAGMA page_size = 8192; CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")
        #expect(try place.ctl("import", place.path("plain.db"), place.path("s.db")).status == 0)
        let pragmas = try place.ctl("key", "reveal", place.path("s.db")).output
        _ = try shell(pragmas + "INSERT INTO t VALUES (9000, 'large pages');\n")
        try expectRow("large pages")
    }

    private func expectRow(_ text: String) throws {
        let rows = try place.ctl("sql", place.path("s.db"), "SELECT text FROM t WHERE id = 9000", "--mode", "csv")
        #expect(rows.output == "text\r\n\(text)\r\n", "\(rows.errors)")
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
    }

    private func shell(_ sql: String) throws -> String {
        let program = try #require(SystemProgram.find("sqlcipher"))
        let outcome = try CommandRun(program, ["-batch", place.path("s.db")], input: sql).finish()
        #expect(outcome.status == 0, "\(outcome.errors)")
        return outcome.output
    }

    static var hasShell: Bool { SystemProgram.find("sqlcipher") != nil }
}
