import Foundation
import TestKit
import Testing

#if os(Linux)
    /// The report of `key change` when the disk refuses a call after the new sidecar is in place.
    ///
    /// It said "changed slot 1" where the name of the new sidecar may not have been on the disk, and that the .bak could not
    /// be written where a sound one was there.
    @Suite("cipherctl key change: what its notes say") struct KeyChangeWordTests {
        private let place: Workplace

        init() throws {
            place = try Workplace()
            try place.makeStore()
            try Workplace.write([UInt8](repeating: 7, count: 32), to: place.path("new.key"))
        }

        @Test("a note says which copy is not known to be on the disk, and nothing else")
        func notes() throws {
            func words(_ place: Workplace) -> [String] {
                [
                    "key", "change", place.path("s.db"), "--raw-key-file", place.key, "--new-raw-key-file",
                    place.path("new.key"), "--json",
                ]
            }
            var doubts = 0
            try Workplace.forEachCall { number in
                let copy = try Workplace()
                for name in try place.names() where name != "raw.key" {
                    try FileManager.default.copyItem(atPath: place.path(name), toPath: copy.path(name))
                }
                let run = try copy.run(words(copy), failing: CallFault(kinds: "sync,name,unlink"), at: number)
                guard run.wasHit, run.outcome.status == 0 else { return run }
                let story: Comment = "\(number): \(run.calls)\n\(run.outcome.errors)"
                let former = run.number > 1 ? run.calls[run.number - 2] : ""
                if former == "name /s.db-sidecar", run.call.hasPrefix("sync") {
                    doubts += 1
                    #expect(
                        run.outcome.errors.contains("may be in force again after a power failure"), story)
                    #expect(run.outcome.errors.contains("keep both keys"), story)
                } else {
                    #expect(!run.outcome.errors.contains("keep both keys"), story)
                }
                if run.outcome.errors.contains("s.db-sidecar.bak\" could not be written") {
                    let isThere =
                        try copy.exists("s.db-sidecar.bak")
                        && copy.bytes("s.db-sidecar.bak") == copy.bytes("s.db-sidecar")
                    #expect(!isThere, story)
                }
                return run
            }
            #expect(doubts == 1)
        }
    }
#endif
