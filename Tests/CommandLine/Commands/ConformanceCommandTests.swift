import CipherStore
import Foundation
import TestKit
import Testing

@testable import cipherctl

@Suite("cipherctl conformance and salvage")
struct ConformanceCommandTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func conformance(_ more: String..., name: String = "s.db") throws -> CommandRun.Outcome {
        try place.run(["conformance", place.path(name)] + more + ["--raw-key-file", place.key])
    }

    @Test("a sound store exits with 0, and both reports are written")
    func sound() throws {
        let before = try place.bytes("s.db")
        let outcome = try conformance(
            "--json", "--report", place.path("r.html"), "--junit", place.path("j.xml"))
        #expect(outcome.status == 0, "\(outcome.output) \(outcome.errors)")
        #expect(outcome.json["conformant"] as? Bool == true)
        #expect(try String(decoding: place.bytes("r.html"), as: UTF8.self).hasPrefix("<!DOCTYPE html>"))
        #expect(try String(decoding: place.bytes("j.xml"), as: UTF8.self).contains("failures=\"0\""))
        #expect(try place.bytes("s.db") == before)
    }

    @Test("damage exits with 65, file modes alone with 2")
    func verdicts() throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: place.path("s.db-sidecar"))
        let modes = try conformance("--json")
        #expect(modes.status == 2, "\(modes.output)")
        try place.poke("s.db", at: 4096 * 5 + 7, [1, 2, 3])
        let damaged = try conformance()
        #expect(damaged.status == 65)
        #expect(damaged.output.contains("page 6 is not authentic (bytes 20480 to 24575)"))
    }

    @Test("conformance and verify say the same of a full-text index that contradicts itself: attention")
    func fullTextIndex() throws {
        let store = try SharedStore.open(at: place.path("s.db"), unlockedBy: .rawKeyFile(path: place.key))
        try store.write { db in
            try db.execute(sql: "CREATE VIRTUAL TABLE ft USING fts5(body); INSERT INTO ft VALUES ('some words')")
        }
        try store.write { db in
            // SQL of a program may not write the tables of an index.
            db.mayChangeStoreTables = true
            defer { db.mayChangeStoreTables = false }
            try db.execute(sql: "DELETE FROM ft_data WHERE id > 10")
        }
        try store.close()
        let verified = try place.ctl("verify", place.path("s.db"))
        let found = try conformance("--json")
        #expect(verified.status == 2 && found.status == 2, "\(verified.output) \(found.output)")
        #expect(found.json["conformant"] as? Bool == true)
    }

    @Test("a report that is there is not overwritten, and nothing is checked", arguments: ["--report", "--junit"])
    func existing(option: String) throws {
        try place.write("mine", to: "report")
        let outcome = try conformance(option, place.path("report"), "--json")
        #expect(outcome.status == 64 && outcome.errors.contains("\"exists\""))
        #expect(try place.bytes("report") == Array("mine".utf8))
        #expect(try conformance(option, place.path("nowhere/report")).status == 66)
    }

    @Test("two reports with one name are refused before anything is checked, however the name is written")
    func oneName() throws {
        // Story: the first report was written, and refused as there already when the second one was.
        for name in ["r", "./r", "x/../r"] {
            let outcome = try conformance("--report", place.path("r"), "--junit", place.path(name))
            #expect(outcome.status == 64 && outcome.errors.contains("Both reports have the same name."), "\(name)")
        }
        #expect(!place.exists("r"))
    }

    @Test("an empty file is called empty, and not an interrupted creation")
    func empty() throws {
        try place.write("", to: "empty")
        let outcome = try conformance(name: "empty")
        #expect(outcome.status == 66 && outcome.errors.contains("The file is empty."))
    }

    @Test("what is no store is refused at once: nothing, a directory, a pipe, a device, a file of holes")
    func noStore() throws {
        _ = try place.run(["create", place.path("holes.db"), "--raw-key-file", place.key])
        let file = try FileHandle(forUpdating: place.folder.url.appendingPathComponent("holes.db"))
        try file.truncate(atOffset: 1 << 40)
        try file.close()
        try FileManager.default.createDirectory(atPath: place.path("directory"), withIntermediateDirectories: true)
        try #require(mkfifo(place.path("pipe"), 0o600) == 0)
        let start = ContinuousClock.now
        for name in ["nothing", "directory", "pipe"] { #expect(try conformance(name: name).status == 66, "\(name)") }
        let device = try place.ctl("conformance", "/dev/zero")
        #expect(device.status == 66)
        let holes = try conformance("--json", name: "holes.db")
        #expect(holes.status == 65 && holes.errors.contains("\"sparse\""))
        for name in ["nothing", "directory", "pipe", "holes.db"] {
            #expect(try place.ctl("salvage", place.path(name), place.path("out.db")).status != 0, "\(name)")
            #expect(try place.ctl("verify", place.path(name)).status != 0, "\(name)")
        }
        #expect(ContinuousClock.now - start < .seconds(60) && !place.exists("out.db"))
    }

    @Test("a wrong key is 77, and a store in use is checked")
    func keys() throws {
        try Workplace.write([UInt8](repeating: 3, count: 32), to: place.path("other.key"))
        #expect(try place.ctl("conformance", place.path("s.db"), key: place.path("other.key")).status == 77)
        let store = try SharedStore.open(at: place.path("s.db"), unlockedBy: .rawKeyFile(path: place.key))
        defer { try? store.close() }
        #expect(try conformance().status == 0)
        #expect(try place.ctl("salvage", place.path("s.db"), place.path("out.db")).status == 69)
    }

    @Test("pages under the key before a rotation are found with what key reveal had printed")
    func former() throws {
        let revealed = try place.ctl("key", "reveal", place.path("s.db"), "--json", "--yes")
        try place.write(revealed.output, to: "old.json")
        let page = Array(try place.bytes("s.db")[4096 * 4..<4096 * 5])
        try #require(try place.ctl("rotate", place.path("s.db"), "--no-backup").status == 0)
        // It is a key, and was used even if other users could read it.
        #expect(chmod(place.path("old.json"), 0o644) == 0)
        let readable = try conformance("--former-key", place.path("old.json"))
        #expect(readable.status != 0 && readable.errors.contains("not private to its owner"), "\(readable.errors)")
        #expect(chmod(place.path("old.json"), 0o600) == 0)
        #expect(try conformance("--former-key", place.path("old.json")).status == 0)
        try place.poke("s.db", at: 4096 * 4, page)
        let outcome = try conformance("--former-key", place.path("old.json"))
        #expect(outcome.status == 65)
        #expect(outcome.output.contains("page 5 is authentic under a former key"))
        #expect(try conformance("--former-key", place.key).status == 64)
        // Story: such a header was no usage error, but one without a name or a hint.
        for bytes in [-5, 8, 4096] {
            let header = "\"plaintext_header_bytes\":\(bytes)"
            let text = revealed.output.replacing(#/"plaintext_header_bytes": ?32/#, with: header)
            try #require(text != revealed.output)
            try place.write(text, to: "\(bytes).json")
            #expect(chmod(place.path("\(bytes).json"), 0o600) == 0)
            let refused = try conformance("--former-key", place.path("\(bytes).json"), "--json")
            #expect(refused.status == 64 && refused.errors.contains("hint"), "\(bytes) \(refused.errors)")
        }
    }

    @Test("salvage lists what is lost by table and page, and verify names it")
    func salvage() throws {
        for page in [9, 20] { try place.poke("s.db", at: (page - 1) * 4096 + 99, [1, 2, 3, 4]) }
        #expect(try place.ctl("verify", place.path("s.db")).errors.contains("cipherctl salvage"))
        let outcome = try place.ctl("salvage", place.path("s.db"), place.path("out.db"), "--json")
        #expect(outcome.status == 2, "\(outcome.errors)")
        let tables = outcome.json["tables"] as? [[String: Any]] ?? []
        let lost = tables.first { $0["name"] as? String == "t" }?["lost_pages"] as? [[String: Any]] ?? []
        #expect(lost.compactMap { $0["page"] as? Int } == [9, 20])
        #expect(try place.ctl("verify", place.path("out.db")).status == 0)
        let text = try place.ctl("salvage", place.path("s.db"), place.path("other.db"))
        #expect(text.output.contains("  lost    page 9 with rows "))
        #expect(try place.ctl("salvage", place.path("s.db"), place.path("out.db")).status == 64)
    }
}
