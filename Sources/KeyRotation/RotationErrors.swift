import CipherStore
import RotationCore
import StorePlatform
import StoreSharing

// What ends a rotation, as errors that say what happened, why, and what to do.
extension StoreError {
    /// - Parameters:
    ///   - rotator: Who rotates the store, where that is known.
    ///   - owner: Who holds the lock, to begin a sentence.
    static func rotationRuns(_ path: String, by rotator: StoreHolder?, _ owner: @autoclosure () -> String) -> StoreError
    {
        StoreError(
            .storeInUse, what: "The keys of \"\(path)\" are being changed already.",
            why: rotator.map { "\(capitalized($0)) is rotating it." } ?? "\(owner()) is changing them.",
            remedy: "Wait for its end, or end it; a process that dies frees the lock.")
    }

    static func notPaused(_ path: String, _ holders: [StoreHolder], after time: Duration) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" was not rotated: it was in use all the time.",
            why: "For \(seconds(time)) no pause was to be had: \(list(holders)) did not give it up.",
            remedy: "End long reads and snapshots there, continue or end processes that are stopped, or let the "
                + "rotation end long reads. Nothing was changed.")
    }

    static func writeLocked(_ path: String, _ writer: StoreHolder?, for time: Duration) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" was not rotated: its write lock was not to be had.",
            why: "For \(seconds(time)) \(writer?.description ?? "a process that cannot be named") has kept it.",
            remedy: "End the transaction there, or that process. Nothing was changed.")
    }

    static func restless(_ path: String) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" was not rotated: it was written again and again.",
            why: "What was left did not fit into a pause, or a program that does not pause wrote behind it.",
            remedy: "Allow a longer pause, or rotate when less is written. Nothing was changed.")
    }

    static func foreignConnection(_ path: String, _ holders: [StoreHolder]) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" was not rotated: a program has it open that cannot be asked to pause.",
            why: "It is open in \(list(holders)).",
            remedy: "Close the database there: a shell, a backup tool, a DatabasePool or DatabaseQueue. Nothing was "
                + "changed.")
    }

    static func outrun(_ path: String, logBytes: Int, limitBytes: Int) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" was not rotated: its writers are too fast.",
            why: "The write-ahead log has grown to \(logBytes) bytes meanwhile; \(limitBytes) are allowed.",
            remedy: "Rotate when less is written, without a throttle, or allow a longer log. Nothing was changed.")
    }

    static func copyInTheWay(_ copy: String, _ why: String) -> StoreError {
        StoreError(
            .rotationPending, what: "\"\(copy)\" is in the way of a rotation.", why: why,
            remedy: "Look what it is, and move it away.")
    }

    static func damagedPage(_ path: String, _ page: UInt32) -> StoreError {
        StoreError(
            .pageDamaged(page), what: "\"\(path)\" was not rotated: page \(page) is damaged.",
            why: "It fails its authentication, also when it is read again.",
            remedy: "Run cipherctl verify; restore the store from a backup, or save what can be read. Nothing was "
                + "changed.")
    }

    static func unfaithfulCopy(_ copy: String, _ page: UInt32) -> StoreError {
        StoreError(
            .pageDamaged(page), what: "Page \(page) of the copy \"\(copy)\" is not what was written there.",
            why: "It was read back and compared with the page it was made from.",
            remedy: "Check disk and memory of the machine, then try again. The store itself was not changed.")
    }

    static func newKeyNotProved(_ path: String) -> StoreError {
        StoreError(
            .invalidKey, what: "\"\(path)\" was not rotated: the new key was not given a second time.",
            why: "The source that was to prove it gave another key.",
            remedy: "Store the new key first, so that it is what the source gives. Nothing was changed.")
    }

    /// - Parameter hasPresent: Whether the key given is of the present epoch; otherwise it is of the next alone.
    static func noPendingKeys(_ path: String, hasPresent: Bool) -> StoreError {
        StoreError(
            .rotationPending, what: "The rotation of \"\(path)\" cannot be gone on with.",
            why: hasPresent
                ? "The key given does not reach the key that is pending."
                : "The key given is the one to come, and the pages are copied by the present one.",
            remedy: hasPresent ? "Abandon it, then begin a new one." : "Give the present key.")
    }

    static func newKeyNotGiven(_ path: String, isSwitching: Bool) -> StoreError {
        StoreError(
            .keyMissing, what: "The rotation of \"\(path)\" was not gone on with: its new key was not given.",
            why: "Afterwards the store opens with that key alone, so it must be shown that it is not lost.",
            remedy: (isSwitching
                ? "Give it again; the switch was begun and can only be finished."
                : "Give it again. If it is lost, abandon the rotation: the store keeps its present key.")
                + " Nothing was changed.")
    }

    static func otherNewKey(_ path: String, isSwitching: Bool) -> StoreError {
        StoreError(
            .invalidKey, what: "The rotation of \"\(path)\" was not gone on with: it was begun with another new key.",
            why: "The key that was given would not open the store afterwards.",
            remedy: (isSwitching
                ? "Give the key that it was begun with; the switch was begun and can only be finished."
                : "Give the key that it was begun with, or abandon the rotation and begin a new one.")
                + " Nothing was changed.")
    }

    static func takesNoNewKey(_ path: String) -> StoreError {
        StoreError(
            .aimConflict, what: "The rotation of \"\(path)\" was not gone on with: a new key was given.",
            why: "The store has key slots; its data key is drawn, not given.",
            remedy: "Give no new key. Nothing was changed.")
    }

    static func masterKeyStays(_ path: String) -> StoreError {
        StoreError(
            .aimConflict, what: "The rotation of \"\(path)\" was not gone on with: it keeps the master key.",
            why: "It was begun with another aim than to renew it.",
            remedy: "Abandon it and begin a new one, or go on without that aim. Nothing was changed.")
    }

    static func noKeys(_ path: String) -> StoreError {
        StoreError(
            .saltMissing, what: "\"\(path)\" was not rotated.", why: "It has no sidecar that its key opens.",
            remedy: "Open the store anew, which mends the sidecar or says what is wrong with it.")
    }

    static func slotsWouldBeDropped(_ path: String, _ slots: [UInt64]) -> StoreError {
        let numbers = slots.map(String.init).joined(separator: ", ")
        return StoreError(
            .aimConflict, what: "\"\(path)\" was not rotated: some key slots cannot be kept.",
            why: "A new master key can only be wrapped for a secret that is at hand, and "
                + (slots.count == 1 ? "that of slot \(slots[0]) is" : "those of the slots \(numbers) are") + " not.",
            remedy: "Give their keys as well, or say that they are to be dropped. Nothing was changed.")
    }

    static func switchPending(_ path: String) -> StoreError {
        StoreError(
            .rotationPending, what: "The rotation of \"\(path)\" cannot be abandoned any more.",
            why: "The copy is taking the database's place.",
            remedy: "Open the store for writing once: that finishes it.")
    }

    /// - Parameter notices: What the undoing says of itself; empty when somebody else did it.
    static func switchUndone(_ path: String, _ notices: [String]) -> StoreError {
        StoreError(
            .rotationPending, what: "The rotation of \"\(path)\" could not be gone on with, and was undone.",
            why: notices.isEmpty
                ? "Its complete copy was missing or damaged; the store has its former key, and all that was committed."
                : notices.joined(separator: " "),
            remedy: "Begin a new one.")
    }

    private static func list(_ holders: [StoreHolder]) -> String {
        var names: [String] = []
        for holder in holders where !names.contains(holder.description) { names.append(holder.description) }
        return names.isEmpty ? "a process that cannot be named" : names.joined(separator: ", ")
    }

    private static func capitalized(_ holder: StoreHolder) -> String {
        let text = holder.description
        return text.prefix(1).uppercased() + text.dropFirst()
    }

    private static func seconds(_ time: Duration) -> String {
        time.formatted(.units(allowed: [.hours, .minutes, .seconds, .milliseconds], width: .wide))
    }
}

