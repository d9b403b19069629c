import StoreCrypto
import StorePlatform

/// Which of the two files of a sidecar.
package enum SidecarCopy: String, Hashable, Sendable, CaseIterable {
    case main
    case backup

    var other: SidecarCopy { self == .main ? .backup : .main }
}

/// What one file of a sidecar turned out to be, before any key is known.
package enum SidecarContent: Hashable, Sendable {
    case absent
    /// The system would not let it be read.
    case unreadable(SystemError)
    /// It is no sidecar, or one of a later version (`isAhead`).
    case damaged(SidecarSyntaxError)
    case present(UnauthenticatedSidecar)

    package var parsed: UnauthenticatedSidecar? {
        if case .present(let sidecar) = self { sidecar } else { nil }
    }
}

/// Both files of a sidecar as they were read.
package struct SidecarCopies: Hashable, Sendable {
    package let main: SidecarContent
    package let backup: SidecarContent

    package init(main: SidecarContent, backup: SidecarContent) {
        self.main = main
        self.backup = backup
    }

    package subscript(copy: SidecarCopy) -> SidecarContent { copy == .main ? main : backup }

    /// Whether neither file exists.
    package var areAbsent: Bool { main == .absent && backup == .absent }

    /// What the readable copies say, the main one first. Nobody has proved it.
    package var claimed: [Sidecar] { SidecarCopy.allCases.compactMap { self[$0].parsed?.claimed } }

    /// The newest of them, the main one of two that are equally new; nil when none can be read.
    package var newestClaimed: Sidecar? { claimed.max { $0.generation < $1.generation } }

    /// Whether there is a sidecar, and all that can be read of it says that its store is still to come.
    package var isAnnouncement: Bool {
        let claimed = claimed
        return !claimed.isEmpty && claimed.allSatisfy { $0.state == .creating }
    }
}

/// The two files that hold a store's sidecar, beside its database.
///
/// **Order of a change: the main copy, then the backup**, each as a whole ``AtomicFile`` with its folder made durable.
/// So at every instant at least one file is a complete version, and the one with the highest generation is the truth:
/// when a change is cut after the first file, it has happened, and the next opener brings the backup up to date.
/// And a main copy that is *older* than its backup is never the trace of a crash: somebody put an old file back.
package struct SidecarFiles: Sendable {
    package let databasePath: String

    /// The file whose owner, group, mode and access control list new files take.
    private let modelPath: String

    /// - Parameter modelPath: The file whose owner, group, mode and access control list new files take; nil for the database.
    package init(databasePath: String, likeFile modelPath: String? = nil) {
        self.databasePath = databasePath
        self.modelPath = modelPath ?? databasePath
    }

    package var mainPath: String { databasePath + "-sidecar" }
    package var backupPath: String { mainPath + ".bak" }

    package func path(of copy: SidecarCopy) -> String { copy == .main ? mainPath : backupPath }

    /// Where a file goes that was damaged or forged when it is replaced, so that nothing is lost.
    package func setAsidePath(of copy: SidecarCopy) -> String { path(of: copy) + ".damaged" }

    /// Reads both files. No lock is needed: each of them is always whole.
    package func read() -> SidecarCopies {
        WorkCount.sidecarReads.add()
        let main = readFile(mainPath)
        let backup = readFile(backupPath)
        // A change between the two readings looks like a main copy that was put back: look again.
        if let first = main.parsed, let second = backup.parsed, first.claimed.generation < second.claimed.generation {
            return SidecarCopies(main: readFile(mainPath), backup: backup)
        }
        return SidecarCopies(main: main, backup: backup)
    }

    private func readFile(_ path: String) -> SidecarContent {
        let bytes: [UInt8]
        do {
            bytes = try Files.contents(of: path, limitBytes: Limits.sidecarBytes)
        } catch {
            if error.isNotFound { return .absent }
            return error.isTooLarge ? .damaged(.tooLong(limitBytes: Limits.sidecarBytes)) : .unreadable(error)
        }
        do {
            return .present(try UnauthenticatedSidecar.parse(bytes))
        } catch {
            return .damaged(error)
        }
    }

    /// Makes a new version of a direct store's sidecar durable in both files.
    ///
    /// - Parameter didReplaceMain: Called when the main copy is in place: from then on it counts, whatever is thrown.
    package func write(_ sidecar: Sidecar, dataKey: DataKey, didReplaceMain: () -> Void = {}) throws {
        try write(sidecar.encoded(keys: .direct(dataKey)), didReplaceMain: didReplaceMain)
    }

    /// Makes a new version durable in both files. The caller holds the opening lock; whoever changes keys holds the admin
    /// lock as well.
    ///
    /// - Throws: ``SystemError``, `CryptoError` or `StoreError` `settingsConflict`. When the main copy could not be
    ///   written, nothing changed; when only the backup could not, the change has happened all the same.
    package func write(_ sidecar: Sidecar, keys: SidecarKeys) throws {
        try write(sidecar.encoded(keys: keys))
    }

    /// Makes bytes, which are a sidecar, durable in both files, the main copy first.
    ///
    /// - Parameters:
    ///   - didReplaceMain: Called when the main copy is in place: from then on the change has happened.
    ///   - didSynchronizeMain: Called when its name is on the disk as well.
    func write(
        _ bytes: [UInt8], didReplaceMain: () -> Void = {}, didSynchronizeMain: () -> Void = {}
    ) throws(SystemError) {
        try AtomicFile.write(bytes, to: mainPath, likeFile: modelPath, didReplace: didReplaceMain)
        didSynchronizeMain()
        CrashPoint.reach(.sidecarMainWritten)
        try write(bytes, to: .backup)
        CrashPoint.reach(.sidecarWritten)
    }

    func write(_ bytes: [UInt8], to copy: SidecarCopy) throws(SystemError) {
        try AtomicFile.write(bytes, to: path(of: copy), likeFile: modelPath)
    }
}
