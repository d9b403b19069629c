import Foundation

/// Tests that repeat one thing at every step: `make test` takes one step in so many, `make soak` each.
///
/// The first step of a sample follows from the seed, so runs one after the other take all. `CIPHERSTORE_FAULTS=all` takes each
/// step in one run.
public enum Sweep {
    /// Whether each step is taken.
    public static let isWhole = ProcessInfo.processInfo.environment["CIPHERSTORE_FAULTS"] == "all"
    /// For the messages of tests that fail: the same seed takes the same steps.
    public static let seed = Seed()

    /// The distance of two steps of a sample.
    public static func stride(_ stride: Int) -> Int { isWhole ? 1 : stride }

    /// The first step of a sample.
    ///
    /// - Parameters:
    ///   - stride: The distance of two steps of the sample.
    ///   - offset: A number of the case. Cases of one test that differ in it take different steps.
    /// - Returns: The number of the step, from 0.
    public static func first(oneIn stride: Int, offset: Int = 0) -> Int {
        isWhole ? 0 : (Int(seed.value % UInt64(stride)) + offset) % stride
    }

    /// One in so many of the arguments of a test.
    public static func sample<Argument>(_ arguments: [Argument], oneIn stride: Int, offset: Int = 0) -> [Argument] {
        let first = first(oneIn: stride, offset: offset)
        return arguments.enumerated().filter { $0.offset % Self.stride(stride) == first }.map(\.element)
    }
}
