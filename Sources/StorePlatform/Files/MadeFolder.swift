/// A folder that this process made, and removes with all that is in it.
///
/// Another user who may write in its parent can give its name to another folder, for example to a private one of this user.
/// So it is opened once, when it has proved to be new, and removed through that descriptor: a folder that got its name is
/// left alone, and keeps its content.
package final class MadeFolder: Sendable {
    /// The path by which it was made.
    package let path: String
    package let folder: OpenFolder
    private let parent: OpenFolder
    private let name: String

    /// Makes a folder that is its owner's alone; the name must not be taken.
    ///
    /// - Throws: ``SystemError``, with `ESTALE` where another folder got the name.
    package init(_ path: String) throws(SystemError) {
        let parent = try OpenFolder(opening: Files.directory(of: path))
        let name = Files.name(of: path)
        try parent.createFolder(name)
        do throws(SystemError) {
            guard let folder = try parent.folder(name) else { throw SystemError.exchanged("openat", path) }
            try folder.makePrivate()
            self.folder = folder
        } catch {
            // Only an empty folder is removed.
            if !error.isStale { try? parent.removeFolder(name) }
            throw error
        }
        self.path = path
        self.parent = parent
        self.name = name
    }

    /// Refuses a file that a library has opened by its path, unless it is the file of this folder.
    ///
    /// - Throws: ``SystemError`` with `ESTALE`.
    package func requireOpened(_ name: String) throws(SystemError) {
        guard folder.isNamed(self.name, in: parent), let file = try folder.status(of: name), file.kind == .regular,
            OpenFolder.hasOpened(file.identity) ?? true
        else { throw SystemError.exchanged("open", "\(path)/\(name)") }
    }

    /// Removes it with its files and folders. Its name is removed only while it is that of this folder.
    ///
    /// - Returns: Whether nothing of it is left.
    @discardableResult
    package func remove() -> Bool {
        // A thread that still works in it may make a file meanwhile.
        for _ in 0..<PlatformLimits.folderRemovals {
            folder.removeContents()
            guard folder.isNamed(name, in: parent) else { return false }
            if (try? parent.removeFolder(name)) != nil { return true }
        }
        return false
    }
}

extension OpenFolder {
    /// Removes all files and folders in a folder that only this user may write. No link is followed.
    fileprivate func removeContents(depth: Int = 0) {
        for name in (try? names(limit: PlatformLimits.madeNames)) ?? [] {
            // The names in a private folder are this user's work.
            if depth < PlatformLimits.madeDepth, let inner = (try? folder(name)) ?? nil {
                inner.removeContents(depth: depth + 1)
                try? removeFolder(name)
            } else {
                try? remove(name)
            }
        }
    }
}
