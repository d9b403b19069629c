import StorePlatform

/// A symbolic link that another user has put in the place of a store, or of a folder above it.
///
/// The files of a store are beside the target of a link. Another member of the group of a shared folder could so make a
/// command create, change or remove files in a folder that is its caller's alone.
/// - SeeAlso: <https://docs.kernel.org/admin-guide/sysctl/fs.html#protected-symlinks>, the same rule for `/tmp`.
package enum OtherUserLink {
    /// Refuses a path with a link in it, unless root, this user or the owner of the link's folder has made the link.
    ///
    /// - Throws: ``StoreError`` `storeName`; ``SystemError``.
    package static func refuse(_ path: String) throws {
        var prefix = path.hasPrefix("/") ? "/" : ""
        for name in path.split(separator: "/") {
            prefix += (prefix.isEmpty || prefix.hasSuffix("/") ? "" : "/") + name
            try refuseLast(prefix, of: path)
        }
    }

    private static func refuseLast(_ path: String, of whole: String) throws {
        guard let link = try Files.ownStatus(of: path), Files.isOfOtherUser(link, in: Files.directory(of: path)) else {
            return
        }
        let other = path == whole ? "the path of the store itself" : "a path without it"
        throw StoreError(
            .storeName, what: "\"\(path)\" is a symbolic link of another user.",
            why: "User \(link.owner), who owns neither the folder nor the process, made it and may lead the process to "
                + "any file.",
            remedy: "Find out where it leads, then remove it, or give \(other). Nothing was changed.")
    }
}
