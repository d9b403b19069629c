import Foundation
import TestKit
import Testing

/// Another member of the group may write the folder of a repository, and has no key.
@Suite(
    "cipherctl with a repository in a shared folder",
    .enabled(if: SharedFolder.canExchange, "needs root, setpriv and python3"))
struct SharedRepositoryTests {
    private let shared: SharedFolder

    init() throws { shared = try SharedFolder() }

    private func makePlace(_ mode: mode_t) throws {
        let place = shared.path + "/repo"
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false)
        try #require(chown(place, SharedFolder.caller, SharedFolder.group) == 0 && chmod(place, mode) == 0)
        for table in ["a", "b", "c"] {
            try run(["sql", "app.db", "CREATE TABLE \(table) (x)", "--write"])
            try run(["backup", "app.db", "--to", "repo", "--create"])
        }
    }

    private func run(_ words: [String]) throws {
        let outcome = try shared.run(words)
        try #require(outcome.status == 0, "\(words): \(outcome.errors)")
    }

    /// Lets the attacker store copies of a record with greater sequence numbers.
    private func forge(_ numbers: [String]) throws {
        let script = """
            import hashlib, os, sys
            name = os.listdir("repo/b")[0]
            record = bytearray(open("repo/b/" + name, "rb").read())
            for number in sys.argv[1:]:
                record[40:48] = int(number).to_bytes(8, "big")
                open("repo/b/" + hashlib.sha256(record).hexdigest(), "wb").write(record)
            """
        let outcome = try shared.attack(["/usr/bin/python3", "-c", script] + numbers).finish()
        try #require(outcome.status == 0, "\(outcome.errors)")
    }

    private func ids() throws -> (proven: [String], unproven: [String]) {
        let listed = try shared.run(["backup", "list", "repo", "--json"])
        let backups = try #require(listed.json["backups"] as? [[String: Any]], "\(listed.errors)")
        func ids(_ isUnproven: Bool) -> [String] {
            backups.filter { $0["unproven"] as? Bool == isUnproven }.compactMap { $0["backup"] as? String }
        }
        return (ids(false), ids(true))
    }

    // Story: one forged record made `backup prune` remove every genuine backup, and each later backup end by SIGILL.
    @Test("records of another user displace no backup", arguments: [0o2770, 0o3770] as [mode_t])
    func forgery(mode: mode_t) throws {
        try makePlace(mode)
        try forge(["99", "18446744073709551615"])
        let genuine = try ids()
        #expect(genuine.proven.count == 3 && genuine.unproven.count == 2)
        let pruned = try shared.run(["backup", "prune", "repo", "--keep-last", "2", "--yes", "--json"], withKey: false)
        #expect(pruned.status == 0 && pruned.json["removed"] as? Int == 1, "\(pruned.errors)")
        let decisions = try #require(pruned.json["backups"] as? [[String: Any]])
        let uncounted = decisions.filter { $0["counted"] as? Bool == false }
        #expect(uncounted.count == 2 && uncounted.allSatisfy { ($0["kept_by"] as? [String])?.isEmpty == true })
        #expect(try ids().proven == Array(genuine.proven.suffix(2)))
        let lines = try shared.run(["backup", "prune", "repo", "--keep-last", "2", "--dry-run"], withKey: false)
        #expect(lines.output.contains("kept: perhaps written by another user, and not counted"), "\(lines.output)")
        let withKey = try shared.run(["backup", "prune", "repo", "--keep-last", "1", "--yes"])
        #expect(withKey.status == 0, "\(withKey.errors)")
        #expect(withKey.output.contains("kept: not authentic under this key, and not counted"), "\(withKey.output)")
        #expect(try ids().proven == Array(genuine.proven.suffix(1)))
        try run(["backup", "app.db", "--to", "repo"])
        let restored = try shared.run(["restore", "repo", "new.db"])
        #expect(restored.status == 0 && restored.errors.contains("another user"), "\(restored.errors)")
    }

    // Story: one file without permissions in the folder of records made each command fail.
    @Test("a record that cannot be read is a notice if another user has put it there")
    func unreadable() throws {
        try makePlace(0o2770)
        let name = "repo/b/" + String(repeating: "c", count: 64)
        let planted = try shared.attack(["sh", "-c", "echo x > \(name) && chmod 0 \(name)"]).finish()
        try #require(planted.status == 0, "\(planted.errors)")
        let pruned = try shared.run(["backup", "prune", "repo", "--keep-last", "1", "--yes", "--json"], withKey: false)
        #expect(pruned.status == 0 && pruned.json["removed"] as? Int == 2, "\(pruned.errors)")
        #expect(pruned.errors.contains("may not be read by this user"), "\(pruned.errors)")
        #expect(try shared.run(["restore", "repo", "new.db"]).status == 0)
    }

    // Story: the folder of a repository was exchanged for a link into a private folder, where a prune removed backups.
    @Test("each command refuses a link of another user in the path of a repository")
    func link() throws {
        let vault = shared.home + "/private/vault"
        try FileManager.default.createDirectory(atPath: vault, withIntermediateDirectories: false)
        try #require(chown(vault, SharedFolder.caller, SharedFolder.group) == 0 && chmod(vault, 0o700) == 0)
        try run(["backup", "app.db", "--to", "../own/private/vault", "--create"])
        try run(["backup", "app.db", "--to", "../own/private/vault"])
        let before = FolderSnapshot(path: vault)
        try shared.plant(.linkToFolder, at: "link")
        let linked = try shared.attack(["ln", "-s", vault, "repo"]).finish()
        try #require(linked.status == 0)
        for place in ["repo", "link/vault"] {
            for words in [
                ["backup", "app.db", "--to", place], ["backup", "app.db", "--to", place, "--create"],
                ["backup", "list", place], ["backup", "verify", place], ["restore", place, "new.db"],
                ["backup", "prune", place, "--keep-last", "1", "--yes"], ["sql", "\(place)@01234567", "SELECT 1"],
            ] {
                let outcome = try shared.run(words)
                #expect(
                    outcome.status == 64 && outcome.errors.contains("is a symbolic link of another user"),
                    "\(words): \(outcome.status) \(outcome.errors)")
            }
        }
        #expect(FolderSnapshot(path: vault).changes(until: before).isEmpty)
    }
}
