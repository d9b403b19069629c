import Synchronization

/// Which file the path of each database named when this process opened it, or put it there.
///
/// In a folder that others may write, another user can give the name of a database to a file of his for a moment. A new
/// file, as a sidecar, takes owner, group, mode and access control list from the database: they must be those of the file
/// that was opened.
///
/// | the file that has the name | its attributes |
/// |---|---|
/// | the one that was opened, or any one in a folder that nobody else may write | are taken, but not that all users may write |
/// | another one, while this process has the first one open and that one still has a name | are refused (`ESTALE`) |
/// | another one of this user or of the folder's owner, after the first one was replaced or closed; or none was opened | are taken, but not that all users may write |
/// | another one of any other user, in these cases | are taken without those of all users |
package enum OpenedDatabases {
    private static let identities = Mutex<[String: FileIdentity]>([:])

    /// Notes which file has the path of a database. The caller has it open, or has just given it the name.
    package static func note(_ path: String, _ identity: FileIdentity) {
        identities.withLock { identities in
            if identities.count >= PlatformLimits.notedDatabases { identities = [:] }
            identities[path] = identity
        }
    }

    /// Notes which file SQLite has opened, unless the process has another one open that had the path before and still has a
    /// name: then the path was exchanged.
    package static func noteOpened(_ path: String, _ identity: FileIdentity) {
        let noted = identities.withLock { $0[path] }
        if let noted, noted != identity, OpenFolder.linkCount(ofOpen: noted) ?? 0 > 0 { return }
        note(path, identity)
    }

    /// The relation of a file with the path of a database to the one that this process has opened there.
    enum Standing {
        case proved
        case unproved
        case exchanged
    }

    static func standing(of status: FileStatus, at path: String) -> Standing {
        let noted = identities.withLock { $0[path] }
        if noted == status.identity || !OpenFolder.lendsNames(ofFileAt: path) { return .proved }
        // A file without a name was replaced for good, for example in a rotation by another process.
        guard let noted, let links = OpenFolder.linkCount(ofOpen: noted), links > 0 else {
            return isOfOwner(status, path) ? .proved : .unproved
        }
        return .exchanged
    }

    private static func isOfOwner(_ status: FileStatus, _ path: String) -> Bool {
        let folder = (try? Files.status(of: Files.directory(of: path))) ?? nil
        return [ProcessInspector.effectiveUser, folder?.owner].contains(status.owner)
    }
}
