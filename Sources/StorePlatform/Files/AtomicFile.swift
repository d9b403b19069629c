#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Files that appear or change as a whole: whenever the machine stops, the file has the old content or the new one.
///
/// The new content is written to a separate file in the same folder (`<name>.tmp-<pid>-<8 hex digits>`) and synced; the
/// file is renamed, and then the folder is synced. The next writer removes a file that a killed writer has left.
///
/// Each operation opens the folder once and works on names in it. No link is followed there.
/// - SeeAlso: <https://www.sqlite.org/atomiccommit.html> on why both fsyncs are needed.
package enum AtomicFile {
    /// A durable file under a temporary name.
    struct Staged {
        let name: String
        let identity: FileIdentity
    }

    /// Makes `bytes` the durable content of the file at `path`, whether it existed or not.
    ///
    /// - Parameter reference: The file, never opened, whose mode, owner, group and access control list the new one
    ///   gets; without one (or while it does not exist) the new file is its owner's alone (0600).
    /// - Throws: ``SystemError``; the former file is unchanged then, unless the failing call is the folder's `fsync`:
    ///   in that case the new content is in place but may not survive a power failure. `ESTALE` where another user gave
    ///   the temporary name to another file.
    /// - Parameter didReplace: Called when the new content is in place, and before that is durable.
    package static func write(
        _ bytes: [UInt8], to path: String, likeFile reference: String?,
        permissions: UInt32 = FileAttributes.privatePermissions, didReplace: () -> Void = {}
    ) throws(SystemError) {
        let (folder, name) = try open(path)
        let staged = try stage(bytes, in: folder, for: name, likeFile: reference, permissions: permissions)
        CrashPoint.reach(.temporaryFileWritten)
        do throws(SystemError) {
            try requireNamed(staged.name, staged.identity, in: folder)
            try folder.rename(staged.name, to: folder, name)
        } catch {
            try? folder.remove(staged.name)
            throw error
        }
        try requireNamed(name, staged.identity, in: folder)
        didReplace()
        CrashPoint.reach(.fileRenamed)
        try folder.synchronize()
    }

    /// Creates an empty file with the attributes of `reference`, or keeps the one that exists unchanged.
    ///
    /// The file is never visible with other attributes than its final ones, so that processes of another user are not
    /// refused in between.
    ///
    /// - Parameter permissions: The mode while there is no `reference`, independent of the umask.
    package static func createEmpty(
        at path: String, likeFile reference: String?, permissions: UInt32 = FileAttributes.privatePermissions
    ) throws(SystemError) {
        // A file that exists stays, so a link to the folder does no harm.
        let (folder, name) = try open(path, followsLinks: true)
        let staged = try stage([], in: folder, for: name, likeFile: reference, permissions: permissions)
        do throws(SystemError) {
            defer { try? folder.remove(staged.name) }
            try folder.link(staged.name, to: folder, name)
        } catch {
            if error.isAlreadyThere { return }
            guard error.lacksHardLinks else { throw error }
            return try createInPlace(name, in: folder, likeFile: reference, permissions: permissions)
        }
        try folder.synchronize()
    }

    /// The same on a filesystem without hard links: here the file has other attributes for a short moment. A file or a
    /// link that another user has put there stays as it is.
    private static func createInPlace(
        _ name: String, in folder: OpenFolder, likeFile reference: String?, permissions: UInt32
    ) throws(SystemError) {
        do throws(SystemError) {
            let created = try folder.newFile(name)
            try setAttributes(of: created, likeFile: reference, permissions: permissions)
        } catch  where error.isAlreadyThere {
            return
        }
    }

    /// Renames a file in the same folder, durably; a file that had the new name is replaced.
    package static func move(_ path: String, to newPath: String) throws(SystemError) {
        let (folder, newName) = try open(newPath)
        try folder.rename(Files.name(of: path), to: folder, newName)
        try folder.synchronize()
    }

    /// Renames a file that was verified under one name to another one of the same folder, durably: `identity` is the file
    /// that was read.
    ///
    /// Another user of a shared folder may have given the name to another file meanwhile. The system renames by name
    /// alone, so the file is compared before and after.
    ///
    /// - Throws: ``SystemError`` with `ESTALE` where another file has, or got, the name.
    package static func move(
        _ path: String, verifiedAs identity: FileIdentity, to newPath: String
    ) throws(SystemError) {
        let (folder, newName) = try open(newPath)
        try requireNamed(Files.name(of: path), identity, in: folder)
        try folder.rename(Files.name(of: path), to: folder, newName)
        try requireNamed(newName, identity, in: folder)
        OpenedDatabases.note(newPath, identity)
        try folder.synchronize()
    }

    /// Renames a file to a name of its temporary files, which ``removeLeftovers(of:)`` finds and no other code uses.
    ///
    /// - Returns: The new name; nil when there is no such file.
    package static func setAside(_ name: String, in folder: OpenFolder) throws(SystemError) -> String? {
        guard try folder.status(of: name) != nil else { return nil }
        let temporary = LeftoverFiles.newName(for: name)
        try folder.rename(name, to: folder, temporary)
        return temporary
    }

    /// The temporary files of writers of `path`, also of living ones. A folder or a link of such a name is another user's
    /// work: it would end every removal with an error.
    package static func leftovers(of path: String) throws(SystemError) -> [String] {
        let (folder, name) = try open(path)
        return try leftovers(of: name, in: folder).map { LeftoverFiles.file($0, in: folder.path) }
    }

    /// Whether an empty file has no second name but the temporary one that it was made under.
    static func isNew(_ status: FileStatus, at path: String) -> Bool {
        guard status.byteCount == 0, status.linkCount == 2, let (folder, name) = try? open(path, followsLinks: true),
            let names = try? leftovers(of: name, in: folder)
        else { return false }
        return names.contains { ((try? folder.status(of: $0)) ?? nil)?.identity == status.identity }
    }

    private static func leftovers(of base: String, in folder: OpenFolder) throws(SystemError) -> [String] {
        try folder.names(limit: .max)
            .filter { LeftoverFiles.writer(ofName: $0, base: base) != nil }
            .filter { ((try? folder.status(of: $0)) ?? nil)?.kind == .regular }
    }

    /// Removes the temporary files of killed writers of `path`, whatever their age. The caller knows that no process is
    /// writing that file now.
    package static func removeLeftovers(of path: String) throws(SystemError) {
        let (folder, name) = try open(path)
        try removeLeftovers(of: name, in: folder)
    }

    /// As ``removeLeftovers(of:)``, by a name in an open folder.
    package static func removeLeftovers(of name: String, in folder: OpenFolder) throws(SystemError) {
        for leftover in try leftovers(of: name, in: folder) { try folder.remove(leftover) }
    }

    /// Writes a durable file under a temporary name.
    static func stage(
        _ bytes: [UInt8], in folder: OpenFolder, for name: String, likeFile reference: String?,
        permissions: UInt32 = FileAttributes.privatePermissions
    ) throws(SystemError) -> Staged {
        LeftoverFiles.remove(besides: name, in: folder)
        let temporary = LeftoverFiles.newName(for: name)
        let file = try folder.newFile(temporary)
        do {
            try setAttributes(of: file, likeFile: reference, permissions: permissions)
            try file.write(bytes)
            try file.synchronize()
            return Staged(name: temporary, identity: try file.status().identity)
        } catch {
            try? folder.remove(temporary)
            throw error
        }
    }

    private static func setAttributes(
        of file: borrowing FileDescriptor, likeFile reference: String?, permissions: UInt32
    ) throws(SystemError) {
        if let reference, let attributes = try FileAttributes(of: reference) {
            try attributes.apply(to: file)
        } else {
            try file.setPermissions(permissions)
        }
    }

    /// The open folder of a file, and the file's name in it.
    ///
    /// - Parameter followsLinks: Whether the folder's path may end in a link. Callers resolve the links in a store's path
    ///   once; a link that is there afterwards was put in the place of the folder, and leads to files that are not the
    ///   store's.
    private static func open(
        _ path: String, followsLinks: Bool = false
    ) throws(SystemError) -> (folder: OpenFolder, name: String) {
        let folder = try OpenFolder(opening: Files.directory(of: path), followsLinks: followsLinks)
        return (folder, Files.name(of: path))
    }

    /// - Throws: ``SystemError`` with `ESTALE` where the name is not that of the file.
    private static func requireNamed(
        _ name: String, _ identity: FileIdentity, in folder: OpenFolder
    ) throws(SystemError) {
        guard try folder.status(of: name)?.identity == identity else {
            throw SystemError.exchanged("rename", LeftoverFiles.file(name, in: folder.path))
        }
    }
}

