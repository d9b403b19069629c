import Foundation
import TestKit
import Testing

/// Keys that devices keep, with the plugins of the repository and SoftHSM.
@Suite("cipherctl and keys that devices keep", .serialized)
struct DeviceCommandTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }
    private static let hasAge = FileManager.default.isExecutableFile(atPath: "/usr/bin/age")
    private static let module = ["/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/softhsm/libsofthsm2.so"].first {
        FileManager.default.fileExists(atPath: $0)
    }

    init() throws {
        place = try Workplace()
        try place.makeStore()
        try FileManager.default.createDirectory(
            atPath: place.path("plugins"), withIntermediateDirectories: false,
            attributes: [.posixPermissions: 0o755])
        for name in ["cipherctl-key-age", "cipherctl-key-transit"] {
            let source = Workplace.repositoryRoot.appendingPathComponent("Docs/plugins/\(name)")
            try Workplace.write(Array(try Data(contentsOf: source)), to: place.path("plugins/\(name)"), mode: 0o755)
        }
    }

    private func ctl(
        _ arguments: String..., key: [String]? = nil, environment: [String: String] = [:]
    ) throws -> CommandRun.Outcome {
        try place.run(
            arguments + (key ?? ["--raw-key-file", place.key]),
            environment: ["CIPHERSTORE_PLUGIN_PATH": place.path("plugins")].merging(environment) { $1 })
    }

    private func identity(_ name: String) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/age-keygen")
        process.arguments = ["-o", place.path(name)]
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        return "identity=\(place.path(name))"
    }

    /// The reader of another implementation opens the keyslot, and finds the data key.
    private func expectReader(_ source: [String], environment: [String: String] = [:], slot: Int = 2) throws {
        let python = URL(filePath: "/usr/bin/python3")
        let script = Workplace.repositoryRoot.appendingPathComponent("Keys/generators/open_slot.py").path
        guard try CommandRun(python, ["-c", "import cryptography"]).finish().status == 0 else { return }
        let read = try CommandRun(python, [script, store, "--show-key"] + source, environment: environment).finish()
        #expect(read.errors.contains("slot \(slot) "), "\(read.errors)")
        let revealed = try ctl("key", "reveal", store, "--json")
        #expect(read.json["key"] as? String == revealed.json["key"] as? String)
    }

    private func slots() throws -> [[String: Any]] {
        try ctl("key", "list", store, "--json", key: []).json["slots"] as? [[String: Any]] ?? []
    }

    @Test(
        "an age identity opens a store, is listed, tested, kept by a rotation without it, and removed",
        .enabled(if: hasAge, "age is not installed: make setup"))
    func age() throws {
        let option = ["--plugin-option", try identity("id")]
        let byPlugin = ["--key-plugin", "age"] + option
        let added = try ctl(
            "key", "add", store, "--new-key-plugin", "age", "--plugin-option", option[1], "--label", "laptop")
        #expect(added.status == 0, "\(added.errors)")
        #expect(added.output.contains("slot 2 (plugin age \"laptop\")"))
        let slot = try #require(try slots().last)
        #expect(slot["kind"] as? String == "plugin" && slot["device"] as? String == "age")
        #expect(try ctl("key", "list", store, key: []).output.contains("plugin"))
        #expect(try ctl("status", store, "--no-key", key: []).output.contains("2 plugin \"laptop\", age"))
        let test = try ctl("key", "test", store, key: byPlugin)
        #expect(test.status == 0 && test.output.contains("slot 2"), "\(test.errors)")
        #expect(test.errors.contains("waiting for plugin \"age\""))
        #expect(try ctl("sql", store, "SELECT count(*) FROM t", key: byPlugin).output.contains("3000"))
        try expectReader(["--plugin", place.path("plugins/cipherctl-key-age"), "--option", option[1]])
        // Without the identity file: the recipient in the slot is enough to keep it.
        try FileManager.default.moveItem(atPath: place.path("id"), toPath: place.path("away"))
        let rotated = try ctl(
            "rotate", store, "--compromised", "--no-backup", "--also-key-plugin", "age", "--yes")
        #expect(rotated.status == 0, "\(rotated.errors)")
        #expect(try slots().count == 2)
        let missing = try ctl("key", "test", store, key: byPlugin)
        #expect(missing.status != 0 && missing.errors.contains("1 (key-file)"), "\(missing.errors)")
        try FileManager.default.moveItem(atPath: place.path("away"), toPath: place.path("id"))
        #expect(try ctl("key", "test", store, key: byPlugin).status == 0)
        #expect(try ctl("key", "remove", store, "--slot", "2", "--yes").status == 0)
        #expect(try ctl("key", "test", store, key: byPlugin).status == 77)
        #expect(
            try place.bytes("s.db-sidecar").starts(
                with: Array("{\"format\":\"cipherstore-sidecar\",\"version\":2}".utf8)))
    }

    @Test("a change after which devices alone keep the keys needs --yes", .enabled(if: hasAge, "age is not installed"))
    func alone() throws {
        let option = try identity("id")
        let change = ["key", "change", store, "--new-key-plugin", "age", "--plugin-option", option]
        let refused = try place.run(
            change + ["--raw-key-file", place.key], environment: ["CIPHERSTORE_PLUGIN_PATH": place.path("plugins")])
        #expect(refused.status == 64 && refused.errors.contains("--yes"), "\(refused.errors)")
        #expect(try slots().first?["kind"] as? String == "key-file")
        let changed = try place.run(
            change + ["--raw-key-file", place.key, "--yes"],
            environment: ["CIPHERSTORE_PLUGIN_PATH": place.path("plugins")])
        #expect(changed.status == 0, "\(changed.errors)")
        #expect(try slots().first?["kind"] as? String == "plugin")
        let created = try ctl(
            "create", place.path("new.db"), key: ["--key-plugin", "age", "--plugin-option", option])
        #expect(created.status != 0 && created.errors.contains("recovery key"), "\(created.errors)")
        #expect(!place.exists("new.db"))
    }

    @Test("a key service opens a store while it gives the secret, and its token is in no argument or environment")
    func transit() throws {
        let server = try TransitServer()
        try place.write(TransitServer.token + "\n", to: "token")
        let options = ["url=\(server.url)", "key=app", "token-file=\(place.path("token"))"]
            .flatMap { ["--plugin-option", $0] }
        let byService = ["--key-plugin", "transit"] + options
        let added = try place.run(
            ["key", "add", store, "--new-key-plugin", "transit", "--raw-key-file", place.key] + options,
            environment: ["CIPHERSTORE_PLUGIN_PATH": place.path("plugins")])
        #expect(added.status == 0, "\(added.errors)")
        #expect(try ctl("sql", store, "SELECT count(*) FROM t", key: byService).output.contains("3000"))
        try place.remove("token")
        try place.write("wrong", to: "token")
        let refused = try ctl("key", "test", store, key: byService)
        #expect(refused.status == 77 && refused.errors.contains("refuses the token"), "\(refused.errors)")
        try place.remove("token")
        try place.write(TransitServer.token, to: "token", mode: 0o644)
        #expect(try ctl("key", "test", store, key: byService).errors.contains("chmod 600"))
        try place.remove("token")
        try place.write(TransitServer.token, to: "token")
        let elsewhere = byService.map { $0.replacing("key=app", with: "key=elsewhere") }
        #expect(try ctl("key", "test", store, key: elsewhere).errors.contains("302"))
        let foreign = byService.map { $0.replacing("http://127.0.0.1", with: "http://192.0.2.1") }
        #expect(try ctl("key", "test", store, key: foreign).errors.contains("https"))
        server.stop()
        let gone = try ctl("key", "test", store, key: byService)
        #expect(gone.status != 0 && gone.errors.contains("does not answer"), "\(gone.errors)")
    }

    @Test(
        "a PKCS#11 token opens a store by its PIN, and another PIN does not",
        .enabled(if: module != nil, "SoftHSM 2 is not installed: make setup"))
    func token() throws {
        let module = try #require(Self.module)
        try FileManager.default.createDirectory(
            atPath: place.path("tokens"), withIntermediateDirectories: false)
        try place.write(
            "directories.tokendir = \(place.path("tokens"))\nobjectstore.backend = file\nlog.level = ERROR\n",
            to: "conf")
        let environment = ["SOFTHSM2_CONF": place.path("conf")]
        for (program, arguments) in [
            (
                "/usr/bin/softhsm2-util",
                ["--init-token", "--free", "--label", "card", "--pin", "1234", "--so-pin", "12345678"]
            ),
            (
                "/usr/bin/pkcs11-tool",
                [
                    "--module", module, "--token-label", "card", "--login", "--pin", "1234", "--keygen", "--key-type",
                    "AES:32", "--label", "store",
                ]
            ),
        ] {
            let made = try CommandRun(URL(filePath: program), arguments, environment: environment).finish()
            try #require(made.status == 0, "\(made.errors)")
        }
        try place.write("1234\n", to: "pin")
        try place.write("4321\n", to: "wrong")
        let settings = ["--pkcs11-module", module, "--pin-file", place.path("pin")]
        let added = try place.run(
            ["key", "add", store, "--new-key-pkcs11", "pkcs11:token=card;object=store", "--raw-key-file", place.key]
                + settings, environment: environment)
        #expect(added.status == 0, "\(added.errors)")
        let byToken = ["--key-pkcs11", "pkcs11:token=card"] + settings
        let read = try ctl("sql", store, "SELECT count(*) FROM t", key: byToken, environment: environment)
        #expect(read.status == 0 && read.output.contains("3000"), "\(read.errors)")
        #expect(try slots().last?["device"] as? String == "card")
        try makePair(module, environment)
        let second = try place.run(
            [
                "key", "add", store, "--new-key-pkcs11", "pkcs11:token=card;object=pair;type=private", "--raw-key-file",
                place.key,
            ]
                + settings, environment: environment)
        #expect(second.status == 0, "\(second.errors)")
        #expect(try ctl("key", "test", store, key: byToken, environment: environment).output.contains("slot 3"))
        try expectReader(
            ["--pkcs11-module", module], environment: environment.merging(["PIN": "1234"]) { $1 }, slot: 3)
        try expectWrongPIN(byToken, environment)
        try expectNoPINInURI(environment)
    }

    private func expectNoPINInURI(_ environment: [String: String]) throws {
        let inURI = try ctl(
            "key", "test", store, key: ["--key-pkcs11", "pkcs11:token=card?pin-value=1234"], environment: environment)
        #expect(inURI.status != 0 && !inURI.errors.contains("1234"), "\(inURI.errors)")
    }

    private func expectWrongPIN(_ byToken: [String], _ environment: [String: String]) throws {
        let wrong = try ctl(
            "key", "test", store, key: byToken.map { $0 == place.path("pin") ? place.path("wrong") : $0 },
            environment: environment)
        #expect(wrong.status == 77 && wrong.errors.contains("PIN is wrong"), "\(wrong.errors)")
    }

    private func makePair(_ module: String, _ environment: [String: String]) throws {
        let pair = try CommandRun(
            URL(filePath: "/usr/bin/pkcs11-tool"),
            [
                "--module", module, "--token-label", "card", "--login", "--pin", "1234", "--keypairgen", "--key-type",
                "rsa:2048", "--label", "pair", "--id", "02",
            ], environment: environment
        ).finish()
        try #require(pair.status == 0, "\(pair.errors)")
    }

    @Test("a plugin that is not there, and options that cannot be used, are refused before anything is asked")
    func mistakes() throws {
        let missing = try ctl("key", "test", store, key: ["--key-plugin", "none"])
        #expect(missing.status != 0 && !missing.errors.isEmpty)
        #expect(try ctl("key", "test", store, key: ["--key-plugin", "../age"]).status != 0)
        #expect(
            try ctl("key", "test", store, key: ["--key-plugin", "age", "--plugin-option", "identity"]).status == 64)
        let twice = ["--key-plugin", "age", "--plugin-option", "a=1", "--plugin-option", "a=2"]
        #expect(try ctl("key", "test", store, key: twice).status == 64)
        let pins = ["--key-pkcs11", "1", "--pin-file", "a", "--pin-command", "b"]
        #expect(try ctl("key", "test", store, key: pins).status == 64)
        #expect(try ctl("key", "test", store, key: ["--key-pkcs11", "1"]).errors.contains("module"))
    }
}
