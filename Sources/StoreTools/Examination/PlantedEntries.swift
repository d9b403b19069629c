import CipherDatabase
import CipherStore
import KeyCustody
import StorePlatform
import StoreSharing

/// Entries beside a store that have names of the store's own and that the library does not make: links, folders and pipes
/// in the place of files, and folders of other users in the place of staging folders and kept files.
///
/// Every user who may write in the folder of a store can put them there. The library neither follows nor removes them.
struct PlantedEntries {
    let paths: StorePaths
    /// The entries of the folder whose names begin with that of the database.
    let names: [String]

    private var database: String { Files.name(of: paths.database) }
    private var folder: String { Files.directory(of: paths.database) }

    /// The files that the library makes under a name.
    private enum Made {
        case file
        /// A file whose kind other findings report, unless it is a link to a regular file, or to nothing.
        case reportedFile
        case folder
    }

    /// The names of planted entries, each with its finding.
    func findings() -> [String: Finding] {
        var findings: [String: Finding] = [:]
        for name in names { findings[name] = finding(name) }
        return findings
    }

    private func finding(_ name: String) -> Finding? {
        let path = folder == "/" ? "/\(name)" : "\(folder)/\(name)"
        guard let made = made(name), let status = (try? Files.ownStatus(of: path)) ?? nil else { return nil }
        switch made {
        case .file: return status.kind == .regular ? nil : planted(name, "is not a regular file", path)
        case .reportedFile:
            guard status.isLink, ((try? Files.kind(path)) ?? .regular) == .regular else { return nil }
            return planted(name, "is a link", path)
        case .folder:
            guard status.kind == .directory else { return planted(name, "is not a folder", path) }
            if status.permissions & 0o022 != 0 { return planted(name, "is a folder that others may write", path) }
            let owners = [0, ProcessInspector.effectiveUser, ((try? Files.status(of: paths.database)) ?? nil)?.owner]
            guard owners.contains(status.owner) else {
                return Finding(
                    .note, "foreignFolder",
                    "\"\(name)\" is a folder of user \(status.owner) with a name of the store's own",
                    remedy: "ask that user whether one of their commands has left it")
            }
            return nil
        }
    }

    private func planted(_ name: String, _ what: String, _ path: String) -> Finding {
        Finding(
            .risk, "planted", "\"\(name)\" has a name of the store's own and \(what): the library did not make it",
            remedy: "find out who put \(ShellWord.path(path)) there, and move it away: nothing follows or removes it")
    }

    private func made(_ name: String) -> Made? {
        let ending = String(name.dropFirst(database.count))
        if ["-sidecar", "-sidecar.bak", "-lock", "-keylog"].contains(ending) { return .reportedFile }
        if ["-notify", "-restoring", "-destroying", "-keylog.1"].contains(ending) { return .file }
        if ending.hasPrefix("-sidecar"), ending.hasSuffix(".damaged") { return .file }
        if ending.hasPrefix("-wal-damaged") { return .file }
        if ending.hasPrefix("-"), ending.contains(".tmp-") { return .file }
        if ending.hasPrefix(".sqlcipher"), ["1", "2", "3"].contains(ending.dropFirst(10)) { return .file }
        if ending.hasPrefix(InterruptedRestoration.folderInfix) { return .folder }
        return StagingPurpose.allCases.contains { StagingDirectory.owner(ofName: name, $0)?.target == database }
            ? .folder : nil
    }
}
