import StoreCrypto
import StorePlatform

/// The two files that hold a store's sidecar, beside its database.
///
/// **Order of a change: the main copy, then the backup.** Each is written as a whole ``AtomicFile``, and its folder is
/// synchronized. At every instant at least one file is therefore a complete version, and the one with the highest
/// generation is valid. A change that is interrupted after the first file has happened; the next opener updates the
/// backup. A main copy that is *older* than its backup is never the result of a crash: an old file was restored.
///
/// **When the copies differ**, `choose` decides which of them is valid, and
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
            bytes = try Files.contents(of: path, limitBytes: CustodyLimits.sidecarBytes)
        } catch {
            if error.isNotFound { return .absent }
            return error.isTooLarge ? .damaged(.tooLong(limitBytes: CustodyLimits.sidecarBytes)) : .unreadable(error)
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

extension SidecarFiles {
    /// Chooses the valid version: among the files that the keys authenticate, the one with the highest generation.
    ///
    /// It is valid even when the key opened only the other copy. A removed slot opens nothing as soon as the main copy
    /// is written without it, though the backup may still contain it.
    ///
    /// - Parameters:
    ///   - allowsSwitching: Whether a version in state `switching` may be chosen. Such a version does not say which key
    ///     encrypts the pages of the database.
    ///   - unlock: Returns the keys for what a copy claims, or nil when the secret opens no slot of it
    ///     (``Secret/unlock(_:)``). It is not called twice for the same ingredients.
    /// - Returns: The chosen version, or nil when neither file exists.
    /// - Throws: ``StoreError`` `wrongKey`, `sidecarForged`, `sidecarDamaged`, `sidecarAhead` or `foreignSidecar`;
    ///   `rotationPending` when the switch to another key was not completed, or the key is the next one;
    ///   ``SystemError`` when the files that matter cannot be read; what `unlock` throws.
    package func choose(
        _ copies: SidecarCopies, allowsSwitching: Bool = false, unlock: (Sidecar) throws -> SidecarKeys?
    ) throws -> AuthenticatedSidecar? {
        var derived = DerivedKeys()
        return try choose(copies, &derived, allowsSwitching: allowsSwitching, unlock: unlock)
    }

    /// - Parameter derived: The keys that the secret has opened so far.
    func choose(
        _ copies: SidecarCopies, _ derived: inout DerivedKeys, allowsSwitching: Bool = false,
        unlock: (Sidecar) throws -> SidecarKeys?
    ) throws -> AuthenticatedSidecar? {
        try examine(copies, &derived, unlock: unlock).map { try choice($0, allowsSwitching: allowsSwitching) }
    }

    /// Verifies the copies; nil when neither exists.
    func examine(
        _ copies: SidecarCopies, _ derived: inout DerivedKeys, unlock: (Sidecar) throws -> SidecarKeys?
    ) throws -> VerifiedCopies? {
        if copies.areAbsent { return nil }
        try refuseLaterVersions(copies)
        let verified = try SidecarVerifier.verify(copies, &derived, unlock)
        guard let best = try best(of: verified) else { throw failure(copies, verified) }
        return VerifiedCopies(
            best: best, notes: notes(copies, verified, best: best),
            unverified: verified.first { $0.mayReplace(best) }?.copy)
    }

    func choice(_ standing: VerifiedCopies, allowsSwitching: Bool) throws -> AuthenticatedSidecar {
        let best = standing.best
        if best.isBySuccessor { throw keyToCome(best) }
        guard let keys = best.keys, best.isOpened, let dataKey = try keys.dataKey(of: best.sidecar) else {
            throw slotGone(best)
        }
        if best.sidecar.state == .switching, !allowsSwitching { throw switchPending(best) }
        return AuthenticatedSidecar(
            sidecar: best.sidecar, keys: keys,
            pageKey: PageKey(dataKey, salt: best.sidecar.salt, settings: best.sidecar.settings), copy: best.copy,
            notes: standing.notes, standing: standing)
    }

    /// The genuine copy with the highest generation; the main one when they are equal.
    private func best(of verified: [VerifiedCopy]) throws(StoreError) -> VerifiedCopy? {
        let genuine = verified.filter(\.isGenuine)
        guard let first = genuine.first, let last = genuine.last else { return nil }
        guard first.sidecar.storeID == last.sidecar.storeID else {
            throw StoreError(
                .foreignSidecar,
                what: "The two copies of the sidecar of \"\(databasePath)\" belong to different stores.",
                why: "Both are genuine, but they carry different store identifiers.",
                remedy: "Move the one that is not this store's away: \"\(mainPath)\" or \"\(backupPath)\".")
        }
        return last.sidecar.generation > first.sidecar.generation ? last : first
    }

    private func notes(_ copies: SidecarCopies, _ verified: [VerifiedCopy], best: VerifiedCopy) -> [SidecarNote] {
        var notes: [SidecarNote] = best.copy == .backup ? [.restoredFromBackup] : []
        let other = best.copy.other
        switch copies[other] {
        case .absent: notes.append(.missing(other))
        case .unreadable(let error): notes.append(.unreadable(other, error))
        case .damaged(let error): notes.append(.damaged(other, error))
        case .present:
            guard let rest = verified.first(where: { $0.copy == other }) else { break }
            switch rest.verdict {
            case .forged: notes.append(.forged(other))
            case .wrongKey: notes.append(.otherKey(other))
            case .genuine(let sidecar):
                let current = best.sidecar.generation
                if sidecar.generation < current {
                    notes.append(.stale(other, generation: sidecar.generation, current: current))
                } else if rest.bytes != best.bytes {
                    notes.append(.differing)
                }
            }
        }
        return notes
    }
}

extension SidecarFiles {
    private func refuseLaterVersions(_ copies: SidecarCopies) throws(StoreError) {
        for copy in SidecarCopy.allCases {
            guard case .damaged(let error) = copies[copy], error.isAhead else { continue }
            throw StoreError(
                .sidecarAhead, what: "The sidecar \"\(path(of: copy))\" was written by a newer version.",
                why: "This version cannot use it: \(error).",
                remedy: "Open the store with the newer version; nothing was changed.")
        }
    }

    /// The error when no copy is genuine.
    private func failure(_ copies: SidecarCopies, _ verified: [VerifiedCopy]) -> any Error {
        if verified.contains(where: { $0.verdict == .forged }) {
            return StoreError(
                .sidecarForged, what: "The sidecar of \"\(databasePath)\" is not what the holder of the key wrote.",
                why: "The key fits, but the authentication code of \"\(mainPath)\" does not (\(state(copies))).",
                remedy: "Restore the sidecar from a backup of the store, and find out who changed it.")
        }
        if let foreign = foreignToLog(verified) { return foreign }
        if verified.contains(where: { $0.sidecar.slotted != nil }) {
            return StoreError(
                .wrongKey, what: "The key does not open \"\(databasePath)\".",
                why: "It opens no keyslot of the sidecar (\(state(copies))).",
                remedy:
                    "Check the key. Somebody may have removed its slot, or put back an older sidecar. `cipherctl key list` "
                    + "shows the slots, and `cipherctl key log` their changes. If the sidecar was put back from an older "
                    + "backup, put the newest one back.")
        }
        if !verified.isEmpty {
            return StoreError(
                .wrongKey, what: "The key does not open \"\(databasePath)\".",
                why: "It does not fit the key check of the sidecar (\(state(copies))).",
                remedy: Self.wrongKeyRemedy(epoch: verified.map(\.sidecar.epoch).max() ?? 1))
        }
        for copy in SidecarCopy.allCases {
            if case .unreadable(let error) = copies[copy] { return error }
        }
        return StoreError(
            .sidecarDamaged, what: "No copy of the sidecar of \"\(databasePath)\" can be used.",
            why: "State of its files: \(state(copies)).",
            remedy: "Restore \"\(mainPath)\" from a backup of the store. Without it a passphrase opens nothing.")
    }

    /// The error for a sidecar of a store that is not the one of the key log; nil where the log says nothing of it.
    private func foreignToLog(_ verified: [VerifiedCopy]) -> StoreError? {
        guard let logged = (try? KeyLog(databasePath: databasePath).verify())?.storeID else { return nil }
        let found = Set(verified.map { "\($0.sidecar.storeID)" })
        guard !found.isEmpty, !found.contains(logged) else { return nil }
        return .foreignSidecar(databasePath, logged: logged, found: found.sorted().joined(separator: ", "))
    }

    /// A sidecar of a former epoch does not fit the database. The remedy therefore never says to restore one when the
    /// key given may be a former key.
    private static func wrongKeyRemedy(epoch: UInt64) -> String {
        if epoch > 1 {
            return "Check the key. Rotations have given the store another one (it is at epoch \(epoch)): a former key "
                + "no longer opens it. Leave the sidecar as it is."
        }
        return "Check the key. If it is a passphrase, and surely right, the salt in the sidecar was changed, in both "
            + "copies: compare them with the one in a backup of the store."
    }

    /// The error when the key opens a copy, but not the valid one.
    func slotGone(_ best: VerifiedCopy) -> StoreError {
        let why =
            best.sidecar.slotted == nil
            ? "A rotation has given the store another key" : "Its slot was removed or changed"
        return StoreError(
            .wrongKey, what: "The key no longer opens \"\(databasePath)\".",
            why: "\(why), and only an older copy of the sidecar still has it "
                + "(generation \(best.sidecar.generation) counts).",
            remedy: best.sidecar.slotted == nil ? "Give the new key." : "Give the key of another slot.")
    }

    /// The error for an opener that has only the next key.
    private func keyToCome(_ best: VerifiedCopy) -> StoreError {
        let epochs = "from epoch \(best.sidecar.epoch) to \(best.sidecar.epoch + 1)"
        return StoreError(
            .rotationPending, what: "The key does not open \"\(databasePath)\" yet.",
            why: "It is the next key of a rotation \(epochs) that is not complete.",
            remedy: best.sidecar.state == .switching
                ? "Open it once for writing, for example with `cipherctl sql --write`: that completes the rotation."
                : "Let the rotation end. If it was interrupted, open the store once for writing with its present key, "
                    + "which undoes it.")
    }

    private func switchPending(_ best: VerifiedCopy) -> StoreError {
        StoreError(
            .rotationPending, what: "\"\(databasePath)\" cannot be opened at this moment.",
            why: "The switch to the key of epoch \(best.sidecar.epoch + 1) is running, or was interrupted.",
            remedy:
                "Try again in a moment. If that does not help, open it once for writing with a key that the rotation "
                + "kept, for example with `cipherctl sql --write`: that completes it.")
    }

    private func state(_ copies: SidecarCopies) -> String {
        SidecarCopy.allCases.map { copy in
            switch copies[copy] {
            case .absent: "\(copy.rawValue) copy: missing"
            case .unreadable(let error): "\(copy.rawValue) copy: \(error)"
            case .damaged(let error): "\(copy.rawValue) copy: \(error)"
            case .present: "\(copy.rawValue) copy: well-formed"
            }
        }.joined(separator: "; ")
    }
}
