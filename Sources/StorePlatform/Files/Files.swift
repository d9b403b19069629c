#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Files and folders by their path.
///
/// Never open the main file of a live database, or its `-shm`, through this type, ``FileDescriptor`` or ``OpenFile``:
/// closing *any* descriptor of a file drops all POSIX locks that this process holds on it, those of the database's
/// connections too (see <https://www.sqlite.org/howtocorrupt.html>). What only asks the filesystem (``status(of:)``) is
/// harmless.
package enum Files {
    /// What the filesystem knows about a file, or nil when there is none.
    package static func status(of path: String) throws(SystemError) -> FileStatus? {
        var found = stat()
        guard stat(path, &found) == 0 else {
            let failure = SystemError("stat", path)
            if failure.isNotFound { return nil }
            throw failure
        }
        return FileStatus(found)
    }

    /// Whether something of this name can be seen.
    package static func exists(_ path: String) -> Bool { (try? status(of: path)) != nil }

    /// Length in bytes, or nil when there is no such file.
    package static func byteCount(_ path: String) throws(SystemError) -> Int? { try status(of: path)?.byteCount }

    /// What the path names, or nil when it names nothing.
    package static func kind(_ path: String) throws(SystemError) -> FileKind? { try status(of: path)?.kind }

    /// What a path itself names, or nil when it names nothing; a symbolic link is ``FileKind/other``, whatever it leads to.
    package static func ownStatus(of path: String) throws(SystemError) -> FileStatus? {
        var found = stat()
        guard lstat(path, &found) == 0 else {
            let failure = SystemError("lstat", path)
            if failure.isNotFound { return nil }
            throw failure
        }
        return FileStatus(found)
    }

    /// What a name itself is, or nil when there is none: a symbolic link, wherever it leads, is ``FileKind/other``.
    package static func kindOfName(_ path: String) throws(SystemError) -> FileKind? { try ownStatus(of: path)?.kind }

    /// Whether the name is taken, be it by a link that leads nowhere.
    package static func entryExists(_ path: String) throws(SystemError) -> Bool { try ownStatus(of: path) != nil }

    /// Which file the path names now, or nil when it names none.
    package static func identity(_ path: String) throws(SystemError) -> FileIdentity? {
        try status(of: path)?.identity
    }

    /// Whether this process may make and rename files in a folder.
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

    /// Gives a file a second name, which must not be taken.
    package static func link(_ path: String, to newPath: String) throws(SystemError) {
        #if canImport(Darwin)
            let result = Darwin.link(path, newPath)
        #else
            let result = Glibc.link(path, newPath)
        #endif
        guard result == 0 else { throw SystemError("link", newPath) }
    }

    /// Gives a file another name in the same folder; a file that had that name is replaced. Not durable before the folder
    /// is.
    package static func rename(_ path: String, to newPath: String) throws(SystemError) {
        #if canImport(Darwin)
            let result = Darwin.rename(path, newPath)
        #else
            let result = Glibc.rename(path, newPath)
        #endif
        guard result == 0 else { throw SystemError("rename", path) }
    }

    /// Removes a file; one that is gone already is no failure.
    package static func remove(_ path: String) throws(SystemError) {
        guard unlink(path) == 0 else {
            let failure = SystemError("unlink", path)
            if failure.errorNumber == ENOENT { return }
            throw failure
        }
    }

    /// Makes a folder that is its owner's alone; it must not exist.
    package static func makeDirectory(_ path: String) throws(SystemError) {
        guard mkdir(path, 0o700) == 0 else { throw SystemError("mkdir", path) }
        // The umask can only have taken rights away from its owner.
        _ = chmod(path, 0o700)
    }

    /// Makes an empty file without opening it, or leaves the one that is there alone. For databases: closing a descriptor of
    /// one drops the locks that SQLite holds on it in this process.
    ///
    /// - Parameter permissions: What a new file has, whatever the umask is.
    /// - Returns: Whether there is a file now; false where the system does not let it be made like this.
    package static func makeEmptyUnopened(_ path: String, permissions: UInt32) -> Bool {
        #if canImport(Darwin)
            // mknod is for root alone there.
            return false
        #else
            guard mknod(path, S_IFREG | mode_t(permissions), 0) == 0 else { return errno == EEXIST }
            // The umask can only have taken permissions away.
            try? setPermissions(of: path, permissions)
            return true
        #endif
    }

    /// Gives a file exactly these permissions.
    package static func setPermissions(of path: String, _ permissions: UInt32) throws(SystemError) {
        guard chmod(path, mode_t(permissions)) == 0 else { throw SystemError("chmod", path) }
    }

    /// Removes a folder with nothing in it.
    package static func removeDirectory(_ path: String) throws(SystemError) {
        guard rmdir(path) == 0 else { throw SystemError("rmdir", path) }
    }

    // MARK: Contents

    /// The whole of a regular file that is not longer than `limitBytes`.
    ///
    /// - Throws: ``SystemError`` with `EFBIG` when it is longer (nothing is read then), `EISDIR` or `EINVAL` when it is
    ///   no regular file.
    package static func contents(of path: String, limitBytes: Int) throws(SystemError) -> [UInt8] {
        // The kind is asked before the file is opened: opening a pipe would wait for its other end.
        if let kind = try kind(path), kind != .regular { throw SystemError.notRegular("read", path, kind) }
        let file = try FileDescriptor(opening: path, .readOnly)
        guard try file.status().byteCount <= limitBytes else {
            throw SystemError(call: "read", path: path, errorNumber: EFBIG)
        }
        let bytes = try file.read(at: 0, byteCount: limitBytes + 1)
        guard bytes.count <= limitBytes else { throw SystemError(call: "read", path: path, errorNumber: EFBIG) }
        return bytes
    }

    // MARK: Paths

    /// The folder part of a path; `.` when it has none.
    package static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// The part of a path after the last slash.
    package static func name(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[path.index(after: $0)...]) } ?? path
    }

    /// The path of the file itself, free of symbolic links; the file, or a link's target, need not exist.
    ///
    /// SQLite keeps its own files beside the file that a link leads to, so whatever lies beside a database has to be
    /// looked for there: two names of one store must not have two sidecars.
    package static func resolvingLinks(of path: String) throws(SystemError) -> String {
        var current = path
        // As many links as the kernel follows.
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

    private static func linkTarget(of path: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path, &buffer, buffer.count)
        guard count > 0 else { return nil }
        return String(decoding: buffer[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// The names in a folder, `.` and `..` left out, in no order.
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

    /// Makes the entries of a folder durable, such as a rename in it.
    package static func synchronize(directory path: String) throws(SystemError) {
        let folder = try FileDescriptor(opening: path, .readOnly)
        do {
            try folder.synchronize()
        } catch  where error.errorNumber == EINVAL {
            // Some filesystems cannot do this and say so; there is nothing more to be had from them.
        }
    }

    // MARK: Room

    /// Bytes that this process may still write on the filesystem of a path; quotas are not looked at. The greatest number
    /// where the filesystem does not tell, or tells more than that.
    package static func freeBytes(at path: String) throws(SystemError) -> Int {
        var found = statvfs()
        guard retryingInterrupts({ statvfs(path, &found) }) == 0 else { throw SystemError("statvfs", path) }
        return freeBytes(found)
    }

    static func freeBytes(_ found: statvfs) -> Int {
        // Filesystems without a bound of their own, such as ramfs, have no blocks at all.
        guard found.f_blocks > 0 else { return .max }
        let (bytes, isTooMuch) = UInt64(found.f_bavail).multipliedReportingOverflow(by: UInt64(found.f_frsize))
        return isTooMuch ? .max : Int(clamping: bytes)
    }

    /// The failure of a filesystem that has not enough room for what is about to be written there.
    package static func noSpace(at directory: String, freeBytes: Int, neededBytes: Int) -> SystemError {
        SystemError(
            call: "write", path: directory, errorNumber: ENOSPC,
            detail: "\(neededBytes) bytes are needed, \(freeBytes) are free; nothing was written")
    }
}

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
