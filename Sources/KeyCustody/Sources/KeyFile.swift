import StoreCrypto
import StorePlatform

/// Files that hold keys.
enum KeyFile {
    /// What group and others may not do with a key file: read or write it.
    private static let forbiddenPermissions: UInt32 = 0o066

    /// The bytes of a key file, which may be a pipe.
    ///
    /// - Parameter checkingPermissions: Whether a regular file that its group or others may read or write is refused.
    ///   Credentials of systemd are not checked: it gives services access by an access control list, which looks
    ///   like the group's permission.
    /// - Throws: `StoreError` `invalidKey` for such a file or one longer than 64 KiB; ``SystemError``.
    static func contents(of path: String, checkingPermissions: Bool) throws -> WipedBuffer {
        let file = try FileDescriptor(opening: path, .readOnly)
        // Asked of the open file, so that it cannot be exchanged in between.
        let status = try file.status()
        if checkingPermissions, status.kind == .regular, status.permissions & forbiddenPermissions != 0 {
            throw StoreError(
                .invalidKey, what: "The key file \"\(path)\" is not its owner's alone.",
                why: "Its group or others may read or write it (mode \(String(status.permissions, radix: 8))).",
                remedy: "Run: chmod 600 '\(path)'. If others have seen it, change the key.")
        }
        return try contents(of: file)
    }

    /// Reads a descriptor to its end.
    ///
    /// - Throws: `StoreError` `invalidKey` when there are more than 64 KiB; ``SystemError``.
    static func contents(of file: borrowing FileDescriptor) throws -> WipedBuffer {
        var buffer = WipedBuffer(capacity: Limits.keySourceBytes + 1)
        while try buffer.append(readingFrom: file) > 0 {}
        guard buffer.count <= Limits.keySourceBytes else {
            throw StoreError(
                .invalidKey, what: "The key in \"\(file.path)\" is too long.", why: "It has more than 64 KiB.",
                remedy: "Check that this is the key file.")
        }
        return buffer
    }
}
