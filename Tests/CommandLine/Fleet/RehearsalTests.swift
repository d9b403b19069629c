import Foundation
import TestKit
import Testing

@Suite("Dry runs")
struct RehearsalTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }

    init() throws {
        place = try Workplace()
        try place.makeBackup()
    }

    /// Runs a command that must leave every byte as it is.
    private func rehearse(_ arguments: String...) throws -> CommandRun.Outcome {
        let before = FolderSnapshot(of: place.folder)
        let outcome = try place.run(arguments + ["--dry-run"])
        // Opening may write to the lock file and to SQLite's shared memory.
        let changes = before.changes(until: FolderSnapshot(of: place.folder)).filter {
            !$0.hasSuffix("-lock") && !$0.hasSuffix("-shm")
        }
        #expect(changes.isEmpty, "\(changes)")
        return outcome
    }

    @Test("destroy names the files, and a store in use is refused as by the destruction")
    func destroy() throws {
        let planned = try rehearse("destroy", store, "--json")
        #expect(planned.status == 0, "\(planned.errors)")
        let files = try #require(planned.json["would_remove"] as? [String])
        let done = try place.run(["destroy", store, "--yes", "--json"])
        #expect(Set(files) == Set(done.json["removed"] as? [String] ?? []), "\(files)\n\(done.output)")
        #expect(try place.run(["destroy", store, "--dry-run"]).status == 66)
    }

    @Test("restore verifies the backup, and says what is replaced")
    func restore() throws {
        let key = ["--raw-key-file", place.key]
        let planned = try rehearse("restore", place.path("b"), store, "--replace", "--json", key[0], key[1])
        #expect(planned.status == 0 && planned.json["replaces"] as? Bool == true, "\(planned.errors)")
        #expect(try rehearse("restore", place.path("b"), store, key[0], key[1]).status == 64)
        #expect(
            try rehearse("restore", place.path("b"), place.path("n.db"), key[0], key[1]).output.contains(
                "would restore"))
        try place.flip("b/store.db", at: 5000)
        let damaged = try rehearse("restore", place.path("b"), place.path("n.db"), key[0], key[1])
        #expect(damaged.status == 65, "\(damaged.errors)")
    }

    @Test("key remove refuses the last keyslot, and names what stays")
    func keyRemoval() throws {
        let key = ["--raw-key-file", place.key]
        #expect(
            try rehearse("key", "remove", store, "--slot", "1", key[0], key[1]).errors.contains("cannot be removed"))
        try Workplace.write([UInt8](repeating: 7, count: 32), to: place.path("other.key"))
        #expect(try place.ctl("key", "add", store, "--new-raw-key-file", place.path("other.key")).status == 0)
        let planned = try rehearse("key", "remove", store, "--slot", "2", "--json", key[0], key[1])
        #expect(planned.status == 0 && (planned.json["slots_left"] as? [Any])?.count == 1, "\(planned.errors)")
    }

    @Test("key change and key convert check both keys, and name the keyslots that would be lost")
    func keyChanges() throws {
        let key = ["--raw-key-file", place.key]
        let other = place.path("other.key")
        try Workplace.write([UInt8](repeating: 7, count: 32), to: other)
        let changed = try rehearse("key", "change", store, "--new-raw-key-file", other, "--json", key[0], key[1])
        #expect((changed.json["would_change"] as? [String: Any])?["slot"] as? Int == 1, "\(changed.output)")
        #expect(try rehearse("key", "change", store, "--new-raw-key-file", place.key, key[0], key[1]).status == 64)
        let wrong = try rehearse("key", "convert", store, "--to", "direct", "--new-raw-key-file", other, key[0], key[1])
        #expect(wrong.status == 77 && wrong.errors.contains("not the data key"), "\(wrong.errors)")
        let revealed = try place.ctl("key", "reveal", store, "--json", "--yes")
        let digits = try #require(revealed.json["key"] as? String, "\(revealed.errors)")
        let bytes = stride(from: 0, to: 64, by: 2).compactMap { UInt8(digits.dropFirst($0).prefix(2), radix: 16) }
        try Workplace.write(bytes, to: other)
        let direct = try rehearse(
            "key", "convert", store, "--to", "direct", "--new-raw-key-file", other, "--json", key[0], key[1])
        #expect(direct.status == 0 && (direct.json["would_remove"] as? [Any])?.count == 1, "\(direct.errors)")
    }

    @Test("adopt says whether the key opens the file, and who has it open")
    func adoption() throws {
        try AdoptionFixture(place).makeStandard("std.db")
        let key = ["--raw-key-file", place.key]
        let planned = try rehearse("adopt", place.path("std.db"), "--json", key[0], key[1])
        #expect(planned.status == 0, "\(planned.errors)")
        #expect(planned.json["completes_earlier_adoption"] as? Bool == false)
        try Workplace.write([UInt8](repeating: 7, count: 32), to: place.path("other.key"))
        #expect(try rehearse("adopt", place.path("std.db"), "--raw-key-file", place.path("other.key")).status == 77)
        #expect(try rehearse("adopt", store, key[0], key[1]).status == 64)
    }

    @Test("backup says what it would copy, and refuses a folder that is there")
    func backup() throws {
        let key = ["--raw-key-file", place.key]
        let planned = try rehearse("backup", store, place.path("new"), "--json", key[0], key[1])
        #expect(planned.status == 0 && planned.json["fits"] as? Bool == true, "\(planned.errors)")
        #expect(try rehearse("backup", store, place.path("b"), key[0], key[1]).status == 64)
        #expect(
            try rehearse("backup", store, place.path("new"), "--raw-key-file", place.path("b/store.db")).status != 0)
    }
}

