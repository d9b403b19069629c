import CipherDatabase
import KeyCustody
import StorePlatform
import StoreSharing

/// The files of a store that a restoration replaces, kept in a folder beside it: `<database>-replaced-<time>`.
///
/// First all files get second names there; only then do they lose their own. Whenever the machine stops, nothing is
/// lost, and the folder holds a whole store. While the database has two names, no process opens it (`hardLinked`).
struct FormerFiles {
    let paths: StorePaths
    /// The sidecar of the store that is restored.
    let newSidecar: [UInt8]

    /// The files that may exist at the place of a store. The lock file and the key log stay: they belong to the place.
    private var names: [String] {
        [paths.database, paths.sidecar, paths.sidecarBackup, paths.wal, paths.journal, paths.rotationCopy]
    }

    /// The existing files that a restoration would have to replace.
    func found() throws -> [String] { try (names + [paths.sharedMemory]).filter { try Files.entryExists($0) } }

    /// The existing files, without those of a restoration that was interrupted right before its end.
    func foundWithoutLeftovers() throws -> [String] {
        let found = try found()
        let hasNoDatabase = !found.contains(paths.database) && Files.exists(paths.restoring)
        return hasNoDatabase ? try found.filter { try !isNew($0) } : found
    }

    private func isNew(_ path: String) throws -> Bool {
        guard path == paths.sidecar || path == paths.sidecarBackup else { return false }
        return try Files.contents(of: path, limitBytes: Limits.manifestBytes) == newSidecar
    }

    /// Links all files to second names in a folder.
    ///
    /// - Returns: The folder; nil when there is nothing to keep.
    func keep() throws -> String? {
        let present = try names.filter { try Files.entryExists($0) }
        for path in present where try Files.kind(path) != .regular {
            throw StoreError(
                .alreadyExists, what: "\"\(path)\" is not a regular file.",
                why: "It cannot be kept aside as a part of a store.",
                remedy: "Move it away yourself.")
        }
        if present.isEmpty { return nil }
        if let begun = try InterruptedRestoration.folder(of: paths) {
            try link(present, into: begun)
            return begun
        }
        let folder = try makeFolder()
        do {
            try link(present, into: folder)
        } catch {
            // No file has lost its name yet.
            for path in present { try? Files.remove(folder + "/" + Files.name(of: path)) }
            try? Files.removeDirectory(folder)
            throw error
        }
        return folder
    }

    private func link(_ present: [String], into folder: String) throws {
        for path in present {
            let kept = folder + "/" + Files.name(of: path)
            if try !Files.entryExists(kept) { try Files.link(path, to: kept) }
        }
        try Files.synchronize(directory: folder)
        try Files.synchronize(directory: Files.directory(of: folder))
    }

    /// Removes all files but the database, which is replaced by a rename.
    func remove() throws {
        // Without a sidecar no process opens the remaining files. With only the WAL missing, the database would look
        // sound but be an older one.
        for path in [paths.sidecar, paths.sidecarBackup] + names.dropFirst(3) + [paths.sharedMemory] {
            try Files.remove(path)
        }
        try Files.synchronize(directory: Files.directory(of: paths.database))
    }

    /// Undoes ``keep()`` and ``remove()`` after a failed restoration: every file has its name again, and the folder is
    /// gone.
    func putBack(from folder: String?) throws {
        for path in [paths.sidecar, paths.sidecarBackup] where try Files.entryExists(path) {
            // Decided without reading them, which a failing disk may refuse: without a kept file they are new, and a
            // kept file is restored below.
            let isKept = try folder.map { try Files.entryExists($0 + "/" + Files.name(of: path)) } ?? true
            if try isKept || isNew(path) { try Files.remove(path) }
        }
        guard let folder else { return }
        let kept = try names.filter { try Files.entryExists(folder + "/" + Files.name(of: $0)) }
        // The sidecars last: until then no process opens a database that may still lack its WAL.
        for path in kept.reversed() where try !Files.entryExists(path) {
            try Files.link(folder + "/" + Files.name(of: path), to: path)
        }
        try Files.synchronize(directory: Files.directory(of: paths.database))
        for path in kept { try Files.remove(folder + "/" + Files.name(of: path)) }
        try Files.removeDirectory(folder)
    }

    // MARK: The folder

    private func makeFolder() throws -> String {
        let base =
            paths.database + InterruptedRestoration.folderInfix + WallClock.compactUTC(WallClock.secondsSince1970)
        var folder = base
        var number = 2
        while try Files.entryExists(folder) {
            folder = "\(base)-\(number)"
            number += 1
        }
        try Files.makeDirectory(folder)
        return folder
    }
}

extension StorePaths {
    /// The database of a restoration while it is being copied.
    var restoring: String { database + "-restoring" }
}
