#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension Files {
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

    /// The failure of a filesystem that has not enough room for what is about to be written there.
    package static func noSpace(at directory: String, freeBytes: Int, neededBytes: Int) -> SystemError {
        SystemError(
            call: "statvfs", path: directory, errorNumber: ENOSPC,
            detail: "\(neededBytes) bytes are needed, \(freeBytes) are free; nothing was written")
    }
}
