import CPlatform

/// The type of a filesystem, and whether SQLite's WAL mode is safe between processes on it.
///
/// WAL needs byte locks and shared memory that all processes see in the same state. Network filesystems and many
/// virtual ones accept the calls but do not guarantee that, and stores on them are silently damaged.
/// - SeeAlso: <https://www.sqlite.org/wal.html>, <https://www.sqlite.org/useovernet.html>
package struct FilesystemKind: Hashable, Sendable {
    /// The name of the type, such as `ext4` or `fuse.sshfs`; a number for an unknown type.
    package let name: String
    /// Whether locks and shared memory work between processes. Unknown types count as safe.
    package let isSafeForSharedWAL: Bool
    /// Whether this library knows the type.
    package let isKnown: Bool

    /// The kind of the filesystem of a path, or of its folder while the file does not exist.
    package static func of(_ path: String) throws(SystemError) -> FilesystemKind {
        var type: UInt64 = 0
        var name = [CChar](repeating: 0, count: 64)
        var subject = path
        var failure = cplatform_filesystem(subject, &type, &name, name.count)
        if failure != 0, SystemError(call: "statfs", path: nil, errorNumber: failure).isNotFound {
            subject = Files.directory(of: path)
            failure = cplatform_filesystem(subject, &type, &name, name.count)
        }
        guard failure == 0 else { throw SystemError(call: "statfs", path: subject, errorNumber: failure) }
        let reported = String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        return judge(magic: type, typeName: reported.isEmpty ? MountTable.typeName(of: subject) : reported)
    }

    /// Classifies a filesystem by what the system reports about it.
    ///
    /// - Parameters:
    ///   - magic: The number from `statfs` on Linux; 0 elsewhere.
    ///   - typeName: The name from the mount table, where it could be found.
    package static func judge(magic: UInt64, typeName: String?) -> FilesystemKind {
        if let typeName, isUnsafe(named: typeName) {
            return FilesystemKind(name: typeName, isSafeForSharedWAL: false, isKnown: true)
        }
        if let entry = unsafeTypes[magic] {
            return FilesystemKind(name: typeName ?? entry, isSafeForSharedWAL: false, isKnown: true)
        }
        if let entry = safeTypes[magic] {
            return FilesystemKind(name: typeName ?? entry, isSafeForSharedWAL: true, isKnown: true)
        }
        let isKnown = typeName.map { safeNames.contains($0) } ?? false
        let name = typeName ?? "type 0x" + String(magic, radix: 16)
        return FilesystemKind(name: name, isSafeForSharedWAL: true, isKnown: isKnown)
    }

    private static func isUnsafe(named name: String) -> Bool {
        unsafeNames.contains(name) || name.hasPrefix("fuse.") || name.hasPrefix("nfs") || name.hasPrefix("fuse-")
    }

    /// Numbers from Linux's `magic.h` and, for those outside its tree, from the projects' own sources.
    private static let safeTypes: [UInt64: String] = [
        0xEF53: "ext4", 0x5846_5342: "xfs", 0x9123_683E: "btrfs", 0x2FC1_2FC1: "zfs", 0xF2F5_2010: "f2fs",
        0x0102_1994: "tmpfs", 0x8584_58F6: "ramfs", 0x794C_7630: "overlay", 0xCA45_1A4E: "bcachefs",
        0x5265_4973: "reiserfs", 0x3153_464A: "jfs", 0x3434: "nilfs2", 0x7371_7368: "squashfs", 0x9660: "iso9660",
    ]

    private static let unsafeTypes: [UInt64: String] = [
        0x6969: "nfs", 0x517B: "smb", 0xFF53_4D42: "cifs", 0xFE53_4D42: "smb2", 0x0102_1997: "9p",
        0x6573_5546: "fuse", 0x5346_414F: "afs", 0x6B41_4653: "afs", 0x7375_7245: "coda", 0x00C3_6400: "ceph",
        0x0BD0_0BD0: "lustre", 0x0116_1970: "gfs2", 0x7461_636F: "ocfs2", 0x564C: "ncpfs", 0x786F_4256: "vboxsf",
        0x4750_4653: "gpfs", 0x2003_0528: "orangefs", 0xBACB_ACBC: "vmhgfs", 0x7C7C_6673: "prl_fs",
        0xAAD7_AAEA: "panfs", 0x1983_0326: "beegfs",
    ]

    private static let safeNames: Set<String> = ["apfs", "hfs"]

    private static let unsafeNames: Set<String> = [
        "9p", "virtiofs", "fuse", "fuseblk", "macfuse", "osxfuse", "cifs", "smb2", "smb3", "smbfs", "afs", "afpfs",
        "webdav", "ftp", "ceph", "lustre", "gfs2", "ocfs2", "vboxsf", "vmhgfs", "prl_fs", "gpfs", "orangefs",
        "panfs", "beegfs", "coda",
    ]
}

/// The system's table of mounted filesystems (`/proc/self/mountinfo`), absent on Apple platforms.
enum MountTable {
    /// The type name of the filesystem that contains `path`, when the table can be read and has it.
    static func typeName(of path: String) -> String? {
        guard let device = (try? Files.status(of: path))?.identity.device,
            let file = try? FileDescriptor(opening: "/proc/self/mountinfo", .readOnly),
            let bytes = try? file.read(at: 0, byteCount: PlatformLimits.mountTableBytes)
        else { return nil }
        var major: UInt32 = 0
        var minor: UInt32 = 0
        cplatform_device_numbers(.init(device), &major, &minor)
        return typeName(ofDevice: "\(major):\(minor)", in: String(decoding: bytes, as: UTF8.self))
    }

    /// Finds the type in a table: the third field is the device, the type follows ` - `.
    static func typeName(ofDevice device: String, in table: String) -> String? {
        for line in table.split(separator: "\n") {
            let fields = line.split(separator: " ")
            guard fields.count > 6, fields[2] == device, let dash = fields.firstIndex(of: "-"),
                dash + 1 < fields.count
            else { continue }
            return String(fields[dash + 1])
        }
        return nil
    }
}
