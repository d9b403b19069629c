#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// Folders and names as such.
extension Files {
    /// Makes a folder that is its owner's alone; it must not exist.
    package static func makeDirectory(_ path: String) throws(SystemError) {
        guard mkdir(path, 0o700) == 0 else { throw SystemError("mkdir", path) }
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

    /// Whether the name is taken, be it by a link that leads nowhere.
    package static func entryExists(_ path: String) throws(SystemError) -> Bool {
        var found = stat()
        if lstat(path, &found) == 0 { return true }
        let failure = SystemError("lstat", path)
        if failure.isNotFound { return false }
        throw failure
    }

    /// Gives a file a second name, which must not be taken.
    package static func link(_ path: String, to newPath: String) throws(SystemError) {
        #if canImport(Darwin)
            let result = Darwin.link(path, newPath)
        #else
            let result = Glibc.link(path, newPath)
        #endif
        guard result == 0 else { throw SystemError("link", newPath) }
    }
}
