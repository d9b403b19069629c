#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Files that appear or change as a whole: whenever the machine stops, the old content or the new one is there.
///
/// The new content is written to a file of its own in the same folder (`<name>.tmp-<pid>-<8 hex digits>`), made
/// durable, given its name, and then the folder is made durable. A file left by a writer that was killed is removed by
/// the next one.
/// - SeeAlso: <https://www.sqlite.org/atomiccommit.html> on why both synchronizations are needed.
package enum AtomicFile {
    /// Makes `bytes` the durable content of the file at `path`, whether it existed or not.
    ///
    /// - Parameter reference: The file, never opened, whose mode, owner, group and access control list the new one
    ///   takes; without one (or while it does not exist) the new file is its owner's alone (0600).
    /// - Throws: ``SystemError``; the former file is unchanged then, unless the failing call is the folder's `fsync`:
    ///   in that case the new content is in place but may not survive a power cut.
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

    /// Makes an empty file with the attributes of `reference`, or leaves the one that is there alone.
    ///
    /// It never shows the file with other attributes than its final ones, so that processes of another user are not
    /// turned away in between.
    ///
    /// - Parameter permissions: What it has while there is no `reference`, whatever the umask is.
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
            // A filesystem without hard links: the short moment with other attributes is taken instead.
            let created = try FileDescriptor(
                opening: path, .readWrite, creating: .ifMissing(permissions: FileAttributes.privatePermissions))
            try setAttributes(of: created, likeFile: reference, permissions: permissions)
        } else if !failure.isAlreadyThere {
            throw failure
        }
    }

    /// Gives a file another name in the same folder, durably; a file that had that name is replaced.
    package static func move(_ path: String, to newPath: String) throws(SystemError) {
        guard rename(path, newPath) == 0 else { throw SystemError("rename", path) }
        try Files.synchronize(directory: Files.directory(of: newPath))
    }

    /// Gives a file the name of a temporary file of it, which ``removeLeftovers(of:)`` finds, and nobody else uses.
    ///
    /// - Returns: That name; nil when there is no such file.
    package static func setAside(_ path: String) throws(SystemError) -> String? {
        guard try Files.entryExists(path) else { return nil }
        let temporary = LeftoverFiles.newName(for: path)
        guard rename(path, temporary) == 0 else { throw SystemError("rename", path) }
        return temporary
    }

    /// The temporary files of writers of `path`, of living ones as well.
    package static func leftovers(of path: String) throws(SystemError) -> [String] {
        let folder = Files.directory(of: path)
        return try Files.names(inDirectory: folder)
            .filter { LeftoverFiles.writer(ofName: $0, base: Files.name(of: path)) != nil }
            .map { LeftoverFiles.file($0, in: folder) }
    }

    /// Removes the temporary files of writers of `path` that were killed, however young they are. Whoever calls knows that
    /// nobody is writing that file now.
    package static func removeLeftovers(of path: String) throws(SystemError) {
        for leftover in try leftovers(of: path) { try Files.remove(leftover) }
    }

    /// Writes a durable file under a name of its own and returns that name.
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

/// The temporary files of writers that never came to their end.
enum LeftoverFiles {
    static func file(_ name: String, in folder: String) -> String { folder == "/" ? "/\(name)" : "\(folder)/\(name)" }

    static func newName(for path: String) -> String {
        let digits = String(UInt32.random(in: .min ... .max), radix: 16)
        let padding = String(repeating: "0", count: 8 - digits.count)
        return "\(path).tmp-\(ProcessInspector.currentProcess)-\(padding)\(digits)"
    }

    /// The process that made a temporary file of `base`, by the file's name; nil when it is no such file.
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

    /// Removes what abandoned writers of `path` left. Failures are nobody's concern here.
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
            guard let status = try? Files.status(of: leftover) else { continue }
            if isAbandoned(age: now - status.modified, isWriterAlive: ProcessInspector.isAlive(writer)) {
                try? Files.remove(leftover)
            }
        }
    }
}
