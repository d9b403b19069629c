import PageFormat
import StorePlatform

/// The file that has the name of the copy of a rotation or a restoration, while none runs for the database.
package enum RotationLeftover: Hashable, Sendable {
    case absent
    /// The leftover of an interrupted one: a regular file with one name that is empty, or begins with zeros or as a
    /// database does. Only this may be removed.
    case copy
    /// A file that neither made, or that this user may not remove, and how this was recognized.
    case foreign(String)

    /// Examines the file at a path; a symbolic link is not followed.
    package init(at path: String) throws(SystemError) {
        guard let folder = try Self.folder(of: path) else {
            self = .absent
            return
        }
        self = try Self.examine(Files.name(of: path), in: folder).leftover
    }

    /// Removes the file at a path if it is a copy: the file that was examined, and no other one.
    ///
    /// - Returns: What was there.
    /// - Throws: ``SystemError``, with `ESTALE` where another file got the name meanwhile.
    package static func remove(at path: String) throws(SystemError) -> RotationLeftover {
        guard let folder = try Self.folder(of: path) else { return .absent }
        return try remove(Files.name(of: path), in: folder)
    }

    /// The folder of a path; nil where there is none.
    private static func folder(of path: String) throws(SystemError) -> OpenFolder? {
        do throws(SystemError) {
            return try OpenFolder(opening: Files.directory(of: path), followsLinks: false)
        } catch  where error.isNotFound {
            return nil
        }
    }

    /// As ``remove(at:)``, by a name in an open folder.
    package static func remove(_ name: String, in folder: OpenFolder) throws(SystemError) -> RotationLeftover {
        let (leftover, identity) = try examine(name, in: folder)
        if leftover == .copy, let identity { try folder.remove(name, verifiedAs: identity) }
        return leftover
    }

    private static func others(_ owner: UInt32) -> String {
        "It belongs to user \(owner), and in this folder (with the sticky bit) only that user, the owner of the folder and root "
            + "may remove it."
    }

    private static func examine(
        _ name: String, in folder: OpenFolder
    ) throws(SystemError) -> (leftover: RotationLeftover, FileIdentity?) {
        guard let entry = try folder.status(of: name) else { return (.absent, nil) }
        let odd = RotationLeftover.foreign("It is a folder, a link or a device, and no copy of a database.")
        guard entry.kind == .regular else { return (odd, nil) }
        // Its removal would fail each time, and with it the opening.
        if try !folder.permitsRemoval(of: entry) { return (.foreign(Self.others(entry.owner)), nil) }
        // By a descriptor: all that follows is said of one file.
        let opened: OpenFile?
        do throws(SystemError) {
            opened = try folder.file(name)
        } catch  where error.isPermission {
            return (.foreign("It belongs to user \(entry.owner), and this user may not read it."), nil)
        }
        guard let file = opened else { return (odd, nil) }
        let status = try file.status()
        guard status.linkCount == 1 else { return (.foreign("It has a second name."), nil) }
        let start = try file.read(at: 0, byteCount: 16)
        // A database that begins with its salt cannot be distinguished from another file; a store is never such a
        // database.
        let isCopy = start.allSatisfy { $0 == 0 } || start == DatabaseHeader.magic
        return isCopy ? (.copy, status.identity) : (.foreign("It does not start like a copy of a database."), nil)
    }
}
