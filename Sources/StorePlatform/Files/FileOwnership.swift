#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Whose files are that this process makes in the place of others.
///
/// Only root may give files away. What anybody else makes anew, as a rotation does with the database and a change of keys
/// with the sidecar, is his, with the group, mode and access control list of the former file: its owner then has what these
/// let him do, and no more.
package enum FileOwnership {
    /// The owner of a file who could not read and write it any more if this process made it anew; nil where nobody loses
    /// anything, and where there is no file.
    ///
    /// For a file of somebody else it is tried with an empty one beside it, so that nobody has to guess what the system
    /// allows; one's own costs nothing.
    package static func ownerLosing(_ path: String) throws(SystemError) -> UInt32? {
        guard let present = try Files.status(of: path), present.owner != geteuid() else { return nil }
        let trial = try AtomicFile.stage([], for: path, likeFile: path)
        defer { try? Files.remove(trial) }
        guard let new = try Files.status(of: trial), new.owner != present.owner else { return nil }
        let access = try FileAccess(of: trial, new)
        let keeps = access.letsReadAndWrite(present.owner, memberships: UserDatabase.groups(of: present.owner))
        return keeps ? nil : present.owner
    }

    /// Why files of this owner are not made anew, and who can do it.
    package static func words(ofLosing owner: UInt32) -> (why: String, remedy: String) {
        (
            "Its files belong to user \(owner), who could not use those that user \(geteuid()) makes in their place: only "
                + "root may give files away.",
            "Let user \(owner) or root do it."
        )
    }

    /// Refuses to go on where making a file anew would take it from its owner.
    ///
    /// - Parameter what: What is not done, to begin the error with.
    /// - Throws: ``StoreError`` `settingsConflict`; ``SystemError`` where it cannot be tried.
    package static func requireKept(_ path: String, what: @autoclosure () -> String) throws {
        guard let owner = try ownerLosing(path) else { return }
        let (why, remedy) = words(ofLosing: owner)
        throw StoreError(.settingsConflict, what: what(), why: why, remedy: remedy)
    }
}
