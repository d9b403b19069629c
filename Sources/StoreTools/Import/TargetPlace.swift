import CipherDatabase
import CipherStore
import KeyCustody
import StorePlatform
import StoreSharing

/// The path of a store or database that is created: it must be free, and existing files are not touched.
struct TargetPlace {
    let path: String
    /// The kind of file to create there, for messages.
    var noun = "store"
    /// The store or database from which it is made, to which its path must not belong; nil for none.
    var source: String?
    /// Whether a link that leads nowhere stands for the file that it names.
    var followsLinks = true
    let run: ToolRun

    private var paths: StorePaths { StorePaths(path) }

    /// Refuses a path that is in use, or next to which leftovers of another database would damage the new one.
    ///
    /// - Throws: ``ToolError`` that names the file in the way.
    func requireFree() throws {
        if let source { try ToolError.requireForeign(path, to: source, noun) }
        try Self.requireShortPath(path)
        let directory = Files.directory(of: path)
        if try Files.kind(directory) == .directory, let owner = try StorePaths.owner(of: path) {
            try ToolError.requireForeign(path, to: owner, noun)
        }
        try ToolError.requireDirectory(for: path)
        if followsLinks { try OtherUserLink.refuse(path) }
        if try followsLinks ? Files.exists(path) : Files.entryExists(path) {
            throw taken(path, path, "Move it away, or choose another name.")
        }
        try paths.requireFreeName()
        if noun == "store" { try paths.requireFreeCompanions() }
        if let destroyed = try MissingDatabase.interruptedDestruction(paths) { throw destroyed }
        for stray in [paths.wal, paths.sharedMemory, paths.journal] where Files.exists(stray) {
            // SQLite would treat it as a part of the new database.
            throw taken(
                path, stray, "It belongs to a database that is not there: move it to that database, or away.")
        }
        for stray in [paths.sidecar, paths.sidecarBackup] where Files.exists(stray) {
            throw taken(
                path, stray, "It holds the salt of a store that is not there: keep it with that store, elsewhere.")
        }
    }

    /// Refuses a path whose staged file has one that is too long for SQLite.
    static func requireShortPath(_ path: String) throws {
        // The longest process number of Linux has 7 digits.
        let staging = ".importing-4194304-00000000/staged-0000000000000000"
        try StorePaths(path).requireShortPath(suffix: staging)
    }

    private func taken(_ path: String, _ file: String, _ remedy: String) -> ToolError {
        ToolError(
            .exists, what: "\"\(path)\" is not free for a new \(noun).", why: "\"\(file)\" exists.",
            remedy: remedy + " Nothing was changed.")
    }

    /// Waits for the right to create the store; a program that opens it meanwhile waits.
    ///
    /// - Parameter model: The file whose mode and owner a new lock file gets.
    func lockOpening(likeFile model: String) throws -> HeldLock {
        try LockFile(path: paths.lock, likeFile: model).lock(
            .opening, .exclusive, deadline: .now + ToolLimits.openingWait, isCancelled: { run.isCancelled })
    }

    /// Runs a block under the lock of openings. If the block fails and no store is there, a lock file that was made for it
    /// is removed.
    ///
    /// - Parameters:
    ///   - model: The file whose mode and owner a new lock file gets.
    ///   - body: Its error is thrown.
    func withOpeningLock<T>(likeFile model: String, _ body: () throws -> T) throws -> T {
        let wasThere = try Files.entryExists(paths.lock)
        let opening = try lockOpening(likeFile: model)
        defer { opening.release() }
        do {
            return try body()
        } catch {
            // The lock is still held: a process that waits for it finds that the path names another file.
            if !wasThere, SidecarFiles(databasePath: paths.database).read().areAbsent {
                _ = try? LockFile(path: paths.lock, likeFile: nil).removeUnlessCoordinated()
            }
            throw error
        }
    }

    // MARK: Putting in place

