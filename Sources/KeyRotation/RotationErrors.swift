import CipherStore
import RotationCore
import StorePlatform
import StoreSharing

// The errors that end a rotation. Each says what happened, why, and what to do.
extension StoreError {
    /// - Parameters:
    ///   - rotator: The process that rotates the store, if known.
    ///   - owner: The holder of the lock, as the start of a sentence.
    static func rotationRuns(_ path: String, by rotator: StoreHolder?, _ owner: @autoclosure () -> String) -> StoreError
    {
        StoreError(
            .storeInUse,
            what: rotator == nil
                ? "The lock for changes of the keys of \"\(path)\" did not become free in time."
                : "The keys of \"\(path)\" are being changed already.",
            why: rotator.map { "\(capitalized($0)) is rotating it." } ?? "\(owner()) holds it.",
            remedy: "Wait until it ends, or end it. A process that dies releases the lock.")
    }

    static func notPaused(_ path: String, _ holders: [StoreHolder], after time: Duration) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" was not rotated: it was in use all the time.",
            why: "For \(CountText.seconds(time)) no pause was possible: \(list(holders)) did not release it.",
            remedy: (holders.allSatisfy(\.isIdentified)
                ? "End long reads and snapshots there, resume or end stopped processes, or let "
                : unidentified + "End its long reads and snapshots, or let ")
                + "the rotation end long reads with --long-reads end (longReads in a program). Nothing was changed.")
    }

    static func budgetTooShort(_ path: String, _ budget: Duration, after time: Duration) -> StoreError {
        StoreError(
            .storeInUse,
            what: "\"\(path)\" was not rotated: no pause was possible within \(milliseconds(budget)).",
            why:
                "For \(CountText.seconds(time)) the system showed no other process that prevented it. This process may need "
                + "longer to close its connections, or a user who may only read the lock file holds a lock on it.",
            remedy: "Allow a longer pause with --pause-budget (pauseBudget in a program), or end the reads of this "
                + "process. Run as root, the command names the process that holds a lock. Nothing was changed.")
    }

    /// - Parameters:
    ///   - byte: The lock without which no pause can be requested.
    ///   - owner: The process that holds it, if the system shows that.
    static func pauseLocked(
        _ paths: StorePaths, _ byte: LockByte, _ owner: StoreHolder?, after time: Duration
    ) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(paths.database)\" was not rotated: no pause could be requested.",
            why: "For \(CountText.seconds(time)) the lock \(byte) of \"\(paths.lock)\" was not free. "
                + (owner.map { "\(capitalized($0)) holds it." }
                    ?? "A process that cannot be identified holds it. A user who may only read the file can do that, too."),
            remedy: (owner == nil ? "Run it as root: the error then names the process. " : "")
                + "End that process, then rotate. Nothing was changed.")
    }

    static func lockFileCut(_ path: String, _ lock: String) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" was not rotated: its lock file was cut while the store was open.",
            why:
                "A process that has the store open has lost its row in \"\(lock)\", and no request for a pause reaches it.",
            remedy: "Close the store in every process, and open it again; then rotate. Nothing was changed.")
    }

    static func writeLocked(_ path: String, _ writer: StoreHolder?, for time: Duration) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" was not rotated: its write lock was not available.",
            why:
                "For \(CountText.seconds(time)) \(writer?.description ?? "a process that cannot be identified") has held it.",
            remedy: (writer?.isIdentified == true
                ? "End the transaction there, or that process." : unidentified + "End its transaction.")
                + " Nothing was changed.")
    }

    /// The advice where a process has written a number that may be another one's.
    private static let unidentified =
        "Run `cipherctl status` as root: it shows which process that is. Its number in the table of holders may be that of "
        + "another one. "

    static func restless(_ path: String) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" was not rotated: it was written to continuously.",
            why: "Writers changed more than a pause can carry over, or a program without a lease wrote in the pause.",
            remedy: "Allow a longer pause, or rotate when less is written. Nothing was changed.")
    }

    static func foreignConnection(_ path: String, _ holders: [StoreHolder]) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" was not rotated: a program has it open that cannot be asked to pause.",
            why: holders.isEmpty
                ? "A process that cannot be identified holds a lock on it, as a user who may only read the file can, or "
                    + "another connection of this process does."
                : "It is open in \(list(holders)).",
            remedy: (holders.isEmpty
                ? "Run it as root: the error then names the process. "
                : holders.allSatisfy(\.isIdentified) ? "" : unidentified)
                + "Close the database there. It may be a shell, a backup tool, a program with a DatabasePool or "
                + "DatabaseQueue, or a store whose lock file was removed. It may also be a store that was suspended inside "
                + "an access: let that access end, and continue the process if it is stopped. Nothing was changed.")
    }

    static func outrun(_ path: String, walBytes: Int, limitBytes: Int) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" was not rotated: its writers are too fast.",
            why: "The WAL has grown to \(walBytes) bytes meanwhile; \(limitBytes) are allowed.",
            remedy: "Rotate when less is written, without a throttle, or allow a longer WAL. Nothing was changed.")
    }

    static func copyInTheWay(_ copy: String, _ why: String) -> StoreError {
        StoreError(
            .rotationPending, what: "\"\(copy)\" is in the way of a rotation.", why: why,
            remedy: "Find out what it is, and move it away.")
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
            why: "The key source gave another key the second time.",
            remedy: "Store the new key first, so that it is what the source gives. Nothing was changed.")
    }

    /// - Parameter hasPresent: Whether the key given is of the present epoch; otherwise it is of the next alone.
    static func noPendingKeys(_ path: String, hasPresent: Bool) -> StoreError {
        StoreError(
            .rotationPending, what: "The rotation of \"\(path)\" cannot be resumed.",
            why: hasPresent
                ? "The given key does not open the pending key."
                : "The given key is the next key, but the pages are copied with the present key.",
            remedy: hasPresent ? "Abandon it, then start a new one." : "Give the present key.")
    }

    static func newKeyNotGiven(_ path: String, isSwitching: Bool) -> StoreError {
        StoreError(
            .keyMissing, what: "The rotation of \"\(path)\" was not resumed: its new key was not given.",
            why: "After the rotation only that key opens the store, so you must prove that it is not lost.",
            remedy: (isSwitching
                ? "Give it again; the switch has begun and can only be completed."
                : "Give it again. If it is lost, abandon the rotation: the store keeps its present key.")
                + " Nothing was changed.")
    }

    static func otherNewKey(_ path: String, isSwitching: Bool) -> StoreError {
        StoreError(
            .invalidKey, what: "The rotation of \"\(path)\" was not resumed: it was started with another new key.",
            why: "The given key would not open the store after the rotation.",
            remedy: (isSwitching
                ? "Give the key that it was started with; the switch has begun and can only be completed."
                : "Give the key that it was started with, or abandon the rotation and start a new one.")
                + " Nothing was changed.")
    }

    static func takesNoNewKey(_ path: String) -> StoreError {
        StoreError(
            .modeConflict, what: "The rotation of \"\(path)\" was not resumed: a new key was given.",
            why: "The store has keyslots, so its data key is generated and cannot be given.",
            remedy: "Give no new key. Nothing was changed.")
    }

    static func masterKeyStays(_ path: String) -> StoreError {
        StoreError(
            .modeConflict, what: "The rotation of \"\(path)\" was not resumed: it keeps the master key.",
            why: "It was not started to renew the master key.",
            remedy: "Abandon it and start a new one, or resume it without --compromised (the mode `compromised` in a "
                + "program). Nothing was changed.")
    }

    static func noKeys(_ path: String) -> StoreError {
        StoreError(
            .saltMissing, what: "\"\(path)\" was not rotated.", why: "It has no sidecar that its key opens.",
            remedy: "Open the store again: that repairs the sidecar, or reports what is wrong with it.")
    }

    static func slotsWouldBeDropped(_ path: String, _ slots: [UInt64]) -> StoreError {
        let numbers = slots.map(String.init).joined(separator: ", ")
        return StoreError(
            .modeConflict, what: "\"\(path)\" was not rotated: some keyslots cannot be kept.",
            why: "A new master key can only be wrapped for a secret that is at hand, and "
                + (slots.count == 1 ? "that of slot \(slots[0]) is" : "those of the slots \(numbers) are") + " not.",
            remedy: "Give their keys too (--also-key-file), or allow that they are removed (--drop-other-slots). "
                + "Nothing was changed.")
    }

    static func switchPending(_ path: String) -> StoreError {
        StoreError(
            .rotationPending, what: "The rotation of \"\(path)\" can no longer be abandoned.",
            why: "The copy is taking the database's place.",
            remedy: "Open the store for writing once: that completes it.")
    }

    /// - Parameter notices: The notices of the undo; empty when another process did it.
    static func switchUndone(_ path: String, _ notices: [String]) -> StoreError {
        StoreError(
            .rotationPending, what: "The rotation of \"\(path)\" could not be resumed, and was undone.",
            why: notices.isEmpty
                ? "Its complete copy was missing or damaged; the store has its former key, and everything that was "
                    + "committed."
                : notices.joined(separator: " "),
            remedy: "Start a new one.")
    }

    private static func list(_ holders: [StoreHolder]) -> String {
        var names: [String] = []
        for holder in holders where !names.contains(holder.description) { names.append(holder.description) }
        return names.isEmpty ? "a process that cannot be identified" : names.joined(separator: ", ")
    }

    /// A budget for pauses, which is a fraction of a second.
    private static func milliseconds(_ budget: Duration) -> String {
        CountText.text(Int((budget / .milliseconds(1)).rounded()), "millisecond")
    }

    private static func capitalized(_ holder: StoreHolder) -> String {
        let text = holder.description
        return text.prefix(1).uppercased() + text.dropFirst()
    }

}
