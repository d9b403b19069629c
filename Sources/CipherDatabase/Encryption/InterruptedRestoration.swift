import StorePlatform
import StoreSharing

/// The state that an interrupted restoration leaves. The former files of the store that it replaces have second names
/// in a folder `<database>-replaced-<time>` beside it, and the store cannot be opened until the restoration is run
/// again.
package enum InterruptedRestoration {
    /// The part of the name between the name of the database and the time.
    package static let folderInfix = "-replaced-"

    /// The folder in which the present database has a second name; nil when there is none.
    ///
    /// A link to the database in a folder that another user has put there is no second name.
    ///
    /// It opens no file, so that a message can name the folder while the system refuses to open files.
    package static func folder(of paths: StorePaths) throws(SystemError) -> String? {
        guard let database = try Files.ownStatus(of: paths.database), database.kind == .regular else { return nil }
        let parent = Files.directory(of: paths.database)
        let name = Files.name(of: paths.database)
        return try Files.names(inDirectory: parent).filter { $0.hasPrefix(name + folderInfix) }
            .map { parent == "/" ? "/\($0)" : "\(parent)/\($0)" }
            .first { folder in
                guard let status = (try? Files.ownStatus(of: folder)) ?? nil, status.kind == .directory,
                    isCredible(status, owner: database.owner)
                else { return false }
                return ((try? Files.ownStatus(of: folder + "/" + name)) ?? nil)?.identity == database.identity
            }
    }

    /// The same folder, open, if it is this user's alone: so no other user can have put the second name there.
    package static func openPrivateFolder(of paths: StorePaths) throws(SystemError) -> OpenFolder? {
        guard let database = try Files.ownStatus(of: paths.database), database.kind == .regular else { return nil }
        let parent = Files.directory(of: paths.database)
        let name = Files.name(of: paths.database)
        let open = try OpenFolder(opening: parent)
        for found in try Files.names(inDirectory: parent) where found.hasPrefix(name + folderInfix) {
            // One that cannot be read, and a link to one, is not the work of a restoration of this user.
            guard let folder = (try? open.folder(found)) ?? nil, folder.isPrivate,
                ((try? folder.status(of: name)) ?? nil)?.identity == database.identity
            else { continue }
            return folder
        }
        return nil
    }

    /// Whether a restoration can have made a folder: one of root, of the owner of the database or of this user, that no
    /// other user may write.
    private static func isCredible(_ folder: FileStatus, owner: UInt32) -> Bool {
        [0, owner, ProcessInspector.effectiveUser].contains(folder.owner) && folder.permissions & 0o022 == 0
    }

    /// The error for a program that opens such a store.
    ///
    /// - Parameter code: The code of the error by which it was noticed.
    /// - Returns: nil when there is no sign of a restoration.
    package static func error(_ code: StoreError.Code, _ paths: StorePaths) -> StoreError? {
        guard let folder = (try? folder(of: paths)) ?? nil else { return nil }
        return StoreError(
            code, what: "\"\(paths.database)\" cannot be opened: a restoration of it was interrupted, or is running.",
            why: "Its former files are complete in \"\(folder)\". Not all of the restored files are in their places.",
            remedy: "Run the restoration again with `cipherctl restore DIR STORE --replace` (SharedStore.restore in a "
                + "program): it resumes. To return to the former store instead, move the files of that folder back to "
                + "their former places.")
    }
}
