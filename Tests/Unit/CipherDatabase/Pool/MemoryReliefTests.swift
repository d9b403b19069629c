@testable import CipherDatabase
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

    @Test("it ends with its object, and lets go of what it was given")
    func end() async {
        let asked = Shared(0)
        nonisolated(unsafe) weak var given: Shared<Int>?  // Safe because: this task alone reads and sets it.
        var relief: MemoryRelief?
        do {
            let percent = Shared(0)
            given = percent
            relief = MemoryRelief(
                every: .milliseconds(1),
                pressure: {
                    asked.change { $0 += 1 }
                    return Double(percent.value)
                }, release: {})
        }
        #expect(await eventually { asked.value > 1 })
        #expect(given != nil && relief != nil)
        relief = nil
        #expect(await eventually { given == nil })
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
