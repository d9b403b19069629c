import CPlatform

/// The POSIX locks and the leases that processes have on files, as the system's own table shows them (`/proc/locks`).
///
/// Locks of open file descriptions are not among them: the table names no process for those.
package enum SystemLocks {
    /// A POSIX lock that is held.
    package struct Lock: Hashable, Sendable {
        package let kind: LockKind
        package let process: Int32
        /// The locked bytes, up to `Int64.max` where the lock has no end.
        package let bytes: ClosedRange<Int64>
    }

    enum Kind: Substring {
        case posix = "POSIX"
        case lease = "LEASE"
    }

    /// Every POSIX lock on a file by a process of this pid namespace.
    ///
    /// - Returns: nil where the system has no such table, or the file is missing.
    /// - Throws: ``SystemError`` when file or table cannot be read.
    package static func posixLocks(on path: String) throws(SystemError) -> [Lock]? { try locks(.posix, on: path) }

    /// Every lease on a file by a process of this pid namespace (`fcntl F_SETLEASE`): the system lets an opening wait for its
    /// end.
    ///
    /// - Returns: nil where the system has no such table, or the file is missing.
    /// - Throws: ``SystemError`` when file or table cannot be read.
    package static func leases(on path: String) throws(SystemError) -> [Lock]? { try locks(.lease, on: path) }

    private static func locks(_ kind: Kind, on path: String) throws(SystemError) -> [Lock]? {
        guard let identity = try Files.identity(path), Files.exists(table) else { return nil }
        // Files of stacked filesystems appear with another device than in `stat`.
        let filesystem = try FilesystemKind.of(path).name
        let device = ["overlay", "btrfs"].contains(filesystem) ? nil : Device(identity.device)
        let lines = try Files.contents(of: table, limitBytes: PlatformLimits.lockTableBytes)
        return parse(lines, kind, inode: identity.inode, device)
    }

    private static let table = "/proc/locks"

    /// A device as the table writes it: `08:01`, both in hexadecimal.
    struct Device: Equatable, Sendable {
        let major: UInt32
        let minor: UInt32

        init(major: UInt32, minor: UInt32) {
            self.major = major
            self.minor = minor
        }

        init(_ number: UInt64) {
            var (major, minor): (UInt32, UInt32) = (0, 0)
            cplatform_device_numbers(dev_t(truncatingIfNeeded: number), &major, &minor)
            self.init(major: major, minor: minor)
        }
    }

    /// Reads the table, a line for each lock: `1: POSIX  ADVISORY  WRITE 4711 08:01:131099 120 120`.
    ///
    /// - Parameter device: The device of the file; nil compares only the inode.
    static func parse(_ table: [UInt8], _ kind: Kind, inode: UInt64, _ device: Device?) -> [Lock] {
        table.split(separator: UInt8(ascii: "\n")).compactMap { line in
            // Waiting processes have an arrow in the second place, and hold nothing.
            let fields = String(decoding: line, as: UTF8.self).split(separator: " ", omittingEmptySubsequences: true)
            guard fields.count == 8, fields[1] == kind.rawValue, let process = Int32(fields[4]), process > 0 else {
                return nil
            }
            let file = fields[5].split(separator: ":")
            guard file.count == 3, UInt64(file[2]) == inode, let major = UInt32(file[0], radix: 16),
                let minor = UInt32(file[1], radix: 16), device == nil || device == Device(major: major, minor: minor),
                let first = Int64(fields[6]), let last = fields[7] == "EOF" ? Int64.max : Int64(fields[7]),
                first <= last
            else { return nil }
            return Lock(kind: fields[3] == "WRITE" ? .exclusive : .shared, process: process, bytes: first...last)
        }
    }
}
