#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Files that appear or change as a whole: whenever the machine stops, the file has the old content or the new one.
///
/// The new content is written to a separate file in the same folder (`<name>.tmp-<pid>-<8 hex digits>`) and synced; the
/// file is renamed, and then the folder is synced. The next writer removes a file that a killed writer has left.
/// - SeeAlso: <https://www.sqlite.org/atomiccommit.html> on why both fsyncs are needed.
package enum AtomicFile {
    /// Makes `bytes` the durable content of the file at `path`, whether it existed or not.
    ///
    /// - Parameter reference: The file, never opened, whose mode, owner, group and access control list the new one
    ///   gets; without one (or while it does not exist) the new file is its owner's alone (0600).
    /// - Throws: ``SystemError``; the former file is unchanged then, unless the failing call is the folder's `fsync`:
    ///   in that case the new content is in place but may not survive a power failure.
    /// - Parameter didReplace: Called when the new content is in place, and before that is durable.
    package static func write(
        _ bytes: [UInt8], to path: String, likeFile reference: String?, didReplace: () -> Void = {}
    ) throws(SystemError) {
        let temporary = try stage(bytes, for: path, likeFile: reference)
        CrashPoint.reach(.temporaryFileWritten)
        guard rename(temporary, path) == 0 else {
            let failure = SystemError("rename", path)
            try? Files.remove(temporary)
            throw failure
        }
        didReplace()
        CrashPoint.reach(.fileRenamed)
        try Files.synchronize(directory: Files.directory(of: path))
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
        let temporary = try stage([], for: path, likeFile: reference, permissions: permissions)
        let result = link(temporary, path)
        let failure = SystemError("link", path)
        try? Files.remove(temporary)
        if result == 0 {
            try Files.synchronize(directory: Files.directory(of: path))
        } else if [EPERM, ENOTSUP, ENOSYS].contains(failure.errorNumber) {
            try createInPlace(path, likeFile: reference, permissions: permissions)
        } else if !failure.isAlreadyThere {
            throw failure
        }
    }

    /// The same on a filesystem without hard links: here the file has other attributes for a short moment. A file or a
    /// link that another user has put there stays as it is.
    private static func createInPlace(
        _ path: String, likeFile reference: String?, permissions: UInt32
    ) throws(SystemError) {
        do throws(SystemError) {
            let created = try FileDescriptor(
                opening: path, .readWrite, creating: .always(permissions: FileAttributes.privatePermissions))
            try setAttributes(of: created, likeFile: reference, permissions: permissions)
        } catch  where error.isAlreadyThere {
            return
        }
    }

    /// Renames a file in the same folder, durably; a file that had the new name is replaced.
    package static func move(_ path: String, to newPath: String) throws(SystemError) {
        guard rename(path, newPath) == 0 else { throw SystemError("rename", path) }
        try Files.synchronize(directory: Files.directory(of: newPath))
    }

    /// Renames a file that was verified under one name to another one, durably: `identity` is the file that was read.
    ///
    /// Another user of a shared folder may have given the name to another file meanwhile. The system renames by name
    /// alone, so the file is compared before and after.
    ///
    /// - Throws: ``SystemError`` with `ESTALE` where another file has, or got, the name.
    package static func move(
        _ path: String, verifiedAs identity: FileIdentity, to newPath: String
    ) throws(SystemError) {
        guard try Files.ownStatus(of: path)?.identity == identity else { throw SystemError.stale("rename", path) }
        guard rename(path, newPath) == 0 else { throw SystemError("rename", path) }
        guard try Files.ownStatus(of: newPath)?.identity == identity else { throw SystemError.stale("rename", newPath) }
        try Files.synchronize(directory: Files.directory(of: newPath))
    }

    /// Renames a file to a name of its temporary files, which ``removeLeftovers(of:)`` finds and no other code uses.
    ///
    /// - Returns: The new name; nil when there is no such file.
    package static func setAside(_ path: String) throws(SystemError) -> String? {
        guard try Files.entryExists(path) else { return nil }
        let temporary = LeftoverFiles.newName(for: path)
        guard rename(path, temporary) == 0 else { throw SystemError("rename", path) }
        return temporary
    }

    /// The temporary files of writers of `path`, also of living ones. A folder or a link of such a name is another user's
    /// work: it would end every removal with an error.
    package static func leftovers(of path: String) throws(SystemError) -> [String] {
        let folder = Files.directory(of: path)
        return try Files.names(inDirectory: folder)
            .filter { LeftoverFiles.writer(ofName: $0, base: Files.name(of: path)) != nil }
            .map { LeftoverFiles.file($0, in: folder) }
            .filter { ((try? Files.ownStatus(of: $0)) ?? nil)?.kind == .regular }
    }

    /// Removes the temporary files of killed writers of `path`, whatever their age. The caller knows that no process is
    /// writing that file now.
    package static func removeLeftovers(of path: String) throws(SystemError) {
        for leftover in try leftovers(of: path) { try Files.remove(leftover) }
    }

    /// Writes a durable file under a temporary name and returns that name.
    static func stage(
        _ bytes: [UInt8], for path: String, likeFile reference: String?,
        permissions: UInt32 = FileAttributes.privatePermissions
    ) throws(SystemError) -> String {
        LeftoverFiles.remove(besides: path)
        let temporary = LeftoverFiles.newName(for: path)
        let file = try FileDescriptor(
            opening: temporary, .writeOnly, creating: .always(permissions: FileAttributes.privatePermissions))
        do {
            try setAttributes(of: file, likeFile: reference, permissions: permissions)
            try file.write(bytes)
            try file.synchronize()
        } catch {
            try? Files.remove(temporary)
            throw error
        }
        return temporary
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
        age > Limits.abandonedFileAge || (age > Limits.orphanedFileAge && !isWriterAlive)
    }

    /// Removes the files that abandoned writers of `path` have left. Failures are ignored.
    static func remove(besides path: String) {
        let folder = Files.directory(of: path)
        let base = Files.name(of: path)
        var time = timespec()
        guard clock_gettime(CLOCK_REALTIME, &time) == 0, let names = try? Files.names(inDirectory: folder) else {
            return
        }
        let now = Duration.seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
        for name in names {
            guard let writer = writer(ofName: name, base: base) else { continue }
            let leftover = file(name, in: folder)
            guard let status = try? Files.ownStatus(of: leftover) else { continue }
            if isAbandoned(age: now - status.modified, isWriterAlive: ProcessInspector.isAlive(writer)) {
                try? Files.remove(leftover)
            }
        }
    }
}
