import Synchronization

/// How often this process has done what makes an opening slow; tests count it.
///
/// Release builds have none of it.
package struct WorkCount: ~Copyable, Sendable {
    #if DEBUG
        private let count = Atomic<Int>(0)

        package var current: Int { count.load(ordering: .relaxed) }

        package func add() { count.add(1, ordering: .relaxed) }
    #else
        package func add() {}
    #endif

    private init() {}

    /// Slow derivations, from what people remember.
    package static let derivations = WorkCount()
    /// Readings of both copies of a sidecar.
    package static let sidecarReads = WorkCount()
    /// Verifications of both copies of a sidecar.
    package static let sidecarVerifications = WorkCount()
}
