import StorePlatform

/// A symbolic link that another user has put in the place of a store, a repository or a file to write, or of a folder above
/// it.
///
/// The files of a store are beside the target of a link, and those of a repository in it. Another member of the group of a
/// shared folder could so make a command create, change or remove files in a folder that is its caller's alone.
/// - SeeAlso: <https://docs.kernel.org/admin-guide/sysctl/fs.html#protected-symlinks>, the same rule for `/tmp`.
package enum OtherUserLink {
    /// As many links as the kernel follows.
    private static let mostLinks = 40

    /// Refuses a path with a link in it, unless root, this user or the owner of the link's folder has made the link. The path
    /// to which such a link leads is examined as well.
    ///
    /// - Throws: ``StoreError`` `storeName`; ``SystemError``.
    package static func refuse(_ path: String) throws {
        var count = 0
        try refuse(path, of: path, &count)
    }

    private static func refuse(_ path: String, of whole: String, _ count: inout Int) throws {
        var prefix = path.hasPrefix("/") ? "/" : ""
        for name in path.split(separator: "/") {
            prefix += (prefix.isEmpty || prefix.hasSuffix("/") ? "" : "/") + name
            guard try isLink(prefix, of: whole) else { continue }
            guard let target = Files.linkTarget(of: prefix) else { throw exchanged(prefix) }
            count += 1
            // A longer chain leads nowhere.
            guard count <= mostLinks else { return }
            try refuse(
                target.hasPrefix("/") ? target : Files.directory(of: prefix) + "/" + target, of: whole, &count)
        }
    }

    private static func exchanged(_ path: String) -> StoreError {
        StoreError(
            .storeName, what: "\"\(path)\" cannot be followed.",
            why: "It was a symbolic link of this user, and another process exchanged it while this one examined it.",
            remedy: "Find out who changes this folder, then try again. Nothing was changed.")
    }

    /// - Returns: Whether it is a link that may be followed.
    private static func isLink(_ path: String, of whole: String) throws -> Bool {
        guard let link = try Files.ownStatus(of: path), link.isLink else { return false }
        guard Files.isOfOtherUser(link, in: Files.directory(of: path)) else { return true }
        let other = path == whole ? "the path of the file or folder itself" : "a path without it"
        throw StoreError(
            .storeName, what: "\"\(path)\" is a symbolic link of another user.",
            why: "User \(link.owner), who owns neither the folder nor the process, made it and may lead the process to "
                + "any file.",
            remedy: "Find out where it leads, then remove it, or give \(other). Nothing was changed.")
    }
}
