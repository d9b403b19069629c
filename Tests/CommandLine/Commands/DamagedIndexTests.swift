import CipherStore
import Foundation
import TestKit
import Testing

/// Databases with an index that does not fit its table. A copy builds each index from the rows, and so hid the damage: an
/// index may be the last trace of rows that the table has lost.
@Suite("cipherctl: copies of a database with a damaged index")
struct DamagedIndexTests {
    private let place: Workplace

    init() throws { place = try Workplace() }

    /// Gives an index the definition of another one, so that its entries fit no row.
    private static let damaging = """
        CREATE TABLE t (a, b);
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
        INSERT INTO t SELECT i, (i * 7) % 501 FROM n;
        CREATE INDEX good ON t (a);
        CREATE INDEX bad ON t (a);
        PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET sql = 'CREATE INDEX bad ON t (b)' WHERE name = 'bad';
        """

    private func expectNamed(_ outcome: CommandRun.Outcome, _ what: String) {
        #expect(outcome.status == 2, "\(what): \(outcome.status) \(outcome.errors)\(outcome.output)")
        #expect(outcome.output.contains("index bad"), "\(what): \(outcome.errors)\(outcome.output)")
        #expect(!outcome.output.contains("index good"), "\(what): \(outcome.output)")
    }

    // `import`, `adopt` and `export` said nothing and ended with 0.
    @Test("an import names the damaged index, ends with 2, and the copy has the rows with a sound index")
    func imported() throws {
        try makeDamagedPlain()
        let outcome = try place.ctl("import", place.path("plain.db"), place.path("s.db"))
        expectNamed(outcome, "import")
        #expect(outcome.output.contains("the copy has the rows of the table"), "\(outcome.output)")
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
        try place.makePlain("CREATE TABLE t (a); CREATE INDEX i ON t (a); INSERT INTO t VALUES (1)", as: "sound.db")
        let sound = try place.ctl("import", place.path("sound.db"), place.path("sound"), "--json")
        #expect(sound.status == 0 && (sound.json["damaged_indexes"] as? [Any])?.isEmpty == true, "\(sound.output)")
    }

    @Test("an adoption names it, ends with 2, and the command that it recommends makes the store sound")
    func adopted() throws {
        try makeStandard()
        let outcome = try place.run(["adopt", place.path("c.db"), "--key-file", place.path("pass")])
        expectNamed(outcome, "adopt")
        let command = try #require(outcome.output.firstMatch(of: #/`(cipherctl sql [^`]*)`/#)?.1)
        let verify = ["verify", place.path("c.db"), "--key-file", place.path("pass")]
        #expect(try place.run(verify).status == 65)
        let line = "'\(try Workplace.program().path)'" + command.dropFirst("cipherctl".count)
        #expect(try CommandRun(#require(SystemProgram.find("sh")), ["-c", line]).finish().status == 0, "\(line)")
        #expect(try place.run(verify).status == 0)
    }

    @Test("an export names it and ends with 2, also in JSON")
    func exported() throws {
        try makeStandard()
        _ = try place.run(["adopt", place.path("c.db"), "--key-file", place.path("pass")])
        let words = ["--insecure-plaintext", "--key-file", place.path("pass")]
        expectNamed(try place.run(["export", place.path("c.db"), place.path("e.db")] + words), "export")
        let json = try place.run(["export", place.path("c.db"), place.path("f.db"), "--json"] + words)
        #expect(json.status == 2 && (json.json["damaged_indexes"] as? [String])?.count == 1, "\(json.output)")
    }

    /// Damages an index of a database as a program can that writes the schema table.
    private func damage(_ configuration: Configuration, _ name: String) throws {
        let queue = try DatabaseQueue(path: place.path(name), configuration: configuration)
        try queue.inDatabase { db in
            db.mayChangeStoreTables = true
            try db.execute(sql: Self.damaging)
        }
        try queue.close()
    }

    private func makeDamagedPlain() throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        try damage(configuration, "plain.db")
    }

    /// A database of SQLCipher 4 with a damaged index.
    private func makeStandard() throws {
        try place.write(Workplace.passphrase, to: "pass")
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.usePassphrase(Workplace.passphrase) }
        try damage(configuration, "c.db")
    }
}
