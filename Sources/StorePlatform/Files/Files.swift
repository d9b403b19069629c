#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Questions about files by their path.
///
/// Never open the main file of a live database, or its `-shm`, through this type or ``FileDescriptor``: SQLite holds
/// POSIX locks there, and closing *any* descriptor of a file drops all the locks its process holds on it (see
/// <https://www.sqlite.org/howtocorrupt.html>). What only asks the filesystem (``status(of:)``) is harmless.
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

    /// What a name itself is, or nil when there is none: a symbolic link, wherever it leads, is something else.
    package static func kindOfName(_ path: String) throws(SystemError) -> FileKind? {
        var found = stat()
        guard lstat(path, &found) == 0 else {
            let failure = SystemError("lstat", path)
            if failure.isNotFound { return nil }
            throw failure
        }
        return FileStatus(found).kind
    }

    /// Which file the path names now, or nil when it names none.
    package static func identity(_ path: String) throws(SystemError) -> FileIdentity? {
        try status(of: path)?.identity
    }

    /// Whether this process may make and rename files in a folder.
    package static func canWrite(directory: String) -> Bool { access(directory, W_OK | X_OK) == 0 }

    /// Whether this process may write an existing file.
    package static func canWrite(file: String) -> Bool { access(file, W_OK) == 0 }

    /// Removes a file; one that is gone already is no failure.
    package static func remove(_ path: String) throws(SystemError) {
        guard unlink(path) == 0 else {
            let failure = SystemError("unlink", path)
            if failure.errorNumber == ENOENT { return }
            throw failure
        }
    }

    /// The whole of a regular file that is not longer than `limitBytes`.
    ///
    /// - Throws: ``SystemError`` with `EFBIG` when it is longer (nothing is read then), `EISDIR` or `EINVAL` when it is
    ///   no regular file.
    package static func contents(of path: String, limitBytes: Int) throws(SystemError) -> [UInt8] {
        // The kind is asked before the file is opened: opening a pipe would wait for its other end.
        if let kind = try kind(path), kind != .regular {
            throw SystemError(call: "read", path: path, errorNumber: kind == .directory ? EISDIR : EINVAL)
        }
        let file = try FileDescriptor(opening: path, .readOnly)
        guard try file.status().byteCount <= limitBytes else {
            throw SystemError(call: "read", path: path, errorNumber: EFBIG)
        }
        let bytes = try file.read(at: 0, byteCount: limitBytes + 1)
        guard bytes.count <= limitBytes else { throw SystemError(call: "read", path: path, errorNumber: EFBIG) }
        return bytes
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
}
