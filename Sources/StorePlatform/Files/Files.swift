import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Files and folders by their path.
///
/// Never open the main file of a live database, or its `-shm`, through this type, ``FileDescriptor`` or ``OpenFile``:
/// closing *any* descriptor of a file drops all POSIX locks that this process holds on it, also those of the database's
/// connections (see <https://www.sqlite.org/howtocorrupt.html>). Calls that only read metadata (``status(of:)``) are
/// harmless.
package enum Files {
    /// The status of a file, or nil when there is none.
    package static func status(of path: String) throws(SystemError) -> FileStatus? {
        var found = stat()
        guard stat(path, &found) == 0 else {
            let failure = SystemError("stat", path)
            if failure.isNotFound { return nil }
            throw failure
        }
        return FileStatus(found)
    }

    /// Whether a file of this name is visible.
    package static func exists(_ path: String) -> Bool { (try? status(of: path)) != nil }

    /// Length in bytes, or nil when there is no such file.
    package static func byteCount(_ path: String) throws(SystemError) -> Int? { try status(of: path)?.byteCount }

    /// The kind of file that the path names, or nil when it names none.
    package static func kind(_ path: String) throws(SystemError) -> FileKind? { try status(of: path)?.kind }

    /// The status of a path itself, or nil when it names nothing; a symbolic link is ``FileKind/other``, whatever its
    /// target.
    package static func ownStatus(of path: String) throws(SystemError) -> FileStatus? {
        var found = stat()
        guard lstat(path, &found) == 0 else {
            let failure = SystemError("lstat", path)
            if failure.isNotFound { return nil }
            throw failure
        }
        return FileStatus(found)
    }

    /// The kind of a name itself, or nil when there is none: a symbolic link, whatever its target, is
    /// ``FileKind/other``.
    package static func kindOfName(_ path: String) throws(SystemError) -> FileKind? { try ownStatus(of: path)?.kind }

    /// Whether the name is taken, also by a dangling link.
    package static func entryExists(_ path: String) throws(SystemError) -> Bool { try ownStatus(of: path) != nil }

    /// The file that the path names now, or nil when it names none.
    package static func identity(_ path: String) throws(SystemError) -> FileIdentity? {
        try status(of: path)?.identity
    }

    /// Whether this process may create and rename files in a folder.
    package static func canWrite(directory: String) -> Bool { access(directory, W_OK | X_OK) == 0 }

    /// - Throws: ``SystemError`` with what the system says when this process may not make and remove files in a folder.
    package static func requireWritable(directory: String) throws(SystemError) {
        guard access(directory, W_OK | X_OK) == 0 else { throw SystemError("access", directory) }
    }

    /// Whether this process may write an existing file.
    package static func canWrite(file: String) -> Bool { access(file, W_OK) == 0 }

    /// Whether this process may read a file.
    package static func canRead(file: String) -> Bool { access(file, R_OK) == 0 }

    // MARK: Changing names

    /// Adds a second name (a hard link) to a file; it must not be taken.
    package static func link(_ path: String, to newPath: String) throws(SystemError) {
        #if canImport(Darwin)
            let result = Darwin.link(path, newPath)
        #else
            let result = Glibc.link(path, newPath)
        #endif
        guard result == 0 else { throw SystemError("link", newPath) }
    }

    /// Renames a file in the same folder; a file that had the new name is replaced. Not durable until the folder is
    /// synced.
    package static func rename(_ path: String, to newPath: String) throws(SystemError) {
        #if canImport(Darwin)
            let result = Darwin.rename(path, newPath)
        #else
            let result = Glibc.rename(path, newPath)
        #endif
        guard result == 0 else { throw SystemError("rename", path) }
    }

    /// Removes a file; a missing file is not an error.
    package static func remove(_ path: String) throws(SystemError) {
        guard unlink(path) == 0 else {
            let failure = SystemError("unlink", path)
            if failure.errorNumber == ENOENT { return }
            throw failure
        }
    }

    /// Creates a folder that is its owner's alone; it must not exist.
    package static func makeDirectory(_ path: String) throws(SystemError) {
        try OpenFolder(opening: directory(of: path)).createFolder(name(of: path))
    }

    /// Creates an empty file without opening it, or keeps the one that exists unchanged. For databases: closing a
    /// descriptor of one drops the locks that SQLite holds on it in this process.
    ///
    /// - Parameter permissions: The mode of a new file, independent of the umask.
    /// - Returns: Whether the file exists now; false where the system does not permit this way to create it.
    package static func makeEmptyUnopened(_ path: String, permissions: UInt32) -> Bool {
        #if canImport(Darwin)
            // mknod is for root alone there.
            return false
        #else
            guard mknod(path, S_IFREG | mode_t(permissions), 0) == 0 else { return errno == EEXIST }
            // The umask can only have removed permissions.
            try? completePermissions(ofEmpty: path, permissions)
            return true
        #endif
    }

    /// Gives a new, empty file of this user exactly these permissions. Another user may have put another file in its
    /// place: a link is not followed, and a file that is not empty, has a second name or another owner is left alone.
    ///
    /// The file is not opened for reading or writing, so that no lock of this process on it is dropped.
    ///
    /// - Throws: ``SystemError`` with `ESTALE` where the path names no such file.
    package static func completePermissions(ofEmpty path: String, _ permissions: UInt32) throws(SystemError) {
        let failure = cplatform_complete_mode(AT_FDCWD, path, 0, mode_t(permissions))
        guard failure == 0 else { throw SystemError(call: "chmod", path: path, errorNumber: failure) }
    }

    // MARK: Contents

    /// The whole content of a regular file that is not longer than `limitBytes`.
    ///
    /// - Throws: ``SystemError`` with `EFBIG` when it is longer (nothing is read then), `EISDIR` or `EINVAL` when it is
    ///   not a regular file.
    package static func contents(of path: String, limitBytes: Int) throws(SystemError) -> [UInt8] {
        // The kind is checked before the file is opened, too: a device may do something when it is opened.
        if let kind = try kind(path), kind != .regular { throw SystemError.notRegular("read", path, kind) }
        let file = try FileDescriptor(opening: path, .readOnly, mustBeRegular: true)
        guard try file.status().byteCount <= limitBytes else {
            throw SystemError.tooLarge(call: "read", path: path)
        }
        let bytes = try file.read(at: 0, byteCount: limitBytes + 1)
        guard bytes.count <= limitBytes else { throw SystemError.tooLarge(call: "read", path: path) }
        return bytes
    }

    // MARK: Paths

    /// A path that stays the same file when the process changes its current directory. It is not resolved further.
    ///
    /// A relative path is left as it is where the current directory has no path, as after its removal, or one that is not
    /// UTF-8.
    package static func absolute(_ path: String) -> String {
        if path.hasPrefix("/") { return path }
        guard let current = getcwd(nil, 0) else { return path }
        defer { free(current) }
        // Linux begins the path of a directory outside of the root with "(unreachable)".
        guard let folder = String(validatingCString: current), folder.hasPrefix("/") else { return path }
        return (folder == "/" ? "" : folder) + "/" + path
    }

    /// The folder part of a path; `.` when it has none.
    package static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// The part of a path after the last slash.
    package static func name(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[path.index(after: $0)...]) } ?? path
    }

    /// The path of the file itself, with all symbolic links resolved; the file, or a link's target, need not exist.
    ///
    /// SQLite keeps its files beside the target of a link, so files beside a database must be looked for there: two
    /// names of one store must not have two sidecars.
    ///
    /// A link of another user in the place of the file is not followed (``isOfOtherUser(_:in:)``): it may be put there at
    /// any moment, and lead to a store of this user.
    package static func resolvingLinks(of path: String) throws(SystemError) -> String {
        var current = path
        // The kernel follows at most as many links.
        for _ in 0..<40 {
            guard let target = linkTarget(of: current) else {
                guard let folder = realpath(directory(of: current), nil) else {
                    throw SystemError("realpath", directory(of: current))
                }
                defer { free(folder) }
                let resolved = String(cString: folder)
                return (resolved == "/" ? "" : resolved) + "/" + name(of: current)
            }
            current = target.hasPrefix("/") ? target : directory(of: current) + "/" + target
        }
        throw SystemError(call: "readlink", path: path, errorNumber: ELOOP)
    }

    /// The text of a symbolic link; nil for a link of another user (``isOfOtherUser(_:in:)``), and for anything else.
    package static func linkTarget(of path: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        guard readlink(path, &buffer, buffer.count) > 0 else { return nil }
        // The owner has to be that of the link that is read.
        var found = stat()
        guard cplatform_read_link(path, &found, &buffer, buffer.count) == 0,
            !isOfOtherUser(FileStatus(found), in: directory(of: path))
        else { return nil }
        return String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Whether a link was made by somebody else than root, this user and the owner of its folder.
    package static func isOfOtherUser(_ link: FileStatus, in folder: String) -> Bool {
        guard link.isLink, link.owner != 0, link.owner != ProcessInspector.effectiveUser else { return false }
        return ((try? status(of: folder)) ?? nil)?.owner != link.owner
    }

    /// The names in a folder, without `.` and `..`, in no order.
    package static func names(inDirectory path: String) throws(SystemError) -> [String] {
        guard let stream = opendir(path) else { throw SystemError("opendir", path) }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
                String(cString: UnsafeRawPointer(tuple).assumingMemoryBound(to: CChar.self))
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    /// Syncs the entries of a folder to disk, such as a rename in it.
    package static func synchronize(directory path: String) throws(SystemError) {
        // Never a pipe that got the name of the folder, and whose other end would be waited for.
        try OpenFolder(opening: path).synchronize()
    }

    // MARK: Disk space

    /// Bytes that this process may still write on the filesystem of a path, without regard to quotas. The maximum where
    /// the filesystem does not report it, or reports more.
    package static func freeBytes(at path: String) throws(SystemError) -> Int {
        var found = statvfs()
        guard retryingInterrupts({ statvfs(path, &found) }) == 0 else { throw SystemError("statvfs", path) }
        return freeBytes(found)
    }

    static func freeBytes(_ found: statvfs) -> Int {
        // Filesystems without a limit, such as ramfs, have no blocks at all.
        guard found.f_blocks > 0 else { return .max }
        let (bytes, isTooMuch) = UInt64(found.f_bavail).multipliedReportingOverflow(by: UInt64(found.f_frsize))
        return isTooMuch ? .max : Int(clamping: bytes)
    }

    /// Whether the filesystem of a path, or of its folder while the file does not exist, is mounted read-only. False
    /// where the system does not say.
    package static func isOnReadOnlyFilesystem(_ path: String) -> Bool {
        var found = statvfs()
        if retryingInterrupts({ statvfs(path, &found) }) != 0 {
            guard retryingInterrupts({ statvfs(directory(of: path), &found) }) == 0 else { return false }
        }
        return UInt64(found.f_flag) & UInt64(ST_RDONLY) != 0
    }

    /// The error of a filesystem without enough space for what is about to be written there.
    package static func noSpace(at directory: String, freeBytes: Int, neededBytes: Int) -> SystemError {
        SystemError(
            call: "write", path: directory, errorNumber: ENOSPC,
            detail: "\(neededBytes) bytes are needed, \(freeBytes) are free; nothing was written")
    }
}

/// Identifies a file, whatever its name.
package struct FileIdentity: Hashable, Sendable {
    let device: UInt64
    package let inode: UInt64

    package init(device: UInt64, inode: UInt64) {
        self.device = device
        self.inode = inode
    }
}

/// The kind of a file.
package enum FileKind: Sendable {
    case regular
    case directory
    /// A pipe, socket or device.
    case other
}

/// The status of a file; symbolic links are followed.
package struct FileStatus: Sendable {
    package let kind: FileKind
    /// Whether it is a pipe, named or not.
    package let isPipe: Bool
    /// Whether it is a symbolic link itself.
    package let isLink: Bool
    package let identity: FileIdentity
    package let byteCount: Int
    /// The disk space of the content; less than the length where the file has holes.
    package let allocatedBytes: Int
    /// Whether a long file has more holes than content, which no store has.
    package var isMostlyHoles: Bool { byteCount >= PlatformLimits.sparseFileBytes && allocatedBytes < byteCount / 2 }
    /// The nine permission bits and the three above them.
    package let permissions: UInt32
    package let owner: UInt32
    package let group: UInt32
    /// The number of names of the file.
    package let linkCount: UInt64
    /// When the content last changed, as time since 1970.
    package let modified: Duration

    /// The kind in words, for messages; nil for a regular file.
    package var oddKind: String? {
        switch kind {
        case .regular: nil
        case .directory: "a folder"
        case .other: isLink ? "a symbolic link" : isPipe ? "a pipe" : "a device or a socket"
        }
    }

    init(_ status: stat) {
        switch status.st_mode & S_IFMT {
        case S_IFREG: kind = .regular
        case S_IFDIR: kind = .directory
        default: kind = .other
        }
        isPipe = status.st_mode & S_IFMT == S_IFIFO
        isLink = status.st_mode & S_IFMT == S_IFLNK
        identity = FileIdentity(device: UInt64(truncatingIfNeeded: status.st_dev), inode: UInt64(status.st_ino))
        byteCount = Int(status.st_size)
        // In units of 512 bytes, whatever the blocks of the filesystem are.
        allocatedBytes = Int(status.st_blocks) * 512
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
