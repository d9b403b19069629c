import Foundation
import Testing

@Suite("cipherctl create")
struct CreateTests {
    @Test("makes a store with both copies of its sidecar, which opens with the same key")
    func create() throws {
        let place = try Workplace()
        let created = try place.ctl("create", place.path("s.db"), "--json")
        #expect(created.status == 0)
        #expect(created.json["epoch"] as? Int == 1)
        #expect(try place.names().isSuperset(of: ["s.db", "s.db-sidecar", "s.db-sidecar.bak"]))
        #expect(try place.bytes("s.db").starts(with: Array("SQLite format 3\0".utf8)))
        let rows = try place.ctl("sql", place.path("s.db"), "SELECT 1 AS one", "--mode", "csv")
        #expect(rows.output == "one\r\n1\r\n")
        #expect(try place.events() == ["store-created"])
    }

    @Test("every key source opens what the same key created")
    func keySources() throws {
        let place = try Workplace()
        try place.write(Workplace.passphrase + "\n", to: "pass")
        let created = try place.run(["create", place.path("s.db"), "--key-file", place.path("pass")])
        #expect(created.status == 0, "\(created.errors)")
        let sql = ["sql", place.path("s.db"), "SELECT 1"]
        let command = try place.run(sql + ["--key-command", "cat '\(place.path("pass"))'"])
        #expect(command.status == 0, "\(command.errors)")
        let environment = try place.run(sql + ["--key-env", "SECRET"], environment: ["SECRET": Workplace.passphrase])
        #expect(environment.status == 0)
        #expect(environment.errors.contains("warning: the key comes from the environment variable SECRET"))
        let credential = try place.run(
            sql + ["--key-credential", "pass"], environment: ["CREDENTIALS_DIRECTORY": place.folder.url.path])
        #expect(credential.status == 0, "\(credential.errors)")
        let descriptor = try place.run(sql + ["--key-fd", "0"], input: Workplace.passphrase)
        #expect(descriptor.status == 0, "\(descriptor.errors)")
    }

    @Test("does not touch what exists", arguments: ["s.db", "s.db-sidecar", "s.db-sidecar.bak"])
    func exists(_ name: String) throws {
        let place = try Workplace()
        try place.makeStore()
        for other in ["s.db", "s.db-sidecar", "s.db-sidecar.bak"] where other != name { try place.remove(other) }
        let before = try place.bytes(name)
        let again = try place.ctl("create", place.path("s.db"))
        #expect(again.status == 64)
        #expect(again.errors.contains("is not free for a new store"))
        #expect(try place.bytes(name) == before)
    }

    @Test("completes a creation that was killed", arguments: ["sidecarWritten", "databaseKeyed", "firstPageWritten"])
    func completes(_ crashPoint: String) throws {
        let place = try Workplace()
        let arguments = ["create", place.path("s.db"), "--raw-key-file", place.key]
        let killed = try place.run(arguments, environment: ["CIPHERSTORE_CRASH_AT": crashPoint])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        let sidecar = try place.bytes("s.db-sidecar")
        let completed = try place.run(arguments + ["--json"])
        #expect(completed.status == 0, "\(completed.errors)")
        #expect(completed.json["completed_earlier_creation"] as? Bool == true)
        // The same store, with the same salt: the line of the cipher is the third.
        let line = { (bytes: [UInt8]) in bytes.split(separator: 10)[2] }
        #expect(try line(place.bytes("s.db-sidecar")) == line(sidecar))
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
    }

    @Test("without a key and a terminal it ends with 64, and nothing is made")
    func noKey() throws {
        let place = try Workplace()
        let outcome = try place.run(["create", place.path("s.db")])
        #expect(outcome.status == 64)
        #expect(outcome.errors.contains("hint: Give one of: --key-file F"))
        #expect(try place.names() == ["raw.key"])
    }

    @Test(
        "a key file that others may read, and a key of the wrong form, are refused with 77",
        arguments: [("0644", 32), ("0660", 32), ("0600", 31), ("0600", 0)])
    func badKeyFile(_ mode: String, _ byteCount: Int) throws {
        let place = try Workplace()
        let bits = try #require(Int(mode, radix: 8))
        try Workplace.write([UInt8](repeating: 7, count: byteCount), to: place.path("bad"), mode: bits)
        try FileManager.default.setAttributes([.posixPermissions: bits], ofItemAtPath: place.path("bad"))
        let outcome = try place.ctl("create", place.path("s.db"), "--json", key: place.path("bad"))
        #expect(outcome.status == 77)
        #expect(outcome.errorJSON["code"] as? String == "invalidKey")
        #expect(try place.names() == ["raw.key", "bad"])
    }

    @Test("a directory that does not exist ends with 66")
    func noDirectory() throws {
        let place = try Workplace()
        #expect(try place.ctl("create", place.path("no/s.db")).status == 66)
    }
}
