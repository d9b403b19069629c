import Foundation
import TestKit
import Testing

/// Files of SQLite in the folder of a backup: somebody has opened its database with another program.
@Suite("cipherctl: files in the folder of a backup that are no part of it")
struct BackupCompanionTests {
    private let place: Workplace
    private var bundle: String { place.path("b") }

    init() throws {
        place = try Workplace()
        try place.makeBackup()
    }

    // `backup verify`, `status` and `restore` said that all was in order; `verify` and `sql` ended with 65.
    @Test(
        "a -wal or -journal has one verdict: each command names it, none reads it, and the backup is restored",
        arguments: ["-wal", "-journal"])
    func oneVerdict(ending: String) throws {
        let name = "store.db\(ending)"
        try Workplace.write([UInt8](repeating: 0x37, count: 20_000), to: "\(bundle)/\(name)", mode: 0o644)
        for words in [["backup", "verify"], ["verify"], ["status"], ["doctor"]] {
            let outcome = try place.run(words + [bundle, "--raw-key-file", place.key])
            let text = outcome.output + outcome.errors
            #expect(outcome.status == 2 && text.contains(name), "\(words): \(outcome.status) \(text)")
            #expect(text.contains("no part of the backup"), "\(words): \(text)")
            #expect(!text.contains("chmod 600 '\(bundle)/\(name)'"), "\(words): \(text)")
        }
        for words in [
            ["sql", bundle, "SELECT count(*) FROM t"], ["hash", bundle], ["restore", bundle, place.path("r.db")],
            ["export", bundle, place.path("plain.db"), "--insecure-plaintext"],
        ] {
            let outcome = try place.run(words + ["--raw-key-file", place.key])
            #expect(outcome.status == 0 && outcome.errors.contains(name), "\(words): \(outcome.errors)")
        }
        #expect(try place.ctl("sql", bundle, "SELECT count(*) FROM t").output.contains("3000"))
        #expect(try place.ctl("verify", place.path("r.db")).status == 0)
        #expect(try place.bytes("b/\(name)").count == 20_000)
    }

    @Test("an empty -wal and a -shm, which a reader leaves, are noted and need no attention")
    func leftByReader() throws {
        try Workplace.write([], to: "\(bundle)/store.db-wal")
        try Workplace.write([UInt8](repeating: 0, count: 32_768), to: "\(bundle)/store.db-shm", mode: 0o644)
        for words in [["backup", "verify"], ["verify"], ["status"], ["doctor"]] {
            let outcome = try place.run(words + [bundle, "--raw-key-file", place.key])
            let text = outcome.output + outcome.errors
            #expect(outcome.status == 0, "\(words): \(text)")
            #expect(text.contains("store.db-shm") == (words == ["doctor"]), "\(words): \(text)")
        }
    }
}
