import CipherStore
import Foundation
import KeyCustody
import KeyRotation
import RotationCore
import StorePlatform
import StoreSharing
import StoreTools

/// The rotation of one store among several, from its first check to its outcome.
struct StoreRotation {
    let path: String
    let work: RotationRequest.Work
    let request: RotationRequest
    let key: UnlockedKey
    let secrets: RotationSecrets
    let console: Console

    /// Never throws: a store that fails must not prevent the rotation of the next one.
    func outcome() -> RotationOutcome {
        do {
            switch work {
            case .rotate: return try rotate()
            case .dryRun: return try inspect()
            case .resume: return try resume()
            case .abort:
                try StoreOpening.refuseForeignFile(path)
                return try abort()
            }
        } catch {
            let isCancelled = error is CancellationError
            return RotationOutcome(
                path: path, .failed(isCancelled && Interruption.shared.isSet ? Self.interrupted(path) : error))
        }
    }

    private func rotate() throws -> RotationOutcome {
        if let age = try youngerThanAsked() { return RotationOutcome(path: path, .skipped(ageSeconds: age)) }
        let options = try options()
        let store = try StoreOpening.writable(
            path, key, isCancelled: { Interruption.shared.isSet }, onNotice: console.note)
        defer { try? store.close() }
        let watch = RotationWatch(path)
        defer { watch.end() }
        let report = try KeyRotation(store, options: options).run(
            isCancelled: { Interruption.shared.isSet }, progress: { watch.show($0) })
        watch.end()
        for notice in report.notices { console.note(notice) }
        return RotationOutcome(path: path, .rotated(report))
    }

    private func inspect() throws -> RotationOutcome {
        // An opening would write beside the store.
        if Files.isOnReadOnlyFilesystem(path) {
            // A wrong key is an error here too.
            let sidecar = try StoreOpening.sidecar(path, key, onNotice: console.note).sidecar
            return RotationOutcome(path: path, .impossible(.readOnlyFilesystem(path), epoch: sidecar.epoch))
        }
        var options = try options()
        options.backupFolder = nil
        options.isBackupUndecided = !request.arguments.has("--no-backup")
        let store = try StoreOpening.writable(
            path, key, isCancelled: { Interruption.shared.isSet }, onNotice: console.note)
        defer { try? store.close() }
        let plan = try KeyRotation(store, options: options).preflight(isCancelled: { Interruption.shared.isSet })
        return RotationOutcome(path: path, .planned(plan))
    }

    private func resume() throws -> RotationOutcome {
        let watch = RotationWatch(path)
        defer { watch.end() }
        let report = try KeyRotation.resume(
            path: path, unlockedBy: key.source, configuration: .ofTool(), options: options(),
            isCancelled: { Interruption.shared.isSet }, progress: { watch.show($0) })
        watch.end()
        guard let report else { return RotationOutcome(path: path, .nothingPending) }
        for notice in report.notices { console.note(notice) }
        return RotationOutcome(path: path, .rotated(report))
    }

    private func abort() throws -> RotationOutcome {
        let hadOne = try KeyRotation.abandon(
            path: path, unlockedBy: key.source, isCancelled: { Interruption.shared.isSet },
            onLongWait: Console.longWait(for: path, "the lock for openings"))
        return RotationOutcome(path: path, hadOne ? .abandoned : .nothingPending)
    }

    // MARK: Options of this store

    /// The age of a data key that is younger than requested. One of unknown age is due.
    private func youngerThanAsked() throws -> UInt64? {
        guard let bound = request.youngestAge else { return nil }
        let choice = try StoreOpening.sidecar(path, key, onNotice: console.note)
        guard let age = KeyHealth(StorePaths(path), choice.sidecar).keyAge, age < bound else { return nil }
        return age
    }

    private func options() throws -> KeyRotation.Options {
        var options = request.options
        let sidecar = try claimed()
        options.mode = try mode(sidecar)
        options.provesNewKey = secrets.proof
        options.onLongWait = Console.longWait(for: path)
        options.onLongOpeningWait = Console.longWait(for: path, "the lock for openings")
        options.backupFolder = try request.backupDirectory.map { try backupFolder(in: $0, of: sidecar) }
        return options
    }

    private func claimed() throws -> Sidecar {
        guard Files.exists(path) else { throw StoreOpening.noSuchStore(path) }
        if let newest = SidecarFiles(databasePath: StorePaths(path).database).read().newestClaimed { return newest }
        // Opening reports precisely what is wrong.
        return try StoreOpening.sidecar(path, key, onNotice: console.note).sidecar
    }

