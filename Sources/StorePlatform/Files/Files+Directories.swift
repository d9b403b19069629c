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
