import Foundation
import TestKit
import Testing

#if os(Linux)
    /// A destruction that failed after its commit point said "try again; nothing was lost", with the store gone.
    @Suite("cipherctl destroy, with calls that fail") struct DestroyFaultTests {
        private let place: Workplace

        init() throws {
            place = try Workplace()
            try place.makeStore()
        }

        private func words(_ place: Workplace) -> [String] { ["destroy", place.path("s.db"), "--yes", "--json"] }

        private func left(_ place: Workplace) throws -> Set<String> {
            try place.names().filter { $0.hasPrefix("s.db") }
        }

        @Test(
            "a destruction that fails says whether the store is still there, and the same command ends it",
            arguments: [CallFault(), CallFault(kinds: "sync", error: ENOSPC), CallFault(isLasting: true)])
        private func faults(_ fault: CallFault) throws {
            let count = try Workplace.forEachCall(oneIn: 3, offset: fault.ordinal) { number in
                let copy = try Workplace()
                for name in try left(place) {
                    try FileManager.default.copyItem(atPath: place.path(name), toPath: copy.path(name))
                }
                let run = try copy.run(words(copy), failing: fault, at: number)
                if run.wasHit { try judge(FaultFixture(place: copy, run: run, fault: fault)) }
                return run
            }
            #expect(count >= 5)
        }

        private func judge(_ fixture: FaultFixture) throws {
            let left = try left(fixture.place)
            if fixture.outcome.status == 0 {
                #expect(left.isEmpty, fixture.story)
                return
            }
            if left.contains("s.db") {
                #expect(fixture.outcome.errorJSON["code"] as? String != "destructionInterrupted", fixture.story)
                #expect(fixture.rows() == 3000, fixture.story)
            } else {
                #expect(fixture.outcome.status == 74, fixture.story)
                #expect(fixture.outcome.errorJSON["code"] as? String == "destructionInterrupted", fixture.story)
                #expect(fixture.outcome.errors.contains("is destroyed"), fixture.story)
                #expect(!fixture.saysUnchanged, fixture.story)
            }
            let again = try fixture.place.run(words(fixture.place))
            #expect(again.status == 0, "again: \(again.errors)\(fixture.story)")
            #expect(try self.left(fixture.place).isEmpty, fixture.story)
        }

        @Test("a failing fsync after the last file was removed is a note: nothing is left to do")
        func lastSync() throws {
            let syncs = try place.run(words(place), failing: CallFault(kinds: "sync"), at: 99).calls.count
            let copy = try Workplace()
            try copy.makeStore()
            let run = try copy.run(words(copy), failing: CallFault(kinds: "sync", error: ENOSPC), at: syncs)
            #expect(run.wasHit && run.outcome.status == 0, "\(run.outcome.errors)")
            #expect(run.outcome.errors.contains("power failure"), "\(run.outcome.errors)")
            #expect(try left(copy).isEmpty)
        }
    }
#endif
