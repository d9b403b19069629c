import CBaseline
import CipherStore
import Foundation

/// How often a piece of the library's work asks the C allocator for memory, on the thread that does it.
struct AllocationCount {
    let work: String
    /// Allocations for one unit of the work, after warming up.
    let perUnit: Double
    /// The most that the project promises for one unit.
    let promise: Double

    var isAsPromised: Bool { perUnit <= promise }

    /// For the terminal.
    var line: String {
        let name = work.padding(toLength: 64, withPad: " ", startingAt: 0)
        return name + String(format: "%8.4f allocations (promised: %g)", perUnit, promise)
    }

    static func all(_ fixture: Fixture) throws -> [AllocationCount] { [] }
}
