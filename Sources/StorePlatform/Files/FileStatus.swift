#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// What tells one file from another, whatever it is called.
package struct FileIdentity: Hashable, Sendable {
    package let device: UInt64
    package let inode: UInt64

    package init(device: UInt64, inode: UInt64) {
        self.device = device
        self.inode = inode
    }
}

/// What kind of thing a path names.
package enum FileKind: Sendable {
    case regular
    case directory
    /// A pipe, socket or device.
    case other
}

/// What the filesystem knows about a file; symbolic links are followed.
package struct FileStatus: Sendable {
    package let kind: FileKind
    /// Whether it is a pipe, with a name or without.
    package let isPipe: Bool
    package let identity: FileIdentity
    package let byteCount: Int
    /// The nine permission bits and the three above them.
    package let permissions: UInt32
    package let owner: UInt32
    package let group: UInt32
    /// How many names the file has.
    package let linkCount: UInt64
    /// When the content last changed, as time since 1970.
    package let modified: Duration

    init(_ status: stat) {
        switch status.st_mode & S_IFMT {
        case S_IFREG: kind = .regular
        case S_IFDIR: kind = .directory
        default: kind = .other
        }
        isPipe = status.st_mode & S_IFMT == S_IFIFO
        identity = FileIdentity(device: UInt64(truncatingIfNeeded: status.st_dev), inode: UInt64(status.st_ino))
        byteCount = Int(status.st_size)
        permissions = UInt32(status.st_mode & 0o7777)
        owner = status.st_uid
        group = status.st_gid
        linkCount = UInt64(status.st_nlink)
        #if canImport(Darwin)
            let time = status.st_mtimespec
        #else
            let time = status.st_mtim
        #endif
        modified = .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}
