import Foundation
import TestKit
import Testing

@testable import cipherctl

/// A store whose sidecar was put back to before the loss of a key.
@Suite("cipherctl key accept")
struct KeyAcceptTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }
    private static let endings = ["-sidecar", "-sidecar.bak"]

    /// A store with two keys.
    init() throws {
        place = try Workplace()
        try place.makeStore()
        try Workplace.write([UInt8](repeating: 0x2b, count: 32), to: place.path("second.key"))
        try add("second.key")
    }

    private func add(_ key: String) throws {
        let added = try place.ctl("key", "add", store, "--new-raw-key-file", place.path(key))
        try #require(added.status == 0 && added.errors.isEmpty, "\(added.errors)")
    }

    @discardableResult
    private func remove(_ slot: Int = 2) throws -> CommandRun.Outcome {
        let removed = try place.ctl("key", "remove", store, "--slot", "\(slot)", "--yes")
        try #require(removed.status == 0, "\(removed.errors)")
        return removed
    }

    private func keepCopies() throws {
        for ending in Self.endings { try place.copy("s.db" + ending, to: "former" + ending) }
    }

    private func putBack() throws {
        for ending in Self.endings { try place.copy("former" + ending, to: "s.db" + ending) }
    }

    // Story: it salvaged every row into a store of the removed key, as "complete", with exit code 0.
    @Test("a salvage by a removed key and the former sidecar is reported")
    func salvage() throws {
        try keepCopies()
        try remove()
        try putBack()
        let outcome = try place.ctl("salvage", store, place.path("out.db"), "--json", key: place.path("second.key"))
        #expect(outcome.status == 2, "\(outcome.errors)")
        #expect(outcome.json["rolled_back"] as? Bool == true)
        #expect(outcome.errors.contains("the sidecar is older than the store records"), "\(outcome.errors)")
    }

    @Test("every command that opens the store refuses it; accepted it opens, with the keys listed and the log telling")
    func accepting() throws {
        try keepCopies()
        #expect(try remove().errors.isEmpty)
        try putBack()
        for key in [place.key, place.path("second.key")] {
            for arguments in [
                ["sql", store, "SELECT 1"], ["sql", store, "SELECT 1", "--write"], ["verify", store], ["hash", store],
                ["backup", store, place.path("backup")], ["rotate", store, "--no-backup"],
                ["key", "label", store, "--slot", "1", "--label", "a"],
                ["key", "remove", store, "--slot", "1", "--yes"],
            ] {
                let outcome = try place.run(arguments + ["--raw-key-file", key])
                #expect(outcome.status == 65 && outcome.errors.contains("generation"), "\(arguments): \(outcome)")
            }
        }
        let refused = try place.ctl("sql", store, "SELECT 1", "--json")
        #expect(refused.errorJSON["code"] as? String == "sidecarRolledBack")
        #expect((refused.errorJSON["hint"] as? String)?.contains("cipherctl key accept") == true)
        let unasked = try place.ctl("key", "accept", store)
        #expect(unasked.status == 64 && unasked.errors.contains("--yes"))
        let accepted = try place.ctl("key", "accept", store, "--yes", key: place.path("second.key"))
        #expect(accepted.status == 0 && accepted.output.hasPrefix("accepted: "), "\(accepted)")
        #expect(accepted.output.contains("2     key-file") && accepted.output.contains("<- this key"))
        for key in [place.key, place.path("second.key")] {
            #expect(try place.ctl("verify", store, key: key).status == 0)
        }
        #expect(try place.run(["key", "log", store]).output.contains("sidecar-accepted"))
        let again = try place.ctl("key", "accept", store, "--yes", "--json")
        #expect(again.status == 0 && again.json["rolled_back"] as? Bool == false)
        #expect(again.json["generation"] as? Int == again.json["found"] as? Int)
        try remove()
        #expect(try place.ctl("sql", store, "SELECT 1", key: place.path("second.key")).status == 77)
    }

    @Test("commands that do not open the store tell it as well, and change nothing; without a key they cannot")
    func withoutOpening() throws {
        let holder = try ActorProcess()
        #expect(holder.ask("open \(store) raw")?.hasPrefix("ok ") == true)
        try keepCopies()
        try remove()
        #expect(try place.ctl("status", store, "--json").json["rolled_back"] as? Bool == false)
        try putBack()
        // The row is in the log while somebody has the store open, and in the file of a copy that is nothing else.
        for hasWAL in [true, false] {
            if hasWAL {
                #expect(try !place.bytes("s.db-wal").isEmpty)
            } else {
                holder.end()
                try putBackNewest { try place.ctl("sql", store, "VACUUM", "--write") }
                try place.remove("s.db-wal", "s.db-shm", "s.db-lock")
            }
            let before = FolderSnapshot(of: place.folder)
            for key in [place.key, place.path("second.key")] {
                for command in ["test", "reveal"] {
                    let refused = try place.ctl("key", command, store, "--json", key: key)
                    #expect(refused.status == 65 && refused.output.isEmpty, "\(refused)")
                    #expect(refused.errorJSON["code"] as? String == "sidecarRolledBack")
                }
                let list = try place.ctl("key", "list", store, "--json", key: key)
                #expect(list.status == 2 && list.json["rolled_back"] as? Bool == true)
                #expect((list.json["slots"] as? [Any])?.count == 2)
                #expect(list.errors.contains(#"{"warning": "#) && list.errors.contains("key accept"))
                #expect(!list.errors.contains(".: "), "\(list.errors)")
                let status = try place.ctl("status", store, "--json", key: key)
                #expect(status.status == 2 && status.json["rolled_back"] as? Bool == true)
                #expect((status.json["attention"] as? [String])?.contains { $0.contains("older than the one") } == true)
                let doctor = try place.ctl("doctor", store, "--json", key: key)
                let codes = (doctor.json["findings"] as? [[String: Any]] ?? []).compactMap { $0["code"] as? String }
                #expect(doctor.status == 2 && codes.contains("sidecarRolledBack"), "\(doctor)")
            }
            #expect(try place.run(["key", "list", store, "--json"]).json["rolled_back"] is NSNull)
            #expect(before.changes(until: FolderSnapshot(of: place.folder)) == [])
        }
    }

    /// Does something with the newest sidecar, and puts the former one back.
    private func putBackNewest(_ body: () throws -> CommandRun.Outcome) throws {
        #expect(try place.ctl("key", "accept", store, "--yes").status == 0)
        let done = try body()
        #expect(done.status == 0, "\(done)")
        try putBack()
    }

    @Test("where the store cannot be asked, they say so and answer from the sidecar alone")
    func unknown() throws {
        try remove()
        try place.flip("s.db", at: 2000)
        try place.remove("s.db-wal", "s.db-shm")
        for command in ["test", "reveal", "list"] {
            let outcome = try place.ctl("key", command, store, "--json")
            #expect(outcome.status == 0, "\(outcome)")
            #expect(outcome.errors.contains("could not be checked") && outcome.errors.contains("Page 1"))
        }
        let status = try place.ctl("status", store, "--json")
        #expect(status.json["rolled_back"] is NSNull)
        #expect((status.json["notes"] as? [String])?.contains { $0.contains("could not be checked") } == true)
        let doctor = try place.ctl("doctor", store, "--json")
        #expect(doctor.output.contains("sidecarNotCompared"))
    }

    @Test("a change that the store cannot remember, because it does not open, is made and says so")
    func damagedStore() throws {
        let page = try place.bytes("s.db")[2000]
        try place.poke("s.db", at: 2000, [page ^ 1])
        let removed = try remove()
        #expect(removed.errors.contains("could not be recorded in the store"), "\(removed.errors)")
        #expect(removed.errors.contains("key accept"))
        try place.poke("s.db", at: 2000, [page])
        try keepCopies()
        #expect(try place.ctl("key", "accept", store, "--yes").output.contains("is the newest one"))
        try add("second.key")
        let newest = try place.bytes("s.db-sidecar")
        try putBack()
        #expect(try place.ctl("sql", store, "SELECT 1").status == 65)
        for ending in Self.endings { try Workplace.write(newest, to: store + ending) }
        #expect(try place.ctl("sql", store, "SELECT 1").status == 0)
    }

    @Test("what the store remembers is no content: not in its hash, not in an export, not in an import")
    func content() throws {
        let before = try place.ctl("hash", store).output
        try remove()
        #expect(try place.ctl("sql", store, "SELECT count(*) FROM cipherstore_custody", "--mode", "csv").status == 0)
        #expect(try place.ctl("hash", store).output == before)
        #expect(try place.ctl("export", store, place.path("plain.db"), "--insecure-plaintext").status == 0)
        let table = try place.run(["hash", place.path("plain.db"), "--plain", "--json"])
        #expect(before.contains(table.json["content_hash"] as? String ?? "-"), "\(table)")
        #expect(try !String(decoding: place.bytes("plain.db"), as: UTF8.self).contains("cipherstore_custody"))
        try place.makePlain(
            """
            CREATE TABLE cipherstore_custody (id INTEGER PRIMARY KEY, store BLOB, generation INTEGER);
            INSERT INTO cipherstore_custody VALUES (1, x'00', 99); CREATE TABLE t (a)
            """, as: "other.db")
        #expect(try place.ctl("import", place.path("other.db"), place.path("i.db")).status == 0)
        let tables = try place.ctl("sql", place.path("i.db"), "SELECT name FROM sqlite_schema", "--mode", "csv")
        #expect(tables.output == "name\r\nt\r\n", "\(tables)")
    }

    @Test("a rotation carries it along: a sidecar from before it opens nothing, one from behind it is noticed")
    func rotation() throws {
        try remove()
        try keepCopies()
        let rotated = try place.ctl("rotate", store, "--no-backup")
        #expect(rotated.status == 0, "\(rotated)")
        let newest = try place.bytes("s.db-sidecar")
        try putBack()
        #expect(try place.ctl("sql", store, "SELECT 1").status == 65)
        for ending in Self.endings { try Workplace.write(newest, to: store + ending) }
        try add("second.key")
        try keepCopies()
        try remove(3)
        try putBack()
        let refused = try place.ctl("sql", store, "SELECT 1", "--json", key: place.path("second.key"))
        #expect(refused.errorJSON["code"] as? String == "sidecarRolledBack")
        #expect(try place.ctl("key", "accept", store, "--yes").status == 0)
        #expect(try place.ctl("verify", store, key: place.path("second.key")).status == 0)
    }
}
