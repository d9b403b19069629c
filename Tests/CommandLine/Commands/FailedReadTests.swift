import Foundation
import TestKit
import Testing

#if os(Linux)
    /// A disk or a network filesystem that refuses one read. SQLite reports that as damage: an operator restored a sound
    /// store from a backup because one read had failed.
    @Suite("cipherctl, reads that fail") struct FailedReadTests {
        private func makeStore() throws -> Workplace {
            let place = try Workplace()
            try place.makeStore()
            let filled = try place.ctl(
                "sql", place.path("s.db"),
                """
                CREATE TABLE large (a, b); CREATE INDEX i ON large (b);
                WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 1500)
                INSERT INTO large SELECT i, 'a text of some length ' || i FROM c;
                CREATE VIRTUAL TABLE words USING fts5 (b);
                INSERT INTO words SELECT b FROM large
                """, "--write")
            try #require(filled.status == 0, "\(filled.errors)")
            return place
        }

        @Test(
            "one read that fails is said to have failed, never to have found damage",
            arguments: [
                (["sql", "SELECT count(*), max(b) FROM large NOT INDEXED"], 5),
                (["sql", "PRAGMA integrity_check"], 17),
                (["sql", "SELECT count(*) FROM words WHERE words MATCH 'length'"], 5), (["verify"], 5), (["hash"], 17),
            ])
        func once(_ words: [String], oneIn step: Int) throws {
            let place = try makeStore()
            let arguments =
                [words[0], place.path("s.db")] + words.dropFirst() + ["--raw-key-file", place.key]
            var refused = 0
            try Workplace.forEachCall(oneIn: step, offset: words.count) { number in
                let run = try place.run(arguments, failing: CallFault(kinds: "read"), at: number, of: "/s.db")
                guard run.wasHit, run.outcome.status != 0 else { return run }
                refused += 1
                let story: Comment = "\(number): \(run.outcome.status) \(run.outcome.output)\(run.outcome.errors)"
                #expect(run.outcome.status == 74, story)
                #expect(run.outcome.errors.contains("Input/output error"), story)
                for word in ["malformed", "damaged", "logic error", "cipherctl verify"] {
                    #expect(!(run.outcome.output + run.outcome.errors).contains(word), story)
                }
                return run
            }
            #expect(refused > 1, "\(words)")
            let after = try place.run(arguments)
            #expect(after.status == 0, "\(after.errors)")
        }

        @Test(
            "a read that fails for a program leaves its store usable, and says that the next may succeed",
            arguments: ["", "-wal"])
        func nextRead(_ suffix: String) throws {
            let place = try Workplace()
            let path = place.path("a.db")
            let (keeper, actor) = (try ActorProcess(), try ActorProcess())
            #expect(keeper.ask("open \(path) raw")?.hasPrefix("ok") == true)
            #expect(keeper.ask("fill 200000") == "ok")
            if suffix.isEmpty { #expect(keeper.ask("checkpoint")?.hasPrefix("ok") == true) }
            var refused = 0
            for number in 1...12 {
                #expect(actor.ask("open \(path) raw")?.hasPrefix("ok") == true)
                #expect(actor.ask("fail-call \(path)\(suffix) read \(number) once EIO") == "ok")
                let answer = actor.ask("total") ?? "died"
                if answer.hasPrefix("error SQLite") {
                    refused += 1
                    #expect(answer.contains("SQLite-266") && answer.contains("next read may succeed"), "\(answer)")
                }
                #expect(!answer.contains("malformed") && !answer.contains("logic error"), "\(answer)")
                #expect(actor.ask("end-faults") == "ok")
                #expect(actor.ask("check") == "ok ok")
                #expect(actor.ask("close") == "ok")
            }
            #expect(refused > 0)
        }
    }
#endif
