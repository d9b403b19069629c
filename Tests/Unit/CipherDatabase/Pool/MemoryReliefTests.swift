import CipherDatabase
import Dispatch
import Foundation
import StorePlatform
import TestKit
import Testing

@Suite struct MemoryReliefTests {
    @Test("memory is given back while tasks wait for it, and not before", .enabled(if: !isApple))
    func pressure() async {
        let percent = Shared(0.0)
        let (asked, released) = (Shared(0), Shared(0))
        let relief = MemoryRelief(every: .milliseconds(1)) {
            asked.change { $0 += 1 }
            return percent.value
        } release: {
            released.change { $0 += 1 }
        }
        #expect(relief != nil)
        #expect(await eventually { asked.value > 3 })
        #expect(released.value == 0)
        percent.change { $0 = 80 }
        #expect(await eventually { released.value > 1 })
        withExtendedLifetime(relief) {}
    }

    @Test("where the system does not tell, nobody asks again", .enabled(if: !isApple))
    func untold() {
        #expect(MemoryRelief(every: .milliseconds(1), pressure: { nil }, release: {}) == nil)
    }

    @Test("it ends with its object")
    func end() async {
        let asked = Shared(0)
        var relief = MemoryRelief(
            every: .milliseconds(1),
            pressure: {
                asked.change { $0 += 1 }
                return 0
            }, release: {})
        #expect(relief != nil)
        relief = nil
        // One that is under way may still ask.
        let last = Shared(asked.value)
        #expect(
            await eventually {
                defer { last.change { $0 = asked.value } }
                return last.value == asked.value
            })
    }

    @Test("databases go away while they look after their memory, and work the same without")
    func databases() throws {
        weak var gone: DatabasePool?
        for manages in [true, false] {
            let folder = TemporaryFolder()
            let pool = try Databases.poolWithTable(folder) { $0.automaticMemoryManagement = manages }
            #expect(try pool.read { try $0.rowCount() } == 0)
            pool.releaseMemoryEventually()
            #expect(try pool.read { try $0.rowCount() } == 0)
            gone = pool
        }
        #expect(gone == nil)
        #expect(Configuration().automaticMemoryManagement)
    }
}

#if canImport(Darwin)
    private let isApple = true
#else
    private let isApple = false
#endif