    private func mode(_ sidecar: Sidecar) throws -> KeyRotation.Mode {
        guard sidecar.slotted != nil else { return try directMode(sidecar) }
        guard secrets.new == nil else {
            throw UsageError(
                "\"\(path)\" has keyslots, and a new key was given.",
                hint: "A rotation leaves the slots as they are; change one with `cipherctl key change`.")
        }
        guard request.isCompromised else { return .newDataKey }
        return .compromised(dropsOtherSlots: request.dropsOtherSlots, alsoKeeping: secrets.also.map(\.source))
    }

    private func directMode(_ sidecar: Sidecar) throws -> KeyRotation.Mode {
        let forms = KeyOptions.new.map(\.form).joined(separator: ", ")
        if request.isCompromised, work != .resume {
            throw UsageError(
                "\"\(path)\" is a direct store: it has no keyslots that --compromised could renew.",
                hint: "Leave out --compromised, and give its new key by one of: \(forms).")
        }
        if let new = secrets.new { return .newKey(new.source) }
        guard work == .resume else {
            throw UsageError(
                "\"\(path)\" is a direct store: it needs a new key, and none was given.",
                hint: "Give one of: \(forms).")
        }
        // Nothing is pending.
        guard sidecar.state == .rotating || sidecar.state == .switching else { return .newDataKey }
        let lost =
            sidecar.state == .switching
            ? "The switch has begun and can only be completed."
            : "If it is lost: `cipherctl rotate --abort`, and the store keeps its key."
        throw UsageError(
            "\"\(path)\" is a direct store, and the new key with which its rotation was started was not given. After "
                + "the rotation only that key opens the store, so you must prove that it is not lost.",
            hint: "Give it by one of: \(forms). \(lost)")
    }

    /// A folder that does not exist yet: `DIR/app.db-3f9a01c4-epoch7-20261121T101112Z`. The digits are the first of the
    /// store's identifier: several stores may have the same name.
    private func backupFolder(in directory: String, of sidecar: Sidecar) throws -> String {
        guard try Files.kind(directory) == .directory else {
            throw CommandFailure(
                .noSuchStore, "noDirectory", what: "There is no directory \"\(directory)\" for the backup.",
                why: "The path does not exist, or is not a directory.", hint: "Create it, or check the path.")
        }
        try OtherUserLink.refuse(directory)
        let time = SlotReport.moment(WallClock.secondsSince1970).filter { $0 != "-" && $0 != ":" }
        let name = "\(Files.name(of: StorePaths(path).database))-\(sidecar.storeID.description.prefix(8))"
        return "\(directory)/\(name)-epoch\(sidecar.epoch)-\(time)"
    }

    private static func interrupted(_ path: String) -> CommandFailure {
        CommandFailure(
            .interrupted, "interrupted", what: "The rotation of \"\(path)\" was interrupted.",
            why: "A signal asked it to end.", hint: "The store is as it was; run the command again.")
    }
}

/// The outcome for a store that is not opened.
enum RotationInspection {
    /// - Returns: nil when the store must be opened.
    static func outcome(instead rotation: StoreRotation) -> RotationOutcome? {
        switch rotation.work {
        case .dryRun: return pending(rotation.path)
        case .rotate where rotation.request.youngestAge != nil:
            do {
                return try ageless(rotation.path, rotation.key, rotation.console)
            } catch {
                return RotationOutcome(path: rotation.path, .failed(error))
            }
        case .rotate, .resume, .abort: return nil
        }
    }

    /// A dry run changes nothing, but an opening would complete or undo what is pending, or remove leftovers.
    private static func pending(_ path: String) -> RotationOutcome? {
        // An unreadable file is left to the opening, which reports the precise error.
        guard let status = try? KeyRotation.status(of: path) else { return nil }
        if status.state != .none { return RotationOutcome(path: path, .pending(status)) }
        let copy = StorePaths(path).rotationCopy
        guard !status.isRunning, case .copy = try? RotationLeftover(at: copy) else { return nil }
        return RotationOutcome(path: path, .leftover(copy))
    }

    /// A key with a time in the future has no age that could be compared.
    private static func ageless(_ path: String, _ key: UnlockedKey, _ console: Console) throws -> RotationOutcome? {
        let paths = StorePaths(path)
        let claimed = SidecarFiles(databasePath: paths.database).read().claimed
        // Without a derivation where no claimed sidecar has such a time.
        guard claimed.contains(where: { KeyHealth(paths, $0).isKeyToCome }) else { return nil }
        let health = KeyHealth(paths, try StoreOpening.sidecar(path, key, onNotice: console.note).sidecar)
        guard health.isKeyToCome, let created = health.keyCreated else { return nil }
        return RotationOutcome(path: path, .notChecked(created: created))
    }
}
