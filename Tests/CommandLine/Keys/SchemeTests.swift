import Foundation
import Testing

@Suite("cipherctl --scheme")
struct SchemeTests {
    private let place: Workplace

    init() throws { place = try Workplace() }

    private func scheme(_ name: String) throws -> String? {
        try place.ctl("status", place.path(name), "--json").json["scheme"] as? String
    }

    @Test("a new store has slots unless another scheme is asked for", arguments: [nil, "slots", "direct"])
    func create(_ scheme: String?) throws {
        let option = scheme.map { ["--scheme", $0] } ?? []
        let created = try place.run(["create", place.path("s.db"), "--json", "--raw-key-file", place.key] + option)
        #expect(created.status == 0, "\(created.errors)")
        #expect(created.json["scheme"] as? String == scheme ?? "slots")
        #expect(try self.scheme("s.db") == scheme ?? "slots")
        #expect(try place.ctl("sql", place.path("s.db"), "SELECT 1").status == 0)
    }

    @Test("an import makes the scheme that is asked for", arguments: [nil, "slots", "direct"])
    func importing(_ scheme: String?) throws {
        try place.makePlain("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        let option = scheme.map { ["--scheme", $0] } ?? []
        let imported = try place.run(
            ["import", place.path("plain.db"), place.path("s.db"), "--json", "--raw-key-file", place.key] + option)
        #expect(imported.status == 0, "\(imported.errors)")
        #expect(try self.scheme("s.db") == scheme ?? "slots")
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
    }

    @Test("a scheme that does not exist is refused before a key is asked for")
    func unknown() throws {
        for command in [["create", "s.db"], ["import", "p.db", "s.db"], ["adopt", "s.db"]] {
            let outcome = try place.run(command + ["--scheme", "ladder"])
            #expect(outcome.status == 64 && outcome.errors.contains("hint: Give --scheme slots"), "\(outcome.errors)")
        }
    }

    @Test("a creation that was cut keeps its scheme")
    func cut() throws {
        let arguments = ["create", place.path("s.db"), "--raw-key-file", place.key]
        let killed = try place.run(
            arguments + ["--scheme", "direct"], environment: ["CIPHERSTORE_CRASH_AT": "databaseKeyed"])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        #expect(try place.run(arguments).status == 0)
        #expect(try scheme("s.db") == "direct")
    }

    // It named neither the key that was wrong nor the one that opens the store afterwards.
    @Test("a conversion to a direct store names the key that is wrong, and the one that opens it afterwards")
    func toDirect() throws {
        let store = place.path("s.db")
        try place.write("a long passphrase for a store\n", to: "pass")
        try place.write("another long passphrase\n", to: "other")
        let key = ["--key-file", place.path("pass")]
        try #require(try place.run(["create", store, "--scheme", "direct"] + key).status == 0)
        try #require(try place.run(["key", "convert", store, "--to", "slots"] + key).status == 0)
        func convert(_ new: String, _ file: String) throws -> CommandRun.Outcome {
            try place.run(["key", "convert", store, "--to", "direct", "--yes", new, place.path(file)] + key)
        }
        let refused = try convert("--new-key-file", "other")
        #expect(refused.status == 77 && refused.errors.contains("The new key (key file"), "\(refused.errors)")
        #expect(refused.errors.contains(place.path("other")), "\(refused.errors)")
        #expect(refused.errors.contains("--new-raw-key-file"), "\(refused.errors)")
        let done = try convert("--new-key-file", "pass")
        #expect(done.status == 0 && done.output.contains("its one key is the passphrase (key file"), "\(done.errors)")
        // A random data key opens the other store.
        let random = place.path("r.db")
        try #require(try place.run(["create", random] + key).status == 0)
        let digits = try place.run(["key", "reveal", random, "--json"] + key).json["key"] as? String ?? ""
        let bytes = stride(from: 0, to: digits.count, by: 2).compactMap { offset in
            UInt8(digits.dropFirst(offset).prefix(2), radix: 16)
        }
        try Workplace.write(bytes, to: place.path("data"))
        let raw = try place.run(
            ["key", "convert", random, "--to", "direct", "--yes", "--new-raw-key-file", place.path("data")] + key)
        #expect(raw.status == 0 && raw.output.contains("its one key is the data key (raw key file"), "\(raw.errors)")
    }
}
