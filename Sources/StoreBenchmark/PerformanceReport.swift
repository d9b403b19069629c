import Foundation
struct PerformanceReport {
    let measurements: [Measurement]
    let counts: [AllocationCount]
    func write(to folder: URL) throws {}
}
