import Synchronization

/// The gate before every access of a shared store: one word that counts the running accesses and says whether newcomers
/// pass. So an access costs two atomic operations while no process requests the file.
struct AccessGate: ~Copyable, Sendable {
    private let word = Atomic<UInt>(0)
    /// Set while newcomers may not pass.
    private static let shut: UInt = 1 << (UInt.bitWidth - 1)

    /// Counts an access.
    ///
    /// - Returns: Whether it passes. One that does not must be undone with ``leave()``, unless a caller that knows why
    ///   the gate is shut admits it.
    @inline(__always)
    borrowing func enter() -> Bool { word.wrappingAdd(1, ordering: .acquiring).oldValue & Self.shut == 0 }

    /// Counts the end of an access.
    ///
    /// - Returns: Whether the gate is shut and this was the last one.
    @inline(__always)
    borrowing func leave() -> Bool {
        word.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == Self.shut
    }

    /// Shuts the gate for newcomers, or opens it.
    borrowing func set(isShut: Bool) {
        if isShut {
            word.bitwiseOr(Self.shut, ordering: .acquiringAndReleasing)
        } else {
            word.bitwiseAnd(~Self.shut, ordering: .acquiringAndReleasing)
        }
    }

    /// Running accesses; one that is about to be undone may be included.
    borrowing func count() -> UInt { word.load(ordering: .acquiring) & ~Self.shut }
}
