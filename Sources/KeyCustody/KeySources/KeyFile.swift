import StoreCrypto
import StorePlatform
import StoreSharing

/// Reads files that contain keys.
package enum KeyFile {
    /// Permissions that the group and others must not have on a key file: reading and writing.
    private static let forbiddenPermissions: UInt32 = 0o066
    /// The same for a named pipe: only its reader gets the key, but each writer can give another one.
    private static let forbiddenPipePermissions: UInt32 = 0o022

    /// The bytes of a key file, which may be a pipe.
    ///
    /// - Parameters:
    ///   - checkingPermissions: Whether a regular file is refused if its group or others may read or write it, a named pipe
    ///     if they may write it, and both if they belong to a user who is neither that of this process nor root.
    ///     Credentials of systemd are not checked: systemd gives services access by an access control list, which
    ///     appears as a permission of the group.
    ///   - isForStore: Whether it opens the store, so that the remedy may name a descriptor in its place.
    ///   - wait: The longest time until a pipe has delivered everything.
    /// - Throws: `StoreError` `invalidKey` for such a file or one longer than 64 KiB, `keyMissing` for a pipe without a
    ///   writer; ``SystemError``.
    package static func contents(
        of path: String, checkingPermissions: Bool, isForStore: Bool = true, wait: Duration? = nil
    ) throws -> WipedBuffer {
        if checkingPermissions {
            do {
                try OtherUserLink.refuse(path)
            } catch let error as StoreError {
                throw StoreError(
                    .invalidKey, what: "The key file \"\(path)\" is reached by a link of another user.", why: error.why,
                    remedy: "Give the path of the file itself. If a key was taken by this path before, change it.")
            }
        }
        let file = try FileDescriptor(opening: path, .readOnly, waitsForWriter: false)
        // The status of the open file, so that the file cannot be replaced between the check and the reading.
        let status = try file.status()
        if checkingPermissions, status.kind == .regular, status.permissions & forbiddenPermissions != 0 {
            throw StoreError(
                .invalidKey, what: "The key file \"\(path)\" is not private to its owner.",
                why: "Its group or others may read or write it (mode \(String(status.permissions, radix: 8))).",
                remedy: "Run: chmod 600 \(ShellWord.path(path)). If others have seen it, change the key. "
                    + "In a container that mounts it with another mode, "
                    + (isForStore ? "give it as a descriptor: --key-fd 3 3< \(ShellWord.path(path)); or " : "")
                    + "copy it into memory first: install -m 600 \(ShellWord.path(path)) /dev/shm/key")
        }
        // A pipe without a name was handed over by the program that started this one.
        let isNamedPipe = status.isPipe && !file.isUnnamedPipe
        if checkingPermissions, status.kind == .regular || isNamedPipe { try requireOwner(status.owner, path) }
        if checkingPermissions, isNamedPipe, status.permissions & forbiddenPipePermissions != 0 {
            throw StoreError(
                .invalidKey, what: "The key pipe \"\(path)\" is not private to its owner.",
                why:
                    "Its group or others may write another key into it (mode \(String(status.permissions, radix: 8))).",
                remedy: "Run: chmod 600 \(ShellWord.path(path)).")
        }
        if status.isPipe { return try contents(of: file, wait: wait ?? CustodyLimits.keyPipeWait) }
        try file.waitFromNowOn()
        return try contents(of: file)
    }

    /// The owner of the file could read what is encrypted under the key, and replace the key with another.
    private static func requireOwner(_ owner: UInt32, _ path: String) throws(StoreError) {
        let user = ProcessInspector.effectiveUser
        guard owner != user, owner != 0 else { return }
        throw StoreError(
            .invalidKey, what: "The key file \"\(path)\" belongs to another user.",
            why: "Its owner is user \(owner), and this process runs as user \(user).",
            remedy: "Run as its owner, or run: chown \(user) \(ShellWord.path(path)). If its owner must not know the "
                + "key, change it."
        )
    }

    /// Reads a descriptor to its end.
    ///
    /// - Parameter wait: The longest time for that; nil for no limit.
    /// - Throws: `StoreError` `invalidKey` when there are more than 64 KiB, `keyMissing` when it takes too long;
    ///   ``SystemError``.
    static func contents(of file: borrowing FileDescriptor, wait: Duration? = nil) throws -> WipedBuffer {
        var buffer = WipedBuffer(capacity: CustodyLimits.keySourceBytes + 1)
        let deadline = wait.map { ContinuousClock.now + $0 }
        repeat {
            if let wait, let deadline, !file.waitUntilReadable(deadline: deadline) { throw silent(file.path, wait) }
        } while try buffer.append(readingFrom: file) > 0
        guard buffer.count <= CustodyLimits.keySourceBytes else {
            throw StoreError(
                .invalidKey, what: "The key in \"\(file.path)\" is too long.", why: "It has more than 64 KiB.",
                remedy: "Check that this is the key file.")
        }
        return buffer
    }

    private static func silent(_ path: String, _ wait: Duration) -> StoreError {
        StoreError(
            .keyMissing, what: "The pipe \"\(path)\" gave no key.",
            why: "Nothing was written to it, or the writer did not close it, within \(CountText.seconds(wait)).",
            remedy: "Check who writes to it, or give the key in another way.")
    }
}
