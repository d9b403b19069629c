/// A name that this process gave to a file, or found on a file that it has proved to be its own.
///
/// It is removed through the folder that was open then, and only while it names that file: another user of a shared folder
/// may exchange the folder and the name.
package struct OwnedName: Sendable {
    private let folder: OpenFolder
    private let name: String
    package let identity: FileIdentity

    package init(_ name: String, in folder: OpenFolder, of identity: FileIdentity) {
        (self.folder, self.name, self.identity) = (folder, name, identity)
    }

    /// The name as it is now; nil where it names no regular file. The caller proves afterwards that the file is its own.
    package init?(at path: String) throws(SystemError) {
        let folder = try OpenFolder(opening: Files.directory(of: path), followsLinks: false)
        let name = Files.name(of: path)
        guard let status = try folder.status(of: name), status.kind == .regular else { return nil }
        self.init(name, in: folder, of: status.identity)
    }

    /// Removes the name; a missing one is not an error.
    ///
    /// - Throws: ``SystemError`` with `ESTALE` where another file has the name.
    package func remove() throws(SystemError) { try folder.remove(name, verifiedAs: identity) }
}
