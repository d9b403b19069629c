import Foundation
import TestKit
import Testing

/// `Keys/generators/read_remote.py`, written from the documents alone, makes the rows of stores from what these have pushed.
@Suite("A reader of a whole remote by another implementation")
struct RemoteReaderTests {
    private let place: SyncPlace

    /// Whether this machine has Python with the one module that the script takes.
    static let isPossible: Bool = {
        guard let python = SystemProgram.find("python3") else { return false }
        return (try? CommandRun(python, ["-c", "import cryptography"]).finish().status) == 0
    }()

    init() throws {
        place = try SyncPlace()
        for name in ["a.db", "b.db", "c.db"] {
            try place.makeStore(name)
            try place.sql(
                name,
                """
                CREATE TABLE pair (x INTEGER, y TEXT, z REAL, note, PRIMARY KEY (y, x));
                CREATE TABLE void (id INTEGER PRIMARY KEY);
                """)
        }
    }

    /// Sets the stores up with a remote, by default the folder.
    private func begin(at remote: String? = nil) throws {
        let tables = ["--table", "pair", "--table", "void"]
        let begun = try place.place.run(
            ["sync", "init", place.place.path("a.db"), "--table", "player", "--remote", remote ?? place.remote]
                + tables + ["--raw-key-file", place.place.key])
        try #require(begun.status == 0, "\(begun.errors)")
        #expect(try place.invite("a.db", "app.invitation").status == 0)
        for name in ["b.db", "c.db"] {
            let joined = try place.join(name, "app.invitation", tables + ["--remote", remote ?? place.remote])
            #expect(joined.status == 0, "\(joined.errors)")
        }
    }

    private func read(_ arguments: String..., of remote: String = "remote") throws -> CommandRun.Outcome {
        let script = Workplace.repositoryRoot.appending(path: "Keys/generators/read_remote.py").path
        let python = try #require(SystemProgram.find("python3"))
        let files = [place.place.path(remote), place.place.path("app.invitation")]
        return try CommandRun(
            python, [script] + files + ["--raw-key-file", place.invitationKey] + arguments
        ).finish()
    }

    private func run(_ commands: String..., on name: String) throws {
        for command in commands {
            let outcome = try place.sync(command, name)
            try #require([0, 2].contains(outcome.status), "\(command) \(name): \(outcome.errors)")
        }
    }

    // MARK: Work

    /// Two stores change the same rows and others, and merge.
    private func divergeAndMerge() throws {
        try place.commit(
            "a.db",
            """
            INSERT INTO player VALUES ('1', 'Ann', 1), ('2', 'Zoë', -2), ('3', '', NULL);
            INSERT INTO pair VALUES (1, 'a', 1, x'00ff'), (2, 'b', 2.5, 'text'), (-3, 'b', NULL, 1e300);
            """)
        for name in ["a.db", "b.db"] { try run("run", on: name) }
        try place.commit("a.db", "UPDATE player SET score = 10 WHERE id < '3'; DELETE FROM pair WHERE x = 2")
        try place.commit(
            "b.db",
            """
            UPDATE player SET score = 11, name = 'Anna' WHERE id = '1'; DELETE FROM player WHERE id = '3';
            UPDATE pair SET note = 7, z = -0.5 WHERE x = 1; INSERT INTO pair VALUES (9, 'new', 0, NULL);
            """)
        for name in ["a.db", "b.db", "a.db"] { try run("run", on: name) }
    }

    /// Two replicas make different merges of the same three commits: of the two leaves one covers the other.
    private func mergeTwice() throws {
        for name in ["b.db", "c.db"] { try run("run", on: name) }
        for (name, key) in [("a.db", "10"), ("b.db", "11"), ("c.db", "12")] {
            try place.commit(name, "INSERT INTO player VALUES ('\(key)', '\(name)', 1)")
        }
        try run("push", on: "a.db")
        try run("fetch", "merge", on: "c.db")
        try run("push", on: "b.db")
        try run("fetch", "merge", on: "a.db")
        try run("push", on: "c.db")
        try run("fetch", "merge", on: "a.db")
        try run("fetch", "merge", "push", on: "c.db")
        try run("push", on: "a.db")
    }