@Suite("A key log that is followed")
struct KeyLogFollowTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }

    init() throws {
        place = try Workplace()
        try place.makeStore()
        try Workplace.write([UInt8](repeating: 7, count: 32), to: place.path("other.key"))
    }

    @Test("each line is printed as it is written, with the keyslot that authorized it, until a signal ends it")
    func follows() throws {
        let run = try CommandRun(Workplace.program(), ["key", "log", store, "--follow", "--json"])
        try #require(waitUntil { run.outputSoFar.contains("\"store-created\"") }, "\(run.errorsSoFar)")
        #expect(try place.ctl("key", "add", store, "--new-raw-key-file", place.path("other.key")).status == 0)
        #expect(waitUntil { run.outputSoFar.contains("\"slot-added\", \"slot\": 2") }, "\(run.outputSoFar)")
        #expect(try place.ctl("key", "remove", store, "--slot", "1", "--yes", key: place.path("other.key")).status == 0)
        #expect(
            waitUntil { run.outputSoFar.contains("\"slot-removed\", \"slot\": 1, \"authorized-by\": 2") },
            "\(run.outputSoFar)")
        run.send(SIGTERM)
        #expect(run.finish().status == 0)
        let count = try place.events().count
        #expect(run.outputSoFar.split(separator: "\n").count == count)
    }

    @Test("--since leaves out the lines before a number or a time; a changed line is reported while following")
    func since() throws {
        #expect(try place.ctl("key", "add", store, "--new-raw-key-file", place.path("other.key")).status == 0)
        let all = try place.events()
        let last = try place.run(["key", "log", store, "--since", "\(all.count - 1)", "--json"])
        #expect((last.json["entries"] as? [Any])?.count == 1, "\(last.output)")
        let later = try place.run(["key", "log", store, "--since", "2100-01-01T00:00:00Z", "--json"])
        #expect((later.json["entries"] as? [Any])?.isEmpty == true)
        #expect(try place.run(["key", "log", store, "--since", "yesterday"]).status == 64)
        #expect(try place.run(["key", "log", store, "--follow", "--acknowledge"]).status == 64)
        let run = try CommandRun(Workplace.program(), ["key", "log", store, "--follow"])
        try #require(waitUntil { run.outputSoFar.contains("slot-added") })
        let text = String(decoding: try place.bytes("s.db-keylog"), as: UTF8.self)
        try place.remove("s.db-keylog")
        try place.write(text.replacing("store-created", with: "store-adopted"), to: "s.db-keylog")
        #expect(waitUntil { run.errorsSoFar.contains("was changed") }, "\(run.errorsSoFar)")
        run.send(SIGINT)
        #expect(run.finish().status == 65)
    }
}
