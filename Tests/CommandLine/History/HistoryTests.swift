import CipherStore
import Foundation
import TestKit
import Testing

@Suite("cipherctl history")
struct HistoryTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }

    init() throws {
        place = try Workplace()
        let table = "CREATE TABLE note (author TEXT, number INTEGER, text TEXT, PRIMARY KEY (author, number))"
        try place.fill("history") { [place] in
            try place.makeStore()
            let made = try place.ctl("sql", place.path("s.db"), table, "--write")
            try #require(made.status == 0, "\(made.errors)")
        }
    }

    private func sql(_ text: String) throws {
        let outcome = try place.ctl("sql", store, text, "--write")
        #expect(outcome.status == 0, "\(outcome.errors)")
    }

    private func record(_ options: String...) throws {
        let outcome = try place.run(["history", "record", store, "--raw-key-file", place.key] + options)
        #expect(outcome.status == 0, "\(outcome.errors)")
    }

    private func history(_ options: String...) throws -> CommandRun.Outcome {
        try place.run(["history", store, "--json", "--raw-key-file", place.key] + options)
    }

    /// The changes of a listing, as `kind table key`.
    private func changes(_ outcome: CommandRun.Outcome) -> [String] {
        let transactions = outcome.json["transactions"] as? [[String: Any]] ?? []
        return transactions.flatMap { $0["changes"] as? [[String: Any]] ?? [] }.map { change in
            let key = (change["key"] as? [String: Any] ?? [:]).sorted { $0.key < $1.key }.map {
                "\($0.key)=\($0.value)"
            }
            return ["\(change["kind"] ?? "?")", "\(change["table"] ?? "?")"].joined(separator: " ")
                + (key.isEmpty ? "" : " " + key.joined(separator: ","))
        }
    }

    private func open() throws -> SharedStore {
        var config = Configuration()
        config.label = "app"
        return try SharedStore.open(at: store, unlockedBy: .rawKeyFile(path: place.key), configuration: config)
    }

    /// They were recorded, and tracked, as tables of the program.
    @Test("tables of a module that the command line does not know are left out of all tables, and named")
    func unknownModule() throws {
        let opened = try open()
        try opened.write { db in
            try db.execute(sql: "CREATE TABLE emb_chunks (id INTEGER PRIMARY KEY NOT NULL)")
            db.mayChangeStoreTables = true
            defer { db.mayChangeStoreTables = false }
            try db.execute(sql: "PRAGMA writable_schema = ON")
            try db.execute(
                sql: """
                    INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql)
                    VALUES ('table', 'emb', 'emb', 0, 'CREATE VIRTUAL TABLE emb USING vec0(v float[3])')
                    """)
            try db.execute(sql: "PRAGMA writable_schema = RESET")
        }
        try opened.close()
        let outcome = try place.run(["history", "record", store, "--raw-key-file", place.key, "--all", "--json"])
        #expect(outcome.status == 0 && outcome.json["recorded"] as? [String] == ["note", "t"], "\(outcome.output)")
        #expect(outcome.json["left_out"] as? [String] == ["emb_chunks"])
        #expect(outcome.errors.contains("vec0") && outcome.errors.contains("emb_chunks"), "\(outcome.errors)")
        let tracked = try place.run(["sync", "init", store, "--raw-key-file", place.key, "--all-tables", "--json"])
        #expect(tracked.status == 64 || !tracked.output.contains("emb_chunks"), "\(tracked.output)\(tracked.errors)")
        #expect(tracked.errors.contains("vec0"), "\(tracked.errors)")
        let named = try place.run(["history", "record", store, "--raw-key-file", place.key, "--table", "emb_chunks"])
        #expect(named.status == 0 && named.output.contains("emb_chunks"), "\(named.errors)")
    }

    /// The error was SQLite's "no query solution".
    @Test("`sync init` names the collation that only the program has, of the table or of one that it refers to")
    func missingCollation() throws {
        var configuration = Configuration()
        configuration.prepareDatabase { $0.add(collation: DatabaseCollation("prog") { $0.compare($1) }) }
        let opened = try SharedStore.open(
            at: store, unlockedBy: .rawKeyFile(path: place.key), configuration: configuration)
        try opened.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE k1 (a TEXT COLLATE prog NOT NULL PRIMARY KEY, c) WITHOUT ROWID;
                    CREATE TABLE k2 (a TEXT NOT NULL, c TEXT COLLATE prog, PRIMARY KEY (a, c)) WITHOUT ROWID;
                    CREATE TABLE k3 (a TEXT COLLATE prog NOT NULL PRIMARY KEY);
                    CREATE TABLE k4 (a TEXT NOT NULL PRIMARY KEY, c REFERENCES k3 (a));
                    INSERT INTO k1 VALUES ('a', 1); INSERT INTO k2 VALUES ('a', 'b'); INSERT INTO k3 VALUES ('a');
                    INSERT INTO k4 VALUES ('a', 'a');
                    """)
        }
        try opened.close()
        for table in ["k1", "k2", "k4"] {
            let outcome = try place.run(
                ["sync", "init", store, "--raw-key-file", place.key, "--table", table, "--json"])
            #expect(outcome.status == 78 && outcome.errors.contains("missingPart"), "\(outcome.errors)")
            #expect(outcome.errors.contains("collation prog") && outcome.errors.contains(table), "\(outcome.errors)")
            let status = try place.run(["sync", "status", store, "--raw-key-file", place.key])
            #expect(status.status == 1, "\(status.output)")
        }
    }

    /// The expression for the average size of a change was too deep.
    @Test("values of 1,100 columns are kept, and their history is listed")
    func wideTable() throws {
        let columns = (1..<1101).map { "c\($0)" }
        let opened = try open()
        try opened.write { db in
            try db.execute(
                sql: "CREATE TABLE wide (id INTEGER PRIMARY KEY, \(columns.joined(separator: ", "))); "
                    + "INSERT INTO wide (id, c1100) VALUES (1, 'last')")
        }
        try opened.close()
        let kept = columns.flatMap { ["--keep", "wide.\($0)"] }
        let outcome = try place.run(
            ["history", "record", store, "--raw-key-file", place.key, "--table", "wide"] + kept)
        #expect(outcome.status == 0, "\(outcome.errors.prefix(300))")
        let again = try open()
        try again.write { try $0.execute(sql: "UPDATE wide SET c1100 = 'x'; DELETE FROM wide") }
        try again.close()
        let listed = try history("--limit", "3")
        #expect(listed.status == 0 && listed.output.contains("\"c1100\": \"x\""), "\(listed.errors.prefix(300))")
        let status = try place.run(["status", store, "--raw-key-file", place.key])
        #expect(status.status == 0, "\(status.errors.prefix(300))")
    }

    /// The whole command ended at the first one, with none recorded.
    @Test("a table whose collation only the program has is left out of all tables, and named; the others are recorded")
    func collationOfProgram() throws {
        var configuration = Configuration()
        configuration.prepareDatabase { $0.add(collation: DatabaseCollation("prog") { $0.compare($1) }) }
        func open() throws -> SharedStore {
            try SharedStore.open(at: store, unlockedBy: .rawKeyFile(path: place.key), configuration: configuration)
        }
        let opened = try open()
        try opened.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE k1 (a TEXT COLLATE prog NOT NULL PRIMARY KEY, c);
                    CREATE TABLE k2 (a TEXT COLLATE prog NOT NULL PRIMARY KEY) WITHOUT ROWID;
                    """)
        }
        try opened.close()
        let outcome = try place.run(["history", "record", store, "--raw-key-file", place.key, "--all", "--json"])
        #expect(outcome.status == 2, "\(outcome.errors)")
        #expect(outcome.json["recorded"] as? [String] == ["note", "t"], "\(outcome.output)")
        #expect((outcome.json["left_out"] as? [String])?.sorted() == ["k1", "k2"], "\(outcome.output)")
        for table in ["k1", "k2"] { #expect(outcome.errors.contains("of \\\"\(table)\\\""), "\(outcome.errors)") }
        #expect(outcome.errors.contains("prog"), "\(outcome.errors)")
        let written = try place.ctl("sql", store, "INSERT INTO note VALUES ('a', 1, 'x')", "--write")
        #expect(written.status == 0, "\(written.errors)")
        #expect(try changes(history()).contains("inserted note author=a,number=1"))
        let again = try place.run(["history", "record", store, "--raw-key-file", place.key, "--all", "--json"])
        #expect(again.status == 2 && (again.json["left_out"] as? [String])?.count == 2, "\(again.errors)")
        // The program that has it records them when it opens the store.
        let reopened = try open()
        #expect(try reopened.read { try $0.historyStatus()?.tableNames } == ["k1", "k2", "note", "t"])
        try reopened.close()
    }

    /// It was `SQLite error 1: no such table: nosuch`, without a hint.
    @Test("a table that is not there is named, with those that are, and with commands that can be typed")
    func noTable() throws {
        let outcome = try place.run(
            ["history", "record", store, "--raw-key-file", place.key, "--table", "t", "--table", "no\"such", "--json"])
        #expect(outcome.status == 64 && outcome.errorJSON["code"] as? String == "noSuchTable", "\(outcome.errors)")
        let message = outcome.errorJSON["message"] as? String ?? ""
        #expect(message.contains("no\"such") && message.contains("\"note\", \"t\""), "\(message)")
        let hint = outcome.errorJSON["hint"] as? String ?? ""
        let command = "cipherctl history record '\(store)' --all --raw-key-file '\(place.key)'"
        #expect(hint.contains(command), "\(hint)")
        #expect(try history().status == 1)
    }

    /// It was left out without a word.
    @Test("a table whose columns hide the rowid is left out of all tables, and named")
    func hiddenRowID() throws {
        let opened = try open()
        try opened.write { try $0.execute(sql: "CREATE TABLE hidden (rowid, oid, _rowid_)") }
        try opened.close()
        let outcome = try place.run(["history", "record", store, "--raw-key-file", place.key, "--all", "--json"])
        // It was 0: a script took the table for recorded.
        #expect(outcome.status == 2 && outcome.json["left_out"] as? [String] == ["hidden"], "\(outcome.output)")
        #expect(outcome.errors.contains("hide every name of the rowid"), "\(outcome.errors)")
        #expect(outcome.errors.contains("Give it a primary key"), "\(outcome.errors)")
    }

    /// Runs SQL on a connection without this library.
    private func stock(_ text: String) throws {
        let key = try place.run(["key", "reveal", store, "--json", "--raw-key-file", place.key]).json
        let keyspec = try #require(key["key"] as? String) + (try #require(key["salt"] as? String))
        var connection: OpaquePointer?
        defer { sqlite3_close(connection) }
        #expect(sqlite3_open(store, &connection) == SQLITE_OK)
        #expect(sqlite3_key_v2(connection, "main", "x'\(keyspec)'", Int32(keyspec.utf8.count + 3)) == SQLITE_OK)
        #expect(sqlite3_exec(connection, "PRAGMA cipher_plaintext_header_size = 32", nil, nil, nil) == SQLITE_OK)
        #expect(sqlite3_exec(connection, text, nil, nil, nil) == SQLITE_OK)
    }

    // MARK: Listing

    @Test("a store lists what was changed, in which order, when, and by whom, from `history record` on")
    func listing() throws {
        let start = Date()
        try record("--table", "note", "--columns", "--keep", "note.text")
        try sql("INSERT INTO note VALUES ('ann', 1, 'soup'), ('ann', 2, 'salt'); INSERT INTO t VALUES (9000, 'unseen')")
        let other = try open()
        try other.write { try $0.execute(sql: "UPDATE note SET text = 'salad' WHERE number = 1") }
        try other.close()
        try stock("DELETE FROM note WHERE number = 2")
        let outcome = try history()
        #expect(outcome.status == 0, "\(outcome.errors)")
        let key = ["author=ann,number=1", "author=ann,number=2"]
        #expect(
            changes(outcome) == [
                "reset note", "inserted note \(key[0])", "inserted note \(key[1])", "updated note \(key[0])",
                "deleted note \(key[1])",
            ])
        let transactions = try #require(outcome.json["transactions"] as? [[String: Any]])
        #expect(transactions.map { $0["author"] as? String } == ["cipherctl", "cipherctl", "app", nil])
        let last = try #require(transactions.last?["changes"] as? [[String: Any]]).first
        #expect(last?["former"] as? [String: String] == ["text": "salt"])
        let third = try #require(transactions[2]["changes"] as? [[String: Any]]).first
        #expect(third?["columns"] as? [String] == ["text"])
        let format = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        let times = try transactions.compactMap { $0["time"] as? String }.map { try format.parse($0) }
        #expect(times.count == 3 && times == times.sorted())
        // Whole milliseconds.
        #expect(times.allSatisfy { $0 > start - 0.002 && $0 < Date() + 1 })
        let text = try place.ctl("history", store).output
        #expect(text.contains("by \"app\"\n  updated   note  author \"ann\", number 1  set: text\n"), "\(text)")
        #expect(
            text.contains("by a program without this library\n  deleted   note  author \"ann\", number 2  was: text"))
    }

    @Test("parts that follow each other have every change once, and the last ones are those at the end")
    func parts() throws {
        try record("--all")
        let start = try #require(history().json["token"] as? String)
        for number in 1...7 {
            try sql("INSERT INTO t VALUES (\(9000 + number), ''); DELETE FROM t WHERE id = \(number)")
        }
        let all = (1...7).flatMap { ["inserted t id=\(9000 + $0)", "deleted t id=\($0)"] }
        var (token, found, parts) = (start, [String](), 0)
        while true {
            let part = try history("--since", token, "--limit", "3")
            #expect(changes(part).count <= 3)
            found += changes(part)
            parts += 1
            token = try #require(part.json["token"] as? String)
            if part.json["has_more"] as? Bool != true { break }
        }
        #expect(found == all && parts > 3)
        #expect(try changes(history("--since", token)).isEmpty)
        #expect(try changes(history("--limit", "3")) == all.suffix(3))
        #expect(try changes(history("--since", start, "--table", "NOTE")).isEmpty)
        #expect(try changes(history("--since", start, "--table", "T")) == all)
        #expect(try changes(history("--table", "t", "--limit", "2")) == all.suffix(2))
    }

    @Test("a store that records nothing, a token of another one, and one that was purged say what to do")
    func refusals() throws {
        let none = try history()
        #expect(none.status == 1)
        #expect(none.errorJSON["code"] as? String == "notRecorded")
        #expect((none.errorJSON["hint"] as? String)?.contains("cipherctl history record") == true)
        #expect((none.errorJSON["message"] as? String)?.contains("recordHistory") == false)
        #expect(try history("--since", "yesterday").status == 64)
        #expect(try history("--limit", "0").status == 64)
        try record("--all")
        let token = try #require(history().json["token"] as? String)
        try sql("INSERT INTO t VALUES (9000, ''); INSERT INTO t VALUES (9001, '')")
        let other = try open()
        try other.write { try $0.setHistoryLimits(HistoryLimits(count: 1)) }
        try other.purgeHistory()
        try other.close()
        let purged = try history("--since", token)
        #expect(purged.status == 1)
        #expect(purged.errorJSON["code"] as? String == "expired")
        #expect(try place.ctl("create", place.path("other.db")).status == 0)
        let recorded = try place.ctl("history", "record", place.path("other.db"), "--all")
        #expect(recorded.status == 0, "\(recorded.errors)")
        let foreign = try place.ctl("history", place.path("other.db"), "--since", token, "--json")
        #expect(foreign.errorJSON["code"] as? String == "expired")
    }

    @Test("a table whose changes are not recorded is named, so that it does not look like one that nobody changes")
    func unrecorded() throws {
        try record("--table", "t")
        let outcome = try history("--table", "T", "--table", "tt")
        #expect(outcome.status == 0 && changes(outcome).count == 1)
        let note = #"{"note": {"message": "changes of \"tt\" are not recorded; those of t are"}}"#
        #expect(outcome.errors == note + "\n")
    }

    // MARK: Recording

    // The second run silently stopped recording changed columns and the values of deleted rows.
    @Test(
        "recording a table once more drops nothing of what was asked for before",
        arguments: [
            ["--table", "note"], ["--table", "NOTE", "--table", "t"], ["--all"], ["--table", "note", "--columns"],
            ["--table", "note", "--keep", "note.number"],
        ])
    func recordedTwice(again: [String]) throws {
        // In `make test` one of the two, by the number of options.
        for first in Sweep.sample([["--table", "note"], ["--all"]], oneIn: 2, offset: again.count / 2) {
            let once = try place.run(
                ["history", "record", store, "--raw-key-file", place.key, "--columns", "--keep", "note.text"] + first)
            #expect(once.status == 0, "\(once.errors)")
            let twice = try place.run(["history", "record", store, "--raw-key-file", place.key] + again)
            #expect(twice.status == 0, "\(twice.errors)")
            try sql(
                "INSERT INTO note VALUES ('zoe', 77, 'kept'); UPDATE note SET text = 'kept too' WHERE number = 77; "
                    + "DELETE FROM note WHERE number = 77")
            let lines = try place.ctl("history", store, "--table", "note", "--limit", "3").output
            #expect(lines.contains("set: text"), "\(first) \(lines)")
            #expect(lines.contains("text \"kept too\""), "\(first) \(lines)")
            #expect(lines.contains("was: number 77") == again.contains("note.number"), "\(lines)")
            // Stopping forgets them.
            #expect(try place.ctl("history", "stop", store, "--all").status == 0)
            let anew = try place.ctl("history", "record", store, "--table", "note")
            #expect(anew.status == 0, "\(anew.errors)")
            try sql("INSERT INTO note VALUES ('zoe', 78, 'gone'); DELETE FROM note WHERE number = 78")
            let plain = try place.ctl("history", store, "--table", "note", "--limit", "1").output
            #expect(plain.contains("deleted") && !plain.contains("gone"), "\(plain)")
            #expect(try place.ctl("history", "stop", store, "--all").status == 0)
        }
    }

    @Test("recording begins and ends for tables or for all, and what cannot be recorded is refused by name")
    func recording() throws {
        #expect(try place.ctl("history", "record", store).status == 64)
        #expect(try place.ctl("history", "record", store, "--all", "--table", "t").status == 64)
        #expect(try place.ctl("history", "record", store, "--table", "t", "--keep", "text").status == 64)
        try sql("CREATE VIEW v AS SELECT 1 AS one")
        let view = try place.ctl("history", "record", store, "--table", "v", "--json")
        #expect(view.status == 64 && view.errorJSON["code"] as? String == "unsuitableTable", "\(view.errors)")
        let column = try place.ctl("history", "record", store, "--table", "t", "--keep", "t.gone", "--json")
        #expect(column.status == 64 && column.errorJSON["code"] as? String == "noSuchColumn", "\(column.errors)")
        #expect(try place.ctl("history", "record", store, "--table", "gone").status == 64)
        let one = try place.ctl("history", "record", store, "--table", "t", "--table", "note", "--json")
        #expect(one.json["recorded"] as? [String] == ["note", "t"], "\(one.errors)")
        let stopped = try place.ctl("history", "stop", store, "--table", "T", "--json")
        #expect(stopped.json["recorded"] as? [String] == ["note"])
        let before = try changes(history())
        try sql("INSERT INTO t VALUES (9000, ''); CREATE TABLE late (a)")
        #expect(try changes(history()) == before)
        let all = try place.ctl("history", "record", store, "--all", "--json")
        #expect(all.json["recorded"] as? [String] == ["late", "note", "t"])
        try sql("CREATE TABLE later (a); INSERT INTO later VALUES (1)")
        #expect(try changes(history()).last == "inserted later rowid=1")
        // A table that was left out would join again with the next opening.
        #expect(try place.ctl("history", "stop", store, "--table", "t").status == 64)
        #expect(try place.ctl("history", "stop", store, "--all").output == "no table is recorded\n")
        let last = try changes(history())
        try sql("INSERT INTO t VALUES (9001, ''); CREATE TABLE latest (a); INSERT INTO latest VALUES (1)")
        #expect(try changes(history()) == last)
    }

    // MARK: Readers, status, doctor

    @Test("readers, their lag and the size of the history are in `status`, and a reader is forgotten by name")
    func readers() throws {
        try record("--all")
        let other = try open()
        try other.write { try $0.registerHistoryReader("search") }
        try other.close()
        try sql("INSERT INTO t VALUES (9000, ''); INSERT INTO t VALUES (9001, '')")
        let status = try place.ctl("status", store, "--json")
        let history = try #require(status.json["history"] as? [String: Any])
        #expect(history["tables"] as? [String] == ["note", "t"])
        #expect(history["includes_new_tables"] as? Bool == true)
        #expect(history["changes"] as? Int == 4)
        #expect((history["bytes"] as? Int).map { (40...400).contains($0) } == true)
        let reader = try #require(history["readers"] as? [[String: Any]]).first
        #expect(reader?["name"] as? String == "search" && reader?["lag"] as? Int == 2)
        let text = try place.ctl("status", store).output
        #expect(
            text.contains("history      4 changes, about ")
                && text.contains("reader       \"search\", 2 changes behind"))
        let metrics = try place.ctl("status", store, "--openmetrics").output
        #expect(metrics.contains("cipherstore_history_reader_lag_changes{store=\"\(store)\",reader=\"search\"} 2\n"))
        #expect(try place.ctl("history", "readers", store).output.hasPrefix("\"search\", 2 changes behind"))
        let unknown = try place.ctl("history", "readers", store, "--remove", "nobody", "--json")
        #expect(unknown.status == 64 && unknown.errorJSON["code"] as? String == "noSuchReader", "\(unknown.errors)")
        #expect(try place.ctl("history", "readers", store, "--remove", "search").output == "no reader is registered\n")
    }

    @Test("a reader that was slower than the limits needs attention, in `history readers`, `status` and `doctor`")
    func expiredReader() throws {
        try record("--all")
        let other = try open()
        try other.write { db in
            try db.registerHistoryReader("search")
            try db.setHistoryLimits(HistoryLimits(count: 1))
        }
        try sql("INSERT INTO t VALUES (9000, ''); INSERT INTO t VALUES (9001, '')")
        try other.purgeHistory()
        try other.close()
        let readers = try place.ctl("history", "readers", store)
        #expect(readers.status == 2 && readers.output.contains("\"search\", expired: "), "\(readers.output)")
        #expect(try place.ctl("status", store).status == 2)
        let doctor = try place.ctl("doctor", store)
        #expect(doctor.status == 2 && doctor.output.contains("the reader \"search\" of the history has expired"))
    }

    @Test("a store without a history is not opened by `status`, and says nothing of one")
    func withoutHistory() throws {
        let before = FolderSnapshot(of: place.folder)
        let status = try place.ctl("status", store, "--json")
        #expect(status.status == 0 && status.json["history"] is NSNull)
        #expect(try place.ctl("doctor", store).status == 0)
        #expect(before.changes(until: FolderSnapshot(of: place.folder)).isEmpty)
    }

    @Test(
        "triggers that another program has dropped or changed are named by `doctor`, until an opening makes them again")
    func droppedTriggers() throws {
        try record("--all")
        #expect(try place.ctl("doctor", store).status == 0)
        let names = try place.ctl(
            "sql", store, "SELECT name FROM sqlite_schema WHERE tbl_name = 't' AND name LIKE 'cipherstore_history_%'",
            "--mode", "csv"
        ).output.split(separator: "\r\n").dropFirst()
        let insertion = try #require(names.first { $0.hasSuffix("_insert") })
        let deletion = try #require(names.first { $0.hasSuffix("_delete") })
        try stock(
            """
            DROP TRIGGER \(insertion); DROP TRIGGER \(deletion);
            CREATE TRIGGER \(deletion) AFTER DELETE ON t BEGIN SELECT 1; END
            """)
        let doctor = try place.ctl("doctor", store, "--json")
        let findings = doctor.json["findings"] as? [[String: Any]] ?? []
        let finding = try #require(findings.first { $0["code"] as? String == "historyTriggers" }, "\(doctor.output)")
        #expect(doctor.status == 2 && finding["severity"] as? String == "risk")
        let what = finding["what"] as? String ?? ""
        #expect(what.contains("\"t\"") && what.contains("insert dropped") && what.contains("delete changed"), "\(what)")
        try sql("SELECT 1")
        #expect(try place.ctl("doctor", store).status == 0)
        #expect(try changes(history()).last == "reset t")
        try stock("DROP TABLE note")
        let gone = try place.ctl("doctor", store)
        #expect(gone.status == 2 && gone.output.contains("the table \"note\""), "\(gone.output)")
    }
}
