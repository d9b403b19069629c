import CipherStore
import KeyCustody
import StorePlatform
import StoreSharing

/// The users that may use the files of a store.
package struct FilePermissions {
    let paths: StorePaths

    /// The files, with their names in findings.
    private var files: [(noun: String, path: String)] {
        let own = [("database", paths.database), ("sidecar", paths.sidecar)]
        // Other files in the folder of a backup are no part of it.
        if BackupBundle(holding: paths.database) != nil { return own }
        return own + [
            ("second copy of the sidecar", paths.sidecarBackup),
            ("lock file", paths.lock), ("key log", KeyLog(databasePath: paths.database).path),
            ("WAL", paths.wal), ("shared memory", paths.sharedMemory), ("rollback journal", paths.journal),
        ]
    }

    /// The files that are there.
    private var statuses: [(noun: String, path: String, FileStatus)] {
        files.compactMap { file in Self.status(of: file.path, paths).map { (file.noun, file.path, $0) } }
    }

    /// The status of a file of a store; nil where it is missing. SQLite follows no link in the place of its own files,
    /// and this library none in the place of the lock file and of the key log.
    package static func status(of path: String, _ paths: StorePaths) -> FileStatus? {
        let log = KeyLog(databasePath: paths.database)
        let unlinked = [paths.wal, paths.sharedMemory, paths.journal, paths.lock, log.path]
        return (try? unlinked.contains(path) ? Files.ownStatus(of: path) : Files.status(of: path)) ?? nil
    }

    /// A thing that has the name of a file and is none: SQLite cannot use it.
    func kindFindings() -> [Finding] {
        statuses.compactMap { Self.kindFinding(noun: $0.0, path: $0.1, $0.2) } + linkFindings()
    }

    /// Symbolic links that lead to nothing, and so have no status.
    private func linkFindings() -> [Finding] {
        files.filter { file in
            Self.status(of: file.path, paths) == nil && (try? Files.entryExists(file.path)) == true
        }.map { Self.notRegular(noun: $0.noun, path: $0.path) }
    }

    private static func kindFinding(noun: String, path: String, _ status: FileStatus) -> Finding? {
        status.kind == .regular ? nil : notRegular(noun: noun, path: path)
    }

    private static func notRegular(noun: String, path: String) -> Finding {
        Finding(
            .problem, "notRegular",
            "the \(noun) \"\(path)\" is not a regular file, but a link, a folder, a pipe or a device",
            remedy:
                "find out who made it, and \(Finding.moving(path)); the next opening for writing makes the file again"
                + (noun.contains("sidecar") ? " if the other copy of the sidecar is sound" : ""))
    }

    func findings() -> [Finding] {
        let statuses = statuses
        var findings = statuses.flatMap { Self.findings(noun: $0.0, path: $0.1, $0.2) }
        findings += linkFindings() + directoryFindings()
        let readable = statuses.filter { $0.2.permissions & 0o004 != 0 && $0.2.kind == .regular }.map(\.0)
        if readable.contains("database") {
            findings.append(
                Finding(
                    .note, "othersMayRead",
                    "every user of the machine may read: \(readable.joined(separator: ", ")); with the database and "
                        + "the sidecar, passphrases can be tried without limit",
                    remedy: "chmod o-r where only one user or group uses the store"))
        }
        guard let database = statuses.first(where: { $0.0 == "database" })?.2 else { return findings }
        let regular = statuses.filter { $0.2.kind == .regular }
        findings += regular.compactMap { Self.wider(noun: $0.0, path: $0.1, $0.2, than: database) }
        let others = regular.filter { $0.0 != "database" }.filter {
            $0.2.owner != database.owner || $0.2.group != database.group
                || $0.2.permissions & 0o666 != database.permissions & 0o666
        }
        if !others.isEmpty {
            findings.append(
                Finding(
                    .note, "attributesDiffer",
                    "owner, group or mode of the database is not that of: \(others.map(\.0).joined(separator: ", "))",
                    remedy: "users who may use the one and not the other get errors: give all the same"))
        }
        return findings
    }

    private static func findings(noun: String, path: String, _ status: FileStatus) -> [Finding] {
        if let finding = kindFinding(noun: noun, path: path, status) { return [finding] }
        let mode = String(status.permissions & 0o777, radix: 8)
        if status.permissions & 0o002 != 0 {
            return [
                Finding(
                    .risk, "othersMayWrite", "every user of the machine may write the \(noun) (mode \(mode))",
                    remedy: oddity(path) ?? "chmod o-w \(ShellWord.path(path))")
            ]
        }
        return []
    }

    /// A file that admits a user whom the database does not. For the sidecar that is enough to try passphrases.
    private static func wider(noun: String, path: String, _ status: FileStatus, than database: FileStatus) -> Finding? {
        let more = status.permissions & 0o066 & ~database.permissions
        guard more != 0 else { return nil }
        let (mode, wanted) = (
            String(status.permissions & 0o777, radix: 8), String(database.permissions & 0o666, radix: 8)
        )
        return Finding(
            more & 0o006 != 0 ? .risk : .note, "widerThanDatabase",
            "\(more & 0o006 != 0 ? "every user of the machine" : "its group") may do more with the \(noun) than with the "
                + "database (mode \(mode) instead of \(wanted))",
            remedy: oddity(path) ?? "chmod \(wanted) \(ShellWord.path(path))")
    }

    /// The remedy for a path at which `chmod` and `chown` would change a file of another place; nil for a file with one name.
    static func oddity(_ path: String) -> String? {
        guard let status = (try? Files.ownStatus(of: path)) ?? nil else { return nil }
        let what =
            status.isLink ? "is a link" : status.linkCount > 1 && status.kind == .regular ? "has a second name" : nil
        return what.map {
            "do not change its owner or mode: \"\(path)\" \($0), so another file would change. Find out who made it"
        }
    }

    private func directoryFindings() -> [Finding] {
        let directory = Files.directory(of: paths.database)
        guard let status = (try? Files.status(of: directory)) ?? nil else { return [] }
        // With the sticky bit no user can remove or rename files of others.
        guard status.permissions & 0o1000 == 0 else { return [] }
        if status.permissions & 0o002 == 0 {
            return status.permissions & 0o020 == 0 ? [] : [groupFinding(directory, status)]
        }
        return [
            Finding(
                .risk, "othersMayReplace", "every user of the machine may replace files in \"\(directory)\"",
                remedy: "chmod o-w \(ShellWord.path(directory))")
        ]
    }

    /// A directory whose group may exchange files in it. Members who may not write the database may not be meant to; those
    /// who may can destroy it anyway. A sticky bit lets only the owner of a file replace it: rotations and changes of keys
    /// by the others then fail.
    private func groupFinding(_ directory: String, _ status: FileStatus) -> Finding {
        let database = Self.status(of: paths.database, paths)
        let mayWrite = (database?.permissions ?? 0) & 0o020 != 0 && database?.group == status.group
        return Finding(
            mayWrite ? .note : .risk, "groupMayReplace",
            "every member of group \(status.group) may replace files in \"\(directory)\", and put links and folders there",
            remedy: mayWrite
                ? "let only users into the group who may also destroy the store; with chmod +t "
                    + "\(ShellWord.path(directory)) only the owner of a file, or root, may rotate and change keys"
                : "chmod g-w \(ShellWord.path(directory)), or chmod +t if the group puts other files there")
    }

    /// The problem of the key file.
    static func keyFileFindings(_ path: String, store: StorePaths) -> [Finding] {
        guard let status = (try? Files.status(of: path)) ?? nil, status.kind == .regular else { return [] }
        var findings: [Finding] = []
        do {
            try OtherUserLink.refuse(path)
        } catch let error as StoreError {
            return [
                Finding(
                    .problem, "keyFileForeign", error.what, remedy: "find out where it leads, and give another path")
            ]
        } catch {
            return []
        }
        if ![0, ProcessInspector.effectiveUser].contains(status.owner) {
            findings.append(
                Finding(
                    .problem, "keyFileForeign", "the key file belongs to another user (\(status.owner))",
                    remedy: "run as that user, or give the file another owner; its owner knows the key"))
        }
        if status.permissions & 0o066 != 0 {
            let mode = String(status.permissions & 0o777, radix: 8)
            findings.append(
                Finding(
                    .problem, "keyFileShared", "group or others may read or write the key file (mode \(mode))",
                    remedy:
                        "\(oddity(path) ?? "chmod 600 \(ShellWord.path(path))"); if others have seen it, the key is not a secret any "
                        + "more"))
        }
        let folders = [path, store.database].map { try? Files.resolvingLinks(of: $0) }.map { $0.map(Files.directory) }
        if folders[0] != nil, folders[0] == folders[1] {
            findings.append(
                Finding(
                    .note, "keyBesideStore", "the key file is in the directory of the store",
                    remedy: "keep it elsewhere: a copy of the directory contains both"))
        }
        return findings
    }
}
