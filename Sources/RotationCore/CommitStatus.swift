/// How far the switch of a database to its next key has got, seen from its commit point.
///
/// The commit point is the announcement of the switch in the sidecar. What is reported of a failure depends on this value
/// alone, so that nobody is told to try again, or to throw a key away, when the store has its next key already.
package enum CommitStatus: Hashable, Sendable, CaseIterable {
    /// The sidecar announces no switch: the store has its present key, and the rotation may be tried again.
    case notAnnounced
    /// The sidecar could be neither written nor restored, and a rename or an fsync may have taken effect all the same.
    case unknown
    /// The switch is announced, and the database is still the former one. The next opening for writing completes the
    /// rotation, after which the next key counts; where the copy cannot be read any more it undoes it, with the former key.
    case announced
    /// The copy has the database's place: the store has its next key, whatever fails.
    case replaced
}

/// A state that cannot be: it stops a debug build, and is an error in a release build.
package struct BrokenInvariant: Error, CustomStringConvertible {
    package let description: String

    package init(_ what: String, file: StaticString = #fileID, line: UInt = #line) {
        description = "\(what) (\(file):\(line)). This is a defect of the library."
        assertionFailure(description)
    }
}
