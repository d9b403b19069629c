import CipherStore
import RotationCore
import StorePlatform
import StoreSharing

/// The properties of a failed rotation that its error names.
struct FailedRotation {
    let path: String
    let toEpoch: UInt64
    /// Whether the user keeps the new key: the passphrase or raw key of a direct store.
    let isDirect: Bool

    /// The error for a failure, by the status in which it leaves the store.
    func error(_ failure: any Error, at status: CommitStatus) -> any Error {
        switch status {
        case .notAnnounced: withdrawn(failure)
        case .unknown: unknown(failure)
        case .announced, .replaced: unfinished(failure, isReplaced: status == .replaced)
        }
    }

    /// The error for a resumption of a switch that failed before it changed anything.
    func untouched(_ failure: any Error) -> any Error {
        detailed(failure, "nothing was changed, the switch of \"\(path)\" is still pending")
    }

    /// Adds to a system error, which does not mention rotations, that the store keeps its present key.
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
            "The NEW key counts: keep it. The former key no longer opens the store. \(repair) with the new key, "
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
                + "could be neither announced with certainty nor withdrawn.",
            why: "\(failure).",
            remedy: isDirect
                ? "Keep BOTH keys until the store was opened once. \(repair) with the new key, or with the former one where "
                    + "that is refused: this finishes or undoes the rotation."
                : "\(repair) with a key that the rotation keeps, which finishes or undoes it.")
    }
}
