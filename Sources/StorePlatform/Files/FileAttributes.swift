import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Who may use a file: what a new file beside the database takes over from it.
package struct FileAttributes: Sendable {
    /// Permissions of a file that has no model: its owner's alone.
    package static let privatePermissions: UInt32 = 0o600

    private let model: String
    private let status: FileStatus

    /// Reads the attributes of the file at `path`, without opening it; nil when there is none.
    package init?(of path: String) throws(SystemError) {
        guard let status = try Files.status(of: path) else { return nil }
        model = path
        self.status = status
    }

    /// Gives them to a file just made and still under a name of its own.
    ///
    /// Only root may give files away, and a user only to groups of his own: a refusal is no error. Where the group
    /// could not be given, the group's permissions and the access control list are left out, because they would
    /// then let in a group that the database does not.
    package func apply(to file: borrowing FileDescriptor) throws(SystemError) {
        let current = try file.status()
        var isGroupRight = current.group == status.group
        if current.owner != status.owner || !isGroupRight {
            if fchown(file.number, status.owner, status.group) == 0 {
                isGroupRight = true
            } else if !isGroupRight {
                isGroupRight = fchown(file.number, uid_t.max, status.group) == 0
            }
        }
        if isGroupRight {
            let failure = cplatform_acl_copy(model, file.number)
            guard failure == 0 || failure == EPERM else {
                throw SystemError(call: "fsetxattr", path: file.path, errorNumber: failure)
            }
        }
        // Last, since a change of owner or list may change them. The right to execute is of no use here.
        let wanted = status.permissions & (isGroupRight ? 0o666 : 0o606)
        try file.setPermissions(wanted)
    }
}
