import CipherDatabase
import CipherStore
import KeyCustody
import StorePlatform

/// The place of a store that is to come: nothing may stand there, and nothing of what does is touched.
struct ImportTarget {
    let path: String
    /// What is to be made there, for messages.
    var noun = "store"

    private var paths: StorePaths { StorePaths(path) }

    /// Refuses a place that is taken, or that leftovers of another database would spoil.
    ///
    /// - Throws: ``CommandFailure`` that names the file in the way.
    func requireFree() throws {
        let directory = Files.directory(of: path)
        guard try Files.kind(directory) == .directory else {
            throw CommandFailure(
                .noSuchStore, "noDirectory", what: "\"\(path)\" cannot be made.",
                why: "The directory \"\(directory)\" does not exist.", hint: "Create it, or check the path.")
        }
        if Files.exists(path) {
            throw taken(path, path, "Move it away, or choose another name.")
        }
        if let destroyed = try MissingDatabase.interruptedDestruction(paths) { throw destroyed }
        for stray in [paths.wal, paths.sharedMemory, paths.journal] where Files.exists(stray) {
            // SQLite would take it for a part of the new database.
            throw taken(
                path, stray, "It belongs to a database that is not there: move it to that database, or away.")
        }
        for stray in [paths.sidecar, paths.sidecarBackup] where Files.exists(stray) {
            throw taken(
                path, stray, "It holds the salt of a store that is not there: keep it with that store, elsewhere.")
        }
    }

    private func taken(_ path: String, _ file: String, _ hint: String) -> CommandFailure {
        CommandFailure(
            .usage, "exists", what: "\"\(path)\" is not free for a new \(noun).", why: "\"\(file)\" exists.",
            hint: hint + " Nothing was changed.")
    }

    /// Waits for the right to make the store; a program that opens it meanwhile waits in turn.
    ///
    /// - Parameter model: The file whose mode and owner the lock file takes when it has to be made.
    func lockOpening(likeFile model: String) throws -> HeldLock {
        try LockFile(path: paths.lock, likeFile: model)
            .lock(.opening, .exclusive, deadline: .now + .seconds(30), isCancelled: { Interruption.shared.isSet })
    }
}
