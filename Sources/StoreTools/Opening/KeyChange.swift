import CipherStore
import KeyCustody
import StorePlatform
import StoreSharing

/// Rotations that end between two readings of a store.
///
/// A tool reads the sidecar, derives keys from it for a part of a second, and then reads pages. If these do not fit,
/// the sidecar is read again: another key explains it, and nothing is damaged.
struct KeyChange {
    let path: String

    init(of path: String) { self.path = path }

    private var files: SidecarFiles { SidecarFiles(databasePath: StorePaths(path).database) }

    /// The sidecar as it is now, authenticated with the keys of a former reading; nil where they do not fit it.
    private func present(_ copies: SidecarCopies, _ former: AuthenticatedSidecar) -> AuthenticatedSidecar? {
        try? files.choose(copies, allowsSwitching: true) { _ in former.keys }
    }

    // MARK: After a reading

    /// Refuses findings about a store that was given another key, or was replaced, since its sidecar was read: they
    /// belong to no store.
    ///
    /// - Parameter file: The database file that was examined; nil where the path was read.
    /// - Throws: `StoreError` `keyRotated`, `storeMoved`, `rotationPending`; `SystemError`.
    func requireNone(since former: AuthenticatedSidecar, _ file: RawFile? = nil) throws {
        var polling = Polling.untilSettled()
        while true {
            let copies = files.read()
            let present = present(copies, former)
            try require(present, copies, former.sidecar, isInPlace: file?.isInPlace ?? true)
            // A change of keys writes one copy of the sidecar after the other.
            if present?.notes.isEmpty == true || !polling.sleep() { return }
        }
    }

    private func require(
        _ present: AuthenticatedSidecar?, _ copies: SidecarCopies, _ former: Sidecar, isInPlace: Bool
    ) throws(StoreError) {
        let newest = isInPlace ? present?.sidecar ?? copies.newestClaimed : copies.newestClaimed
        if let newest, newest.storeID == former.storeID, newest.epoch > former.epoch {
            throw StoreError.rotatedDuringCheck(path, from: former.epoch, to: newest.epoch)
        }
        guard isInPlace else { throw ExaminedFile.moved(path) }
        if present?.sidecar.state == .switching { throw ExaminedFile.rotating(path) }
    }

    /// The findings about the two copies of the sidecar. Those that a moment explains are left out: a change of keys
    /// writes one copy after the other.
    func lastingNotes(_ choice: AuthenticatedSidecar) -> [SidecarNote] {
        var notes = choice.notes
        if notes.isEmpty { return [] }
        _ = Polling.holds {
            notes = present(files.read(), choice)?.notes ?? notes
            return !notes.isEmpty
        }
        return notes
    }

    // MARK: Reading again

    /// The sidecar, authenticated by a key. A rotation that replaces the file at this moment is waited for.
    ///
    /// - Throws: As ``StoreOpening/sidecar(_:_:onNotice:)``; `CancellationError`.
    func settledSidecar(_ key: UnlockedKey, _ run: ToolRun) throws -> AuthenticatedSidecar {
        try afterSwitch(run) { try StoreOpening.sidecar(path, key, onNotice: run.notice) }
    }

    /// The sidecar as it is now, authenticated without a derivation.
    ///
    /// - Throws: `StoreError` `keyRotated` if the keys of the former reading do not fit the file; `CancellationError`.
    func sidecar(after former: AuthenticatedSidecar, _ run: ToolRun) throws -> AuthenticatedSidecar {
        do {
            let choice = try afterSwitch(run) { try files.choose(files.read()) { _ in former.keys } }
            guard let choice else { throw StoreOpening.noSuchStore(path) }
            return choice
        } catch let error as StoreError where error.code == .wrongKey {
            try requireNone(since: former)
            throw error
        }
    }

    private func afterSwitch<Success>(_ run: ToolRun, _ read: () throws -> Success) throws -> Success {
        var polling = Polling(first: ToolLimits.switchPause, until: .now + ToolLimits.switchWait)
        while true {
            do {
                return try read()
            } catch let error as StoreError where error.code == .rotationPending {
                try run.check()
                // The key can also be the next one, or the pending one of an interrupted rotation.
                guard files.read().newestClaimed?.state != .rotating, !isInterrupted(), polling.sleep() else {
                    throw error
                }
            }
        }
    }

    // MARK: Rotations

    /// The outcome of a rotation that a sidecar records.
    enum Rotation {
        case running
        /// No process completes it.
        case interrupted
        /// The sidecar has changed since.
        case ended
    }

    /// - Parameter choice: The sidecar, if a key has authenticated it.
    func rotation(announcedBy sidecar: Sidecar, _ choice: AuthenticatedSidecar?) -> Rotation {
        let isRunning = StoreStatus.Report.isChangingKeys(path) == true
        // A rotation that ended before the lock was examined has changed the sidecar before.
        let copies = files.read()
        let newest = choice.map { present(copies, $0)?.sidecar } ?? copies.newestClaimed
        guard newest?.generation == sidecar.generation else { return .ended }
        return isRunning ? .running : .interrupted
    }

    /// Whether the sidecar records a rotation that no process completes.
    func isInterrupted() -> Bool {
        guard let sidecar = files.read().newestClaimed, sidecar.isRotationPending else { return false }
        return rotation(announcedBy: sidecar, nil) == .interrupted
    }
}

extension Sidecar {
    /// Whether it records a rotation, which runs or was interrupted.
    var isRotationPending: Bool { state == .rotating || state == .switching }
}

extension StoreError {
    /// Whether a change of the store during the work explains it, so that the work is done again.
    var isChangeMeanwhile: Bool {
        isKeyRotated || code == .storeMoved || code == .rotationPending
    }

    /// Whether the store has another key than at the beginning.
    var isKeyRotated: Bool { if case .keyRotated = code { true } else { false } }
}