    // MARK: Comparing

    /// The digests that a store keeps for its tables, from their encoded form.
    private func digests(_ name: String) throws -> [String: String] {
        let hex = try place.place.ctl(
            "sql", place.place.path(name), "SELECT hex(digests) FROM cipherstore_sync_state", "--mode", "csv"
        ).output.split(separator: "\r\n").last
        let bytes = try #require(hex).split(by: 2).compactMap { UInt8($0, radix: 16) }
        var (digests, rest) = ([String: String](), bytes[...])
        while let end = rest.firstIndex(of: 0) {
            let digest = rest[(end + 1)...].prefix(16)
            digests[String(decoding: rest[..<end], as: UTF8.self)] = digest.map { String(format: "%02x", $0) }.joined()
            rest = rest[digest.endIndex...]
        }
        return digests
    }

    /// Compares head, digests and every value.
    private func expectSame(_ outcome: CommandRun.Outcome, _ name: String) throws {
        try #require(outcome.status == 0, "\(outcome.errors)")
        let log = try #require(place.sync("log", name).json["commits"] as? [[String: Any]])
        let head = try #require(log.first?["commit"] as? String)
        #expect(outcome.json["heads"] as? [String] == [head])
        // A store that has made no checkpoint keeps what it has replaced.
        if outcome.json["checkpoint"] is NSNull {
            #expect(try Set(ids(outcome)).isSuperset(of: log.compactMap { $0["commit"] as? String }))
        }
        let tables = try #require(outcome.json["tables"] as? [String: [String: Any]])
        let digests = try digests(name)
        #expect(digests.count == 3 && digests["player"]?.count == 32)
        for (table, digest) in digests {
            let rows = try place.place.ctl(
                "sql", place.place.path(name), "SELECT * FROM \(table)", "--mode", "json"
            ).output
            let stored = try #require(
                try JSONSerialization.jsonObject(with: Data(rows.utf8)) as? [[String: Any]], "\(rows)")
            // A table that no commit has changed is in none.
            guard let found = tables[table] else {
                #expect(stored.isEmpty && table == "void")
                continue
            }
            #expect(found["digest"] as? String == digest && found["verified"] as? Bool == true, "\(table)")
            let columns = try #require(found["columns"] as? [String])
            let read = try #require(found["rows"] as? [[Any]])
            let named = read.map { Dictionary(uniqueKeysWithValues: zip(columns, $0)) }
            #expect(try texts(named) == texts(stored) && !read.isEmpty, "\(table)")
        }
    }

    /// Rows as JSON, in one order.
    private func texts(_ rows: [[String: Any]]) throws -> [String] {
        try rows.map {
            String(decoding: try JSONSerialization.data(withJSONObject: $0, options: .sortedKeys), as: UTF8.self)
        }.sorted()
    }

    private func ids(_ outcome: CommandRun.Outcome) throws -> [String] {
        try #require(outcome.json["commits"] as? [[String: Any]]).compactMap { $0["id"] as? String }
    }

    // MARK: Tests

    @Test(
        "it makes rows and digests of the newest state, after merges and with a column that was added",
        .enabled(if: isPossible, "python3 with the module cryptography is not here"))
    func reads() throws {
        try begin()
        try divergeAndMerge()
        let merged = try read()
        for name in ["a.db", "b.db"] { try expectSame(merged, name) }
        #expect(merged.json["objects"] as? Int == 4 && (merged.json["gaps"] as? [Any])?.isEmpty == true)

        try mergeTwice()
        let commits = try #require(read().json["commits"] as? [[String: Any]])
        let parents = Set(commits.flatMap { $0["parents"] as? [String] ?? [] })
        #expect(commits.count { !parents.contains($0["id"] as? String ?? "") } == 2)
        for name in ["a.db", "b.db", "c.db"] {
            try run("fetch", "pull", on: name)
            try expectSame(read(), name)
        }

        for name in ["a.db", "b.db"] { try place.sql(name, "ALTER TABLE player ADD COLUMN team TEXT DEFAULT 'none'") }
        try place.commit("a.db", "INSERT INTO player VALUES ('7', 'Gil', 1, 'red')")
        try place.commit("b.db", "UPDATE player SET name = 'Zoe' WHERE id = '2'")
        try run("push", on: "a.db")
        try run("push", on: "b.db")
        // Two newest states.
        #expect(try read("--default", "player.team=\"none\"").status == 3)
        for name in ["a.db", "b.db", "a.db"] { try run("run", on: name) }
        try expectSame(read("--default", "player.team=\"none\""), "a.db")
        // The default is in no commit, and the digest shows that it is missing.
        let without = try read()
        #expect(without.status == 1 && without.errors.contains("the digest of player"), "\(without.errors)")
    }

    /// Two stores replace their history, and work on.
    private func checkpoint() throws {
        try divergeAndMerge()
        try place.commit(
            "b.db",
            """
            WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
            INSERT INTO player SELECT i, 'p' || i, i FROM n;
            INSERT INTO player VALUES ('long', replace(hex(zeroblob(300000)), '0', 'x'), 1);
            """)
        for name in ["b.db", "a.db", "b.db", "a.db"] { try run("run", on: name) }
        let made = try place.sync("checkpoint", "a.db")
        #expect(made.status == 0 && made.json["rows"] as? Int == 8907, "\(made.output)\(made.errors)")
    }

    private func commitMore() throws {
        try place.commit("a.db", "UPDATE player SET score = 0 WHERE id = '200'; DELETE FROM pair WHERE x = 9")
        try place.commit(
            "b.db", "UPDATE player SET score = 1 WHERE id = '200'; INSERT INTO player VALUES ('z', 'Z', 0)")
        for name in ["a.db", "b.db", "a.db", "c.db"] { try run("run", on: name) }
    }

    @Test(
        "it takes the rows of a checkpoint for the commits that this has replaced, and refuses one that is not whole",
        .enabled(if: isPossible, "python3 with the module cryptography is not here"))
    func readsCheckpoint() throws {
        try begin()
        try checkpoint()
        let outcome = try read()
        try expectSame(outcome, "a.db")
        let found = try #require(outcome.json["checkpoint"] as? [String: Any])
        #expect(found["rows"] as? Int == 8907 && found["parts"] as? Int == 3)
        #expect(try ids(outcome) == [#require(found["commit"] as? String)])
        try commitMore()
        let later = try read()
        for name in ["a.db", "b.db", "c.db"] { try expectSame(later, name) }
        #expect((later.json["gaps"] as? [Any])?.isEmpty == true)

        let files = FileManager.default.enumerator(atPath: place.place.path("remote"))
        let names = files?.compactMap { $0 as? String } ?? []
        for name in names where name.contains("/objects/") && name.count > 80 {
            let path = "remote/" + name
            let bytes = try place.place.bytes(path)
            try place.place.poke(path, at: bytes.count - 1, [bytes[bytes.count - 1] ^ 1])
            #expect(try read().status == 1, "\(name)")
            try place.place.remove(path)
            #expect(try read().status == 1, "\(name)")
            try Workplace.write(bytes, to: place.place.path(path))
        }
        // A line that is not authentic is no acknowledgement; without any the removed entries are missing.
        for name in names where name.contains("/ack/") {
            let bytes = try place.place.bytes("remote/" + name)
            try place.place.poke("remote/" + name, at: 40, [bytes[40] ^ 1])
        }
        #expect(try read().status == 1)
    }

    #if PostgreSQL
        @Test(
            "it takes the rows of a checkpoint in a dump of a server",
            .enabled(if: isPossible, "python3 with the module cryptography is not here"))
        func dumpedCheckpoint() throws {
            let server = try PostgresServer.shared.get()
            let database = try server.makeDatabase()
            try begin(at: server.url(database))
            try checkpoint()
            for stores in [["a.db"], ["a.db", "b.db", "c.db"]] {
                if stores.count > 1 { try commitMore() }
                let text = try server.output(of: "pg_dump", ["--schema=cipherstore", database])
                try place.place.write(text, to: "dump")
                let found = try read(of: "dump")
                for name in stores { try expectSame(found, name) }
            }
        }

        @Test(
            "it makes the same of a dump of a server",
            .enabled(if: isPossible, "python3 with the module cryptography is not here"))
        func dump() throws {
            try begin()
            try divergeAndMerge()
            let server = try PostgresServer.shared.get()
            let database = try server.makeDatabase()
            let outcome = try place.sync("run", "a.db", "--remote", server.url(database))
            try #require([0, 2].contains(outcome.status), "\(outcome.errors)")
            let text = try server.output(of: "pg_dump", ["--schema=cipherstore", database])
            try place.place.write(text, to: "dump")
            try expectSame(read(of: "dump"), "a.db")
            // The last digit of an object.
            let objects = try #require(text.range(of: "COPY cipherstore.object"))
            let end = try #require(text.range(of: "\n\\.", range: objects.upperBound..<text.endIndex))
            let digit = text.index(before: end.lowerBound)..<end.lowerBound
            let changed = text.replacingCharacters(in: digit, with: text[digit] == "0" ? "1" : "0")
            try place.place.write(changed, to: "dump")
            #expect(try read(of: "dump").errors.contains("not authentic"))
        }
    #endif

    @Test(
        "it refuses an object with one changed byte, whichever, and objects and entries that are cut or gone",
        .enabled(if: isPossible, "python3 with the module cryptography is not here"))
    func refusals() throws {
        try begin()
        try divergeAndMerge()
        let merge = try #require(ids(read()).last)
        let remote = FileManager.default.enumerator(atPath: place.place.path("remote"))
        let names = remote?.compactMap { $0 as? String } ?? []
        let object = try "remote/" + #require(names.first { $0.hasSuffix(merge) })
        let bytes = try place.place.bytes(object)
        // One of each field of the header, of the parents, of the ciphertext and of the tag.
        let fields = [0, 4, 5, 6, 7, 11, 15, 20, 40, 70, 87, 90, 130, 152]
        for offset in fields + [(152 + bytes.count) / 2, bytes.count - 17, bytes.count - 16, bytes.count - 1] {
            try place.place.poke(object, at: offset, [bytes[offset] ^ 0x10])
            let outcome = try read()
            #expect(outcome.status == 1 && outcome.errors.hasPrefix("refused: object \(merge)"), "\(offset)")
            try place.place.poke(object, at: offset, [bytes[offset]])
        }
        #expect(try read().status == 0)
        try place.place.truncate(object, to: bytes.count - 1)
        #expect(try read().status == 1)
        try place.place.remove(object)
        #expect(try read().errors.contains("is missing"))
        try Workplace.write(bytes, to: place.place.path(object))
        let entry = try "remote/" + #require(names.first { $0.hasSuffix("/1") && $0.contains("/log/") })
        let line = try place.place.bytes(entry)
        try place.place.truncate(entry, to: line.count - 1)
        #expect(try read().errors.contains("is damaged"))
        try Workplace.write(line, to: place.place.path(entry))
        #expect(try read().status == 0)
    }
}

extension Substring {
    /// Its parts of that many characters.
    fileprivate func split(by count: Int) -> [Substring] {
        stride(from: 0, to: self.count, by: count).map { dropFirst($0).prefix(count) }
    }
}
