import CipherStore
import Foundation
import Synchronization
import TestKit
import Testing

@testable import cipherctl

@Suite("cipherctl verify")
struct VerifyTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func verify(_ name: String = "s.db") throws -> CommandRun.Outcome {
        try place.ctl("verify", place.path(name), "--json")
    }

    // One line came for each missing page: of a store of 50 GB, twelve million.
    @Test("what is missing of a truncated store is told as a range, once")
    func truncated() throws {
        let count = try place.bytes("s.db").count / 4096
        try #require(count > 12)
        try place.truncate("s.db", to: 10 * 4096)
        let outcome = try verify()
        #expect(outcome.status == 65)
        #expect(outcome.pages("missing_pages") == [11...count])
        let problem = "pages 11 to \(count) are missing (bytes 40960 to \(count * 4096 - 1))"
        #expect(outcome.json["problems"] as? [String] == [problem])
        let text = try place.ctl("verify", place.path("s.db"))
        #expect(text.output.split(separator: "\n").filter { $0.contains("missing (") }.count == 1)
        #expect(text.errors.contains("1 problem: \(problem)."))
    }

    // A header that counted too many pages was believed up to a thousand pages beyond the file, each with a line.
    @Test("a header that promises more pages than there can be costs no time and one line")
    func promised() throws {
        try place.poke("s.db", at: 28, [0xff, 0xff, 0xff, 0xfe])
        let count = try place.bytes("s.db").count / 4096
        let outcome = try verify()
        #expect(outcome.pages("missing_pages") == [(count + 1)...0xffff_fffe])
    }

    @Test("a damaged page 1 is one problem")
    func firstPage() throws {
        try place.poke("s.db", at: 200, [1, 2, 3, 4])
        let outcome = try verify()
        #expect(outcome.status == 65)
        #expect(outcome.json["problems"] as? [String] == ["page 1 is damaged (bytes 0 to 4095)"])
    }

    // Story: newer versions of SQLite call an index damaged that they cannot check, and so did `verify`: "restore a backup".
    @Test("a full-text index of FTS4 that keeps no texts is not checked, and is no damage")
    func contentlessIndex() throws {
        let store = try open()
        try store.write { db in
            try db.execute(
                sql: """
                    CREATE VIRTUAL TABLE words USING fts4(t, content='');
                    INSERT INTO words (docid, t) VALUES (5, 'abc');
                    """)
        }
        try store.close()
        let outcome = try verify()
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(
            (outcome.json["notes"] as? [String] ?? []).contains {
                $0.contains("\"words\" was not checked: it keeps no")
            })
        for command in ["doctor", "conformance"] {
            #expect(try place.ctl(command, place.path("s.db")).status == 0, "\(command)")
        }
        let rotation = try place.ctl("rotate", place.path("s.db"), "--no-backup")
        #expect(rotation.status == 0, "\(rotation.errors)")
    }

    // Story: searches found other rows, and then ended as damage whose hint said `verify`, which said sound.
    @Test("a full-text index that does not fit its table is named with its rebuild, by verify, doctor and errors")
    func fullTextIndex() throws {
        let store = try open()
        try store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE d (id INTEGER PRIMARY KEY, k TEXT UNIQUE, body TEXT);
                    CREATE VIRTUAL TABLE ft USING fts5(body, content='d', content_rowid='id');
                    CREATE TRIGGER ft_ai AFTER INSERT ON d BEGIN
                        INSERT INTO ft(rowid, body) VALUES (new.id, new.body);
                    END;
                    CREATE TRIGGER ft_ad AFTER DELETE ON d BEGIN
                        INSERT INTO ft(ft, rowid, body) VALUES ('delete', old.id, old.body);
                    END;
                    INSERT INTO d VALUES (1, 'a', 'zarquon');
                    INSERT OR REPLACE INTO d VALUES (2, 'a', 'plain');
                    """)
        }
        try store.close()
        let outcome = try verify()
        #expect(outcome.status == 2 && outcome.json["sound"] as? Bool == true, "\(outcome.errors)")
        let faults = outcome.json["full_text_faults"] as? [[String: Any]] ?? []
        #expect(faults.count == 1 && faults[0]["index"] as? String == "ft")
        let remedy = try #require(faults.first?["remedy"] as? String)
        let line = try #require(remedy.firstMatch(of: #/`cipherctl (.*)`/#)?.1)
        let text = try place.ctl("verify", place.path("s.db"))
        #expect(text.status == 2 && text.output.contains(remedy) && text.output.contains("sound, but for"))
        let doctor = try place.ctl("doctor", place.path("s.db"))
        #expect(doctor.status == 2 && doctor.output.contains(remedy), "\(doctor.output)")
        let search = try place.ctl("sql", place.path("s.db"), "SELECT * FROM ft WHERE ft MATCH 'zarquon'")
        #expect(search.status == 65 && search.errors.contains("VALUES('rebuild')"), "\(search.errors)")
        let typed = try CommandRun(URL(fileURLWithPath: "/bin/sh"), ["-c", "'\(Workplace.program().path)' \(line)"])
        #expect(typed.finish().status == 0, "the remedy as it is printed: \(line)")
        let (sound, well) = try (verify(), place.ctl("doctor", place.path("s.db")))
        #expect(sound.status == 0 && !well.output.contains("full-text"), "\(sound.output) \(well.output)")
    }

    private func open() throws -> SharedStore {
        try SharedStore.open(at: place.path("s.db"), unlockedBy: .rawKeyFile(path: place.key))
    }

    /// Such a file was called one of another store, or no database.
    @Test(
        "a file that has lost its beginning is verified page by page, and salvaged",
        arguments: [(32, 0), (32, 7), (4096, 0), (4096, 7), (12 * 4096, 7)])
    func lostBeginning(_ bytes: Int, _ filler: Int) throws {
        let count = try place.bytes("s.db").count / 4096
        let content = try place.ctl("hash", place.path("s.db"), "--json").json["content_hash"] as? String
        let noise = (0..<bytes).map { filler == 0 ? 0 : UInt8(truncatingIfNeeded: $0 * 151 + $0 / 7) }
        try place.poke("s.db", at: 0, noise)
        let outcome = try verify()
        #expect(outcome.status == 65 && outcome.json["pages_checked"] as? Int == count, "\(outcome.errors)")
        let problems = (outcome.json["problems"] as? [String] ?? []).joined(separator: "\n")
        #expect(problems.contains("header") || problems.contains("page"), "\(problems)")
        let kind = filler == 0 ? "zero_pages" : "damaged_pages"
        #expect(outcome.pages(kind) == (bytes < 4096 ? [] : [1...bytes / 4096]), "\(problems)")
        let salvaged = try place.ctl("salvage", place.path("s.db"), place.path("new.db"), "--json")
        #expect([0, 2].contains(salvaged.status), "\(salvaged.errors)")
        // Without the header nothing of the content is lost; with page 1 the definitions are.
        let found = try place.ctl("hash", place.path("new.db"), "--json").json["content_hash"] as? String
        #expect(content != nil && (found == content) == (bytes < 4096), "\(salvaged.output)")
    }

    @Test("a page count of zero, which SQLite ignores, is a problem to status, verify and conformance alike")
    func countOfZero() throws {
        try place.poke("s.db", at: 28, [0, 0, 0, 0])
        #expect(try verify().json["problems"] as? [String] ?? [] != [])
        let text = try place.ctl("verify", place.path("s.db"))
        #expect(text.status == 65, "\(text.errors)")
        #expect(text.errors.contains("bytes 28 to 31 of the header count 0 pages"), "\(text.errors)")
        let status = try place.ctl("status", place.path("s.db"))
        #expect(status.status == 2 && status.output.contains("bytes 28 to 31"), "\(status.output)")
        #expect(!status.output.contains("no opening"), "\(status.output)")
        #expect(try place.ctl("conformance", place.path("s.db")).status == 65)
        #expect(try place.ctl("sql", place.path("s.db"), "SELECT 1").status == 0)
    }

    @Test("counts every page of a sound store")
    func sound() throws {
        let outcome = try verify()
        #expect(outcome.status == 0)
        #expect(outcome.json["sound"] as? Bool == true)
        #expect(outcome.json["pages_checked"] as? Int == (try place.bytes("s.db")).count / 4096)
        #expect(outcome.json["integrity_check"] as? [String] == ["ok"])
        #expect(outcome.json["foreign_key_violations"] as? Int == 0)
        #expect((outcome.json["mb_per_second"] as? Double ?? 0) > 0)
    }

    @Test("names every damaged page of several")
    func severalPages() throws {
        for page in [3, 30, 31] { try place.poke("s.db", at: (page - 1) * 4096 + 99, [1, 2, 3, 4]) }
        let outcome = try verify()
        #expect(outcome.status == 65)
        #expect(outcome.pages("damaged_pages") == [3...3, 30...31])
        #expect((outcome.json["problems"] as? [String])?.count == 2)
    }

    @Test("a page that was exchanged for another one, or wiped, is found")
    func exchangedPage() throws {
        let bytes = try place.bytes("s.db")
        try place.poke("s.db", at: 19 * 4096, Array(bytes[(20 * 4096)..<(21 * 4096)]))
        #expect(try verify().pages("damaged_pages") == [20...20])
        try place.poke("s.db", at: 19 * 4096, [UInt8](repeating: 0, count: 4096))
        let wiped = try verify()
        #expect(wiped.status == 65)
        #expect(wiped.pages("zero_pages") == [20...20])
    }

    @Test("finds rows that refer to nothing")
    func foreignKeys() throws {
        let sql = "CREATE TABLE child (t REFERENCES t (id)); PRAGMA foreign_keys = 0; INSERT INTO child VALUES (99999)"
        #expect(try place.ctl("sql", place.path("s.db"), sql, "--write").status == 0)
        let outcome = try verify()
        // No row is damaged: SQLite permits such rows while foreign keys are off.
        #expect(outcome.status == 2)
        #expect(outcome.json["foreign_key_violations"] as? Int == 1)
        #expect(try place.ctl("verify", place.path("s.db")).output.contains("row 1 of table \"child\""))
        #expect(outcome.pages("damaged_pages") == [])
    }

    // MARK: Logs

    /// Copies the files of a store whose last commits are in its log only, as a power cut would leave them.
    private func copyWithLog() throws {
        let store = try open()
        try store.write { try $0.execute(sql: "UPDATE t SET text = 'changed' WHERE id % 100 = 0") }
        // By another process: closing a descriptor of the file here would drop the locks of the store.
        let program = try #require(SystemProgram.find("cp"))
        for ending in ["", "-wal", "-sidecar", "-sidecar.bak"] {
            #expect(
                try CommandRun(program, [place.path("s.db\(ending)"), place.path("c.db\(ending)")]).finish().status == 0
            )
        }
        try store.close()
    }

    @Test("the frames of a log are checked as well")
    func frames() throws {
        try copyWithLog()
        let outcome = try verify("c.db")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect((outcome.json["wal_frames_checked"] as? Int ?? 0) > 0)
    }

    @Test("a frame that was changed together with its checksums is named")
    func forgedFrame() throws {
        try copyWithLog()
        var log = try place.bytes("c.db-wal")
        let frames = (log.count - 32) / (24 + 4096)
        // The page of the last frame but one; then all checksums are made right again, which needs no key.
        log[32 + (frames - 2) * 4120 + 24 + 500] ^= 1
        LogChecksums.repair(&log)
        try Workplace.write(log, to: place.path("c.db-wal"))
        let outcome = try verify("c.db")
        #expect(outcome.status == 65, "\(outcome.output)")
        let damaged = try #require(outcome.json["damaged_wal_frames"] as? [[String: Int]])
        #expect(damaged.map { $0["frame"] } == [frames - 1])
        #expect(outcome.pages("damaged_pages") == [])
    }

    @Test("a page that is torn in the file while the log holds it is no damage")
    func superseded() throws {
        try copyWithLog()
        let log = try place.bytes("c.db-wal")
        let page = log[32..<36].reduce(0) { $0 << 8 | Int($1) }
        try place.poke("c.db", at: (page - 1) * 4096 + 2048, [9, 9, 9, 9])
        let outcome = try verify("c.db")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(outcome.pages("superseded_damaged_pages") == [page...page])
    }

    // Story: one changed bit hid every later commit, and verify called the store sound without a word.
    // Every place of the damage: DamagedWALTests and WALLossTests.
    @Test(
        "a WAL that is damaged before its last commit is noted",
        arguments: zip([0, 1, 2], ["page", "checksum", "salt"]))
    func damagedLog(frame: Int, part: String) throws {
        try copyWithLog()
        var log = try place.bytes("c.db-wal")
        try #require((log.count - 32) / 4120 > 3)
        log[32 + frame * 4120 + (part == "page" ? 724 : part == "checksum" ? 16 : 8)] ^= 1
        try Workplace.write(log, to: place.path("c.db-wal"))
        for command in ["verify", "status", "doctor"] {
            let outcome = try place.ctl(command, place.path("c.db"))
            #expect(outcome.status == 2, "\(outcome.output) \(outcome.errors)")
            #expect((outcome.output + outcome.errors).contains("WAL has"), "\(command): \(outcome.output)")
        }
        let notes = try verify("c.db").json["notes"] as? [String] ?? []
        #expect(notes.contains { $0.contains("WAL has") }, "\(notes)")
    }

    @Test("frames that no commit follows are not noted: a writer may be at work, or has rolled back")
    func uncommittedFrames() throws {
        try copyWithLog()
        let log = try place.bytes("c.db-wal")
        // The last frame is the commit; without it the others are those of a transaction that never ended. One of them
        // was not written completely.
        try place.truncate("c.db-wal", to: log.count - 4120)
        try place.poke("c.db-wal", at: 32 + 4120 + 724, [1, 2, 3, 4])
        for command in ["verify", "status", "doctor"] {
            let outcome = try place.ctl(command, place.path("c.db"))
            #expect(outcome.status == (command == "verify" ? 0 : 2), "\(outcome.output) \(outcome.errors)")
            #expect(!(outcome.output + outcome.errors).contains("WAL has"), "\(command)")
        }
    }

    // A rollback leaves frames with the salts of the WAL, and the next commit overwrites only the first of them.
    @Test("what a rollback left after the last commit is not noted")
    func rolledBack() throws {
        let store = try open()
        try store.write { try $0.execute(sql: "UPDATE t SET text = 'a' WHERE id = 1") }
        _ = try? store.write { db in
            try db.execute(sql: "PRAGMA cache_spill = 1; PRAGMA cache_size = 5")
            try db.execute(sql: "UPDATE t SET text = hex(randomblob(90))")
            throw CancellationError()
        }
        try store.write { try $0.execute(sql: "UPDATE t SET text = 'b' WHERE id = 1") }
        let log = try place.bytes("s.db-wal")
        try #require(log.count > 32 + 20 * 4120, "nothing was spilled")
        // Without the key nothing shows that the frames are authentic.
        for arguments in [["status", "--no-key"], ["doctor", "--no-key"], ["verify", "--raw-key-file", place.key]] {
            let outcome = try place.run(arguments + [place.path("s.db")])
            #expect(outcome.status == 0 && !(outcome.output + outcome.errors).contains("WAL has"), "\(arguments)")
        }
        try store.close()
    }

    // Story: status and doctor found nothing, and the others blamed missing rights, with a remedy that failed.
    @Test("a WAL of another format version, with which nobody opens the store, is named by every command")
    func otherFormatVersion() throws {
        try copyWithLog()
        var log = try place.bytes("c.db-wal")
        log[7] ^= 4
        LogChecksums.repairHeader(&log)
        try Workplace.write(log, to: place.path("c.db-wal"))
        let sentence = "version 3007004"
        for more in [[], ["--write"]] {
            let arguments = ["sql", place.path("c.db"), "SELECT 1"] + more
            let outcome = try place.run(arguments + ["--raw-key-file", place.key, "--json"])
            #expect(outcome.status == 65 && outcome.errors.contains("\"walDamaged\""), "\(more) \(outcome.errors)")
            #expect(outcome.errors.contains(sentence) && outcome.errors.contains("move it away"), "\(outcome.errors)")
        }
        let count = try place.bytes("c.db").count / 4096
        let verified = try verify("c.db")
        #expect(verified.status == 65 && verified.json["pages_checked"] as? Int == count, "\(verified.errors)")
        let problems = verified.json["problems"] as? [String] ?? []
        #expect(problems.count == 1 && problems[0].contains(sentence), "\(problems)")
        for command in ["status", "doctor", "conformance"] {
            let outcome = try place.ctl(command, place.path("c.db"))
            #expect(outcome.status == (command == "conformance" ? 65 : 2), "\(command) \(outcome.errors)")
            #expect(outcome.output.contains(sentence), "\(command) \(outcome.output) \(outcome.errors)")
            let hasRemedy = outcome.output.lowercased().contains("move it away")
            #expect(hasRemedy && !outcome.output.contains("none of which counts"), "\(command) \(outcome.output)")
        }
        let findings = try place.ctl("doctor", place.path("c.db"), "--json").output
        #expect(findings.contains("walDamaged") && findings.split(separator: sentence).count == 2, "\(findings)")
        try place.remove("c.db-wal")
        #expect(try place.ctl("sql", place.path("c.db"), "SELECT 1", "--write").status == 0)
    }

    @Test("raises no false alarm while another process writes and checkpoints, and takes none of its locks")
    func underLoad() throws {
        let store = try open()
        let isDone = Mutex(false)
        let group = DispatchGroup()
        DispatchQueue.global().async(group: group) {
            var number = 0
            while !isDone.withLock({ $0 }) {
                number += 1
                let text = "UPDATE t SET text = 'round \(number) ' || hex(randomblob(60)) WHERE id % 7 = \(number % 7)"
                #expect(throws: Never.self) { try store.write { try $0.execute(sql: text) } }
                if number.isMultiple(of: 5) { _ = try? store.checkpoint(.passive) }
            }
        }
        defer {
            isDone.withLock { $0 = true }
            group.wait()
        }
        for _ in 0..<5 {
            let outcome = try verify()
            #expect(outcome.status == 0, "\(outcome.errors)")
        }
    }
}

/// The checksums of a write-ahead log, as anybody can compute them.
private enum LogChecksums {
    static func repair(_ log: inout [UInt8]) {
        let isBigEndian = log[3] & 1 == 1
        var sums: (UInt32, UInt32) = (word(log, 24, bigEndian: true), word(log, 28, bigEndian: true))
        var frame = 32
        while frame + 4120 <= log.count {
            add(log, frame..<(frame + 8), isBigEndian, &sums)
            add(log, (frame + 24)..<(frame + 4120), isBigEndian, &sums)
            for (offset, sum) in [(16, sums.0), (20, sums.1)] {
                for byte in 0..<4 {
                    log[frame + offset + byte] = UInt8(truncatingIfNeeded: sum >> (24 - 8 * UInt32(byte)))
                }
            }
            frame += 4120
        }
    }

    /// The checksum of the header.
    static func repairHeader(_ log: inout [UInt8]) {
        var sums: (UInt32, UInt32) = (0, 0)
        add(log, 0..<24, log[3] & 1 == 1, &sums)
        for (offset, sum) in [(24, sums.0), (28, sums.1)] {
            for byte in 0..<4 { log[offset + byte] = UInt8(truncatingIfNeeded: sum >> (24 - 8 * UInt32(byte))) }
        }
    }

    private static func add(_ log: [UInt8], _ range: Range<Int>, _ isBigEndian: Bool, _ sums: inout (UInt32, UInt32)) {
        for offset in stride(from: range.lowerBound, to: range.upperBound, by: 8) {
            sums.0 &+= word(log, offset, bigEndian: isBigEndian) &+ sums.1
            sums.1 &+= word(log, offset + 4, bigEndian: isBigEndian) &+ sums.0
        }
    }

    private static func word(_ log: [UInt8], _ offset: Int, bigEndian: Bool) -> UInt32 {
        let bytes = bigEndian ? Array(log[offset..<offset + 4]) : log[offset..<offset + 4].reversed()
        return bytes.reduce(0) { $0 << 8 | UInt32($1) }
    }
}
