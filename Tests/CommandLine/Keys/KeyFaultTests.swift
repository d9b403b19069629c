import CipherStore
import Foundation
import KeyCustody
import TestKit
import Testing

#if os(Linux)
    /// Changes of keys of which a call fails: which key opens the store afterwards is what the command says.
    @Suite("cipherctl key, with calls that fail") struct KeyFaultTests {
        private let place: Workplace
        private var store: String { place.path("s.db") }

        private static let faults = [CallFault(), CallFault(isLasting: true), CallFault.fullDisk]

        init() throws {
            place = try Workplace()
            try place.makeStore()
            try Workplace.write([UInt8](repeating: 7, count: 32), to: place.path("new.key"))
        }

        private func expectRepeatable(_ fixture: FaultFixture, _ words: (Workplace) -> [String]) throws {
            let again = try fixture.place.run(words(fixture.place))
            #expect(again.status == 0, "run again: \(again.errors)\(fixture.story)")
        }

        private func expectSound(_ fixture: FaultFixture, _ keys: [String]) {
            for key in keys { #expect(fixture.rows(key: key) == 3000, "\(key) \(fixture.story)") }
        }

        @Test("a key that is added opens the store when the command says so, and not else", arguments: faults)
        private func add(_ fault: CallFault) throws {
            func words(_ place: Workplace) -> [String] {
                [
                    "key", "add", place.path("s.db"), "--raw-key-file", place.key, "--new-raw-key-file",
                    place.path("new.key"), "--json",
                ]
            }
            let count = try FaultFixture.each(fault, in: place, words) { fixture in
                let new = fixture.place.path("new.key")
                let isMade = try fixture.opensSidecar(new)
                fixture.expectTrueWords(isMade: isMade)
                try fixture.expectLogged("slot-added", isMade ? 1 : 0)
                if !isMade { try expectRepeatable(fixture, words) }
                expectSound(fixture, [fixture.place.key, new])
            }
            #expect(count > 20)
        }

        @Test("of a key that is changed exactly one opens the store, and the command says which", arguments: faults)
        private func change(_ fault: CallFault) throws {
            func words(_ place: Workplace) -> [String] {
                [
                    "key", "change", place.path("s.db"), "--raw-key-file", place.key, "--new-raw-key-file",
                    place.path("new.key"), "--json",
                ]
            }
            let count = try FaultFixture.each(fault, in: place, words) { fixture in
                let new = fixture.place.path("new.key")
                let isMade = try fixture.opensSidecar(new)
                fixture.expectTrueWords(isMade: isMade)
                try fixture.expectLogged("slot-changed", isMade ? 1 : 0)
                if isMade {
                    try followLeftBehind(fixture)
                } else {
                    try expectRepeatable(fixture, words)
                }
                expectSound(fixture, [new])
                #expect(fixture.rows() == nil, fixture.story)
            }
            #expect(count > 20)
        }

        @Test("a key that is removed opens nothing when the command says so, and the store else", arguments: faults)
        private func remove(_ fault: CallFault) throws {
            let new = place.path("new.key")
            let added = try place.ctl("key", "add", store, "--new-raw-key-file", new)
            try #require(added.status == 0, "\(added.errors)")
            func words(_ place: Workplace) -> [String] {
                ["key", "remove", place.path("s.db"), "--slot", "2", "--yes", "--raw-key-file", place.key, "--json"]
            }
            let count = try FaultFixture.each(fault, in: place, words) { fixture in
                let new = fixture.place.path("new.key")
                let isMade = try !fixture.opensSidecar(new)
                fixture.expectTrueWords(isMade: isMade)
                try fixture.expectLogged("slot-removed", isMade ? 1 : 0)
                if isMade {
                    try followLeftBehind(fixture)
                } else {
                    try expectRepeatable(fixture, words)
                }
                expectSound(fixture, [fixture.place.key])
                #expect(fixture.rows(key: new) == nil, fixture.story)
            }
            #expect(count > 20)
        }

        @Test(
            "a store that is converted has the scheme that the command says, and every key of that", arguments: faults,
            [true, false])
        private func convert(_ fault: CallFault, toSlots: Bool) throws {
            let direct = try Workplace()
            try Workplace.write([UInt8](repeating: 7, count: 32), to: direct.path("new.key"))
            let made = try direct.ctl("create", direct.path("s.db"), "--scheme", "direct")
            try #require(made.status == 0, "\(made.errors)")
            let filled = try direct.ctl(
                "sql", direct.path("s.db"), "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)", "--write")
            try #require(filled.status == 0, "\(filled.errors)")
            func convert(_ place: Workplace, toSlots: Bool) -> [String] {
                let (key, new) = toSlots ? (place.key, place.path("new.key")) : (place.path("new.key"), place.key)
                return [
                    "key", "convert", place.path("s.db"), "--to", toSlots ? "slots" : "direct", "--raw-key-file", key,
                    "--new-raw-key-file", new, "--yes", "--json",
                ]
            }
            if !toSlots { try #require(direct.run(convert(direct, toSlots: true)).status == 0) }
            let before = try direct.events().filter { $0 == "scheme-changed" }.count
            let count = try FaultFixture.each(fault, in: direct) {
                convert($0, toSlots: toSlots)
            } judge: { fixture in
                let new = fixture.place.path("new.key")
                let isMade = try fixture.opensSidecar(new) == toSlots
                fixture.expectTrueWords(isMade: isMade)
                try fixture.expectLogged("scheme-changed", before + (isMade ? 1 : 0))
                if isMade {
                    try followLeftBehind(fixture)
                } else {
                    try expectRepeatable(fixture) { convert($0, toSlots: toSlots) }
                }
                #expect(fixture.rows(key: toSlots ? new : fixture.place.key) == 2, fixture.story)
                if !toSlots { #expect(fixture.rows(key: new) == nil, fixture.story) }
            }
            #expect(count > 20)
        }

        // MARK: A rename that is done although it fails

        // "rename: Input/output error", which means that nothing was changed, while the former key had stopped to open
        // anything: a user who threw the new one away had lost the store. `key recovery` removed its --output itself.
        @Test("a change whose rename is done although it fails is made", arguments: [EIO, ESTALE])
        private func lostAnswer(_ error: Int32) throws {
            let new = place.path("new.key")
            let fault = CallFault(kinds: "name", error: error, isLost: true)
            let changed = try place.run(
                ["key", "change", store, "--raw-key-file", place.key, "--new-raw-key-file", new], failing: fault, at: 1,
                of: "/s.db-sidecar")
            try #require(changed.wasHit && changed.outcome.status == 0, "\(changed.outcome.errors)")
            #expect(try place.bytes("s.db-sidecar") == place.bytes("s.db-sidecar.bak"))
            #expect(try place.ctl("key", "test", store, key: new).status == 0)
            #expect(try place.ctl("key", "test", store).status == 77)
        }

        @Test("where a rename fails and its file cannot be read, both keys are to be kept, and a recovery key is")
        private func unknownOutcome() throws {
            let sheet = place.path("recovery.txt")
            let fault = CallFault(kinds: "name,open", isLasting: true, isLost: true)
            let run = try place.run(
                ["key", "recovery", store, "--raw-key-file", place.key, "--output", sheet], failing: fault, at: 1,
                of: "/s.db-sidecar", from: CallFault.Start(pattern: "/s.db-sidecar", kinds: "name", number: 1))
            try #require(run.wasHit && run.outcome.status == 65, "\(run.outcome.errors)")
            #expect(run.outcome.errors.contains("Keep both keys"), "\(run.outcome.errors)")
            let test = try place.run(["key", "test", store, "--key-file", sheet])
            #expect(test.status == 0, "\(test.errors)")
            // One that provably opens nothing is not kept.
            let refused = try place.run(
                ["key", "recovery", store, "--raw-key-file", place.key, "--output", place.path("other.txt")],
                failing: CallFault(kinds: "name"), at: 1, of: "/s.db-sidecar")
            #expect(refused.wasHit && refused.outcome.status == 74, "\(refused.outcome.errors)")
            #expect(!place.exists("other.txt"))
        }

        /// Does what the hint says where a former key could not be removed: the files that are named go.
        private func followLeftBehind(_ fixture: FaultFixture) throws {
            guard fixture.outcome.status != 0 else { return }
            #expect(fixture.outcome.errors.contains("Remove the named files"), fixture.story)
            for name in ["s.db-sidecar", "s.db-sidecar.bak", "s.db-sidecar.damaged", "s.db-sidecar.bak.damaged"] {
                // As the message names them, with the quotes of JSON.
                guard fixture.outcome.errors.contains("\(fixture.place.path(name))\\\""), fixture.place.exists(name)
                else {
                    continue
                }
                if name != "s.db-sidecar" { try fixture.place.remove(name) }
            }
        }
    }
#endif