/// What a failed rotation was to do, as far as its error has to name it.
struct FailedRotation {
    let path: String
    let toEpoch: UInt64
    /// Whether its new key is one that its user keeps: the passphrase or raw key of a direct store.
    let isDirect: Bool

    /// What is thrown for a failure, by the status in which it leaves the store.
    func error(_ failure: any Error, at status: CommitStatus) -> any Error {
        switch status {
        case .notAnnounced: withdrawn(failure)
        case .unknown: unknown(failure)
        case .announced, .replaced: unfinished(failure, isReplaced: status == .replaced)
        }
    }

    /// What is thrown when the resumption of a switch failed before it changed anything.
    func untouched(_ failure: any Error) -> any Error {
        detailed(failure, "nothing was changed, the switch of \"\(path)\" is still pending")
    }

    /// Says of a failure of the system, which knows nothing of rotations, that it may be tried again.
    private func withdrawn(_ failure: any Error) -> any Error {
        detailed(failure, "\"\(path)\" was not rotated and keeps its present key")
    }

    private func detailed(_ failure: any Error, _ detail: String) -> any Error {
        guard let failure = failure as? SystemError else { return failure }
        return SystemError(
            call: failure.call, path: failure.path, errorNumber: failure.errorNumber,
            detail: [failure.detail, detail].compactMap(\.self).joined(separator: "; "))
    }

    private func unfinished(_ failure: any Error, isReplaced: Bool) -> StoreError {
        StoreError(
            .rotationPending,
            what: "The rotation of \"\(path)\" to epoch \(toEpoch) is not finished: a step failed after "
                + (isReplaced ? "its copy had taken the database's place." : "its switch was announced."),
            why: "\(failure).", remedy: remedy(isReplaced: isReplaced))
    }

    private func remedy(isReplaced: Bool) -> String {
        let repair = "Free space or repair the disk, then open the store for writing"
        return switch (isDirect, isReplaced) {
        case (true, true):
            "The NEW key counts: keep it. The former one does not open the store any more. \(repair) with the new key, "
                + "which finishes the rotation."
        case (true, false):
            "Keep BOTH keys until the store was opened for writing. \(repair) with the new key: that finishes the "
                + "rotation, and from then on the new key counts. Where it is refused because the copy is missing or "
                + "damaged, open the store with the former key, which undoes the rotation."
        case (false, true):
            "The store opens with every key that the rotation keeps. \(repair) with one of them, which finishes the "
                + "rotation."
        case (false, false):
            "The store opens with every key that the rotation keeps. \(repair) with one of them, which finishes the "
                + "rotation, or undoes it where the copy is missing or damaged."
        }
    }

    private func unknown(_ failure: any Error) -> StoreError {
        let repair = "Free space or repair the disk, then open the store for writing"
        return StoreError(
            .rotationPending,
            what: "It is not known whether the rotation of \"\(path)\" to epoch \(toEpoch) takes effect: its switch "
                + "could be neither announced for certain nor withdrawn.",
            why: "\(failure).",
            remedy: isDirect
                ? "Keep BOTH keys until the store was opened once. \(repair) with the new key, or with the former one where "
                    + "that is refused: this finishes or undoes the rotation."
                : "\(repair) with a key that the rotation keeps, which finishes or undoes it.")
    }
}
