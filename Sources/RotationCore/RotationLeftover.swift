import PageFormat
import StorePlatform

/// The file that has the name of the copy of a rotation or a restoration, while none runs for the database.
package enum RotationLeftover: Hashable, Sendable {
    case absent
    /// The leftover of an interrupted one: a regular file with one name that is empty, or begins with zeros or as a
    /// database does. Only this may be removed.
    case copy
    /// A file that neither made, and how this was recognized.
    case foreign(String)

    /// Examines the file at a path; a symbolic link is not followed.
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
        // A database that begins with its salt cannot be distinguished from another file; a store is never such a
        // database.
        let isCopy = start.allSatisfy { $0 == 0 } || start == DatabaseHeader.magic
        self = isCopy ? .copy : .foreign("It does not start like a copy of a database.")
    }
}
