import Foundation
import Testing

@Suite("cipherctl keeps keys to itself")
struct SecrecyTests {
    private static let secret = "marker-4711-passphrase"

    @Test("no command prints the passphrase, and only key reveal the key")
    func outputs() throws {
        let place = try Workplace()
        try place.write(Self.secret + "\n", to: "pass")
        try place.makePlain("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        let key = ["--key-file", place.path("pass")]
        let store = place.path("s.db")
        let revealed = try { () -> String in
            #expect(try place.run(["import", place.path("plain.db"), store] + key).status == 0)
            let outcome = try place.run(["key", "reveal", store, "--json"] + key)
            return try #require(outcome.json["key"] as? String)
        }()
        let runs = [
            ["sql", store, "SELECT * FROM t"], ["sql", store, "SELECT * FROM nowhere"], ["sql", store, "DROP TABLE t"],
            ["status", store], ["verify", store], ["hash", store], ["create", store], ["import", store, store],
        ]
        for arguments in runs {
            for json in [[], ["--json"]] {
                let outcome = try place.run(arguments + key + json)
                for text in [outcome.output, outcome.errors] {
                    #expect(!text.contains(Self.secret), "\(arguments[0])")
                    #expect(!text.lowercased().contains(revealed), "\(arguments[0])")
                }
            }
        }
    }

    @Test("what is typed in the wrong place is not repeated")
    func wrongPlace() throws {
        let place = try Workplace()
        let runs = [
            ["create", "s.db", Self.secret], ["create", "s.db", "--key", Self.secret],
            ["create", "s.db", "--passphrase=\(Self.secret)"], ["create", "s.db", "--key-fd", Self.secret],
            [Self.secret], ["help", Self.secret],
        ]
        for arguments in runs {
            let outcome = try place.run(arguments)
            #expect(outcome.status == 64)
            #expect(!(outcome.output + outcome.errors).contains(Self.secret), "\(arguments)")
        }
    }

    @Test("SQL that holds a key is refused without showing it")
    func keyInSQL() throws {
        let place = try Workplace()
        try place.makeStore()
        for sql in ["PRAGMA rekey = '\(Self.secret)'", "ATTACH 'x.db' AS x KEY '\(Self.secret)'"] {
            let outcome = try place.ctl("sql", place.path("s.db"), sql, "--write")
            #expect(outcome.status != 0)
            #expect(!outcome.errors.contains(Self.secret))
        }
    }

    // SIGQUIT is tried at a prompt (PromptTests): the threads that run tests block it, and what they start inherits that.
    @Test("a crash ends it by its signal, and prints nothing", arguments: [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP])
    func crash(signal: Int32) throws {
        let place = try Workplace()
        try place.makeStore()
        let crashed = try place.run([
            "sql", place.path("s.db"), "SELECT 1", "--key-command", "sh -c 'kill -\(signal) $PPID; echo x'",
        ])
        #expect(crashed.status == 128 + signal && (crashed.output + crashed.errors).isEmpty, "\(crashed.errors)")
    }

    @Test(
        "no core of a process with the key can be dumped, and none of the same user reads its memory",
        .enabled(if: FileManager.default.fileExists(atPath: "/proc/self/limits"), "needs /proc"))
    func noCore() throws {
        let place = try Workplace()
        try place.makeStore()
        // Its key command looks at the process that started it.
        let limits = try place.run([
            "sql", place.path("s.db"), "SELECT 1", "--key-command",
            "sh -c 'grep \"Max core\" /proc/$PPID/limits >&2; stat -c %u /proc/$PPID/mem >&2; echo x'",
        ])
        let line = try #require(limits.errors.split(separator: "\n").first { $0.hasPrefix("Max core") })
        #expect(line.split(separator: " ").dropFirst(4).prefix(2) == ["0", "0"], "\(line)")
    }
}
