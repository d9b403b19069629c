import Foundation
import Testing

#if os(Linux)
    @Suite("cipherctl with calls that fail") struct FaultyCommandTests {
        @Test("a call of cipherctl is counted from the one chosen on, and fails")
        func counting() throws {
            let place = try Workplace()
            let create = ["create", place.path("s.db"), "--raw-key-file", place.key]
            let counted = try place.run(create, failing: CallFault(), at: 0)
            #expect(counted.outcome.status == 0 && !counted.calls.isEmpty, "\(counted.outcome.errors)")
            let place2 = try Workplace()
            let start = CallFault.Start(pattern: "/s.db-sidecar", kinds: "name", number: 1)
            let create2 = ["create", place2.path("s.db"), "--raw-key-file", place2.key]
            let failed = try place2.run(create2, failing: CallFault(), at: 1, from: start)
            #expect(failed.wasHit && failed.call == "name /s.db-sidecar", "\(failed.call)")
            #expect(failed.outcome.status == 74 && failed.outcome.errors.contains("rename"), "\(failed.outcome.errors)")
        }
    }
#endif
