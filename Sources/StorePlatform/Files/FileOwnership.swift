import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The ownership of files that this process creates in place of others.
///
/// Only root may change the owner of a file. A file that another user creates again, as a rotation does with the
/// database and a change of keys with the sidecar, belongs to that user, with the group, mode and access control list
/// of the former file: its former owner then has what these permit, and no more.
package enum FileOwnership {
    /// The owner of a file who would lose the right to read and write it if this process created it again; nil if
    /// nobody loses access, and if there is no file.
    ///
    /// For a file of another user, an empty file beside it shows what the system permits. A file of this user costs
    /// nothing.
    static func ownerLosing(_ path: String) throws(SystemError) -> UInt32? {
        // The system lets root read and write every file.
        guard let present = try Files.status(of: path), ![0, geteuid()].contains(present.owner) else { return nil }
        let folder = try OpenFolder(opening: Files.directory(of: path))
        let trial = try AtomicFile.stage([], in: folder, for: Files.name(of: path), likeFile: path)
        defer { try? folder.remove(trial.name) }
        guard let new = try FileAttributes(of: LeftoverFiles.file(trial.name, in: folder.path)),
            new.status.identity == trial.identity, new.status.owner != present.owner
        else { return nil }
        let keeps = FileAccess(of: new).letsReadAndWrite(
            present.owner, memberships: UserDatabase.groups(of: present.owner))
        return keeps ? nil : present.owner
    }

    /// Why this user does not create files again that belong to another one, and who can.
    package struct Obstacle {
        package let why: String
        package let remedy: String

        fileprivate init(_ why: String, _ owner: UInt32) {
            (self.why, remedy) = (why, "Let user \(owner) or root do it.")
        }
    }

    /// Why a file is not created again: the system would refuse it, or it would take the file from its owner.
    package static func obstacle(to path: String) throws(SystemError) -> Obstacle? {
        let folder = try OpenFolder(opening: Files.directory(of: path))
        if let obstacle = try obstacle(to: [Files.name(of: path)], in: folder) { return obstacle }
        return try ownerLosing(path).map { owner in
            Obstacle(
                "Its files belong to user \(owner), who could not use those that user \(geteuid()) makes in their place: "
                    + "only root may give files away.", owner)
        }
    }

    /// Why the system does not let this user remove files, or put others in their place: in a folder with the sticky bit
    /// only root, its owner and the owner of the file may.
    ///
    /// - Parameter names: Names in the folder; those that do not exist are left out.
    /// - SeeAlso: <https://man7.org/linux/man-pages/man7/inode.7.html>, "S_ISVTX".
    package static func obstacle(to names: [String], in folder: OpenFolder) throws(SystemError) -> Obstacle? {
        let place = try folder.status()
        guard place.permissions & 0o1000 != 0, ![0, place.owner].contains(geteuid()) else { return nil }
        for name in names {
            guard let file = try folder.status(of: name), file.owner != geteuid() else { continue }
            return Obstacle(
                "\"\(name)\" belongs to user \(file.owner), and in a folder with the sticky bit only its owner may "
                    + "replace it.", file.owner)
        }
        return nil
    }

    /// Throws where a file must not be created again.
    ///
    /// - Parameter what: What is refused, to begin the error with.
    /// - Throws: ``StoreError`` `notOwner`; ``SystemError`` where it cannot be tried.
    package static func requireKept(_ path: String, what: @autoclosure () -> String) throws {
        if let obstacle = try obstacle(to: path) { throw obstacle.error(what()) }
    }
}

extension FileOwnership.Obstacle {
    /// - Parameter what: What is refused.
    package func error(_ what: String) -> StoreError { StoreError(.notOwner, what: what, why: why, remedy: remedy) }
}