extension SystemError {
    /// Whether the filesystem has no hard links.
    fileprivate var lacksHardLinks: Bool { [EPERM, ENOTSUP, ENOSYS].contains(errorNumber) }
}

/// The temporary files of writers that did not finish.
enum LeftoverFiles {
    static func file(_ name: String, in folder: String) -> String { folder == "/" ? "/\(name)" : "\(folder)/\(name)" }

    static func newName(for path: String) -> String {
        let digits = String(UInt32.random(in: .min ... .max), radix: 16)
        let padding = String(repeating: "0", count: 8 - digits.count)
        return "\(path).tmp-\(ProcessInspector.currentProcess)-\(padding)\(digits)"
    }

    /// The process that made a temporary file of `base`, from the file's name; nil when it is not such a file.
    static func writer(ofName name: String, base: String) -> Int32? {
        guard name.hasPrefix(base + ".tmp-") else { return nil }
        let parts = name.dropFirst(base.count + 5).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[1].count == 8, parts[1].allSatisfy(\.isHexDigit) else { return nil }
        return Int32(parts[0])
    }

    /// Whether a temporary file of this age may be removed.
    static func isAbandoned(age: Duration, isWriterAlive: Bool) -> Bool {
        age > PlatformLimits.abandonedFileAge || (age > PlatformLimits.orphanedFileAge && !isWriterAlive)
    }

    /// Removes the files that abandoned writers of a file have left. Failures are ignored.
    static func remove(besides base: String, in folder: OpenFolder) {
        var time = timespec()
        guard clock_gettime(CLOCK_REALTIME, &time) == 0, let names = try? folder.names(limit: .max) else { return }
        let now = Duration.seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
        for name in names {
            guard let writer = writer(ofName: name, base: base) else { continue }
            guard let status = (try? folder.status(of: name)) ?? nil else { continue }
            if isAbandoned(age: now - status.modified, isWriterAlive: ProcessInspector.isAlive(writer)) {
                try? folder.remove(name)
            }
        }
    }
}
