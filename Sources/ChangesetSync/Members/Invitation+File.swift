import CipherStore
import StoreCrypto
import StorePlatform

/// Invitations in files.
extension Invitation {
    /// Reads a file. No key is needed for that.
    ///
    /// - Throws: ``MemberError`` `.notAnInvitation`, also for what is no regular file, `.newerInvitation`,
    ///   `.damagedInvitation`; `SystemError`.
    public init(contentsOf path: String) throws {
        if let kind = try Files.kind(path), kind != .regular { throw MemberError.notAnInvitation }
        let bytes: [UInt8]
        do throws(SystemError) {
            bytes = try Files.contents(of: path, limitBytes: Self.limitBytes)
        } catch {
            if error.isTooLarge { throw MemberError.notAnInvitation }
            throw error
        }
        try self.init(bytes: bytes)
    }

    /// Writes a new file, which its owner alone may read (0600). It appears as a whole, and is durable.
    ///
    /// - Throws: ``MemberError`` `.invitationExists`: an invitation replaces no file; `StoreError` `storeName` where its folder
    ///   lies behind a symbolic link of another user; `SystemError`.
    public func write(to path: String) throws {
        try OtherUserLink.refuse(Files.directory(of: path))
        let folder = try OpenFolder(opening: Files.directory(of: path))
        let name = Files.name(of: path)
        if try folder.status(of: name) != nil { throw MemberError.invitationExists }
        let digits = try SystemRandom.bytes(8).map { String($0, radix: 16) }.joined()
        let temporary = ".\(name).tmp-\(digits)"
        do throws(SystemError) {
            let mode = FileAttributes.privatePermissions
            let file = try FileDescriptor(
                opening: folder.path + "/" + temporary, .writeOnly, creating: .always(permissions: mode))
            // Restores what the umask removed.
            try file.setPermissions(mode)
            try file.write(bytes)
            try file.synchronize()
            // It keeps the temporary name too where the filesystem has hard links.
            defer { try? folder.remove(temporary) }
            try folder.place(temporary, in: folder, name)
            try folder.synchronize()
        } catch {
            try? folder.remove(temporary)
            if error.isAlreadyThere { throw MemberError.invitationExists }
            throw error
        }
    }
}
