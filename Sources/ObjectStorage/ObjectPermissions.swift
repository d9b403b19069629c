import StorePlatform

/// The permissions of new objects and folders: their owner's alone, and of a group that may write the whole folder.
///
/// | the folder | a new folder in it | a new object |
/// |---|---|---|
/// | its group may not write it | 0700 | 0600 |
/// | its group may write it | 2770 and its sticky bit | 0640 |
///
/// An object never changes, so the group gets no right to write it. A member who removes objects needs the right to write
/// their folder alone. So the owner of an object has written each byte of it.
package struct ObjectPermissions: Sendable {
    /// nil for the owner alone.
    package let folder: GroupPermissions?
    package let object: GroupPermissions?
    /// Of a file that each member locks.
    package let lock: GroupPermissions?

    /// - Parameter root: The status of the folder that has all objects.
    package init(in root: FileStatus) {
        func shared(_ permissions: UInt32) -> GroupPermissions? {
            guard root.permissions & 0o020 != 0 else { return nil }
            return GroupPermissions(group: root.group, permissions: permissions)
        }
        folder = shared(0o2770 | root.permissions & 0o1000)
        object = shared(0o640)
        lock = shared(0o660)
    }
}