/// The owner and permissions of a file, which a new file beside the database gets too.
package struct FileAttributes: Sendable {
    /// Permissions of a file without a reference: its owner's alone.
    package static let privatePermissions: UInt32 = 0o600

    fileprivate let status: FileStatus
    /// The access control list, as the system has it; empty where there is none.
    fileprivate let list: [UInt8]
    /// Whether they are those of a file that this process has opened, or that nobody else can have put there.
    private let isProved: Bool

    /// Reads the attributes of the file at `path`, without opening it; nil when the path names no regular file.
    ///
    /// A link is not followed, and everything is read of one file: another user of a shared folder may give its name to
    /// another file meanwhile.
    ///
    /// - Throws: ``SystemError``, with `ESTALE` where the path of a database that this process has open names another file:
    ///   see ``OpenedDatabases``.
    package init?(of path: String) throws(SystemError) {
        var found = stat()
        // An attribute has at most this length.
        var list = [UInt8](repeating: 0, count: 65_536)
        var count = 0
        let failure = cplatform_attributes(path, &found, &list, list.count, &count)
        guard failure == 0 else {
            let failure = SystemError(call: "stat", path: path, errorNumber: failure)
            if failure.isNotFound { return nil }
            throw failure
        }
        status = FileStatus(found)
        guard status.kind == .regular else { return nil }
        self.list = Array(list.prefix(count))
        switch OpenedDatabases.standing(of: status, at: path) {
        case .proved: isProved = true
        case .unproved: isProved = false
        case .exchanged: throw SystemError.exchanged("stat", path)
        }
    }

    /// Applies them to a new file that still has a temporary name.
    ///
    /// Only root may change the owner of a file, and a user may set only the groups of which he is a member: a refusal
    /// is not an error. If the group could not be set, the group's permissions and the access control list are omitted,
    /// because they would then admit a group that the database does not.
    package func apply(to file: borrowing FileDescriptor) throws(SystemError) {
        let current = try file.status()
        // A list can name anybody, and the mode of a file with one is the bound of the list.
        let (list, isBound) = isProved ? (list, false) : ([], !list.isEmpty)
        var isGroupRight = current.group == status.group
        if current.owner != status.owner || !isGroupRight {
            if fchown(file.number, status.owner, status.group) == 0 {
                isGroupRight = true
            } else if !isGroupRight {
                isGroupRight = fchown(file.number, uid_t.max, status.group) == 0
            }
        }
        if isGroupRight {
            let failure = cplatform_acl_apply(file.number, list, list.count)
            guard failure == 0 || failure == EPERM else {
                throw SystemError(call: "fsetxattr", path: file.path, errorNumber: failure)
            }
        }
        // Last, since a change of owner or list may change them. Execute permissions are not copied, and no file that this
        // library makes may be written by every user.
        let others: UInt32 = isProved ? 0o004 : 0
        try file.setPermissions(status.permissions & ((isGroupRight && !isBound ? 0o660 : 0o600) | others))
    }
}

/// The permissions that a new file or folder has for a group as well.
package struct GroupPermissions: Sendable {
    /// nil for the group that the system gives it.
    let group: UInt32?
    let permissions: UInt32

    package init(group: UInt32?, permissions: UInt32) {
        self.group = group
        self.permissions = permissions
    }

    /// Applies them to a file or folder that is its owner's alone.
    ///
    /// It stays so if this user may not give it to the group: its permissions would then admit another group.
    package func apply(to file: borrowing FileDescriptor) {
        if let group {
            guard let status = try? file.status(),
                status.group == group || fchown(file.number, uid_t.max, group) == 0
            else { return }
        }
        // Filesystems without permissions refuse it, and need it not.
        _ = fchmod(file.number, mode_t(permissions))
    }
}

/// The users that the system knows.
enum UserDatabase {
    /// The groups of a user, as a login would give them; nil for a user that the system does not know.
    static func groups(of user: UInt32) -> Set<UInt32>? {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var text = [CChar](repeating: 0, count: PlatformLimits.userEntryBytes)
        guard getpwuid_r(user, &entry, &text, text.count, &found) == 0, found != nil, let name = entry.pw_name else {
            return nil
        }
        var count = Int32(PlatformLimits.groupsOfUser)
        #if canImport(Darwin)
            var groups = [Int32](repeating: 0, count: PlatformLimits.groupsOfUser)
            guard getgrouplist(name, Int32(bitPattern: entry.pw_gid), &groups, &count) >= 0 else { return nil }
            return Set(groups.prefix(Int(count)).map { UInt32(bitPattern: $0) })
        #else
            var groups = [gid_t](repeating: 0, count: PlatformLimits.groupsOfUser)
            guard getgrouplist(name, entry.pw_gid, &groups, &count) >= 0 else { return nil }
            return Set(groups.prefix(Int(count)))
        #endif
    }
}

