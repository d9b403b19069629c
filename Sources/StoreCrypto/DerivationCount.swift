import Synchronization

/// How many slow derivations, from what people remember, this process has done; tests count them.
///
/// Release builds have none of it.
package enum DerivationCount {
    #if DEBUG
        private static let count = Atomic<Int>(0)

        package static var current: Int { count.load(ordering: .relaxed) }

        static func add() { count.add(1, ordering: .relaxed) }
    #else
        static func add() {}
    #endif
}
