import KeyCustody
import StorePlatform
import StoreSharing

/// The kind of work that is done in a directory of its own beside its target, as a part of that directory's name:
/// `<target>.<purpose>-<pid>-<8 hex digits>`.
package enum StagingPurpose: String, CaseIterable, Sendable {
    case importing
    case adopting
    case exporting
    /// A backup; the directory itself gets the name of the target.
    case backup = "partial"
}

extension StorePaths {
    /// The database or store in the same folder to which a name belongs; nil if it is free for a store.
    ///
    /// - Throws: `SystemError` where the folder cannot be resolved.
    package static func owner(of path: String) throws(SystemError) -> String? {
        let path = try Files.resolvingLinks(of: path)
        let name = Files.name(of: path)
        let folder = path.dropLast(name.count)
        // Each suffix begins with "-" or "."; the name before it is that of the owner.
        for end in Array(name.indices.dropFirst()) where name[end] == "-" || name[end] == "." {
            let paths = StorePaths(String(folder) + String(name[..<end]))
            guard [paths.database, paths.sidecar, paths.sidecarBackup].contains(where: { Files.exists($0) }) else {
                continue
            }
            if try Files.kind(paths.database) != .directory, paths.owns(path) { return paths.database }
        }
        return nil
    }

    /// A store in the same folder whose name is one of the files of a store at this path; nil if there is none.
    ///
    /// If the folder cannot be listed, only the names without a variable part are looked for.
    var ownedStore: String? {
        let folder = Files.directory(of: database)
        let own = fixedNames.map { Files.name(of: $0) }
        let names = (try? Files.names(inDirectory: folder)) ?? own.flatMap { [$0 + "-sidecar", $0 + "-sidecar.bak"] }
        for name in names.sorted() {
            guard let suffix = ["-sidecar", "-sidecar.bak"].first(where: { name.hasSuffix($0) }) else { continue }
            let store = (folder == "/" ? "/" : folder + "/") + name.dropLast(suffix.count)
            if store != database, owns(store), (try? Files.kind(store + suffix)) == .regular { return store }
        }
        return nil
    }

    /// Whether a path is a name of the store's own files, or of those that a command makes beside it: what is put there
    /// is taken for a part of the store, and overwritten or removed.
    package func owns(_ path: String) -> Bool {
        // A directory that does not exist is not that of the store.
        guard let path = try? Files.resolvingLinks(of: path) else { return false }
        let staged = StagingPurpose.allCases.map { "\(database).\($0.rawValue)-" }
        // Such as -sidecar.damaged, -lock.tmp-1, -keylog.1 and -replaced-<time>.
        return fixedNames.contains { path == $0 || path.hasPrefix($0 + ".") }
            || (["\(database)-replaced-", "\(damagedWAL)-"] + staged).contains { path.hasPrefix($0) }
    }

    private var fixedNames: [String] {
        [
            wal, sharedMemory, journal, lock, notifications, rotationCopy, destroying, sidecar, sidecarBackup,
            KeyLog(databasePath: database).path, database + "-restoring", damagedWAL,
        ]
    }

    /// Refuses a path at which a new store and another one would take each other's files for their own.
    ///
    /// A store that exists at the path is not refused: its rows are reached under no other name. If the folder cannot
    /// be resolved, the opening says why.
    /// - Throws: ``StoreError`` `storeName`; `SystemError`.
    package func requireFreeName() throws {
        // A file with the name of the sidecar may be another store.
        if let store = ownedStore, [sidecar, sidecarBackup].contains(store) { throw Self.takes(store, database) }
        guard try !Files.entryExists(sidecar), try !Files.entryExists(sidecarBackup) else { return }
        if let store = (try? Self.owner(of: database)) ?? nil {
            throw StoreError(
                .storeName, what: "\"\(database)\" is no name for a store.",
                why: "It belongs to \"\(store)\", which overwrites or removes files of this name.",
                remedy: "Choose another name; nothing was changed.")
        }
        guard try Files.byteCount(database) ?? 0 == 0, let store = ownedStore else { return }
        throw Self.takes(store, database)
    }

    /// Refuses the creation of a store beside the WAL, the wal-index or the journal of another database: SQLite would
    /// remove it, or write into it.
    ///
    /// - Throws: ``StoreError`` `alreadyExists`; `SystemError`.
    package func requireNoRemains() throws {
        for name in [wal, sharedMemory, journal] {
            guard let status = try Files.ownStatus(of: name) else { continue }
            if status.kind == .regular && status.byteCount == 0 { continue }
            throw StoreError(
                .alreadyExists, what: "\"\(database)\" was not created.",
                why: "\"\(name)\" is there, which SQLite would remove or overwrite. "
                    + (name == sharedMemory
                        ? "A process may still use it with a database that was moved away."
                        : "It may have rows of a database that was moved away."),
                remedy: "Put its database back, or move these away: \(try remains()). Nothing was changed.")
        }
    }