/// The permissions that the mode and the access control list of a file give to users who do not own it.
/// - SeeAlso: <https://man7.org/linux/man-pages/man5/acl.5.html>, "Access check algorithm".
package struct FileAccess: Equatable {
    /// The subject of an entry, by its tag in a list.
    private enum Tag {
        static let user: UInt16 = 2
        static let owningGroup: UInt16 = 4
        static let group: UInt16 = 8
        static let mask: UInt16 = 16
        static let others: UInt16 = 32
    }

    private static let readAndWrite: UInt16 = 6

    private(set) var users: [UInt32: UInt16] = [:]
    private(set) var groups: [(group: UInt32, rights: UInt16)] = []
    private(set) var others: UInt16

    package static func == (one: FileAccess, other: FileAccess) -> Bool {
        one.users == other.users && one.others == other.others && one.groups.elementsEqual(other.groups, by: ==)
    }

    /// - Parameter list: The attribute `system.posix_acl_access`: a version, then tag, rights and number of each entry,
    ///   little-endian. Empty where the file has none: then only the mode counts.
    init(group: UInt32, permissions: UInt32, list: [UInt8]) {
        others = UInt16(permissions & 7)
        groups = [(group, UInt16(permissions >> 3 & 7))]
        guard list.count > 4 else { return }
        func number(_ at: Int, _ count: Int) -> UInt32 {
            (0..<count).reduce(0) { $0 | UInt32(list[at + $1]) << (8 * $1) }
        }
        let entries = stride(from: 4, through: list.count - 8, by: 8).map { at in
            (tag: UInt16(number(at, 2)), rights: UInt16(number(at + 2, 2)), number: number(at + 4, 4))
        }
        let mask = entries.first { $0.tag == Tag.mask }?.rights ?? 7
        groups = []
        for entry in entries {
            switch entry.tag {
            case Tag.user: users[entry.number] = entry.rights & mask
            case Tag.owningGroup: groups.append((group, entry.rights & mask))
            case Tag.group: groups.append((entry.number, entry.rights & mask))
            case Tag.others: others = entry.rights
            default: break
            }
        }
    }

    /// The access to an existing file.
    init(of attributes: FileAttributes) {
        #if canImport(Darwin)
            // Lists have another form there: only the mode counts.
            let list: [UInt8] = []
        #else
            let list = attributes.list
        #endif
        self.init(group: attributes.status.group, permissions: attributes.status.permissions, list: list)
    }

    /// Whether the owner of another file may write a file, as far as can be known.
    ///
    /// A process may have groups that the database of users does not give it (`SupplementaryGroups` of systemd). Only a
    /// member can have given the group of the first file to the other one, unless the folder does.
    package static func letsWrite(_ path: String, _ status: FileStatus, ownerOf other: FileStatus) -> Bool {
        if status.permissions & 0o022 == 0 { return false }
        if status.permissions & 0o002 != 0 { return true }
        if other.group == status.group { return true }
        guard let attributes = (try? FileAttributes(of: path)) ?? nil else { return true }
        return FileAccess(of: attributes)
            .letsReadAndWrite(other.owner, memberships: UserDatabase.groups(of: other.owner))
    }

    /// Refuses a file beside a database that belongs to a user who may not write the database. In a folder with the sticky
    /// bit every user can put one there, and nobody but its owner can replace it: he could hold its locks for ever, or
    /// write what is read in it.
    ///
    /// - Parameter database: The path of the database; nothing is refused where there is none.
    /// - Throws: ``SystemError`` with `EEXIST`.
    package static func requireOwn(
        _ file: FileStatus, _ path: String, beside database: String
    ) throws(SystemError) {
        guard let owner = otherUser(owning: file, beside: database) else { return }
        throw SystemError(
            call: "open", path: path, errorNumber: EEXIST,
            detail: "it belongs to user \(owner), who may not write the database: find out what it is, and move it away"
        )
    }

    /// The owner of a file beside a database, if that user may not write the database; nil for root, for this user and where
    /// there is no database.
    package static func otherUser(owning file: FileStatus, beside database: String) -> UInt32? {
        guard ![0, geteuid()].contains(file.owner), let status = (try? Files.status(of: database)) ?? nil,
            status.owner != file.owner, !letsWrite(database, status, ownerOf: file)
        else { return nil }
        return file.owner
    }

    /// Whether a user may read and write.
    ///
    /// - Parameter memberships: The groups of the user; nil where they are not known: then only what both the members
    ///   of every group and all others may do.
    func letsReadAndWrite(_ user: UInt32, memberships: Set<UInt32>?) -> Bool {
        func suffices(_ rights: UInt16) -> Bool { rights & Self.readAndWrite == Self.readAndWrite }
        if let own = users[user] { return suffices(own) }
        guard let memberships else { return suffices(others) && groups.allSatisfy { suffices($0.rights) } }
        let own = groups.filter { memberships.contains($0.group) }
        return own.isEmpty ? suffices(others) : own.contains { suffices($0.rights) }
    }
}
