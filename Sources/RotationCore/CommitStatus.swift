/// The progress of the switch of a database to its next key, relative to the commit point.
///
/// The commit point is the announcement of the switch in the sidecar. The error for a failure depends on this value
/// alone, so that no error advises to try again, or to discard a key, when the store has its next key already.
package enum CommitStatus: Hashable, Sendable, CaseIterable {
    /// The sidecar announces no switch: the store has its present key, and the rotation may be tried again.
    case notAnnounced
    /// The sidecar could be neither written nor restored, and a rename or an fsync may still have taken effect.
    case unknown
    /// The switch is announced, and the database is still the former one. The next opening for writing completes the
    /// rotation, and from then on the next key opens the store. If the copy is unreadable, that opening undoes the
    /// rotation, with the former key.
    case announced
    /// The copy has replaced the database: the store has its next key, whatever fails afterwards.
    case replaced
}
