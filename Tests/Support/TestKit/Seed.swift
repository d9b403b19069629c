import Foundation

/// The start of a random test. It is printed when the test fails, and taken from the environment when it is there:
/// `CIPHERSTORE_SEED=17 swift test --filter PropertyTests` runs the very same programs again.
public struct Seed: CustomStringConvertible, Sendable {
    public let value: UInt64

    public init() {
        let given = ProcessInfo.processInfo.environment["CIPHERSTORE_SEED"].flatMap { UInt64($0) }
        value = given ?? UInt64.random(in: 0..<1_000_000)
    }

    public init(value: UInt64) { self.value = value }

    public var description: String { "CIPHERSTORE_SEED=\(value)" }

    /// The numbers of one case: case `index` of a seed is always the same.
    public func numbers(_ index: Int) -> RandomNumbers { RandomNumbers(state: value &* 0x9e37_79b9 &+ UInt64(index)) }
}

/// Random numbers that follow from their start alone.
/// - SeeAlso: <https://prng.di.unimi.it/splitmix64.c>
public struct RandomNumbers: RandomNumberGenerator, Sendable {
    fileprivate var state: UInt64

    public mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
