import Synchronization

/// The number of slow derivations, from passphrases, of this process; tests count them.
///
/// Release builds do not contain it.
package enum DerivationCount {
    #if DEBUG
        private static let count = Atomic<Int>(0)

        package static var current: Int { count.load(ordering: .relaxed) }

        static func add() { count.add(1, ordering: .relaxed) }
    #else
        static func add() {}
    #endif
}
