import PageFormat
import StorePlatform

/// What has the name of the copy that a rotation or a restoration makes, beside a database for which none is at work.
package enum RotationLeftover: Hashable, Sendable {
    case absent
    /// What one leaves that is cut: a regular file with one name that is empty, or begins with zeros or as a
    /// database does. Only this may be removed.
    case copy
    /// Something that neither made, and how that shows.
    case foreign(String)

    /// Looks at a name; a symbolic link is not followed.
    package init(at path: String) throws(SystemError) {
        guard let status = try Files.ownStatus(of: path) else {
            self = .absent
            return
        }
        guard status.kind == .regular else {
            self = .foreign("It is a folder, a link or a device, and no copy of a database.")
            return
        }
        guard status.linkCount == 1 else {
            self = .foreign("It has a second name.")
            return
        }
        let start = try FileDescriptor(opening: path, .readOnly, followsLinks: false).read(at: 0, byteCount: 16)
        // With the salt in the file nothing tells a copy from another file: a store never is one.
        let isCopy = start.allSatisfy { $0 == 0 } || start == DatabaseHeader.magic
        self = isCopy ? .copy : .foreign("It does not start like a copy of a database.")
    }
}
