import Foundation
import TestKit
import Testing

/// OpenSSL whose configuration takes away what stores need.
///
/// The story: `create` left a database file without a byte, a lock file and a sidecar, and said "cryptography failed".
@Suite("cipherctl and the configuration of OpenSSL")
struct CommandCryptoLibraryTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
        try place.makePlain("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        try place.write(
            """
            openssl_conf = start
            [start]
            providers = providers
            [providers]
            null = only
            [only]
            activate = 1
            """, to: "null.cnf")
        try place.write(
            """
            openssl_conf = start
            [start]
            alg_section = properties
            [properties]
            default_properties = fips=yes
            """, to: "fips.cnf")
    }

    private static let commands: [[String]] = [
        ["create", "new.db"], ["import", "plain.db", "new.db"], ["adopt", "plain.db"], ["sql", "s.db", "SELECT 1"],
        ["sql", "s.db", "DELETE FROM t", "--write"], ["verify", "s.db"], ["hash", "--plain", "plain.db"],
        ["status", "s.db"], ["status", "s.db", "--no-key"], ["key", "list", "s.db"], ["key", "test", "s.db"],
        ["key", "log", "s.db"], ["backup", "s.db", "b"], ["rotate", "s.db", "--no-backup"],
        ["destroy", "s.db", "--yes"], ["sync", "init", "s.db", "--all-tables"],
    ]

    @Test(
        "without the default provider, and in FIPS mode, nothing is begun and the way out is named",
        arguments: ["null.cnf", "fips.cnf"], commands)
    func refused(configuration: String, words: [String]) throws {
        let before = try place.names()
        let keyless = ["--plain", "--no-key", "destroy", "log"].contains { words.contains($0) }
        let outcome = try place.run(
            words + ["--json"] + (keyless ? [] : ["--raw-key-file", place.key]),
            environment: ["OPENSSL_CONF": place.path(configuration)])
        #expect(outcome.status == 78, "\(outcome.errors)")
        #expect(outcome.errorJSON["code"] as? String == "unsupportedLibrary", "\(outcome.errors)")
        #expect((outcome.errorJSON["hint"] as? String)?.contains("OPENSSL_CONF") == true, "\(outcome.errors)")
        let isFIPS = (outcome.errorJSON["message"] as? String)?.contains("FIPS") == true
        #expect(isFIPS == (configuration == "fips.cnf"), "\(outcome.errors)")
        #expect(try place.names() == before)
    }

    @Test("doctor reports it, and help needs no cryptography", arguments: ["null.cnf", "fips.cnf"])
    func doctor(configuration: String) throws {
        let environment = ["OPENSSL_CONF": place.path(configuration)]
        let outcome = try place.run(
            ["doctor", place.path("s.db"), "--json", "--raw-key-file", place.key], environment: environment)
        #expect(outcome.status == 2, "\(outcome.errors)")
        let findings = outcome.json["findings"] as? [[String: Any]] ?? []
        #expect(findings.count { $0["code"] as? String == "unsupportedLibrary" } == 1, "\(outcome.output)")
        for words in [["--version"], ["help"], ["man"]] {
            #expect(try place.run(words, environment: environment).status == 0, "\(words)")
        }
    }

    @Test("with OPENSSL_CONF=/dev/null, as the hint says, it works")
    func wayOut() throws {
        let outcome = try place.run(
            ["create", "new.db", "--raw-key-file", place.key], environment: ["OPENSSL_CONF": "/dev/null"])
        #expect(outcome.status == 0, "\(outcome.errors)")
    }
}
