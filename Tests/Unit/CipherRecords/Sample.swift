import Foundation

/// A part of many cases: `make test` takes one in so many, others in each run, and `CIPHERSTORE_FAULTS=all`, which
/// `make soak` sets, takes each.
enum Sample {
    static let isWhole = ProcessInfo.processInfo.environment["CIPHERSTORE_FAULTS"] == "all"
    private static let start =
        ProcessInfo.processInfo.environment["CIPHERSTORE_SEED"].flatMap { Int($0) } ?? Int.random(in: 0..<1_000_000)

    /// Whether the case with a number is taken.
    static func takes(_ number: Int, oneIn stride: Int) -> Bool { isWhole || number % stride == start % stride }

    /// The numbers of the cases that are taken, of those from 0 on.
    static func numbers(below count: Int, oneIn stride: Int) -> [UInt64] {
        (0..<count).filter { takes($0, oneIn: stride) }.map { UInt64($0) }
    }
}
