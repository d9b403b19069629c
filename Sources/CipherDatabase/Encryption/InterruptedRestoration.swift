import StorePlatform
import StoreSharing

/// The state that an interrupted restoration leaves. The former files of the store that it replaces have second names
/// in a folder `<database>-replaced-<time>` beside it, and the store cannot be opened until the restoration is run
/// again.
package enum InterruptedRestoration {
    /// The part of the name between the name of the database and the time.
    package static let folderInfix = "-replaced-"

    /// The folder in which the present database has a second name; nil when there is none.
    package static func folder(of paths: StorePaths) throws(SystemError) -> String? {
        guard let identity = try Files.identity(paths.database) else { return nil }
        let parent = Files.directory(of: paths.database)
        let name = Files.name(of: paths.database)
        for found in try Files.names(inDirectory: parent) where found.hasPrefix(name + folderInfix) {
            let folder = parent == "/" ? "/\(found)" : "\(parent)/\(found)"
            if try Files.identity(folder + "/" + name) == identity { return folder }
        }
        return nil
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
