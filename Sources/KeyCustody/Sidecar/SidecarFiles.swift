import StoreCrypto
import StorePlatform

/// One of the two files of a sidecar.
package enum SidecarCopy: String, Hashable, Sendable, CaseIterable {
    case main
    case backup

    var other: SidecarCopy { self == .main ? .backup : .main }
}

/// The content of one file of a sidecar, before any key is known.
package enum SidecarContent: Hashable, Sendable {
    case absent
    /// The system refused to read it.
    case unreadable(SystemError)
    /// It is not a sidecar, or has a format of a later version (`isAhead`).
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

    init(main: SidecarContent, backup: SidecarContent) {
        self.main = main
        self.backup = backup
    }

    package subscript(copy: SidecarCopy) -> SidecarContent { copy == .main ? main : backup }

    /// Whether neither file exists.
    package var areAbsent: Bool { main == .absent && backup == .absent }

    /// The claims of the readable copies, the main one first, unverified.
    package var claimed: [Sidecar] { SidecarCopy.allCases.compactMap { self[$0].parsed?.claimed } }

    /// The newest of them, the main one of two that are equally new; nil when none can be read.
    package var newestClaimed: Sidecar? { claimed.max { $0.generation < $1.generation } }

    /// Whether a sidecar exists, and every readable copy says that its store is still to be created.
    package var isAnnouncement: Bool {
        let claimed = claimed
        return !claimed.isEmpty && claimed.allSatisfy { $0.state == .creating }
    }
}

/// The two files that hold a store's sidecar, beside its database.
///
/// **Order of a change: the main copy, then the backup.** Each is written as a whole ``AtomicFile``, and its folder is
/// synchronized. At every instant at least one file is therefore a complete version, and the one with the highest
/// generation is valid. A change that is interrupted after the first file has happened; the next opener updates the
/// backup. A main copy that is *older* than its backup is never the result of a crash: an old file was restored.
///
/// **When the copies differ**, `choose` decides which of them is valid (`SidecarCache/AuthenticatedSidecar.swift`), and
/// `repair` rewrites the other one (`SidecarCache/SidecarRepair.swift`).
package struct SidecarFiles: Sendable {
    package let databasePath: String

    /// The file from which new files copy owner, group, mode and access control list.
    private let modelPath: String

    /// - Parameter modelPath: The file from which new files copy owner, group, mode and access control list; nil for
    ///   the database.
    package init(databasePath: String, likeFile modelPath: String? = nil) {
        self.databasePath = databasePath
        self.modelPath = modelPath ?? databasePath
    }

    package var mainPath: String { databasePath + "-sidecar" }
    package var backupPath: String { mainPath + ".bak" }

    package func path(of copy: SidecarCopy) -> String { copy == .main ? mainPath : backupPath }

    /// The path to which a damaged or forged file is moved before it is replaced, so that its content is kept.
    package func setAsidePath(of copy: SidecarCopy) -> String { path(of: copy) + ".damaged" }

    /// Reads both files. No lock is needed: each file is always complete.
    package func read() -> SidecarCopies {
        WorkCount.sidecarReads.add()
        let main = readFile(mainPath)
        let backup = readFile(backupPath)
        // A change between the two readings looks like a main copy that was restored: read it again.
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
    /// - Parameter didReplaceMain: Called when the main copy is in place. From then on it is valid, whatever is thrown.
    package func write(_ sidecar: Sidecar, dataKey: DataKey, didReplaceMain: () -> Void = {}) throws {
        try write(sidecar.encoded(keys: .direct(dataKey)), didReplaceMain: didReplaceMain)
    }

    /// Makes a new version durable in both files. The caller holds the opening lock; a caller that changes keys holds
    /// the admin lock as well.
    ///
    /// - Throws: ``SystemError``, `CryptoError` or `StoreError` `settingsConflict`. When the main copy could not be
    ///   written, nothing changed. If only the backup failed, the change has happened nevertheless.
    package func write(_ sidecar: Sidecar, keys: SidecarKeys) throws {
        try write(sidecar.encoded(keys: keys))
    }

    /// Writes the bytes of a sidecar durably to both files, the main copy first.
    ///
    /// - Parameters:
    ///   - didReplaceMain: Called when the main copy is in place: the change has happened.
    ///   - didSynchronizeMain: Called when the name of the main copy is on the disk as well.
    /// - Throws: ``StoreError`` `alreadyExists` where something other than a file has the name of a copy, and
    ///   ``SystemError``.
    func write(
        _ bytes: [UInt8], didReplaceMain: () -> Void = {}, didSynchronizeMain: () -> Void = {}
    ) throws {
        for copy in SidecarCopy.allCases { try requireReplaceable(path(of: copy)) }
        try AtomicFile.write(bytes, to: mainPath, likeFile: modelPath, didReplace: didReplaceMain)
        didSynchronizeMain()
        CrashPoint.reach(.sidecarMainWritten)
        try write(bytes, to: .backup)
        CrashPoint.reach(.sidecarWritten)
    }

    func write(_ bytes: [UInt8], to copy: SidecarCopy) throws {
        try requireReplaceable(path(of: copy))
        try AtomicFile.write(bytes, to: path(of: copy), likeFile: modelPath)
    }

    /// Refuses to replace a symbolic link, a folder, a pipe or a device: the library makes none of them. The file to
    /// which a link leads would keep the former keys, and nobody would know.
    ///
    /// A second name (a hard link) of a copy is not refused: the change gives the name of the copy to a new file, and
    /// the former content stays under the second name, as in each other copy of the file.
    func requireReplaceable(_ path: String) throws {
        guard let what = try Files.ownStatus(of: path)?.oddKind else { return }
        throw StoreError(
            .alreadyExists, what: "\"\(path)\" was not written.",
            why: "It is \(what), and the library makes only regular files of that name.",
            remedy: "Find out who put it there, and put the file itself in its place.")
    }
}
