import Foundation
import TestKit
import Testing

@Suite("cipherctl with a backup repository")
struct RepositoryCommandTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func makePlace() throws {
        try FileManager.default.createDirectory(atPath: place.path("r"), withIntermediateDirectories: false)
        let made = try place.ctl("backup", place.path("s.db"), "--to", place.path("r"), "--create", "--json")
        try #require(made.status == 0, "\(made.errors)")
        #expect(made.json["parent"] is NSNull && made.json["new_pages"] as? Int == made.json["pages"] as? Int)
    }

    private func count(_ store: String, _ sql: String = "SELECT count(*) AS n FROM t") throws -> Int? {
        let outcome = try place.ctl("sql", place.path(store), sql, "--mode", "csv")
        return outcome.output.split(whereSeparator: \.isNewline).last.flatMap { Int($0) }
    }

    @Test("a series of backups is listed, verified, read, restored at a time and pruned")
    func series() throws {
        try makePlace()
        let rows = try #require(try count("s.db"))
        try #require(place.ctl("sql", place.path("s.db"), "DELETE FROM t", "--write").status == 0)
        let second = try place.ctl("backup", place.path("s.db"), "--to", place.path("r"), "--json")
        #expect(second.status == 0 && second.json["parent"] is String, "\(second.errors)")
        let listed = try place.run(["backup", "list", place.path("r"), "--json"])
        let backups = try #require(listed.json["backups"] as? [[String: Any]])
        #expect(listed.status == 0 && backups.count == 2, "\(listed.errors)")
        let ids = backups.compactMap { $0["backup"] as? String }
        #expect(try count("r@\(ids[0].prefix(8))") == rows)
        #expect(try count("r@\(ids[1].prefix(8))") == 0)
        #expect(try place.run(["backup", "verify", place.path("r")]).status == 0)
        let verified = try place.ctl("backup", "verify", place.path("r"), "--sample", "50%", "--json")
        #expect(verified.status == 0 && verified.json["authentic"] as? Int == 2, "\(verified.errors)")
        let newest = try place.ctl("restore", place.path("r"), place.path("new.db"))
        #expect(try newest.status == 0 && count("new.db") == 0, "\(newest.errors)")
        let first = try place.ctl(
            "restore", place.path("r"), place.path("s.db"), "--backup", ids[0], "--replace", "--yes")
        #expect(try first.status == 0 && count("s.db") == rows, "\(first.errors)")
        #expect(
            try place.ctl("restore", place.path("r"), place.path("x.db"), "--at", "2001-01-01T00:00:00Z").status == 66)
        let planned = try place.run(["backup", "prune", place.path("r"), "--keep-last", "1", "--dry-run", "--json"])
        #expect(planned.status == 0 && planned.json["removed"] as? Int == 1, "\(planned.errors)")
        #expect(try place.run(["backup", "prune", place.path("r"), "--keep-last", "1"]).status == 64)
        let pruned = try place.run(["backup", "prune", place.path("r"), "--keep-last", "1", "--yes", "--json"])
        #expect(pruned.status == 0 && pruned.json["removed"] as? Int == 1, "\(pruned.errors)")
        #expect(try place.run(["backup", "verify", place.path("r")]).status == 0)
        let last = try place.run(["backup", "list", place.path("r")])
        #expect(last.output.hasPrefix(String(ids[1].prefix(12))) && last.output.split(separator: "\n").count == 1)
    }

    // Story: two of these ended with the text of open(2), and the third with that of statvfs(2).
    @Test("a folder of a repository that is missing is named by a sentence, with a remedy")
    func missingFolder() throws {
        let none = place.path("none")
        let cases = [
            (["backup", "list", none], "noSuchStore"),
            (["backup", place.path("s.db"), "--to", none, "--raw-key-file", place.key], "noSuchStore"),
            (
                ["backup", place.path("s.db"), "--to", none, "--create", "--dry-run", "--raw-key-file", place.key],
                "noDirectory"
            ),
        ]
        for (arguments, code) in cases {
            let outcome = try place.run(arguments + ["--json"])
            #expect(outcome.status == 66 && outcome.errorJSON["code"] as? String == code, "\(outcome.errors)")
            #expect(outcome.errorJSON["hint"] is String, "\(outcome.errors)")
        }
    }

    @Test("every bad input gets its exit code and a sentence, and changes nothing")
    func badInput() throws {
        try makePlace()
        try Workplace.write([UInt8](repeating: 1, count: 32), to: place.path("other.key"))
        try FileManager.default.createDirectory(atPath: place.path("empty"), withIntermediateDirectories: false)
        let before = FolderSnapshot(of: place.folder)
        let cases: [(arguments: [String], key: String?, status: Int32)] = [
            (["backup", "s.db", "--to", "none"], nil, 66),
            // The folder of a disk that is not mounted.
            (["backup", "s.db", "--to", "empty"], nil, 66),
            (["backup", "s.db", "--to", ".", "--create"], nil, 64),
            (["backup", "s.db", "dir", "--to", "r"], nil, 64),
            (["backup", "s.db"], nil, 64),
            (["backup", "s.db", "dir", "--create"], nil, 64),
            (["backup", "s.db", "--to", "r"], "other.key", 77),
            (["backup", "list", "empty"], nil, 64),
            (["backup", "verify", "r"], "other.key", 77),
            (["backup", "prune", "r", "--keep-last", "1", "--yes"], "other.key", 77),
            (["backup", "verify", "r", "--sample", "0"], nil, 64),
            (["restore", "r", "n.db"], "other.key", 77),
            (["restore", "r", "n.db", "--backup", "0000000"], nil, 66),
            (["restore", "r", "n.db", "--at", "yesterday"], nil, 64),
            (["sql", "r@00000000", "SELECT 1"], nil, 66),
        ]
        for (arguments, key, status) in cases {
            let outcome = try CommandRun(
                Workplace.program(), arguments + ["--raw-key-file", key.map(place.path) ?? place.key],
                directory: place.folder.url.path
            ).finish()
            #expect(outcome.status == status, "\(arguments): \(outcome.errors)")
        }
        for arguments in [["backup", "list", "empty"], ["backup", "prune", "empty", "--keep-last", "1", "--yes"]] {
            let outcome = try CommandRun(Workplace.program(), arguments, directory: place.folder.url.path).finish()
            #expect(outcome.status == 66, "\(arguments): \(outcome.errors)")
        }
        let none = try place.run(["backup", "prune", place.path("r"), "--yes"])
        #expect(none.status == 64 && none.errors.contains("--keep-last"))
        let changes = before.changes(until: FolderSnapshot(of: place.folder)).filter { !$0.hasPrefix("s.db-") }
        #expect(changes.isEmpty, "\(changes)")
    }

    @Test("damage is named with the backups that need it, and the exit code is 65")
    func damage() throws {
        try makePlace()
        let packs = try FileManager.default.contentsOfDirectory(atPath: place.path("r/p"))
        try place.flip("r/p/\(packs[0])", at: 5000)
        let outcome = try place.run(["backup", "verify", place.path("r")])
        #expect(outcome.status == 65 && outcome.errors.contains("Backups that need it"), "\(outcome.errors)")
        #expect(try place.ctl("restore", place.path("r"), place.path("n.db")).status == 65)
        #expect(!place.exists("n.db"))
    }

    /// The objects of a repository that no record names, after a prune: none.
    private func expectClean(_ copy: Workplace, _ story: String) throws {
        let pruned = try copy.run(["backup", "prune", copy.path("r"), "--keep-last", "100", "--yes", "--json"])
        #expect(pruned.status == 0, "\(story): \(pruned.errors)")
        let uploads = (try? FileManager.default.contentsOfDirectory(atPath: copy.path("r/tmp"))) ?? []
        #expect(uploads.isEmpty, "\(story): \(uploads)")
        let again = try copy.run(["backup", "prune", copy.path("r"), "--keep-last", "100", "--yes", "--json"])
        #expect(again.json["objects_removed"] as? Int == 0, "\(story)")
    }

    @Test("a full disk and a failing call leave the repository whole", .enabled(if: CallFault.library != nil))
    func faults() throws {
        try makePlace()
        try #require(place.ctl("sql", place.path("s.db"), "DELETE FROM t", "--write").status == 0)
        for fault in [CallFault(), CallFault.fullDisk, CallFault(kinds: "write", error: ENOSPC, isTorn: true)] {
            try Workplace.forEachCall(oneIn: 19, offset: fault.ordinal) { number in
                let copy = try Workplace()
                for name in try place.names() where name != "raw.key" {
                    try FileManager.default.copyItem(atPath: place.path(name), toPath: copy.path(name))
                }
                let run = try copy.run(
                    ["backup", copy.path("s.db"), "--to", copy.path("r"), "--raw-key-file", copy.key], failing: fault,
                    at: number, of: "/r/*")
                if run.wasHit {
                    #expect([0, 66, 74].contains(run.outcome.status), "\(run.call): \(run.outcome.errors)")
                    #expect(run.outcome.status == 0 || run.outcome.errors.contains("cipherctl: error: "))
                    #expect(try copy.ctl("backup", "verify", copy.path("r")).status == 0, "\(run.call)")
                    #expect(try copy.ctl("backup", copy.path("s.db"), "--to", copy.path("r")).status == 0)
                    try expectClean(copy, run.call)
                }
                return run
            }
        }
    }
}
