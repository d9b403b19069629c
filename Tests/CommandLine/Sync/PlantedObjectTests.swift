import Foundation
import TestKit
import Testing

/// Another member of the group puts objects into the folder of a remote that the caller may not read.
@Suite(
    "cipherctl with a remote in a shared folder",
    .enabled(if: SharedFolder.canExchange, "needs root, setpriv and python3"))
struct PlantedObjectTests {
    private let shared: SharedFolder

    init() throws { shared = try SharedFolder() }

    private func run(_ words: [String]) throws {
        let outcome = try shared.run(words)
        try #require(outcome.status == 0, "\(words): \(outcome.errors)")
    }

    // Story: one file of mode 0 ended every exchange of every member with "Permission denied".
    @Test("an object that may not be read does not end an exchange", arguments: ["c", "m", "s"])
    func unreadable(kind: String) throws {
        let remote = shared.path + "/remote"
        try FileManager.default.createDirectory(atPath: remote, withIntermediateDirectories: false)
        try #require(chown(remote, SharedFolder.caller, SharedFolder.group) == 0 && chmod(remote, 0o2770) == 0)
        try run(["sync", "init", "app.db", "--table", "t", "--remote", "dir:\(remote)"])
        try run(["sync", "run", "app.db"])
        let script = """
            import os, sys
            kind, place = sys.argv[1], sys.argv[2]
            place += "/" + [name for name in os.listdir(place) if len(name) == 32][0]
            author = os.listdir(place + "/c")[0].split("-")[0]
            name = {"c": author + "-990-990-" + "1" * 16 + "-1-1-" + "c" * 32, "m": "d" * 32, "s": author + "-" + "e" * 32}[kind]
            os.makedirs(place + "/" + kind, exist_ok=True)
            os.close(os.open(place + "/" + kind + "/" + name, os.O_CREAT | os.O_WRONLY, 0))
            """
        let planted = try shared.attack(["/usr/bin/python3", "-c", script, kind, remote]).finish()
        try #require(planted.status == 0, "\(planted.errors)")
        try run(["sql", "app.db", "INSERT INTO t VALUES (3, 'c')", "--write"])
        try run(["sync", "commit", "app.db"])
        let outcome = try shared.run(["sync", "run", "app.db"])
        #expect([0, 2].contains(outcome.status) && !outcome.errors.contains("Permission denied"), "\(outcome.errors)")
        let count = try FileManager.default.subpathsOfDirectory(atPath: remote).count { $0.contains("/c/") }
        #expect(count >= (kind == "c" ? 3 : 2), "the commit was not sent")
    }
}