    /// Publishes a finished store: database, sidecar, second copy, each by a link that replaces nothing.
    ///
    /// Without its sidecar no process can open or change the database. So an interrupted publication leaves either
    /// nothing that matters or the whole store.
    func publish(_ staging: StagingDirectory) throws {
        let name = staging.fileName
        try staging.synchronize(name)
        try withOpeningLock(likeFile: staging.filePath) { try publish(name, of: staging) }
    }

    private func publish(_ name: String, of staging: StagingDirectory) throws {
        try requireFree()
        var published: [(path: String, name: OwnedName)] = []
        do {
            let staged = StorePaths(name)
            for (from, to) in [
                (name, paths.database), (Files.name(of: staged.sidecar), paths.sidecar),
                (Files.name(of: staged.sidecarBackup), paths.sidecarBackup),
            ] {
                published.append((to, try staging.link(from, to: to)))
                try Files.synchronize(directory: Files.directory(of: path))
            }
        } catch {
            // The database last: without its sidecar it cannot be used, and the next import removes it.
            for (_, name) in published.reversed() { try? name.remove() }
            let left = published.map(\.path).filter { Files.exists($0) }
            if left.isEmpty { throw error }
            throw ToolError(
                .importInterrupted, what: "\"\(path)\" was not imported.", why: ToolError.explanation(of: error),
                remedy:
                    "These files could not be removed again: \(left.map { "\"\($0)\"" }.joined(separator: ", ")). Remove "
                    + "them, then import again; the plain database is as it was.",
                cause: error)
        }
    }

    /// Removes the published database's name in the staging directory. Until then no process opens it: it has two
    /// names.
    ///
    /// - Throws: ``ToolError`` that names the remaining steps: the store is published.
    func removeSecondName(in staging: StagingDirectory) throws {
        for _ in 0..<2 where (try? staging.folder.remove(staging.fileName)) != nil { return }
        throw ToolError(
            .importInterrupted,
            what: "\"\(path)\" was imported and verified, but its file still has a second name.",
            why: "\"\(staging.filePath)\" could not be removed, and a store with two names is opened under neither.",
            remedy: "Remove the directory \"\(staging.path)\"; then the store is complete: do not import it again.")
    }

    // MARK: Killed runs

    /// Removes what killed runs of the same kind left for this target, and what an interrupted publication left at the
    /// target.
    ///
    /// - Parameter whose: The origin of the leftovers, for the notice of each.
    func removeAbandoned(_ purpose: StagingDirectory.Purpose, whose: String) throws {
        // Where the names cannot be read there is nothing to find.
        guard (try? Files.names(inDirectory: Files.directory(of: path))) != nil else { return }
        let removed = try StagingDirectory.removeAbandoned(for: path, purpose) { directory, folder in
            if purpose == .importing { try undoPublication(from: folder, at: directory) }
        }
        for directory in removed { run.notice("removed \"\(directory)\", which \(whose)") }
    }

    /// Undoes a publication that was interrupted before the sidecar: the database alone cannot be used.
    ///
    /// - Parameter folder: The staging directory, which is this user's alone: a second name of the database in it is this
    ///   user's work. Links are not followed.
    private func undoPublication(from folder: OpenFolder, at directory: String) throws {
        guard let name = try secondName(in: folder) else { return }
        let opening = try lockOpening(likeFile: "\(directory)/\(name)")
        defer { opening.release() }
        guard try !Files.entryExists(paths.sidecar), try !Files.entryExists(paths.sidecarBackup),
            let published = try Files.ownStatus(of: paths.database), published.kind == .regular,
            published.owner == ProcessInspector.effectiveUser, published.linkCount == 2,
            try folder.status(of: name)?.identity == published.identity
        else { return }
        let parent = try OpenFolder(opening: Files.directory(of: paths.database), followsLinks: false)
        try parent.remove(Files.name(of: paths.database), verifiedAs: published.identity)
    }

    /// The name in a staging directory of the file that is at the target; nil when there is none.
    private func secondName(in folder: OpenFolder) throws -> String? {
        guard let published = try Files.ownStatus(of: paths.database), published.kind == .regular else { return nil }
        return try StagingDirectory.name(of: published.identity, in: folder)
    }
}
