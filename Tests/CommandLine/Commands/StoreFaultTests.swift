import CipherStore
import Foundation
import TestKit
import Testing

#if os(Linux)
    /// Adoption, import, creation, backup and restoration of which a call fails.
    @Suite("cipherctl, making stores and backups with calls that fail") struct StoreFaultTests {
        private static let faults = [CallFault(), CallFault(isLasting: true), CallFault.fullDisk]
        /// The calls that a full disk refuses: existing files can be opened.
        private static let creationFaults = [
            CallFault(), CallFault(isLasting: true),
            CallFault(kinds: "write,truncate,name", error: ENOSPC, isLasting: true),
        ]

        /// Runs the same command again, without faults.
        private func expectRepeatable(_ fixture: FaultFixture, _ words: [String]) throws {
            let again = try fixture.place.run(words)
            #expect(again.status == 0, "run again: \(again.errors)\(fixture.story)")
        }

        private func key(_ place: Workplace) -> [String] { ["--raw-key-file", place.key, "--json"] }

        // MARK: Adoption

        @Test(
            "a file whose adoption fails is what the command says: the former file, or a store with all rows",
            arguments: faults.map { ($0, KeyScheme.direct) } + [(CallFault(), .slots)])
        private func adopt(_ fault: CallFault, _ scheme: KeyScheme) throws {
            let template = try AdoptionFixture()
            try template.makeStandard("s.db")
            func words(_ place: Workplace) -> [String] {
                ["adopt", place.path("s.db"), "--scheme", scheme.rawValue] + key(place)
            }
            let count = try FaultFixture.each(fault, in: template.place, words) { fixture in
                let isStore = try fixture.place.bytes("s.db").starts(with: Array("SQLite format 3\0".utf8))
                fixture.expectTrueWords(isMade: isStore)
                if !isStore {
                    try expectStandard(fixture)
                    try expectRepeatable(fixture, words(fixture.place))
                } else if fixture.outcome.status != 0 {
                    try completeAdoption(fixture, words(fixture.place))
                }
                #expect(fixture.rows() == 500, fixture.story)
                try fixture.expectLogged("adopted", 1)
            }
            #expect(count > 30)
        }

        /// The file opens with a program that knows nothing of stores.
        private func expectStandard(_ fixture: FaultFixture) throws {
            var configuration = Configuration()
            configuration.readonly = true
            configuration.prepareDatabase { try $0.useRawKey(Data(repeating: 0x2a, count: 32)) }
            let queue = try DatabaseQueue(path: fixture.store, configuration: configuration)
            #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == 500, fixture.story)
            try queue.close()
        }

        /// Does what the hint says.
        private func completeAdoption(_ fixture: FaultFixture, _ words: [String]) throws {
            if fixture.outcome.errors.contains("run the same command again") {
                return try expectRepeatable(fixture, words)
            }
            if fixture.outcome.errors.contains("key convert --to slots") {
                return try expectRepeatable(
                    fixture, ["key", "convert", fixture.store, "--to", "slots"] + key(fixture.place))
            }
            #expect(fixture.outcome.errors.contains("The store is complete"), fixture.story)
            try expectRepeatable(fixture, ["sql", fixture.store, "SELECT 1", "--write"] + key(fixture.place))
        }

        // MARK: Import and creation

        @Test("an import that fails leaves nothing, or says that the store is there", arguments: faults)
        private func importing(_ fault: CallFault) throws {
            let template = try Workplace()
            try template.makePlain("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3)")
            func words(_ place: Workplace) -> [String] {
                ["import", place.path("plain.db"), place.path("s.db")] + key(place)
            }
            let count = try FaultFixture.each(fault, in: template, words) { fixture in
                let isMade = fixture.place.exists("s.db") && fixture.place.exists("s.db-sidecar")
                if fixture.outcome.errors.contains("could not be removed again") {
                    // A disk that refuses every call: what is left is named, and removed as the hint says.
                    for name in ["s.db", "s.db-sidecar", "s.db-sidecar.bak"] where fixture.place.exists(name) {
                        #expect(fixture.outcome.errors.contains(fixture.place.path(name)), fixture.story)
                        try fixture.place.remove(name)
                    }
                    try expectRepeatable(fixture, words(fixture.place))
                } else if isMade {
                    fixture.expectTrueWords(isMade: true)
                    if fixture.outcome.errors.contains("Remove the directory") {
                        for name in try fixture.place.names() where name.contains(".importing-") {
                            try fixture.place.remove(name)
                        }
                    }
                } else {
                    fixture.expectTrueWords(isMade: false)
                    try expectRepeatable(fixture, words(fixture.place))
                }
                #expect(fixture.rows() == 3, fixture.story)
                try expectNothingElse(fixture, ["plain.db", "plain.db-wal", "plain.db-shm"])
            }
            #expect(count > 30)
        }

        @Test("a creation that fails leaves nothing, so that another key may be given", arguments: creationFaults)
        private func creating(_ fault: CallFault) throws {
            let template = try Workplace()
            try Workplace.write([UInt8](repeating: 7, count: 32), to: template.path("new.key"))
            let count = try FaultFixture.each(fault, in: template) {
                ["create", $0.path("s.db")] + key($0)
            } judge: { fixture in
                if fixture.outcome.status == 0 || fixture.outcome.errors.contains("was created, but") {
                    #expect(fixture.rows(of: "sqlite_schema") != nil, fixture.story)
                    return
                }
                if fault.isLasting, fault.kinds.contains("unlink") {
                    // Nothing can be removed from such a disk, nor read: the command says what completes it.
                    if fixture.place.exists("s.db-sidecar") {
                        #expect(
                            fixture.outcome.errors.contains("the same command with the same key completes it"),
                            fixture.story)
                    }
                    let again = try fixture.place.run(["create", fixture.store] + key(fixture.place))
                    let wasComplete = again.status == 64 && fixture.outcome.errors.contains("`cipherctl status ")
                    #expect(again.status == 0 || wasComplete, "\(again.errors)\(fixture.story)")
                    #expect(fixture.rows(of: "sqlite_schema") != nil, fixture.story)
                } else {
                    // An empty file without a sidecar may stay: it could be another program's, and any creation uses it.
                    let isEmpty = try fixture.place.exists("s.db") && fixture.place.bytes("s.db").isEmpty
                    #expect(fixture.outcome.errors.contains("is an empty file") == isEmpty, fixture.story)
                    let left = try fixture.place.names().filter {
                        $0.hasPrefix("s.db") && $0 != "s.db-lock" && !($0 == "s.db" && isEmpty)
                    }
                    #expect(left.isEmpty, "\(left) \(fixture.story)")
                    try expectRepeatable(
                        fixture, ["create", fixture.store, "--raw-key-file", fixture.place.path("new.key")])
                }
            }
            #expect(count > 10)
        }

        // It unlinked the lock file below a program that coordinated access to the place: others that waited for that lock would
        // have got one each, on new lock files.
        @Test("a creation that fails leaves the lock file to a program that coordinates access to the place")
        private func coordinatedCreation() throws {
            var removals = 0
            let count = try Workplace.forEachCall { number in
                let place = try Workplace()
                let run = try FileCoordinator().coordinate(writingItemAt: URL(fileURLWithPath: place.path("s.db"))) {
                    _ in
                    try place.run(
                        ["create", place.path("s.db")] + key(place), failing: CallFault(kinds: "sync"), at: number)
                }
                #expect(place.exists("s.db-lock"), "\(run.call): \(run.outcome.errors)")
                if run.outcome.status != 0 && !place.exists("s.db-sidecar") { removals += 1 }
                return run
            }
            #expect(count > 3 && removals > 0)
        }

        private func expectNothingElse(_ fixture: FaultFixture, _ others: Set<String>) throws {
            let own: Set<String> = [
                "raw.key", "s.db", "s.db-wal", "s.db-shm", "s.db-lock", "s.db-keylog", "s.db-sidecar",
                "s.db-sidecar.bak",
            ]
            let left = try fixture.place.names().subtracting(own).subtracting(others)
                // A later change removes what a writer could not.
                .filter { !$0.contains(".tmp-") }
            // A directory that could not be removed goes with the next run of the command.
            if !(fixture.fault.isLasting && fixture.fault.kinds.contains("unlink")) {
                #expect(left.isEmpty, "\(left) \(fixture.story)")
            }
        }

        // MARK: Backup and restoration

        @Test("a backup that fails is not there, and the same command makes it", arguments: faults)
        private func backup(_ fault: CallFault) throws {
            let template = try Workplace()
            try template.makeStore()
            func words(_ place: Workplace) -> [String] { ["backup", place.path("s.db"), place.path("b")] + key(place) }
            let count = try FaultFixture.each(fault, in: template, words) { fixture in
                let isMade = fixture.place.exists("b")
                #expect(isMade == (fixture.outcome.status == 0), fixture.story)
                try fixture.expectLogged("backup-made", isMade ? 1 : 0)
                if !isMade { try expectRepeatable(fixture, words(fixture.place)) }
                let verified = try fixture.place.ctl("backup", "verify", fixture.place.path("b"))
                #expect(verified.status == 0, "\(verified.errors)\(fixture.story)")
                let partial = try fixture.place.names().filter { $0.contains(".partial-") }
                #expect(partial.isEmpty, "\(partial) \(fixture.story)")
                #expect(fixture.rows() == 3000, fixture.story)
            }
            #expect(count > 30)
        }

        @Test(
            "a restoration that fails leaves the former store, or says where it is, and the same command completes it",
            arguments: faults, [true, false])
        private func restore(_ fault: CallFault, replacing: Bool) throws {
            let template = try Workplace()
            try template.makeStore()
            try #require(template.ctl("backup", template.path("s.db"), template.path("b")).status == 0)
            if replacing {
                let removed = try template.ctl("sql", template.path("s.db"), "DELETE FROM t WHERE id > 7", "--write")
                try #require(removed.status == 0, "\(removed.errors)")
            } else {
                for name in try template.names() where name.hasPrefix("s.db") { try template.remove(name) }
            }
            func words(_ place: Workplace) -> [String] {
                ["restore", place.path("b"), place.path("s.db")] + (replacing ? ["--replace", "--yes"] : [])
                    + key(place)
            }
            let count = try FaultFixture.each(fault, in: template, words) { fixture in
                if fixture.outcome.status == 0 {
                    #expect(fixture.rows() == 3000, fixture.story)
                    return try fixture.expectLogged("restored", 1)
                }
                let isInterrupted = fixture.outcome.errors.contains("until it is run again")
                #expect(fixture.rows() == (isInterrupted || !replacing ? nil : 7), fixture.story)
                try fixture.expectLogged("restored", 0)
                try expectRepeatable(fixture, words(fixture.place))
                #expect(fixture.rows() == 3000, fixture.story)
            }
            #expect(count > 30)
        }
    }
#endif
