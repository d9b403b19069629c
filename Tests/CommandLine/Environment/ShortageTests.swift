import Foundation
import TestKit
import Testing

#if os(Linux)
    /// A machine that lacks something is called that, whichever call has met it.
    @Suite("cipherctl and what the machine lacks")
    struct ShortageTests {
        private let place: Workplace

        init() throws {
            place = try Workplace()
            try place.makeStore()
            try place.makePlain("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        }

        private static let words: [Int32: String] = [
            EMFILE: "descriptors", ENFILE: "descriptors", ENOMEM: "memory", EROFS: "read-only",
        ]

        private static let commands: [[String]] = [
            ["sql", "s.db", "SELECT count(*) FROM t"], ["sql", "s.db", "DELETE FROM t", "--write"],
            ["verify", "s.db"], ["status", "s.db"], ["backup", "s.db", "b"], ["create", "new.db"],
            ["import", "plain.db", "i.db"], ["key", "test", "s.db"], ["hash", "--plain", "plain.db"],
        ]

        /// In `make test` each command lacks two of the four.
        private static let shortages: [(Int32, [String])] = commands.enumerated().flatMap { number, words in
            Sweep.sample([EMFILE, ENFILE, ENOMEM, EROFS], oneIn: 2, offset: number).map { ($0, words) }
        }

        /// `unable to open database file` with exit code 66, "Check owner and mode", or no hint at all.
        @Test(
            "a file that cannot be opened for it is an error that names it, and no store that is missing",
            arguments: shortages)
        func opening(errorNumber: Int32, words: [String]) throws {
            let word = try #require(Self.words[errorNumber])
            let key = words.contains("--plain") ? [] : ["--raw-key-file", place.key]
            var failures = 0
            let before = try place.names()
            for number in [1, 2, 4, 7, 10] {
                let run = try place.run(
                    words + ["--json"] + key,
                    failing: CallFault(kinds: "open", error: errorNumber, isLasting: true), at: number)
                guard run.wasHit else { break }
                for name in try place.names().subtracting(before) { try place.remove(name) }
                if [0, 2].contains(run.outcome.status) { continue }
                failures += 1
                let hint = run.outcome.errorJSON["hint"] as? String ?? ""
                #expect(hint.contains(word), "\(number) \(run.call): \(run.outcome.errors)")
                #expect(run.outcome.status == (errorNumber == EROFS ? 77 : 74), "\(run.call): \(run.outcome.errors)")
            }
            #expect(failures > 0)
        }

        // If there was none left for a second descriptor of standard error, the command ended with 74 without a word.
        @Test("under a low limit of descriptors a command works or says what it lacks", arguments: 4...13)
        func limit(descriptors: Int) throws {
            let words = ["-c", "ulimit -n \(descriptors); exec \"$@\"", "sh", try Workplace.program().path]
            let outcome = try CommandRun(
                URL(fileURLWithPath: "/bin/sh"),
                words + ["sql", place.path("s.db"), "SELECT 1", "--raw-key-file", place.key]
            ).finish()
            #expect(outcome.status == 74 || outcome.status == 0, "\(outcome.status)")
            let isNamed = outcome.errors.contains("hint: This process may have no more file descriptors")
            #expect(isNamed == (outcome.status == 74), "\(outcome.errors)")
        }

        @Test("a derivation that gets no memory says so")
        func memory() throws {
            try place.write(Workplace.passphrase, to: "pass")
            let added = try place.run(
                ["key", "add", place.path("s.db"), "--raw-key-file", place.key, "--new-key-file", place.path("pass")],
                environment: ["CIPHERSTORE_CHEAP_SLOTS": "0"])
            #expect(added.status == 0, "\(added.errors)")
            // Enough for the program, and too little for 128 MiB more.
            let words = ["-c", "ulimit -v 200000; exec \"$@\"", "sh", try Workplace.program().path]
            let outcome = try CommandRun(
                URL(fileURLWithPath: "/bin/sh"),
                words + ["key", "test", place.path("s.db"), "--key-file", place.path("pass")]
            ).finish()
            #expect(outcome.status == 74, "\(outcome.status) \(outcome.errors)")
            #expect(outcome.errors.contains("hint: There is too little memory"), "\(outcome.errors)")
        }

        @Test(
            "a filesystem that is mounted read-only is called that",
            .enabled(if: ReadOnlyMount.isPossible, "needs the right to mount"),
            arguments: [
                ["sql", "s.db", "DELETE FROM t", "--write"], ["create", "new.db"], ["sql", "s.db", "SELECT 1"],
                ["backup", "s.db", "b"], ["rotate", "s.db", "--no-backup"], ["key", "recovery", "s.db"],
                ["history", "record", "s.db", "--all"], ["destroy", "s.db", "--yes"],
            ])
        func mounted(words: [String]) throws {
            try place.remove("s.db-wal", "s.db-shm")
            let mount = try ReadOnlyMount(of: place.folder.url.path)
            let folder = mount.folder.url.path
            let arguments = words.map { ["s.db", "new.db", "b"].contains($0) ? folder + "/" + $0 : $0 }
            let outcome = try place.run(arguments + (words[0] == "destroy" ? [] : ["--raw-key-file", place.key]))
            #expect(outcome.status == 77, "\(outcome.status) \(outcome.errors)")
            #expect(outcome.errors.contains("read-only"), "\(outcome.errors)")
            #expect(!outcome.errors.contains("Check owner"), "\(outcome.errors)")
        }
    }
#endif
