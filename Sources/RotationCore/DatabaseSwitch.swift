import CipherDatabase
import KeyCustody
import StorePlatform
import StoreSharing

/// Replaces the database by the complete copy of a rotation: the commit point of a rotation, and the steps after it.
///
/// A rotation, its resumption and the recovery of one that was interrupted all switch by this type. The caller holds
/// the locks `admin` and `opening` and has SQLite's lock bytes of the database locked, so no process writes. The copy
/// and its name are on disk, and the WAL ends where the copy does.
///
/// | step | what is done | what a crash leaves, and what the next opening does |
/// |---|---|---|
/// | `proved` | nothing yet | the sidecar says `rotating`: the rotation is undone |
/// | `announced` | both copies of the sidecar say `switching`: **the commit point** | the switch is resumed from here, or undone if the copy is damaged or missing |
/// | `walReplaced` | an empty file has the WAL's name, durably | the switch is resumed; if the copy is missing, which alone has the last commits, the opening is refused |
/// | `renamed` | the copy has the database's name | after a power failure either file has it, and page 1 says which |
/// | `durable` | that name is on disk | page 1 has the next key: the sidecar is completed |
/// | `invalidated` | the former database has no valid first page | as before |
/// | `completed` | the sidecar says `ready`, with the next epoch | nothing: the rotation is done |
///
/// The WAL comes before the rename because frames under the former key must not meet the new file after a power failure
/// (SQLite truncates a WAL without fsync). It is replaced and not truncated: the time to truncate a file grows with its
/// length, and all processes wait.
package final class DatabaseSwitch {
    enum Step: Int, Comparable, CaseIterable, Sendable {
        case proved, announced, walReplaced, renamed, durable, invalidated, completed

        package static func < (left: Step, right: Step) -> Bool { left.rawValue < right.rawValue }
    }

    /// The origin of a switch. Each has its own crash points.
    enum Origin: Sendable {
        case rotation
        case recovery
    }

    /// The last step that is known to be done.
    private(set) var step: Step
    /// Failures that do not affect the store, as sentences.
    package private(set) var notices: [String] = []
    private let paths: StorePaths
    private let journal: RotationJournal
    private let origin: Origin
    /// The database that is replaced; nil where it was replaced before.
    private let former: LockedDatabase?
    /// The file that replaces the database, which was verified. Another user of a shared folder may give its name to
    /// another file; the system renames by name alone, so it is compared before and after.
    private let copy: FileIdentity?
    /// Whether it is unknown if the announcement is on disk.
    private var isUncertain = false
    /// Kept open: closing it frees its space, which takes longer for a longer WAL.
    private var formerWAL: OpenFile?

    /// A switch that is still to be announced.
    ///
    /// - Parameters:
    ///   - paths: The files of the store.
    ///   - journal: Records the switch in the sidecar.
    ///   - former: The database that is replaced.
    ///   - copy: The file that replaces it, whose pages were verified.
    package init(
        _ paths: StorePaths, _ journal: RotationJournal, replacing former: LockedDatabase, by copy: FileIdentity
    ) {
        (self.paths, self.journal, self.former, self.copy) = (paths, journal, former, copy)
        (step, origin) = (.proved, .rotation)
    }

    /// A switch that was announced by a process that has ended.
    ///
    /// - Parameters:
    ///   - former: The database that is replaced; nil where the copy has replaced it already.
    ///   - copy: The file that replaces it, whose pages were verified; nil where it has replaced it already.
    init(
        resuming paths: StorePaths, _ journal: RotationJournal, replacing former: LockedDatabase?,
        by copy: FileIdentity?
    ) {
        (self.paths, self.journal, self.former, self.copy) = (paths, journal, former, copy)
        (step, origin) = (former == nil ? .renamed : .announced, .recovery)
    }

    /// On which side of the commit point a failure leaves the store now.
    package var status: CommitStatus {
        if isUncertain { return .unknown }
        if step == .proved { return .notAnnounced }
        if step >= .renamed { return .replaced }
        // A rename that was reported as failed may have taken effect.
        guard let copy, let database = try? Files.ownStatus(of: paths.database) else { return .announced }
        return database.identity == copy ? .replaced : .announced
    }

    // MARK: Steps

    /// Passes the commit point: both copies of the sidecar say `switching`, durably.
    ///
    /// - Parameter pages: Pages of the copy.
    /// - Throws: The error that prevented the announcement. ``status`` says whether it is certain that no switch is
    ///   announced.
    package func passCommitPoint(pages: UInt32) throws {
        guard try isCopyInPlace else { throw copyVanished() }
        do {
            try journal.announceSwitch(pages: pages)
        } catch let uncertain as UncertainAnnouncement {
            isUncertain = true
            throw uncertain.failure
        }
        reach(.announced)
    }

    /// Performs all steps after the announcement. A second call resumes at the step that failed.
    ///
    /// - Throws: ``StoreError`` `rotationPending` when the copy is missing; ``SystemError``; the errors of completing
    ///   the sidecar.
    package func run() throws {
        if step < .renamed {
            if try Files.ownStatus(of: paths.database)?.identity != copy {
                if step < .walReplaced {
                    try replaceWAL()
                    reach(.walReplaced)
                }
                try putCopyInPlace()
            }
            reach(.renamed)
        }
        if step < .durable {
            try Files.synchronize(directory: Files.directory(of: paths.database))
            reach(.durable)
        }
        if step < .invalidated {
            invalidateFormer()
            // No process is paused during a recovery, so the space of the former WAL is freed now: the sidecar may need
            // it on a full disk.
            if origin == .recovery { closeFormerWAL() }
            reach(.invalidated)
        }
        if step < .completed {
            // The database has the next key: a sidecar that announces no switch was put back in between.
            notices += try journal.complete(databaseHasNextKey: true)
            reach(.completed)
        }
    }

    /// Gives the copy the database's name, in one open folder. A symbolic link is not followed.
    private func putCopyInPlace() throws {
        let folder = try OpenFolder(opening: Files.directory(of: paths.database), followsLinks: false)
        let (name, newName) = (Files.name(of: paths.rotationCopy), Files.name(of: paths.database))
        guard let copy, try folder.status(of: name)?.identity == copy else { throw copyVanished() }
        try folder.rename(name, to: folder, newName)
        guard try folder.status(of: newName)?.identity == copy else { throw copyVanished() }
        OpenedDatabases.note(paths.database, copy)
    }

    private func replaceWAL() throws {
        // The empty WAL of a rotation that was killed before the rename: nothing else writes such a file.
        try AtomicFile.removeLeftovers(of: paths.wal)
        guard try Files.kindOfName(paths.wal) != nil else { return }
        // When this step is repeated, the WAL may be the empty one.
        if formerWAL == nil {
            formerWAL = OpenFile(try FileDescriptor(opening: paths.wal, .readWrite, followsLinks: false))
        }
        try AtomicFile.write([], to: paths.wal, likeFile: paths.database)
    }

    private func invalidateFormer() {
        do {
            try former?.invalidateFirstPage()
        } catch {
            // That file has no name then, so this cannot be done later.
            notices.append("The first page of the former database could not be overwritten: \(error)")
        }
    }

    private func reach(_ step: Step) {
        self.step = step
        if let point = step.crashPoint(origin) { CrashPoint.reach(point) }
    }

    // MARK: The end

    /// Allows connections to the database again if it was not replaced. A second call does nothing.
    package func admitConnections() { former?.admitConnections() }

    /// Releases everything, and frees the space of the files that were replaced, step by step. A second call does nothing.
    package func end() {
        former?.release()
        closeFormerWAL()
    }

    private func closeFormerWAL() {
        formerWAL?.close()
        formerWAL = nil
    }

    private func copyVanished() -> StoreError {
        StoreError(
            .rotationPending, what: "The complete copy \"\(paths.rotationCopy)\" is gone.",
            why: "Somebody has removed or moved it, or another file has its name.",
            remedy: "Put it back, then open the store for writing.")
    }

    /// Whether the copy's name is that of the file that was verified. A symbolic link is not followed.
    private var isCopyInPlace: Bool {
        get throws(SystemError) {
            guard let copy else { return false }
            return try Files.ownStatus(of: paths.rotationCopy)?.identity == copy
        }
    }
}

extension DatabaseSwitch.Step {
    /// The crash point right after a step, at which tests kill the process.
    fileprivate func crashPoint(_ origin: DatabaseSwitch.Origin) -> CrashPoint? {
        switch (self, origin) {
        case (.announced, .rotation): .rotationSwitchingWritten
        case (.walReplaced, .rotation): .rotationWALReplaced
        case (.renamed, .rotation): .rotationRenamed
        case (.durable, .rotation): .rotationDirectorySynced
        case (.completed, .rotation): .rotationCompleted
        case (.walReplaced, .recovery): .recoveryWALReplaced
        case (.renamed, .recovery): .recoveryRenamed
        case (.durable, .recovery): .recoveryDurable
        case (.invalidated, .recovery): .recoveryInvalidated
        case (.proved, _), (.invalidated, .rotation), (.announced, .recovery), (.completed, .recovery): nil
        }
    }
}
