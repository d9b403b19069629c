import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// What the mode and the access control list of a file let users do who do not own it.
/// - SeeAlso: <https://man7.org/linux/man-pages/man5/acl.5.html>, "Access check algorithm".
struct FileAccess: Equatable {
    /// Whom an entry is for, by its tag in a list.
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

    static func == (one: FileAccess, other: FileAccess) -> Bool {
        one.users == other.users && one.others == other.others && one.groups.elementsEqual(other.groups, by: ==)
    }

    /// - Parameter list: The attribute `system.posix_acl_access`: a version, then tag, rights and number of each entry,
    ///   lowest byte first. Empty where the file has none: the mode says it all then.
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

    /// The access to a file that is there.
    init(of path: String, _ status: FileStatus) throws(SystemError) {
        // A list is at most as long as an attribute may be.
        var list = [UInt8](repeating: 0, count: 65_536)
        var count = 0
        let failure = cplatform_acl_read(path, &list, list.count, &count)
        guard failure == 0 else { throw SystemError(call: "getxattr", path: path, errorNumber: failure) }
        self.init(group: status.group, permissions: status.permissions, list: Array(list.prefix(count)))
    }

    /// Whether a user may read and write.
    ///
    /// - Parameter memberships: The groups of the user; nil where nobody knows them: then only what the members of every
    ///   group may, and all others as well.
    func letsReadAndWrite(_ user: UInt32, memberships: Set<UInt32>?) -> Bool {
        func suffices(_ rights: UInt16) -> Bool { rights & Self.readAndWrite == Self.readAndWrite }
        if let own = users[user] { return suffices(own) }
        guard let memberships else { return suffices(others) && groups.allSatisfy { suffices($0.rights) } }
        let own = groups.filter { memberships.contains($0.group) }
        return own.isEmpty ? suffices(others) : own.contains { suffices($0.rights) }
    }
}

/// The users that the system knows.
enum UserDatabase {
    /// The groups of a user, as a login would give them; nil for a user that the system does not know.
    static func groups(of user: UInt32) -> Set<UInt32>? {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var text = [CChar](repeating: 0, count: Limits.userEntryBytes)
        guard getpwuid_r(user, &entry, &text, text.count, &found) == 0, found != nil, let name = entry.pw_name else {
            return nil
        }
        var count = Int32(Limits.groupsOfUser)
        #if canImport(Darwin)
            var groups = [Int32](repeating: 0, count: Limits.groupsOfUser)
            guard getgrouplist(name, Int32(bitPattern: entry.pw_gid), &groups, &count) >= 0 else { return nil }
            return Set(groups.prefix(Int(count)).map { UInt32(bitPattern: $0) })
        #else
            var groups = [gid_t](repeating: 0, count: Limits.groupsOfUser)
            guard getgrouplist(name, entry.pw_gid, &groups, &count) >= 0 else { return nil }
            return Set(groups.prefix(Int(count)))
        #endif
    }
}
