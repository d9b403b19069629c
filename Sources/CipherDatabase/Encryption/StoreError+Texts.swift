import StorePlatform

// The errors that several parts of the library report, each in one wording.

extension StoreError {
    /// There is no store at a path.
    package static func noStore(at path: String, why: String, remedy: String = "Check the path.") -> StoreError {
        StoreError(.noSuchStore, what: "There is no store at \"\(path)\".", why: why, remedy: remedy)
    }

    /// The store of a path was destroyed or removed.
    package static func noLongerStore(at path: String, why: String, remedy: String) -> StoreError {
        StoreError(.noSuchStore, what: "There is no longer a store at \"\(path)\".", why: why, remedy: remedy)
    }

    // MARK: Another key

    /// The store has another key than the connections of this process.
    ///
    /// - Parameter name: The store, as messages name it.
    static func hasOtherKey(_ name: String, from: UInt64, to: UInt64) -> StoreError {
        StoreError(
            .keyRotated(from: from, to: to),
            what: "\(name) has another key than it had when it was opened (epoch \(from) -> \(to)).",
            why: "It was re-encrypted by another process, and the keys that this process holds no longer open it.",
            remedy: "Reopen the store; the key source will be asked again.")
    }

    /// The store has another key than the one with which it was opened.
    package static func rotated(_ path: String, from: UInt64, to: UInt64) -> StoreError {
        StoreError(
            .keyRotated(from: from, to: to),
            what: "\"\(path)\" was re-encrypted by another process (epoch \(from) -> \(to)).",
            why: "This process holds the old key, and cannot find the new one by itself.",
            remedy: "Reopen the store; the key source will be asked again.")
    }

    /// A long read or a snapshot was ended for a switch to a new key.
    package static func endedForRotation(_ path: String, from: UInt64) -> StoreError {
        StoreError(
            .keyRotated(from: from, to: from + 1),
            what: "A read of \"\(path)\" was ended for a switch to a new key (epoch \(from) -> \(from + 1)).",
            why: "It lasted longer than the rotation may wait, and no access may be running during the switch.",
            remedy: "Read again, and create a new snapshot: the store itself stays open.")
    }

    /// The store was given another key while it was examined.
    package static func rotatedDuringCheck(_ path: String, from: UInt64, to: UInt64) -> StoreError {
        StoreError(
            .keyRotated(from: from, to: to),
            what: "\"\(path)\" was given another key (epoch \(from) -> \(to)).",
            why: "That happened during the check.", remedy: "Run the check again.")
    }
}