    /// The existing files that SQLite keeps beside a database.
    private func remains() throws -> String {
        let found = try [wal, sharedMemory, journal].filter { try Files.entryExists($0) }
        return found.map { "\"\($0)\"" }.joined(separator: ", ")
    }

    /// Refuses the creation of a store where something other than a file has the name of one of the files beside it.
    ///
    /// Another user of a shared folder can put links, folders, pipes and devices there. The library makes none of them.
    /// SQLite would write the file of a second name, and two names of a WAL are no sign of a store.
    ///
    /// - Throws: ``StoreError`` `alreadyExists`; `SystemError`.
    package func requireFreeCompanions() throws {
        try requireOwnFiles()
        // A key log that cannot be written prevents no creation, and the copies of later commands are their own affair.
        for name in [wal, sharedMemory, journal, lock, notifications, sidecar, sidecarBackup] {
            guard let status = try Files.ownStatus(of: name) else { continue }
            let isOfSQLite = [wal, sharedMemory, journal].contains(name)
            guard let what = status.oddKind ?? (isOfSQLite && status.linkCount > 1 ? "a file with a second name" : nil)
            else { continue }
            throw StoreError(
                .alreadyExists, what: "\"\(database)\" was not created.",
                why: "\"\(name)\" is \(what), and a store has a file of its own under that name.",
                remedy: "Find out who put it there, and move it away. Nothing was changed.")
        }
    }

    /// Refuses the creation of a store of which another user would own a file: that user has made it and waits for its
    /// content, whatever mode the store shall have.
    ///
    /// - Throws: ``StoreError`` `alreadyExists`; `SystemError`.
    private func requireOwnFiles() throws {
        // Users who share a folder for their group make files for each other.
        guard let folder = try Files.status(of: Files.directory(of: database)), folder.permissions & 0o002 != 0 else {
            return
        }
        // The owner of the folder may exchange its files anyway; root prepares files for others.
        let owners = [0, ProcessInspector.effectiveUser, folder.owner]
        for name in [database, wal, sharedMemory, journal, lock, notifications, KeyLog(databasePath: database).path] {
            guard let status = try Files.ownStatus(of: name), status.kind == .regular, !owners.contains(status.owner)
            else { continue }
            throw StoreError(
                .alreadyExists, what: "\"\(database)\" was not created.",
                why: "\"\(name)\" is there and belongs to user \(status.owner), who could change the store.",
                remedy: "Find out who put it there, and move it away. Nothing was changed.")
        }
    }

    /// Whether nothing is at the path that a creation would complete or refuse by itself: no byte and no sidecar.
    package var isFreeForStore: Bool {
        get throws {
            try Files.byteCount(database) ?? 0 == 0 && Files.kindOfName(sidecar) != .regular
                && Files.kindOfName(sidecarBackup) != .regular
        }
    }

    private static func takes(_ store: String, _ database: String) -> StoreError {
        StoreError(
            .storeName, what: "\"\(database)\" is no name for a store.",
            why: "\"\(store)\" is a store, and a store at this path overwrites or removes files of that name.",
            remedy: "Choose another name; nothing was changed.")
    }

    /// Refuses a destruction that would remove another store, whose name is one of the files of a store at this path.
    ///
    /// - Throws: ``StoreError`` `storeName`.
    package func requireNoOwnedStore() throws(StoreError) {
        guard let store = ownedStore else { return }
        throw StoreError(
            .storeName, what: "\"\(database)\" was not destroyed.",
            why: "\"\(store)\" is a store, and its name is one of those that this destruction removes.",
            remedy: "Move that store with all of its files to another folder first. Nothing was removed.")
    }

    /// Refuses a path that is too long for SQLite, and a new file whose name leaves no room for the names of the files
    /// beside it.
    ///
    /// - Parameter suffix: What is added to the path for a file that SQLite opens.
    /// - Throws: ``StoreError`` `pathTooLong`.
    package func requireShortPath(suffix: String = "") throws(StoreError) {
        let name = Files.name(of: database).utf8.count
        if name > DatabaseLimits.newNameBytes, !Files.exists(database) {
            throw StoreError(
                .pathTooLong, what: "The name of \"\(database)\" is too long.",
                why: "It has \(name) bytes. Filesystems take 255, of which files beside a store need "
                    + "\(255 - DatabaseLimits.newNameBytes).",
                remedy: "Choose a name of at most \(DatabaseLimits.newNameBytes) bytes; nothing was changed.")
        }
        let bytes = (database + suffix).utf8.count
        guard bytes > DatabaseLimits.pathBytes else { return }
        throw StoreError(
            .pathTooLong, what: "The path of \"\(Files.name(of: database))\" is too long.",
            why:
                "With all links resolved\(suffix.isEmpty ? "" : " and its temporary folder") it has \(bytes) bytes, and "
                + "SQLite opens paths of at most \(DatabaseLimits.pathBytes) bytes.",
            remedy: "Choose a shorter name or a folder with a shorter path; nothing was changed.")
    }
}
