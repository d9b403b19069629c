import CipherDatabase
import CipherStore
import KeyCustody
import StorePlatform
import StoreSharing

/// The files beside a database that keep a store from being opened: files that are not its own, and files that its users
/// may not use.
struct CompanionFindings {
    let paths: StorePaths

    func findings() -> [Finding] {
        foreign() + access() + strangers() + leases()
    }

    /// Files of a user who may not write the database.
    private func strangers() -> [Finding] {
        let log = KeyLog(databasePath: paths.database)
        let files = [
            ("lock file", paths.lock), ("sidecar", paths.sidecar), ("second copy of the sidecar", paths.sidecarBackup),
            ("key log", log.path), ("former key log", log.formerPath), ("file of notifications", paths.notifications),
        ]
        return files.compactMap { noun, path in
            guard let status = (try? Files.ownStatus(of: path)) ?? nil, status.kind == .regular,
                let owner = FileAccess.otherUser(owning: status, beside: paths.database)
            else { return nil }
            return Finding(
                .problem, "strangersFile",
                "the \(noun) \"\(path)\" belongs to user \(owner), who may not write the database",
                remedy:
                    "find out what it is, and \(Finding.moving(path)); only that user, the owner of the folder or root "
                    + "can move it")
        }
    }

    private func foreign() -> [Finding] {
        let faults = CompanionFiles(paths).faults().map { error in
            Finding(.problem, error.code.name, "\(error.what) \(error.why)", remedy: error.remedy)
        }
        let lock = LockFile.fault(of: paths.lock).map { error in
            if error.isLeased { return leased(paths.lock, by: nil) }
            return Finding(
                .problem, "lockFileForeign",
                error.isSecondName
                    ? "the lock file \"\(paths.lock)\" has a second name, and is not used"
                    : "\"\(paths.lock)\" is no lock file of a store",
                remedy: error.isSecondName
                    ? "remove the other names: `find DIR -samefile \(ShellWord.path(paths.lock))` finds them"
                    : "find out what it is and who put it there, and move it away; the next opening for writing makes a lock "
                        + "file")
        }
        return faults + [lock].compactMap(\.self)
    }

    /// Leases on the other files, which are not opened here: closing one of them could release locks of this process.
    private func leases() -> [Finding] {
        ([paths.database] + needed.map(\.path)).filter { $0 != paths.lock }.compactMap { path in
            guard let lease = ((try? SystemLocks.leases(on: path)) ?? nil)?.first else { return nil }
            return leased(path, by: lease.process)
        }
    }

    private func leased(_ path: String, by process: Int32?) -> Finding {
        let owner = ((try? Files.ownStatus(of: path)) ?? nil).map { "user \($0.owner)" } ?? "its owner"
        return Finding(
            .problem, "fileLeased",
            "\(process.map { "process \($0)" } ?? "another process") has a lease on \"\(path)\" (fcntl F_SETLEASE), so that no "
                + "other process can open it until it ends the lease",
            remedy: process.map { "end process \($0), or the program that it belongs to" }
                ?? "find the process of \(owner) in /proc/locks (LEASE), and end it")
    }

    /// The files without which a store cannot be opened, with their names in findings.
    private var needed: [(noun: String, path: String, isWritten: Bool)] {
        [
            ("WAL", paths.wal, true), ("shared memory", paths.sharedMemory, true), ("lock file", paths.lock, true),
            ("rollback journal", paths.journal, true), ("sidecar", paths.sidecar, false),
            ("second copy of the sidecar", paths.sidecarBackup, false),
        ]
    }

    private func access() -> [Finding] {
        guard let database = FilePermissions.status(of: paths.database, paths), database.kind == .regular,
            Files.canRead(file: paths.database)
        else { return [] }
        let isWriter = Files.canWrite(file: paths.database)
        return needed.compactMap { file in
            guard let status = FilePermissions.status(of: file.path, paths), status.kind == .regular else { return nil }
            // A reader works without the lock file.
            let mayRead = Files.canRead(file: file.path) || (file.path == paths.lock && !isWriter)
            let mayWrite = !file.isWritten || !isWriter || Files.canWrite(file: file.path)
            let ownerMay = status.owner == database.owner || database.owner == 0 || status.permissions & 0o066 != 0
            guard !mayRead || !mayWrite || !ownerMay else { return nil }
            let who = mayRead && mayWrite ? "the owner of the database may not use" : "this user may not use"
            let (mode, wanted) = (
                String(status.permissions & 0o777, radix: 8), String(database.permissions & 0o666, radix: 8)
            )
            let word = ShellWord.path(file.path)
            let isOwned = status.owner == database.owner
            return Finding(
                .problem, "noAccess",
                "\(who) the \(file.noun) \"\(file.path)\", which belongs to user \(status.owner) (mode \(mode))",
                remedy: FilePermissions.oddity(file.path)
                    ?? (isOwned
                        ? "give it the mode of the database, as user \(status.owner) or root: chmod \(wanted) \(word)"
                        : "give it the owner and mode of the database, as root: chown \(database.owner):\(database.group) "
                            + "\(word); chmod \(wanted) \(word)"))
        }
    }
}
