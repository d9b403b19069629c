import Synchronization

/// Counts the operations of this process that make an opening slow, for tests.
///
/// Release builds count nothing.
package struct WorkCount: ~Copyable, Sendable {
    #if DEBUG
        private let count = Atomic<Int>(0)

        package var current: Int { count.load(ordering: .relaxed) }

        package func add() { count.add(1, ordering: .relaxed) }
    #else
        package func add() {}
    #endif

    private init() {}

    /// Slow derivations: PBKDF2, scrypt and Argon2id.
    package static let derivations = WorkCount()
    /// Readings of both copies of a sidecar.
    package static let sidecarReads = WorkCount()
    /// Verifications of both copies of a sidecar.
    package static let sidecarVerifications = WorkCount()
}
