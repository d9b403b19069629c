import CipherDatabase
import KeyCustody
import StorePlatform
import StoreSharing

/// The files of a store that a restoration replaces, kept in a folder beside it: `<database>-replaced-<time>`.
///
/// First all files get second names there; only then do they lose their own. Whenever the machine stops, nothing is
/// lost, and the folder holds a whole store. While the database has two names, no process opens it (`hardLinked`).
///
/// Another user who may write beside the store can put a folder of such a name there. So an earlier restoration is resumed
/// only from a folder that is this user's alone, and every file is kept through the descriptor of its folder.
struct FormerFiles {
    let paths: StorePaths
    /// The sidecar of the store that is restored.
    let newSidecar: [UInt8]
    /// The folder of the store, open from the beginning: to put files back needs no file to be opened.
    private let parent: OpenFolder

    init(paths: StorePaths, newSidecar: [UInt8]) throws(SystemError) {
        self.paths = paths
        self.newSidecar = newSidecar
        parent = try OpenFolder(opening: Files.directory(of: paths.database), followsLinks: false)
    }

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
        return try Files.contents(of: path, limitBytes: StoreLimits.manifestBytes) == newSidecar
    }

    /// Throws where this user may not replace the files, or would take them from their owner.
    ///
    /// - Throws: `StoreError` `notOwner`; `SystemError`.
    func requireReplaceable() throws {
        let what = "\"\(paths.database)\" was not replaced."
        let all = (names + [paths.sharedMemory]).map { Files.name(of: $0) }
        if let obstacle = try FileOwnership.obstacle(to: all, in: parent) { throw obstacle.error(what) }
        try FileOwnership.requireKept(paths.database, what: what)
    }

    /// Links all files to second names in a folder.
    ///
    /// - Returns: The folder; nil when there is nothing to keep.
    func keep() throws -> OpenFolder? {
        let present = try names.map { Files.name(of: $0) }.filter { try parent.status(of: $0) != nil }
        // A link would be kept as a link, which leads elsewhere from there.
        for name in present where try parent.status(of: name)?.kind != .regular {
            throw StoreError(
                .alreadyExists, what: "\"\(parent.path)/\(name)\" is not a regular file.",
                why: "It cannot be kept aside as a part of a store.",
                remedy: "Move it away yourself.")
        }
        if present.isEmpty { return nil }
        if let begun = try InterruptedRestoration.openPrivateFolder(of: paths) {
            try link(present, into: begun)
            return begun
        }
        let folder = try makeFolder()
        do {
            try link(present, into: folder)
        } catch {
            // No file has lost its name yet.
            for name in present { try? folder.remove(name) }
            removeFolder(folder)
            throw error
        }
        return folder
    }

    /// A name in the folder is this user's work, but it may be that of another file: after an interruption a new sidecar
    /// has the name of the one that is kept. A file that is neither kept nor new gets a name with a number.
    private func link(_ present: [String], into folder: OpenFolder) throws {
        for name in present {
            var kept = name
            var number = 2
            while let status = try folder.status(of: kept) {
                if try status.identity == parent.status(of: name)?.identity || isNew("\(parent.path)/\(name)") { break }
                kept = "\(name)-\(number)"
                number += 1
            }
            if try folder.status(of: kept) == nil { try parent.link(name, to: folder, kept) }
        }
        try folder.synchronize()
        try parent.synchronize()
    }

    /// Removes all files but the database, which is replaced by a rename.
    func remove() throws {
        // Without a sidecar no process opens the remaining files. With only the WAL missing, the database would look
        // sound but be an older one.
        for path in [paths.sidecar, paths.sidecarBackup] + names.dropFirst(3) + [paths.sharedMemory] {
            try parent.remove(Files.name(of: path))
        }
        try parent.synchronize()
    }

    /// Undoes ``keep()`` and ``remove()`` after a failed restoration: every file has its name again, and the folder is
    /// gone.
    func putBack(from folder: OpenFolder?) throws {
        for path in [paths.sidecar, paths.sidecarBackup] where try Files.entryExists(path) {
            // Decided without reading them, which a failing disk may refuse: without a kept file they are new, and a
            // kept file is restored below.
            let name = Files.name(of: path)
            let kept = try folder.map { try $0.status(of: name)?.identity }
            // A file that has not lost its name stays: the system may have refused to remove it.
            if let kept, let kept, try parent.status(of: name)?.identity == kept { continue }
            let isKept = kept.map { $0 != nil } ?? true
            if try isKept || isNew(path) { try parent.remove(name) }
        }
        guard let folder else { return }
        let kept = try names.map { Files.name(of: $0) }.filter { try folder.status(of: $0) != nil }
        // The sidecars last: until then no process opens a database that may still lack its WAL.
        for name in kept.reversed() where try parent.status(of: name) == nil {
            try folder.link(name, to: parent, name)
        }
        try parent.synchronize()
        // If another file has the name by now, the kept file has no other name: it stays. So does a file with a number.
        for name in kept where try parent.status(of: name)?.identity == folder.status(of: name)?.identity {
            try folder.remove(name)
        }
        removeFolder(folder)
    }

    // MARK: The folder

    private func makeFolder() throws -> OpenFolder {
        let base =
            Files.name(of: paths.database) + InterruptedRestoration.folderInfix
            + WallClock.compactUTC(WallClock.secondsSince1970)
        var name = base
        var number = 2
        while try parent.status(of: name) != nil {
            name = "\(base)-\(number)"
            number += 1
        }
        try parent.createFolder(name)
        guard let folder = try parent.folder(name) else {
            throw SystemError.exchanged("openat", "\(parent.path)/\(name)")
        }
        try folder.makePrivate()
        return folder
    }

    /// Removes the folder if it is empty and still has its name.
    private func removeFolder(_ folder: OpenFolder) {
        let name = Files.name(of: folder.path)
        if folder.isNamed(name, in: parent) { try? parent.removeFolder(name) }
    }
}

extension StorePaths {
    /// The database of a restoration while it is being copied.
    var restoring: String { database + "-restoring" }
}
