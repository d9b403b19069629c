import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// An open folder, and what is in it by plain names.
///
/// A name with a slash, `.` and `..` are refused with `EINVAL`, and symbolic links are not followed. So no call leads out
/// of the folder, whatever others put into it.
package final class OpenFolder: Sendable {
    /// The path it was opened by, for error messages.
    package let path: String
    private let descriptor: FileDescriptor

    /// Opens a folder by its path.
    ///
    /// - Parameter followsLinks: Whether the path may end in a symbolic link. That of a store's folder does not, because all
    ///   links in it are resolved before.
    package init(opening path: String, followsLinks: Bool = true) throws(SystemError) {
        let flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (followsLinks ? 0 : O_NOFOLLOW)
        let number = retryingInterrupts { open(path, flags) }
        guard number >= 0 else { throw SystemError("open", path) }
        self.path = path
        descriptor = FileDescriptor(owning: number, path: path)
    }

    private init(owning number: Int32, path: String) {
        self.path = path
        descriptor = FileDescriptor(owning: number, path: path)
    }

    /// The status of the folder itself.
    package func status() throws(SystemError) -> FileStatus { try descriptor.status() }

    /// The status of a name, or nil when it names nothing; a symbolic link is ``FileKind/other``.
    package func status(of name: String) throws(SystemError) -> FileStatus? {
        var found = stat()
        let place = try checked(name, "fstatat")
        guard fstatat(descriptor.number, name, &found, AT_SYMLINK_NOFOLLOW) == 0 else {
            let failure = SystemError("fstatat", place)
            if failure.errorNumber == ENOENT { return nil }
            throw failure
        }
        return FileStatus(found)
    }

    // MARK: Folders

    /// Opens a folder in this one; nil when there is no such name.
    ///
    /// - Throws: ``SystemError`` with `ENOTDIR` when the name is not a folder, also for a symbolic link to one.
    package func folder(_ name: String) throws(SystemError) -> OpenFolder? {
        let place = try checked(name, "openat")
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
        let number = retryingInterrupts { openat(descriptor.number, name, flags) }
        guard number >= 0 else {
            let failure = SystemError("openat", place)
            if failure.errorNumber == ENOENT { return nil }
            // Systems differ in what they say about a symbolic link.
            throw failure.errorNumber == ELOOP
                ? SystemError(call: "openat", path: place, errorNumber: ENOTDIR) : failure
        }
        return OpenFolder(owning: number, path: place)
    }

    /// Creates a folder, or keeps the one that exists. Not durable until this folder is synced.
    ///
    /// It is made under another name, as its owner's alone, and gets its permissions and its name when it has proved to be
    /// new: another user of a shared folder can exchange it for a private folder of this user at any moment.
    ///
    /// - Parameter shared: The permissions for a group; nil keeps the folder its owner's alone.
    /// - Throws: ``SystemError`` with `ESTALE` where somebody has exchanged it.
    package func makeFolder(_ name: String, sharedAs shared: GroupPermissions? = nil) throws(SystemError) {
        try makeFolder(name, sharedAs: shared, afterMaking: { _ in })
    }

    /// - Parameter afterMaking: Called with the first name of the folder, where tests exchange it.
    func makeFolder(
        _ name: String, sharedAs shared: GroupPermissions? = nil, afterMaking: (String) -> Void
    ) throws(SystemError) {
        let place = try checked(name, "mkdirat")
        guard try status(of: name) == nil else { return }
        let first = ".new-\(String(UInt64.random(in: .min ... .max), radix: 16))"
        try createFolder(first)
        afterMaking(first)
        do throws(SystemError) {
            guard let made = try folder(first) else { throw SystemError.exchanged("openat", place) }
            try made.makePrivate()
            shared?.apply(to: made.descriptor)
            do throws(SystemError) {
                try renameExclusively(first, to: self, name)
            } catch  where error.isUnsupported {
                // A filesystem that cannot check the name in the same step.
                if try status(of: name) == nil { try rename(first, to: self, name) }
            } catch  where error.isAlreadyThere {
                // Another process has made it.
            }
            let (identity, found) = (try made.status().identity, try status(of: name)?.identity)
            if found != identity, try status(of: first)?.identity != identity {
                throw SystemError.exchanged("mkdirat", place)
            }
        } catch {
            // Only an empty folder is removed.
            try? removeFolder(first)
            throw error
        }
        try? removeFolder(first)
    }

    /// Creates a folder that is its owner's alone, whatever the umask; the name must not be taken.
    ///
    /// Another user who may write in this folder can give the name to another folder at once: see ``makePrivate()``.
    package func createFolder(_ name: String) throws(SystemError) {
        let place = try checked(name, "mkdirat")
        guard mkdirat(descriptor.number, name, 0o700) == 0 else { throw SystemError("mkdirat", place) }
        // The umask may have taken rights of the owner. A failure shows when the folder is opened.
        _ = cplatform_complete_mode(descriptor.number, name, 1, 0o700)
    }

    /// Proves that a folder which was just created is this user's, empty, and nobody else's: another user of a shared
    /// folder may have given its name to another one.
    ///
    /// - Parameter isExpected: The names that other processes of this user may have made in it.
    /// - Throws: ``SystemError`` with `ESTALE` where it is not.
    package func makePrivate(isExpected: (String) -> Bool = { _ in false }) throws(SystemError) {
        guard try status().owner == geteuid(), try names(limit: PlatformLimits.newFolderNames).allSatisfy(isExpected)
        else {
            throw SystemError.exchanged("openat", path)
        }
        // Without an effect on filesystems that have no permissions.
        if try status().permissions & 0o077 != 0 { _ = fchmod(descriptor.number, 0o700) }
    }

    /// Whether it belongs to this user, and nobody else may change its names. Then the names in it are this user's
    /// work, no matter who gave the folder its own name.
    package var isPrivate: Bool {
        guard let status = try? status() else { return false }
        return status.owner == geteuid() && status.permissions & 0o022 == 0
    }

    /// Whether this process has a file open; nil where the system does not list the open files of a process.
    package static func hasOpened(_ identity: FileIdentity) -> Bool? {
        openFiles.map { $0.contains { $0.identity == identity } }
    }

    /// The number of names of a file that this process has open; nil where it has not, as far as the system tells.
    static func linkCount(ofOpen identity: FileIdentity) -> UInt64? {
        openFiles?.first { $0.identity == identity }?.linkCount
    }

    /// The present path of a file that this process has open; nil where it has no name, or the system does not tell.
    package static func path(ofOpen identity: FileIdentity) -> String? {
        let list = "/proc/self/fd"
        guard let names = try? Files.names(inDirectory: list) else { return nil }
        for name in names {
            var found = stat()
            guard let number = Int32(name), fstat(number, &found) == 0, FileStatus(found).identity == identity else {
                continue
            }
            return found.st_nlink > 0 ? ProcessInspector.target(of: list + "/" + name) : nil
        }
        return nil
    }

    /// Whether another user than root may give the name of a file to another file: one who may write the folder, unless
    /// it has the sticky bit.
    static func lendsNames(ofFileAt path: String) -> Bool {
        guard let status = (try? Files.status(of: Files.directory(of: path))) ?? nil else { return true }
        return status.permissions & 0o022 != 0 && status.permissions & 0o1000 == 0
    }

    /// The status of each file that this process has open; nil where the system does not list them.
    private static var openFiles: [FileStatus]? {
        #if canImport(Darwin)
            let list = "/dev/fd"
        #else
            let list = "/proc/self/fd"
        #endif
        guard let names = try? Files.names(inDirectory: list) else { return nil }
        return names.compactMap { Int32($0) }.compactMap { number in
            var found = stat()
            return fstat(number, &found) == 0 ? FileStatus(found) : nil
        }
    }

    /// Whether a name is that of this folder in its parent.
    package func isNamed(_ name: String, in parent: OpenFolder) -> Bool {
        guard let identity = try? status().identity else { return false }
        return ((try? parent.status(of: name)) ?? nil)?.identity == identity
    }

    /// The names in the folder, without `.` and `..`, in no order.
    ///
    /// - Throws: ``SystemError`` with `EFBIG` when there are more than `limit`.
    package func names(limit: Int) throws(SystemError) -> [String] {
        // A descriptor of its own, because the stream closes it and moves its position. If the system
        // refuses to open it, a copy of this one has to do: files that were made must be removable.
        var number = retryingInterrupts { openat(descriptor.number, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        if number < 0 {
            let failure = SystemError("openat", path)
            number = fcntl(descriptor.number, F_DUPFD_CLOEXEC, 0)
            guard number >= 0 else { throw failure }
        }
        guard let stream = fdopendir(number) else {
            let failure = SystemError("fdopendir", path)
            close(number)
            throw failure
        }
        defer { closedir(stream) }
        rewinddir(stream)
        var names: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else { break }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
                String(cString: UnsafeRawPointer(tuple).assumingMemoryBound(to: CChar.self))
            }
            if name == "." || name == ".." { continue }
            guard names.count < limit else {
                throw SystemError(
                    call: "readdir", path: path, errorNumber: EFBIG, detail: "there are more than \(limit) names")
            }
            names.append(name)
        }
        // A failed read would otherwise look like the end.
        guard errno == 0 else { throw SystemError("readdir", path) }
        return names
    }

    /// Syncs the entries of the folder to disk.
    package func synchronize() throws(SystemError) {
        do {
            try descriptor.synchronize()
        } catch  where error.errorNumber == EINVAL {
            // Some filesystems do not support this and say so; nothing more can be done there.
        }
    }

    // MARK: Files

    /// Opens a file for reading; nil when there is no such name, or when it is not a regular file.
    package func file(_ name: String) throws(SystemError) -> OpenFile? {
        try file(name, leaseWait: PlatformLimits.fileLeaseWait)
    }

    /// - Parameter leaseWait: The longest wait for a process that has a lease on the file.
    func file(_ name: String, leaseWait: Duration) throws(SystemError) -> OpenFile? {
        let place = try checked(name, "openat")
        // Without waiting for the other end of a named pipe.
        let flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC
        let number = RegularFile.withoutWaiting(leaseWait) { openat(descriptor.number, name, flags) }
        guard number >= 0 else {
            let failure = SystemError.opening("openat", place)
            // A symbolic link, a socket, a device without a driver.
            if [ENOENT, ELOOP, ENXIO, ENODEV].contains(failure.errorNumber) { return nil }
            throw failure
        }
        let opened = FileDescriptor(owning: number, path: place)
        guard try opened.status().kind == .regular else { return nil }
        return OpenFile(opened)
    }

    /// Creates a file with the permissions of this folder, without execution: see ``createFile(_:_:sharedAs:)``.
    package func createFile(_ name: String, _ bytes: [UInt8]) throws(SystemError) {
        let status = try status()
        try createFile(
            name, bytes, sharedAs: GroupPermissions(group: nil, permissions: status.permissions & 0o666))
    }

    /// Creates a file, writes `bytes` and syncs them to disk; the name must not be taken. A file that could not be written as
    /// a whole is removed.
    ///
    /// - Parameter shared: The permissions for a group; nil keeps the file its owner's alone, whatever the umask.
    package func createFile(
        _ name: String, _ bytes: [UInt8], sharedAs shared: GroupPermissions?
    ) throws(SystemError) {
        let file = try newFile(name)
        do {
            // The umask may have taken rights of the owner. Filesystems without permissions refuse it, and need it not.
            _ = fchmod(file.number, mode_t(FileAttributes.privatePermissions))
            shared?.apply(to: file)
            try file.write(bytes)
            try file.synchronize()
        } catch {
            try? remove(name)
            throw error
        }
    }

    /// Creates an empty file and opens it for reading and writing; the name must not be taken, not even by a link.
    ///
    /// - Parameter permissions: Its mode, less the umask.
    package func newFile(
        _ name: String, permissions: UInt32 = FileAttributes.privatePermissions
    ) throws(SystemError) -> FileDescriptor {
        let place = try checked(name, "openat")
        let flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
        let number = retryingInterrupts { openat(descriptor.number, name, flags, mode_t(permissions)) }
        guard number >= 0 else { throw SystemError("openat", place) }
        return FileDescriptor(owning: number, path: place)
    }

    /// Adds a second name (a hard link) to a file; it must not be taken.
    package func link(_ name: String, to folder: OpenFolder, _ newName: String) throws(SystemError) {
        _ = try checked(name, "linkat")
        let place = try folder.checked(newName, "linkat")
        guard linkat(descriptor.number, name, folder.descriptor.number, newName, 0) == 0 else {
            let failure = SystemError("linkat", place)
            guard failure.errorNumber == EPERM, let owner = try status(of: name)?.owner,
                owner != ProcessInspector.effectiveUser
            else { throw failure }
            throw SystemError(
                call: failure.call, path: place, errorNumber: EPERM,
                detail: "\"\(name)\" belongs to user \(owner), and the system gives no second name to a file of "
                    + "another user (fs.protected_hardlinks): remove it, or let its owner do that")
        }
    }

    /// Renames a file; the new name must not be taken, and the system checks that in the same step.
    ///
    /// - Throws: ``SystemError``: `EEXIST`; `EINVAL`, `ENOSYS` or `ENOTSUP` where the filesystem cannot do that.
    func renameExclusively(_ name: String, to folder: OpenFolder, _ newName: String) throws(SystemError) {
        _ = try checked(name, "renameat2")
        let place = try folder.checked(newName, "renameat2")
        let failure = cplatform_rename_exclusively(descriptor.number, name, folder.descriptor.number, newName)
        guard failure == 0 else { throw SystemError(call: "renameat2", path: place, errorNumber: failure) }
    }

    /// Gives a file another name, which must not be taken. If the filesystem has hard links, the file keeps its former
    /// name as well.
    ///
    /// - Throws: ``SystemError`` `EEXIST` where the new name is taken.
    package func place(_ name: String, in folder: OpenFolder, _ newName: String) throws(SystemError) {
        do throws(SystemError) {
            return try link(name, to: folder, newName)
        } catch  where error.isUnsupported {
            // A filesystem without hard links.
        }
        do throws(SystemError) {
            return try renameExclusively(name, to: folder, newName)
        } catch  where error.isUnsupported {
            // A filesystem that cannot do that either: the name is taken first, then replaced.
        }
        try folder.createFile(newName, [])
        do throws(SystemError) {
            try rename(name, to: folder, newName)
        } catch {
            try? folder.remove(newName)
            throw error
        }
    }

    /// Renames a file; one that had the new name is replaced.
    package func rename(_ name: String, to folder: OpenFolder, _ newName: String) throws(SystemError) {
        _ = try checked(name, "renameat")
        let place = try folder.checked(newName, "renameat")
        guard renameat(descriptor.number, name, folder.descriptor.number, newName) == 0 else {
            throw SystemError("renameat", place)
        }
    }

    /// Opens a regular file for reading and writing; nil when there is no such name.
    ///
    /// - Parameter permissions: The mode of a file that is created where there is none; nil creates none.
    /// - Throws: ``SystemError`` with `EINVAL` when the name is not a regular file, `ELOOP` for a symbolic link.
    package func writableFile(_ name: String, creating permissions: UInt32?) throws(SystemError) -> FileDescriptor? {
        let place = try checked(name, "openat")
        let flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (permissions == nil ? 0 : O_CREAT)
        let number = RegularFile.withoutWaiting { openat(descriptor.number, name, flags, mode_t(permissions ?? 0)) }
        guard number >= 0 else {
            let failure = SystemError.opening("openat", place)
            if failure.errorNumber == ENOENT { return nil }
            throw failure
        }
        let file = FileDescriptor(owning: number, path: place)
        let kind = try file.status().kind
        guard kind == .regular else { throw SystemError.notRegular("openat", place, kind) }
        return file
    }

    /// Removes an empty folder; a symbolic link to one is left alone.
    package func removeFolder(_ name: String) throws(SystemError) {
        let place = try checked(name, "unlinkat")
        guard unlinkat(descriptor.number, name, AT_REMOVEDIR) == 0 else { throw SystemError("unlinkat", place) }
    }

    /// Removes a file; a missing file is not an error.
    package func remove(_ name: String) throws(SystemError) {
        let place = try checked(name, "unlinkat")
        guard unlinkat(descriptor.number, name, 0) == 0 || errno == ENOENT else {
            throw SystemError("unlinkat", place)
        }
    }

    /// Removes a file that was made or examined under its name; a missing name is not an error.
    ///
    /// Another user of a shared folder may have given the name to another file meanwhile, which is left alone. The system
    /// removes by name alone: the file that gets the name between the comparison and the removal is one that this user
    /// could have removed by himself.
    ///
    /// - Throws: ``SystemError`` with `ESTALE` where another file has the name.
    package func remove(_ name: String, verifiedAs identity: FileIdentity) throws(SystemError) {
        guard let found = try status(of: name) else { return }
        guard found.identity == identity else { throw SystemError.exchanged("unlinkat", try checked(name, "unlinkat")) }
        try remove(name)
    }

    /// Whether this process may remove a name of the folder: in a folder with the sticky bit only the owner of the file, the
    /// owner of the folder and root may.
    ///
    /// - Parameter user: The user of the process.
    package func permitsRemoval(of file: FileStatus, by user: UInt32 = geteuid()) throws(SystemError) -> Bool {
        let own = try status()
        return own.permissions & 0o1000 == 0 || [0, file.owner, own.owner].contains(user)
    }

    /// The path of a name, if it is a name.
    private func checked(_ name: String, _ call: String) throws(SystemError) -> String {
        guard !name.isEmpty, name != ".", name != "..", !name.utf8.contains(where: { $0 == 0x2F || $0 == 0 }) else {
            throw SystemError(call: call, path: path, errorNumber: EINVAL, detail: "a plain name is needed")
        }
        return path == "/" ? "/\(name)" : "\(path)/\(name)"
    }
}

extension SystemError {
    /// Whether the filesystem does not know the call, as those without hard links do.
    package var isUnsupported: Bool {
        [EPERM, EINVAL, ENOSYS, ENOTSUP, EOPNOTSUPP, EMLINK].contains(errorNumber)
    }
}
